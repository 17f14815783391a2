"use strict";
// Draws the figures' data with Plotly in the theme of the moment, with a legend of real buttons.

ett.chart = (() => {
  const { element } = ett;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isCoarse = matchMedia("(pointer: coarse)");
  const narrow = matchMedia("(max-width: 700px)");
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
    const drawing = drawNow(name, spec, empty, clicked);
    pending.add(drawing);
    return drawing.finally(() => pending.delete(drawing));
  }

  const pending = new Set();
  const done = () => Promise.all(pending);

  async function drawNow(name, spec, empty = "Nothing to draw: no GPU time was counted in these days.", clicked = null) {
    const host = document.querySelector(`figure[data-figure="${name}"]`);
    const plot = host.querySelector(".plot");
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

  // A telephone has less room for ticks, and a finger scrolls where a mouse zooms.
  function suited(layout, isNarrow) {
    layout.showlegend = false;
    if (layout.dragmode !== "zoom" || isCoarse.matches) layout.dragmode = false;
    if (!isNarrow) return layout;
    layout.font = { size: 11 };
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
      bar.append(button);
    }
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
  // Paper is white whatever the screen is.
  addEventListener("beforeprint", () => retheme(false));
  addEventListener("afterprint", () => retheme(dark.matches));

  return { draw, clear, done, isReady: () => Boolean(window.Plotly) };
})();
