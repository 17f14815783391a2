"use strict";
// The figures under a filter: the look is of dashboards/figures, here only the numbers are filled in.

ett.figures = (() => {
  const { format } = ett;
  const HOUR = 3600000, MOST_BARS = 18, MOST_LABELS = 16, MOST_GROUPS = 20, SPARSE = 3, DAY = 86400000;
  const site = () => ett.get("data/site");
  const escaped = (text) => format.visible(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const cut = (text, longest) => escaped(text.length <= longest ? text : `${text.slice(0, longest - 1)}…`);
  const copy = (name) => structuredClone(site().figures[name]);
  const component = (key) => site().components[key] || { label: key, colour: "#8a94a3" };

  function overTime(choice) {
    const rows = ett.rows.overTime(choice).filter((row) => row.held_gpu_ms > 0);
    return { rows, x: rows.map((row) => (choice.by === "month" ? row.ds.slice(0, 7) : row.ds)) };
  }

  function timeAxis(choice, rows) {
    const at = rows.map((row) => Date.parse(row.ds)), step = choice.by === "week" ? 7 : 1;
    const isSparse = rows.length > 0 && (at[at.length - 1] - at[0]) / DAY / step + 1 >= SPARSE * rows.length;
    if (choice.by === "month" || choice.by === "period" || isSparse) return { type: "category" };
    const axis = { type: "date", tickformat: "%b %-d", hoverformat: choice.by === "week" ? "week from %Y-%m-%d" : "%a %Y-%m-%d", showgrid: false };
    if (choice.by === "week") axis.title = { text: "week from Monday" };
    return rows.length <= MOST_LABELS ? { ...axis, dtick: DAY * step, tick0: rows.length ? rows[0].ds : undefined } : axis;
  }

  function days(choice) {
    const spec = copy("days"), { rows, x } = overTime(choice);
    spec.data = spec.data.filter((trace) => fillDay(trace, rows, x, choice));
    spec.layout.xaxis = timeAxis(choice, rows);
    const untold = rows.reduce((sum, row) => sum + row.untold_gpu_ms, 0);
    spec.layout.meta.notes = untold ? [`Of ${format.gpuHours(untold)} GPU-hours no source tells of training: they are drawn with the losses, and what is green is the least that trained on new data.`] : [];
    return rows.length && !choice.ett.isUnknown ? spec : { data: [], layout: { ...spec.layout, meta: { notes: [] } } };
  }

  function fillDay(trace, rows, x, choice) {
    const key = trace.meta.key;
    if (key === "provisional") {
      trace.x = x.filter((_, i) => rows[i].is_provisional);
      trace.y = trace.x.map(() => 1.035);
      return trace.x.length > 0;
    }
    fillShares(trace, rows, x, (row) => row[`${key}_gpu_ms`]);
    if (key === "effective") {
      const isRoomy = rows.length <= MOST_LABELS;
      trace.text = isRoomy ? rows.map((row) => format.bounded(row.gpu_ett_ratio, row.untold_gpu_ms)) : undefined;
      Object.assign(trace, { textposition: isRoomy ? "inside" : "none", insidetextanchor: "end", textangle: 0, textfont: { color: "#04231a", size: 12 } });
    }
    if (key === "other" && choice.filters.owner) trace.name = `Losses of other owners than ${cut(choice.filters.owner.join(", "), 30)}`;
    return key !== "other" || rows.some((row) => row.other_gpu_ms > 0);
  }

  function fillShares(trace, rows, x, spent) {
    trace.x = x;
    trace.y = rows.map((row) => spent(row) / row.held_gpu_ms);
    trace.customdata = rows.map((row) => format.gpuHours(spent(row)));
  }

  function losses(choice) {
    const spec = copy("losses"), { rows, x } = overTime(choice), { codes } = ett.cube.dims(), K = codes.length;
    spec.data = spec.data.filter((trace) => {
      const mine = codes.flatMap(([key], c) => (key === trace.meta.key && choice.select.loss[c] ? [c] : []));
      const spent = ({ bucket: { first, last } }) => {
        let sum = 0;
        for (let d = first; d <= last; d++) for (const c of mine) sum += choice.dayGpu[d * K + c];
        return sum;
      };
      fillShares(trace, rows, x, spent);
      return trace.y.some((share) => share > 0);
    });
    spec.layout.xaxis = timeAxis(choice, rows);
    spec.layout.meta.notes = [];
    return spec;
  }

  function ranking(choice) {
    const spec = copy("ranking");
    const measure = choice.isByGpu ? "lost_gpu_ms" : "lost_ms", unit = choice.isByGpu ? "GPU-h" : "h";
    let bars = ett.rows.sources(choice).filter((row) => row[measure] > 0).map((row) => bar(row, measure, unit));
    if (!bars.length) return { data: [], layout: spec.layout };
    if (bars.length > MOST_BARS) bars = [...bars.slice(0, MOST_BARS - 1), rest(bars.slice(MOST_BARS - 1), unit)];
    const [drawn, names] = spec.data, of = (name) => bars.map((b) => b[name]);
    Object.assign(drawn, { x: of("hours"), y: bars.map((_, i) => i), text: of("text"), customdata: bars.map((b) => [b.name, b.hover]), marker: { color: of("colour") } });
    Object.assign(names, { x: bars.map(() => 0), y: bars.map((_, i) => i - 0.2), text: of("name") });
    spec.layout.height = 46 * bars.length + 60;
    spec.layout.xaxis = { ...spec.layout.xaxis, range: [0, 1.6 * Math.max(...of("hours"))], title: { text: `${unit} lost` } };
    spec.layout.yaxis.range = [bars.length - 0.4, -0.6];
    return spec;
  }

  function bar(row, measure, unit) {
    const { label, colour } = component(row.component), text = `${format.gpuHours(row[measure])} ${unit} · ${format.percent(row.share_ratio)}`;
    const priced = row.lost_cost === null ? [] : [`${site().currency} ${format.amount(row.lost_cost)}`];
    return {
      hours: row[measure] / HOUR, share: row.share_ratio, colour, text, key: row.component,
      name: `<b>${cut(label, 40)}</b>  ${cut(row.owner, 30)}`, hover: [`owner: ${cut(row.owner, 120)}`, text, ...priced].join("<br>"),
    };
  }

  function rest(bars, unit) {
    const hours = bars.reduce((sum, b) => sum + b.hours, 0), share = bars.reduce((sum, b) => sum + b.share, 0);
    const text = `${format.gpuHours(hours * HOUR)} ${unit} · ${format.percent(share)}`;
    return { hours, share, colour: "#8a94a3", text, hover: text, name: `<b>${bars.length} smaller sources</b>  see the table` };
  }

  function recoveries(choice, events) {
    const spec = copy("recoveries"), { counts, count } = ett.rows.recoveries(choice, events);
    if (!count || !spec.data.length) return { data: [], layout: spec.layout };
    Object.assign(spec.data[0], { y: counts, text: counts.map((n) => (n ? format.count(n) : "")) });
    return spec;
  }

  function causes(choice, events) {
    const spec = copy("causes"), told = ett.rows.causes(choice, events);
    const rows = told.cause.map((_, i) => i).filter((i) => told.interruption_count[i]);
    if (!rows.length || !spec.data.length) return { data: [], layout: spec.layout };
    for (const trace of spec.data) {
      trace.y = rows.map((i) => format.word(told.cause[i]));
      trace.x = rows.map((i) => (trace.meta.key === "failure_count" ? told.failure_count[i] : told.interruption_count[i] - told.failure_count[i]));
    }
    spec.layout.height = 30 * rows.length + 70;
    return spec;
  }

  function spread(choice, told) {
    const spec = copy("spread"), rows = told.model.map((_, i) => i).filter((i) => told.p95_ms[i] > 0).slice(0, MOST_GROUPS);
    if (!rows.length || !spec.data.length) return { data: [], layout: spec.layout };
    const { colour } = component(choice.argument), [line, p50, p95] = spec.data, at = rows.map((_, y) => y);
    Object.assign(line, { x: rows.flatMap((i) => [told.p50_ms[i], told.p95_ms[i], null]), y: at.flatMap((y) => [y, y, y]), line: { color: colour, width: 6 } });
    for (const trace of [p50, p95]) {
      const values = rows.map((i) => told[trace.meta.key][i]);
      Object.assign(trace, { x: values, y: at, customdata: values.map((ms, n) => `${format.duration(ms)} · ${format.plural(told.attempt_count[rows[n]], "attempt")}`) });
      trace.marker.color = colour;
    }
    spec.layout.height = 100 + 30 * rows.length;
    const model = (i, longest) => cut(told.model[i] === null ? "model not said" : told.model[i], longest);
    const group = (i) => `${model(i, 32)}, ${told.size[i]} GPUs`;
    spec.layout.meta = { notes: [], short: rows.map((i) => `${model(i, 16)}<br>${told.size[i]} GPUs`) };
    Object.assign(spec.layout.yaxis, { tickvals: at, ticktext: rows.map(group), range: [rows.length - 0.4, -0.6] });
    return spec;
  }

  return { days, losses, ranking, recoveries, causes, spread };
})();
