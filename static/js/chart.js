// Draws a board's scores and intervals with Plotly, in the colours of the page.
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

  const figure = (standings, width) => {
    const label = width < 760 ? 22 : 40;
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
        ticktext: standings.map(({ candidate }) => text(shorten(candidate, label))),
      },
    };
    return [[trace], layout];
  };

  window.ringsideChart = async (holder, board) => {
    const standings = board.standings
      .filter(({ score }) => score !== null)
      .sort((a, b) => b.score - a.score);
    const place = document.createElement("div");
    place.className = "interactive";
    holder.prepend(place);
    const draw = () =>
      window.Plotly.react(place, ...figure(standings, holder.clientWidth), {
        responsive: true,
        displaylogo: false,
        displayModeBar: touch ? false : "hover",
        modeBarButtonsToRemove: ["select2d", "lasso2d"],
      });
    await draw();
    new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  };
})();
