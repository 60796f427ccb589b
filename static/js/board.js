// A leaderboard's search, its menus, and the interactive chart, which is 1 MB compressed, so nothing
// of it is loaded before a reader asks.
"use strict";

(() => {
  const input = document.querySelector("[data-search] input[type=search]");
  const table = document.querySelector("table.board");
  if (!input || !table) return;
  const found = document.querySelector("[data-found]");
  let loading = input.dataset.all
    ? () =>
        fetch(input.dataset.all)
          .then((answer) => answer.text())
          .then((text) => {
            const page = new DOMParser().parseFromString(text, "text/html");
            const bodies = page.querySelectorAll("table.board tbody");
            if (!bodies.length) return;
            table.querySelectorAll("tbody").forEach((body) => body.remove());
            table.append(...bodies);
            document.querySelector(".more-rows")?.remove();
          })
          .catch(() => {})
    : null;

  const filter = () => {
    const text = input.value.trim().toLowerCase();
    let n = 0;
    let all = 0;
    for (const body of table.tBodies) {
      let inBody = 0;
      for (const row of body.rows) {
        const name = row.querySelector("th[scope=row]");
        if (!name) continue;
        all += 1;
        const shown = name.textContent.toLowerCase();
        row.hidden = !text.split(/\s+/).every((word) => shown.includes(word));
        inBody += row.hidden ? 0 : 1;
      }
      body.hidden = !inBody;
      n += inBody;
    }
    found.textContent = text ? `${n} of ${all} candidates match “${input.value.trim()}”.` : "";
    const address = new URL(location.href);
    if (text) address.searchParams.set("q", input.value.trim());
    else address.searchParams.delete("q");
    history.replaceState(null, "", address);
  };

  // A page that was searched by the server has only the rows found: the form asks it again.
  if (new URLSearchParams(location.search).get("q")) return;
  input.addEventListener("input", async () => {
    const load = loading;
    loading = null;
    if (load) await load();
    filter();
  });
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    filter();
  });
})();

(() => {
  const open = () => document.querySelectorAll("details.menu[open]");
  document.addEventListener("click", (event) => {
    for (const menu of open()) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of open()) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
})();

// An address that ends in the name of something folded opens the fold.
(() => {
  const unfold = () => {
    const fold = location.hash && document.getElementById(location.hash.slice(1))?.closest("details");
    if (fold) fold.open = true;
  };
  window.addEventListener("hashchange", unfold);
  unfold();
})();

(() => {
  const button = document.querySelector("[data-interactive]");
  if (!button) return;
  const { plotly, chart, results, inline } = button.dataset;
  const status = document.querySelector("[data-interactive-status]");
  const figure = document.getElementById("chart");

  const load = (source) =>
    new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = source;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${source} did not load`));
      document.head.append(script);
    });

  const read = async () => {
    if (inline) return JSON.parse(document.getElementById(inline).textContent);
    const answer = await fetch(results);
    if (!answer.ok) throw new Error(`${results} answered ${answer.status}`);
    return answer.json();
  };

  button.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    figure.hidden = false;
    status.textContent = "Loading the interactive chart…";
    try {
      const [data] = await Promise.all([read(), load(plotly), load(chart)]);
      await window.ringsideChart(figure, data, button.dataset);
      button.remove();
      status.textContent = "Drag to zoom, double-click to reset.";
    } catch (error) {
      console.error(error);
      button.disabled = false;
      status.textContent = "The interactive chart could not be loaded.";
    }
  });
})();
