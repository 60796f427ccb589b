// The figures that Plotly draws on request, in the colours of the page: scores with their intervals,
// scores against a price, and scores over time.
"use strict";

(() => {
  const ROW = 26;
  const DAY = 24 * 60 * 60 * 1000; // ms
  const DASHES = ["solid", "dash"];
  const TINTS = 6; // of base.css; their colours have no meaning

  const colour = (name, of = "") => {
    const probe = document.createElement("i"); // resolves light-dark()
    probe.className = of;
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };

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

  const scored = ({ standings }, prefix = "") =>
    standings
      .map((row) => ({
        ...row,
        score: row[`${prefix}score`],
        low: row[`${prefix}low`],
        high: row[`${prefix}high`],
      }))
      .filter(({ score }) => score !== null)
      .sort((a, b) => b.score - a.score);

  const says = ({ candidate, score, low, high }) =>
    `<b>${text(candidate)}</b><br>Score ${score.toFixed(0)}` +
    (low === null || high === null ? "" : `<br>95% interval ${low.toFixed(0)} to ${high.toFixed(0)}`);

  const intervalsOf = (rows) => ({
    type: "data",
    symmetric: false,
    array: rows.map(({ score, high }) => (high === null ? 0 : high - score)),
    arrayminus: rows.map(({ score, low }) => (low === null ? 0 : score - low)),
    color: colour("--muted"),
    thickness: 1.5,
    width: 3,
  });

  const colours = (board, rows, prefix) => {
    const groups = board.findings.tiers ?? [];
    const tiers = new Map(
      groups.flatMap((tier, i) => tier.map(({ url }) => [url, Math.min(i + 1, 4)])),
    );
    return rows.map(({ url }) => colour(prefix || groups.length < 2 ? "--muted" : `--tier-${tiers.get(url) ?? 4}`));
  };

  const markers = (board, rows, more, prefix = "") => ({
    type: "scatter",
    mode: "markers",
    text: rows.map(says),
    hoverinfo: "text",
    marker: { color: colours(board, rows, prefix), size: 10 },
    ...more,
  });

  const FIGURES = {
    intervals: (board, _, width) => {
      const rows = scored(board);
      const names = shortNames(rows.map(({ candidate }) => candidate), width < 760 ? 22 : 40);
      const at = rows.map((_, i) => i);
      const trace = { x: rows.map(({ score }) => score), y: at, error_x: intervalsOf(rows) };
      return {
        traces: [markers(board, rows, trace)],
        layout: {
          height: ROW * rows.length + 96,
          hovermode: "y",
          xaxis: { side: "top", nticks: width < 760 ? 4 : 10, tickangle: 0 },
          yaxis: {
            autorange: "reversed",
            showgrid: false,
            tickvals: at,
            ticktext: names.map(text),
          },
        },
      };
    },

    price: (board, { value, axis, score }) => {
      const rows = scored(board, score).filter((row) => row[value] !== null);
      const amounts = rows.map((row) => row[value]);
      const isBeaten = (row) =>
        rows.some((one) => one[value] <= row[value] && one.low !== null && row.high !== null && one.low > row.high);
      const least = Math.min(...amounts);
      const places = { x: amounts, y: rows.map((row) => row.score), error_y: intervalsOf(rows) };
      const trace = markers(board, rows, places, score);
      trace.marker.symbol = rows.map((row) => (isBeaten(row) ? "circle-open" : "circle"));
      return {
        traces: [trace],
        layout: {
          height: 480,
          hovermode: "closest",
          xaxis: { title: { text: axis }, type: least > 0 && Math.max(...amounts) > 10 * least ? "log" : "linear" },
          yaxis: { title: { text: "Score" } },
        },
      };
    },

    history: (lines) => ({
      traces: lines.map(({ name, at, score, low, high }, i) => ({
        type: "scatter",
        mode: "lines",
        name: text(shorten(name, 30)),
        x: at,
        y: score,
        error_y: i ? null : intervalsOf(score.map((one, n) => ({ score: one, low: low[n], high: high[n] }))),
        line: {
          color: i ? colour("--tint", `tint-${(i % TINTS) + 1}`) : colour("--accent"),
          dash: DASHES[Math.floor(i / TINTS) % DASHES.length],
          width: i ? 1.5 : 3,
        },
      })),
      layout: {
        height: 480,
        hovermode: "x unified",
        showlegend: true,
        legend: { orientation: "h", y: -0.15 },
        xaxis: {
          hoverformat: "%-d %b %Y, %H:%M",
          tickformatstops: [
            { dtickrange: [null, DAY - 1], value: "%H:%M\n%-d %b %Y" },
            { dtickrange: [DAY, "M1"], value: "%-d %b\n%Y" },
            { dtickrange: ["M1", null], value: "%b\n%Y" },
          ],
        },
        yaxis: { title: { text: "Score" } },
      },
    }),
  };

  window.ringsideChart = async (holder, data, options) => {
    // Under a finger the chart stands still, so that the page can be scrolled past it.
    const touch = window.matchMedia("(pointer: coarse)").matches;
    const place = document.createElement("div");
    place.className = "interactive";
    holder.querySelector("[data-picture]")?.remove();
    holder.prepend(place);

    const draw = () => {
      const { traces, layout } = FIGURES[options.interactive](data, options, holder.clientWidth);
      const axis = { automargin: true, fixedrange: touch, gridcolor: colour("--line"), zeroline: false };
      return window.Plotly.react(
        place,
        traces,
        {
          margin: { l: 10, r: 16, t: touch ? 48 : 64, b: 10 },
          dragmode: touch ? false : "zoom",
          uirevision: "kept",
          paper_bgcolor: "transparent",
          plot_bgcolor: "transparent",
          font: { family: "system-ui, sans-serif", color: colour("--text"), size: 12 },
          hoverlabel: { bgcolor: colour("--surface"), font: { color: colour("--text") }, align: "left" },
          modebar: { bgcolor: "transparent", color: colour("--muted"), activecolor: colour("--accent") },
          ...layout,
          xaxis: { ...axis, ...layout.xaxis },
          yaxis: { ...axis, ...layout.yaxis },
        },
        {
          responsive: true,
          displaylogo: false,
          displayModeBar: touch ? false : "hover",
          modeBarButtonsToRemove: ["select2d", "lasso2d"],
        },
      );
    };

    await draw();
    new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  };
})();
