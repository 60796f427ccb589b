// Draws a board's scores and intervals with Plotly, in the colours of the page. Rows are pinned by a
// click, a tap or Enter, and two pinned rows are compared below the chart.
"use strict";

(() => {
  const ROW = 26;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Plotly reads a few tags in labels; a candidate's name is text and nothing else.
  const text = (name) =>
    name.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  const shorten = (name, limit) =>
    name.length <= limit
      ? name
      : `${name.slice(0, Math.floor((limit - 1) / 2))}…${name.slice(-Math.ceil((limit - 1) / 2))}`;

  // Names that differ stay different: they get more room until they do.
  const shortNames = (names, limit) => {
    const short = names.map((name) => shorten(name, limit));
    const isClear = new Set(short).size === new Set(names).size;
    return isClear ? short : shortNames(names, limit + 8);
  };

  const says = (standing) => {
    const interval =
      standing.low === null ? "" : `<br>95 % interval ${standing.low.toFixed(0)} to ${standing.high.toFixed(0)}`;
    const ranks =
      standing.rank_low === null ? "" : ` (${standing.rank_low} to ${standing.rank_high})`;
    return (
      `<b>${text(standing.candidate)}</b><br>Score ${standing.score.toFixed(0)}${interval}` +
      `<br>Rank ${standing.rank}${ranks}<br>${standing.votes} votes`
    );
  };

  // Under a finger the chart stands still, so that the page can be scrolled past it.
  const touch = window.matchMedia("(pointer: coarse)").matches;

  const figure = (standings, width, pinned) => {
    const names = shortNames(standings.map(({ candidate }) => candidate), width < 760 ? 22 : 40);
    const trace = {
      type: "scatter",
      mode: "markers",
      x: standings.map((standing) => standing.score),
      y: standings.map((_, i) => i),
      text: standings.map(says),
      hoverinfo: "text",
      marker: { color: colour("--accent"), size: 9 },
      error_x: {
        type: "data",
        symmetric: false,
        array: standings.map(({ score, high }) => (high === null ? 0 : high - score)),
        arrayminus: standings.map(({ score, low }) => (low === null ? 0 : score - low)),
        color: colour("--accent"),
        thickness: 1.5,
        width: 3,
      },
    };
    const layout = {
      height: ROW * standings.length + 96,
      margin: { l: 10, r: 16, t: touch ? 48 : 64, b: 10 },
      dragmode: touch ? false : "zoom",
      hovermode: "y",
      uirevision: "kept",
      shapes: pinned.map((i) => ({
        type: "rect",
        layer: "below",
        xref: "paper",
        x0: 0,
        x1: 1,
        y0: i - 0.5,
        y1: i + 0.5,
        fillcolor: colour("--accent-soft"),
        line: { width: 0 },
      })),
      paper_bgcolor: "transparent",
      plot_bgcolor: "transparent",
      font: { family: "system-ui, sans-serif", color: colour("--text"), size: 12 },
      hoverlabel: { bgcolor: colour("--surface"), font: { color: colour("--text") }, align: "left" },
      modebar: { bgcolor: "transparent", color: colour("--muted"), activecolor: colour("--accent") },
      xaxis: {
        side: "top",
        fixedrange: touch,
        nticks: width < 760 ? 4 : 10,
        tickangle: 0,
        gridcolor: colour("--line"),
        zeroline: false,
      },
      yaxis: {
        automargin: true,
        fixedrange: touch,
        autorange: "reversed",
        showgrid: false,
        zeroline: false,
        tickvals: standings.map((_, i) => i),
        ticktext: names.map(text),
      },
    };
    return [[trace], layout];
  };

  const link = (address, words) => {
    const anchor = document.createElement("a");
    anchor.href = address;
    anchor.textContent = words;
    return anchor;
  };

  const pageOf = ({ url, candidate }) => link(url, candidate);

  // What stands below the chart: links to the pinned candidates, and how they compare.
  const comparison = (pinned, addressOf) => {
    if (!pinned.length) return [];
    const [first, second] = pinned;
    if (!second) {
      const { score, low, high, rank } = first;
      const interval = low === null ? "" : ` (${low.toFixed(0)} to ${high.toFixed(0)})`;
      const details = `score ${score.toFixed(0)}${interval}, rank ${rank}`;
      return [pageOf(first), ` is pinned: ${details}. Pin another row to compare the two.`];
    }
    const points = first.score - second.score;
    const rate = (100 / (1 + 10 ** (-points / 400))).toFixed(0);
    const words = points < 0.5 ? "scores the same as" : `scores ${points.toFixed(0)} points more than`;
    return [
      pageOf(first),
      ` ${words} `,
      pageOf(second),
      `: an expected win rate of ${rate} %. `,
      link(addressOf(first, second), "Compare the two head to head"),
    ];
  };

  const KEYS = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };

  window.ringsideChart = async (holder, board, compareAddress) => {
    const standings = board.standings
      .filter(({ score }) => score !== null)
      .sort((a, b) => b.score - a.score);
    const place = document.createElement("div");
    place.className = "interactive";
    place.tabIndex = 0;
    place.setAttribute("role", "application");
    place.setAttribute(
      "aria-label",
      "Interactive chart: arrow keys move between candidates, Enter pins one, Escape unpins all",
    );
    const below = document.createElement("p");
    below.setAttribute("role", "status");
    holder.prepend(place, below);
    const status = holder.querySelector("[data-interactive-status]");
    let pinned = [];
    let at = -1;

    const draw = () =>
      window.Plotly.react(place, ...figure(standings, holder.clientWidth, pinned), {
        responsive: true,
        displaylogo: false,
        displayModeBar: touch ? false : "hover",
        modeBarButtonsToRemove: ["select2d", "lasso2d"],
      });

    const addressOf = (...two) => {
      const address = new URL(compareAddress, window.location.href);
      two.forEach(({ url }, i) => address.searchParams.set("ab"[i], url.split("/").at(-2)));
      return address.href;
    };

    const pin = (chosen) => {
      pinned = chosen.slice(-2).sort((a, b) => a - b);
      below.replaceChildren(...comparison(pinned.map((i) => standings[i]), addressOf));
      return draw();
    };

    const toggle = (i) => pin(pinned.includes(i) ? pinned.filter((j) => j !== i) : [...pinned, i]);

    await draw();
    // For one tap Plotly makes clicks of its own; the rows of a chart for fingers are never zoomed.
    const tap = ({ clientY, isTrusted }) => {
      const area = place.querySelector(".nsewdrag").getBoundingClientRect();
      const row = Math.floor(((clientY - area.top) / area.height) * standings.length);
      if (isTrusted && standings[row]) toggle((at = row));
    };
    if (touch) place.addEventListener("click", tap);
    else place.on("plotly_click", ({ points }) => toggle((at = points[0].pointIndex)));
    place.addEventListener("keydown", (event) => {
      if (event.key in KEYS) at = Math.min(Math.max(at + KEYS[event.key], 0), standings.length - 1);
      else if (event.key === "Enter" && at >= 0) toggle(at);
      else if (event.key === "Escape") pin([]);
      else return;
      event.preventDefault();
      if (at < 0) return;
      window.Plotly.Fx.hover(place, [{ curveNumber: 0, pointNumber: at }]);
      if (event.key in KEYS) status.textContent = `${standings[at].rank}. ${standings[at].candidate}`;
    });
    new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  };
})();
