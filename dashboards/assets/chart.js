"use strict";
// Draws the figures' data with Plotly in the theme of the moment, with a legend of real buttons.

ett.chart = (() => {
  const { element } = ett;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isCoarse = matchMedia("(pointer: coarse)");
  const narrow = matchMedia("(max-width: 700px)");
  const PALE = 0.15, PAPER = 680; // pixels across a sheet of A4 or letter
  const drawn = new Map(), wanted = new Map();

  // Plotly is large: it is loaded when the first figure is drawn, after what needs no figure.
  let loading = null;
  function ready() {
    loading ||= ett.load("plotly.min").catch(() => { throw new Error("plotly.min.js is missing from this folder"); });
    return loading;
  }

  const template = (isDark) => ett.get("data/site").themes[isDark ? "dark" : "light"];

  // `clicked` is told of clicks on bars; `empty` says why there is nothing to draw.
  function draw(name, spec, empty, clicked) {
    const host = document.querySelector(`figure[data-figure="${name}"]`), plot = host.querySelector(".plot");
    later.delete(plot);
    const work = () => tracked(drawNow(host, plot, name, spec, empty, clicked));
    if (!isFar(plot)) return work();
    later.set(plot, work);
    watch.observe(plot);
    return Promise.resolve();
  }

  const pending = new Set();
  const done = () => Promise.all(pending);
  function tracked(drawing) {
    pending.add(drawing);
    return drawing.finally(() => pending.delete(drawing));
  }

  // A chart out of sight is redrawn when the reader comes near it, or when all else is done: Plotly
  // takes longer for one than the whole page takes for its sums and tables.
  const later = new Map();
  let attended = new Set(); // the sections near what is in view
  const isFar = (plot) => drawn.has(plot) && !attended.has(plot.closest("section").id);
  const watch = new IntersectionObserver((entries) => entries.filter((one) => one.isIntersecting).forEach(({ target }) => redraw(target)), { rootMargin: "50% 0px" });

  function attend(sections) {
    attended = sections;
    later.clear();
    watch.disconnect();
  }

  function redraw(plot) {
    const work = later.get(plot);
    later.delete(plot);
    watch.unobserve(plot);
    return work && work();
  }

  // Redraws what is left, one in each pause; `isWanted` says if it is still of the latest choice.
  async function rest(pause, isWanted) {
    while (later.size) {
      await pause();
      if (!isWanted()) return;
      if (later.size) await redraw(later.keys().next().value);
    }
  }

  async function drawNow(host, plot, name, spec, empty = "Nothing to draw: no GPU time was counted in these days.", clicked = null) {
    host.querySelector(".chart-notes").replaceChildren(...notes(spec));
    legend(host, plot, spec);
    zoom(host, plot, spec);
    if (!spec || !spec.data.length) {
      if (drawn.delete(plot)) Plotly.purge(plot);
      wanted.delete(plot);
      plot.style.minHeight = "";
      plot.replaceChildren(element("p", { class: "empty" }, empty));
      return;
    }
    wanted.set(plot, spec);
    plot.style.minHeight = `${spec.layout.height}px`;
    await ready();
    if (wanted.get(plot) !== spec) return; // another choice came first
    if (!drawn.has(plot)) plot.replaceChildren();
    const data = structuredClone(spec.data), layout = suited(structuredClone(spec.layout), narrow.matches);
    layout.template = template(dark.matches);
    await Plotly.react(plot, data, layout, { responsive: true, displaylogo: false, displayModeBar: false });
    if (clicked && !drawn.has(plot)) plot.on("plotly_click", clicked);
    drawn.set(plot, { name, spec, empty, clicked });
  }

  const notes = (spec) => (spec && spec.layout.meta ? spec.layout.meta.notes : []).map((note) => element("li", {}, note));

  // Names that slant on a wide screen stand upright on a narrow one.
  const turned = (axis) => (axis.tickangle ? { ...axis, tickangle: -90 } : axis);

  // A telephone has less room for ticks, and a finger scrolls where a mouse zooms.
  function suited(layout, isNarrow) {
    layout.showlegend = false;
    if (layout.dragmode !== "zoom" || isCoarse.matches) layout.dragmode = false;
    if (!isNarrow) return layout;
    layout.font = { size: 11 };
    layout.xaxis = turned(layout.xaxis);
    if (layout.meta && layout.meta.short) layout.yaxis.ticktext = layout.meta.short;
    if (layout.xaxis.dtick) {
      delete layout.xaxis.dtick;
      layout.xaxis.nticks = 6;
    }
    return layout;
  }

  function legend(host, plot, spec) {
    const bar = host.querySelector(".legend");
    bar.replaceChildren();
    for (const [i, trace] of (spec ? spec.data : []).entries()) {
      if (!trace.name || trace.showlegend === false) continue;
      const mark = element("span", { class: `swatch ${shape(trace)}` });
      mark.style.setProperty("--colour", trace.marker.color);
      const button = element("button", { type: "button", "aria-pressed": "true" }, mark, unescaped(trace.name));
      button.addEventListener("click", async () => {
        const isOn = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(isOn));
        await ready();
        Plotly.restyle(plot, { visible: isOn }, [i]);
      });
      for (const [event, isAlone] of [["pointerenter", true], ["focus", true], ["pointerleave", false], ["blur", false]]) button.addEventListener(event, () => alone(plot, spec, isAlone ? i : null));
      bar.append(button);
    }
  }

  // What a name in the legend stands for, with all else pale; `null` is as before.
  function alone(plot, spec, chosen) {
    if (!plot.data || plot.data.length !== spec.data.length) return;
    const strength = spec.data.map((trace, i) => (chosen === null || chosen === i ? 1 : PALE) * (trace.opacity ?? 1));
    if (plot.data.some((trace, i) => (trace.opacity ?? 1) !== strength[i])) Plotly.restyle(plot, { opacity: strength });
  }

  // Zoom and pan along the time axis with buttons: for the keyboard, and for fingers.
  function zoom(host, plot, spec) {
    const bar = host.querySelector(".zoom");
    bar.replaceChildren();
    if (!spec || spec.layout.dragmode !== "zoom") return;
    const whole = spec.layout.xaxis.range;
    const shown = () => plot.layout.xaxis.range.map((at) => (typeof at === "number" ? at : Date.parse(`${at.replace(" ", "T")}Z`)));
    const show = (begin, end) => Plotly.relayout(plot, { "xaxis.range": [begin, end] });
    const about = (factor) => {
      const [begin, end] = shown(), middle = (begin + end) / 2, half = ((end - begin) / 2) * factor;
      show(Math.max(middle - half, whole[0]), Math.min(middle + half, whole[1]));
    };
    const aside = (part) => {
      const [begin, end] = shown(), width = end - begin;
      const first = Math.min(Math.max(begin + part * width, whole[0]), whole[1] - width);
      show(first, first + width);
    };
    const actions = [
      ["+", "Zoom in", () => about(0.5)], ["−", "Zoom out", () => about(2)],
      ["←", "Earlier", () => aside(-0.5)], ["→", "Later", () => aside(0.5)], ["All", "All of the job", () => show(...whole)],
    ];
    for (const [sign, label, act] of actions) {
      const button = element("button", { type: "button", "aria-label": label, title: label }, sign);
      button.addEventListener("click", () => window.Plotly && plot.layout && act());
      bar.append(button);
    }
  }

  function shape(trace) {
    const shapes = { "diamond-open": "diamond", diamond: "diamond full", circle: "circle" };
    if (trace.type === "scatter") return shapes[trace.marker.symbol] || "triangle";
    return trace.marker.pattern ? "hatched" : "";
  }

  // Names in figures are escaped for Plotly; here they are plain text again.
  const unescaped = (name) => name.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

  function clear(name) {
    const plot = document.querySelector(`figure[data-figure="${name}"] .plot`);
    wanted.delete(plot);
    if (drawn.delete(plot)) Plotly.purge(plot);
    plot.replaceChildren();
  }

  function retheme(isDark) {
    for (const plot of drawn.keys()) Plotly.relayout(plot, { template: template(isDark) });
  }

  narrow.addEventListener("change", () => [...drawn.values()].forEach(({ name, spec, empty, clicked }) => draw(name, spec, empty, clicked)));
  dark.addEventListener("change", () => retheme(dark.matches));
  // Paper is white and narrow whatever the screen is.
  const sized = (width) => { for (const plot of drawn.keys()) Plotly.relayout(plot, { width: width && Math.min(width, plot.clientWidth), autosize: !width }); };
  addEventListener("beforeprint", () => { [...later.keys()].forEach(redraw); retheme(false); sized(PAPER); });
  addEventListener("afterprint", () => { retheme(dark.matches); sized(null); });

  return { draw, clear, done, attend, rest, isReady: () => Boolean(window.Plotly) };
})();
