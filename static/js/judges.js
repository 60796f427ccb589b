// Arrow keys lead from verdict to verdict; without this file the links do.
"use strict";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.repeat) return;
  if (event.target.closest("input, textarea, select, pre, .scroll, .scroll-y, .table-scroll")) return;
  document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`)?.click();
});
