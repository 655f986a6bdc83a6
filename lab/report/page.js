"use strict";
// What the page does beyond text: links open their target, rows can be filtered, charts can be zoomed.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  function openTarget() {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) {
      at.hidden = false;
      if (at.tagName === "DETAILS") at.open = true;
    }
    target.scrollIntoView();
  }

  function setUpFilter() {
    const bar = document.getElementById("filter");
    if (!bar) return;
    const rows = all("details.row").map((row) => ({ row, text: row.textContent.toLowerCase() }));
    const words = bar.querySelector("input[type=search]");
    const boxes = all("input[type=checkbox]", bar);
    const apply = () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      const endings = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
      for (const { row, text } of rows) {
        row.hidden = !endings.has(row.dataset.ending) || !wanted.every((word) => text.includes(word));
        const course = document.getElementById(`time-${row.id}`);
        if (course) course.parentElement.hidden = row.hidden;
      }
      for (const group of all("section.group")) group.hidden = all("details.row:not([hidden])", group).length === 0;
      const shown = rows.filter(({ row }) => !row.hidden).length;
      bar.querySelector("output").textContent = `${shown} of ${rows.length} shown`;
    };
    bar.addEventListener("input", apply);
    bar.addEventListener("click", (event) => {
      if (event.target.dataset.open === undefined) return;
      for (const { row } of rows.filter(({ row }) => !row.hidden)) {
        row.open = event.target.dataset.open !== "none";
        if (event.target.dataset.open === "evidence") for (const inner of all("details", row)) inner.open = true;
      }
    });
    bar.hidden = false;
    apply();
  }

  const SIZES = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  function short(value) {
    const [size, letter] = SIZES.find(([least]) => Math.abs(value) >= least) || [1, ""];
    return `${+(value / size).toPrecision(4)}${letter}`;
  }

  // A colour of the page's style, in the form that a canvas accepts.
  function tone(text) {
    const probe = document.body.appendChild(document.createElement("span"));
    probe.style.color = text;
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function table(panel, span) {
    const tables = panel.series.map(({ points }) => [points.map(([x]) => x), points.map(([, y]) => y)]);
    // All panels of a figure have the same x range. A point that only another line has makes no gap in this one.
    const joined = uPlot.join([...tables, [span, [null, null]]]);
    joined.pop();
    return joined;
  }

  function drawMarks(plot, marks) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top - 14 * ratio, bbox.width, bbox.height + 14 * ratio);
    ctx.clip();
    ctx.strokeStyle = ctx.fillStyle = tone("var(--soft)");
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    let label = -Infinity;
    marks.forEach((mark, index) => {
      const x = plot.valToPos(mark.at, "x", true);
      if (mark.until !== null) {
        ctx.globalAlpha = 0.12;
        ctx.fillRect(x, bbox.top, plot.valToPos(mark.until, "x", true) - x, bbox.height);
        ctx.globalAlpha = 1;
      }
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (x < bbox.left) return;
      // Numbers of marks that are close together move to the right, so that they stay apart.
      label = Math.max(x, label + ctx.measureText(`${index + 1} `).width + 3 * ratio);
      ctx.fillText(String(index + 1), label, bbox.top - 3 * ratio);
    });
    ctx.restore();
  }

  function series({ label, tone: colour, stepped }) {
    return {
      label, stroke: tone(colour), width: 1.6,
      value: (_, value) => (value == null ? "–" : short(value)),
      ...(stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
    };
  }

  function options(graph, panel, { key, width, follow }) {
    const axis = { stroke: tone("var(--soft)"), grid: { stroke: tone("var(--line)"), width: 1 } };
    axis.ticks = axis.grid;
    return {
      title: panel.title, width, height: 210, padding: [16, 12 + 3 * graph.unit.length, 0, 0],
      cursor: { sync: { key }, drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((tick) => `${graph.unit === "s" ? +tick.toPrecision(6) : short(tick)} ${graph.unit}`), space: 80 },
        { ...axis, values: (_, ticks) => ticks.map(short), size: 56 },
      ],
      series: [
        { label: graph.unit || "at", value: (_, value) => (value == null ? "–" : +value.toPrecision(5)) },
        ...panel.series.map(series),
      ],
      hooks: { draw: [(plot) => drawMarks(plot, graph.marks)], setScale: [follow] },
    };
  }

  function zoomed(plots, span, { factor = 1, shift = 0 }) {
    const { min, max } = plots[0].scales.x;
    const half = ((max - min) / 2) * factor;
    const middle = (min + max) / 2 + shift * (max - min);
    const range = { min: Math.max(span[0], middle - half), max: Math.min(span[1], middle + half) };
    if (range.max > range.min) plots[0].setScale("x", range);
  }

  const KEYS = {
    "+": { factor: 0.5 }, "=": { factor: 0.5 }, "-": { factor: 2 }, "ArrowLeft": { shift: -0.25 },
    "ArrowRight": { shift: 0.25 }, "0": { factor: Infinity }, "Escape": { factor: Infinity },
  };

  function drawFigure(figure, key) {
    const graph = JSON.parse(figure.querySelector("script").textContent);
    const places = [
      ...graph.panels.flatMap((panel) => panel.series.flatMap(({ points }) => points.map(([x]) => x))),
      ...graph.marks.map((mark) => mark.at),
    ];
    if (places.length === 0) return [];
    const span = [places.reduce((a, b) => Math.min(a, b)), places.reduce((a, b) => Math.max(a, b))];
    if (span[0] === span[1]) span[1] += 1;
    const canvas = figure.querySelector(".canvas");
    canvas.replaceChildren();
    figure.classList.add("live");
    const plots = [];
    let following = false;
    const follow = (plot, scale) => {
      if (scale !== "x" || following) return;
      following = true;
      const { min, max } = plot.scales.x;
      for (const other of plots) if (other !== plot) other.setScale("x", { min, max });
      following = false;
    };
    figure.plots = plots;
    const width = canvas.clientWidth || 600;
    const drawn = graph.panels.filter((panel) => panel.series.some(({ points }) => points.length));
    for (const panel of drawn) {
      plots.push(new uPlot(options(graph, panel, { key, width, follow }), table(panel, span), canvas));
    }
    canvas.onkeydown = (event) => {
      const wanted = KEYS[event.key];
      if (!wanted || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      zoomed(plots, span, wanted);
    };
    return plots;
  }

  function setUpCharts() {
    const figures = all("figure.graph");
    if (figures.length === 0 || typeof uPlot === "undefined") return;
    const made = new Map();
    // A chart in a closed row has no width yet; it is drawn when it is first visible.
    const fit = ({ target, contentRect: { width } }) => {
      if (width === 0) return;
      const plots = made.get(target);
      if (plots === undefined) made.set(target, drawFigure(target, `figure-${made.size}`));
      else for (const plot of plots) if (plot.width !== width) plot.setSize({ width, height: plot.height });
    };
    // Not while sizes are reported, because drawing changes them.
    const sight = new ResizeObserver((seen) => requestAnimationFrame(() => seen.forEach(fit)));
    for (const figure of figures) sight.observe(figure);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const [figure, plots] of made) {
        for (const plot of plots) plot.destroy();
        made.set(figure, drawFigure(figure, `${plots.length ? plots[0].cursor.sync.key : "none"}-again`));
      }
    });
  }

  setUpFilter();
  setUpCharts();
  addEventListener("hashchange", openTarget);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) openTarget();
  });
  openTarget();
})();
