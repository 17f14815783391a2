"use strict";
// How each kind of table field is shown, compared and searched.

ett.cells = (() => {
  const { element, format } = ett;
  const site = () => ett.get("data/site");
  const component = (key) => site().components[key] || { label: key, colour: "#8a94a3", definition: "" };
  const swatch = (colour) => element("span", { class: "swatch", style: `background:${colour}` });
  const number = (text) => element("span", { class: "number" }, text);

  const text = (value) =>
    format.isUnknown(value)
      ? element("span", { class: "muted", title: "not known" }, format.UNKNOWN)
      : element("bdi", { class: "text", title: format.visible(value) }, format.visible(value));

  // Kinds of event and phases, parted by commas: a phase by its label.
  const words = (list) => text(list.split(", ").map((word) => (site().components[word] ? site().components[word].label : format.word(word))).join(", "));

  // What one of two sources said, after its name.
  const said = (value, row, columns, { name }) =>
    text(`${columns[name === "believed" ? "source" : "other_source"][row]}: ${format.word(value)}`);

  const yesNo = (value) => (value === true ? "yes" : value === false ? "no" : value);

  function componentCell(key) {
    if (format.isUnknown(key)) return text(null);
    const told = component(key);
    const name = element("bdi", { class: "text" }, format.visible(told.label));
    const link = { href: ett.address.to("component", key), title: told.definition || key };
    const shown = key === ett.cube.EFFECTIVE ? name : element("a", link, name);
    return element("span", { class: "with-swatch" }, swatch(told.colour), shown);
  }

  // A link to the page of an owner or a model; what nobody named is a page too.
  const pageLink = (page) => (value) => {
    const shown = format.isUnknown(value) ? "not said" : format.visible(value);
    return element("a", { href: ett.address.to(page, value ?? null, { [page]: undefined }), title: shown }, element("bdi", { class: "text" }, shown));
  };

  const dayLink = (day, row, columns) => {
    const to = columns.last_ds ? columns.last_ds[row] : day;
    return element("a", { class: "time", href: ett.address.here({ from: day, to }) }, to === day ? day : `${day} to ${to.slice(5)}`);
  };

  function pointsCell(points) {
    const isWorse = points > 0.0005;
    return element("span", { class: `number ${isWorse ? "loss" : ""}` }, format.points(points).replace(" pt", ""));
  }

  function stageCell(key) {
    const told = site().stages[key];
    return told ? element("span", { class: "with-swatch" }, swatch(told.colour), told.label) : text(key);
  }

  function shareCell(ratio, row, columns) {
    const colour = columns.component ? component(columns.component[row]).colour : "#8a94a3";
    const bar = element("span", { class: "share-bar" }, element("span", { style: `width:${100 * (ratio || 0)}%;background:${colour}` }));
    return element("span", { class: "share" }, bar, number(format.percent(ratio)));
  }

  // The stages of a job to scale: of its GPU time, or of its wall time where it has none.
  function stagesCell(_, row, columns) {
    const stages = site().stages;
    const parts = (unit) => Object.keys(stages).map((key) => [key, columns[`shown_${key}_${unit}`][row]]);
    const total = (pairs) => pairs.reduce((sum, [, ms]) => sum + ms, 0);
    const isByGpu = total(parts("gpu_ms")) > 0;
    const pairs = isByGpu ? parts("gpu_ms") : parts("ms");
    const whole = total(pairs);
    if (!whole) return element("span", { class: "muted" }, "no time yet");
    if (columns[`shown_untold_${isByGpu ? "gpu_ms" : "ms"}`][row] >= whole) return element("span", { class: "muted", title: "no source tells of training" }, "not told");
    const told = pairs.filter(([, ms]) => ms > 0).map(([key, ms]) => `${stages[key].label} ${format.percent(ms / whole)}`);
    const label = `${told.join(", ")} ${isByGpu ? "of GPU time" : "of wall time (GPUs not said)"}`;
    const bar = element("span", { class: "strip small-strip", role: "img", "aria-label": label, title: label });
    for (const [key, ms] of pairs) {
      bar.append(element("span", { style: `width:${(100 * ms) / whole}%;background:${stages[key].colour}` }));
    }
    return bar;
  }

  function jobLink(jobId, row, columns) {
    const href = ett.jobHref(columns.cluster[row], jobId);
    return element("a", { href, class: "text", title: format.visible(jobId) }, element("bdi", {}, format.visible(jobId)));
  }

  const flags = (words) =>
    element("span", {}, ...(words || []).map((word) => element("span", { class: "flag" }, word)));

  const kinds = {
    text: { show: (v) => text(yesNo(v)) },
    word: { show: (v) => text(format.isUnknown(v) ? null : format.word(v)) },
    words: { show: words },
    said: { show: said },
    job: { show: jobLink },
    component: { show: componentCell, say: (key) => (key ? `${component(key).label} ${key}` : "") },
    stage: { show: stageCell },
    flags: { show: flags, say: (words) => (words || []).join(" ") },
    stages: { show: stagesCell },
    share: { show: shareCell, isNumber: true },
    id: { show: (v) => number(format.isUnknown(v) ? format.UNKNOWN : String(v)) },
    size: { show: (v) => element("span", { class: "number" }, v) },
    count: { show: (v) => number(format.count(v)), isNumber: true },
    gpus: { show: (v) => (v === 0 ? element("span", { class: "muted" }, "not said") : number(format.count(v))), isNumber: true },
    gpu_ms: { show: (v) => number(format.gpuHours(v)), isNumber: true },
    ms: { show: (v) => number(format.duration(v)), isNumber: true },
    exact_ms: { show: (v) => number(format.exactDuration(v)), isNumber: true },
    ratio: { show: ratioCell, isNumber: true },
    money: { show: moneyCell, isNumber: true },
    at: { show: (v) => element("span", { class: "time" }, format.instant(v)) },
    exact_at: { show: (v) => element("span", { class: "time" }, format.exactInstant(v)) },
    day: { show: dayLink },
    owner: { show: (v) => (format.isUnknown(v) ? text(null) : pageLink("owner")(v)) },
    model: { show: pageLink("model"), say: (v) => v ?? "not said" },
    points: { show: pointsCell, isNumber: true },
  };

  // Where no source tells of some of the time, a share is a lower bound; of any of it, unknown.
  function ratioCell(ratio, row, columns, { untold }) {
    const ms = untold && columns[untold] ? columns[untold][row] : 0;
    if (!ms) return number(format.percent(ratio));
    if (format.isUnknown(ratio)) return element("span", { class: "number muted", title: "unknown: no source tells of training" }, format.UNKNOWN);
    const of = untold.endsWith("gpu_ms") ? `${format.gpuHours(ms)} GPU-hours` : format.duration(ms);
    return element("span", { class: "number", title: `at least: of ${of} no source tells of training` }, format.bounded(ratio, ms));
  }

  // A cost of which only a part has a price is a lower bound, and says so.
  function moneyCell(amount, row, columns) {
    const money = format.amount(amount);
    const priced = columns.priced_gpu_ms, lost = columns.lost_gpu_ms;
    if (amount === null || !priced || !lost || priced[row] >= lost[row]) return number(money);
    const share = format.percent(priced[row] / lost[row]);
    return element("span", { class: "number", title: `the ${share} of it that has a price` }, `≥ ${money}`);
  }

  const show = (field, row, columns) =>
    kinds[field.kind].show((columns[field.name] || [])[row], row, columns, field);

  function say(field, row, columns) {
    const value = (columns[field.name] || [])[row];
    if (kinds[field.kind].say) return kinds[field.kind].say(value);
    return typeof value === "string" ? value.replaceAll("_", " ") : "";
  }

  // Nulls come last in both directions.
  function compare(a, b) {
    if (format.isUnknown(a) || format.isUnknown(b)) return format.isUnknown(a) - format.isUnknown(b);
    return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
  }

  // These units stand in the heading, where they take no room of every cell.
  const units = { money: () => site().currency, points: () => "points" };
  const label = (field) => unbroken(units[field.kind] ? `${field.label}, ${units[field.kind]()}` : field.label);
  const unbroken = (text) => text.replaceAll("GPU-hours", "GPU\u2011hours");

  return { show, say, compare, label, isNumber: (field) => Boolean(kinds[field.kind].isNumber) };
})();
