// The interactive chart is 1 MB compressed, so nothing of it is loaded before a reader asks.
"use strict";

(() => {
  const button = document.querySelector("[data-interactive]");
  if (!button) return;
  const status = document.querySelector("[data-interactive-status]");

  const load = (source) =>
    new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = source;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${source} did not load`));
      document.head.append(script);
    });

  button.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    status.textContent = "Loading the interactive chart…";
    try {
      const [answer] = await Promise.all([
        fetch(button.dataset.results),
        load(button.dataset.plotly),
        load(button.dataset.chart),
      ]);
      if (!answer.ok) throw new Error(`${button.dataset.results} answered ${answer.status}`);
      await window.ringsideChart(document.getElementById("chart"), await answer.json());
      button.remove();
      status.textContent = window.matchMedia("(pointer: coarse)").matches
        ? "Tap a dot for details."
        : "Hover over a row for details. Drag to zoom, double-click to reset.";
    } catch (error) {
      console.error(error);
      button.disabled = false;
      status.textContent = "The interactive chart could not be loaded. The chart above shows the same numbers.";
    }
  });
})();
