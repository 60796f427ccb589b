// The browser asks before a page is left whose form has changed and was not sent.
"use strict";

document.addEventListener("input", (event) => {
  event.target.closest("form[data-unsaved]")?.setAttribute("data-unsaved", "changed");
});
document.addEventListener("submit", ({ target }) => {
  if ("unsaved" in target.dataset) target.dataset.unsaved = "";
});
addEventListener("beforeunload", (event) => {
  if (document.querySelector('form[data-unsaved="changed"]')) event.preventDefault();
});
