"use strict";
// The view of one job, filled from the piece of data that holds it.

ett.jobHref = (cluster, jobId) => ett.address.to("job", [cluster, jobId]);

ett.job = (() => {
  const { element, format } = ett;
  const byId = (id) => document.getElementById(id);
  const LISTINGS = ["components", "attempts", "recoveries", "interruptions", "sources", "disagreements", "intervals"];
  let places = null;
  let wanted = null;

  const keyOf = (cluster, jobId) => JSON.stringify([cluster, jobId]);

  function placeOf(cluster, jobId) {
    const jobs = ett.cube.jobs(), { clusters } = ett.cube.dims();
    places ||= new Map(jobs.job_id.map((id, row) => [keyOf(clusters[jobs.cluster[row]], id), [jobs.piece[row], jobs.place[row]]]));
    return places.get(keyOf(cluster, jobId));
  }

  async function open(cluster, jobId) {
    wanted = keyOf(cluster, jobId);
    const mine = wanted;
    byId("job-title").textContent = format.visible(jobId);
    const place = placeOf(cluster, jobId);
    if (!place) return missing(`There is no job "${format.visible(jobId)}" of the cluster "${format.visible(cluster)}" in the days of this page. The link may be of another page or of other days.`);
    blank("Loading …");
    try {
      const piece = await ett.inflated(await ett.load(`jobs/${place[0]}`));
      // The reader may have gone on to another job meanwhile.
      if (wanted === mine) fill(jobId, piece[place[1]]);
    } catch (error) {
      if (wanted === mine) missing(error.message);
    }
  }

  function close() {
    wanted = null;
  }

  function blank(lead) {
    byId("job-lead").textContent = lead;
    byId("job-hero").classList.add("is-blank");
    byId("job-largest").replaceChildren();
    byId("job-notes").replaceChildren();
    byId("job-facts").replaceChildren();
    byId("job-body").hidden = true;
  }

  function missing(reason) {
    blank(reason);
  }

  function fill(jobId, detail) {
    blank("");
    hero(detail);
    byId("job-notes").append(...detail.notes.map((note) => element("p", { class: "notice" }, note)));
    byId("intervals-note").replaceChildren(...detail.left_out.map((note) => element("p", { class: "notice" }, note)));
    facts(detail.tables.facts);
    byId("job-body").hidden = false;
    for (const id of LISTINGS) {
      const host = document.querySelector(`#job [data-listing="${id}"]`);
      ett.table.draw(host, id, detail.tables[id], `${fileName(jobId)}-${id}`);
    }
    byId("job-disagreements").hidden = !detail.tables.disagreements.field.length;
    ett.chart.clear("job");
    ett.chart.draw("job", detail.figure || { data: [], layout: { height: 80 } });
  }

  // How well it did, what took most of the rest, and whose that is; of the days shown.
  function hero(detail) {
    const { stages } = detail, isByGpu = Object.values(stages).some(([, gpu]) => gpu > 0), spent = (key) => stages[key][isByGpu ? 1 : 0];
    const keys = Object.keys(stages).filter((key) => key !== "effective"), losses = keys.map(spent);
    const whole = losses.reduce((a, b) => a + b, spent("effective")), wall = Object.values(stages).reduce((sum, [ms]) => sum + ms, 0);
    if (!whole) {
      byId("job-lead").textContent = "It has no wall time yet.";
      return;
    }
    const unit = isByGpu ? "GPU-hours" : "hours", told = format.balance(spent("effective"), losses), strong = (words, name) => element("strong", name ? { class: name } : {}, words);
    byId("job-hero").classList.remove("is-blank");
    const isKnown = detail.is_told;
    byId("job-big").textContent = isKnown ? format.percent(spent("effective") / whole) : format.UNKNOWN;
    byId("job-big").title = isKnown ? "" : "unknown: no source tells of training";
    byId("job-big-label").textContent = isKnown ? `ETT%: the share of its ${isByGpu ? "GPU time" : "wall time"} that trained on new data` : "ETT% is unknown: no source tells of training";
    const parts = isKnown
      ? [" Of these, ", strong(`${told.effective} ${unit}`), " trained on new data and ", strong(`${told.lost} ${unit}`, "loss"), " were lost."]
      : [" How much of them trained on new data is unknown."];
    byId("job-lead").replaceChildren(isByGpu ? "It held " : "It took ", strong(`${told.held} ${unit}`), ...(isByGpu ? [` in ${format.duration(wall)}`] : []), ".", ...parts);
    byId("job-strip").hidden = byId("job-legend").hidden = !isKnown;
    ett.head.strip(byId("job-strip"), byId("job-legend"), { effective: spent("effective"), keys, of: Object.fromEntries(keys.map((key) => [key, spent(key)])) }, unit);
    largest(detail, isByGpu, losses.reduce((a, b) => a + b, 0));
  }

  function largest({ tables: { components: columns }, is_told: isTold }, isByGpu, lost) {
    const measure = columns[isByGpu ? "gpu_ms" : "duration_ms"], host = byId("job-largest");
    const rows = columns.component.map((_, i) => i).filter((i) => columns.component[i] !== ett.cube.EFFECTIVE && measure[i] > 0).sort((a, b) => measure[b] - measure[a]);
    host.hidden = !rows.length;
    if (!rows.length) return;
    const [row] = rows, key = columns.component[row], { label, colour, definition } = ett.get("data/site").components[key];
    const link = (page, argument, text) => element("a", { href: ett.address.to(page, argument) }, element("bdi", {}, text));
    const owner = columns.owner[row] === null ? [] : [", owned by ", link("owner", columns.owner[row], format.visible(columns.owner[row]))];
    host.style.borderColor = colour;
    host.replaceChildren(
      element("p", { class: "largest-title" }, isTold ? "Its largest loss: " : "Most of its time: ", link("component", key, label), ...owner),
      element("p", {}, `${isByGpu ? `${format.gpuHours(measure[row])} GPU-hours in ` : ""}${format.duration(columns.duration_ms[row])}, ${format.percent(measure[row] / lost)} of ${isTold ? "what it lost" : "it"}. ${definition}`));
  }

  function facts(columns) {
    const listing = ett.get("data/site").listings.facts;
    const isUntold = (field) => field.untold && columns[field.untold][0] > 0;
    const known = listing.fields.filter((field) => !format.isUnknown(columns[field.name][0]) || isUntold(field));
    byId("job-facts").replaceChildren(
      ...known.map((field) => element("div", {}, element("dt", {}, field.label), element("dd", {}, ett.cells.show(field, 0, columns)))),
    );
  }

  const fileName = (jobId) => jobId.replace(/[^\w.-]+/g, "_").replace(/^\.+/, "").slice(0, 60) || "job";

  return { open, close };
})();
