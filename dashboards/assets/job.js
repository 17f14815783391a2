"use strict";
// The view of one job, filled from the piece of data that holds it.

ett.jobHref = (cluster, jobId) => ett.address.to("job", [cluster, jobId]);

ett.job = (() => {
  const { element, format } = ett;
  const byId = (id) => document.getElementById(id);
  const LISTINGS = ["components", "attempts", "recoveries", "interruptions", "intervals"];
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
    byId("job-notes").replaceChildren();
    byId("job-facts").replaceChildren();
    byId("job-body").hidden = true;
  }

  function missing(reason) {
    blank(reason);
  }

  function fill(jobId, detail) {
    blank(lead(detail));
    byId("job-notes").append(...detail.notes.map((note) => element("p", { class: "notice" }, note)));
    byId("intervals-note").replaceChildren(...detail.left_out.map((note) => element("p", { class: "notice" }, note)));
    facts(detail.tables.facts);
    byId("job-body").hidden = false;
    for (const id of LISTINGS) {
      const host = document.querySelector(`#job [data-listing="${id}"]`);
      ett.table.draw(host, id, detail.tables[id], `${fileName(jobId)}-${id}`);
    }
    ett.chart.clear("job");
    ett.chart.draw("job", detail.figure || { data: [], layout: { height: 80 } });
  }

  // In a sentence: how well it did, and what took most of the rest.
  function lead(detail) {
    const told = detail.tables.facts, components = detail.tables.components;
    if (told.ett_ratio[0] === null) return "It has no wall time yet.";
    const lost = components.component.findIndex((key) => key !== "effective_training");
    const start = `${format.percent(told.ett_ratio[0])} of its ${format.duration(told.wall_ms[0])} trained on new data`;
    if (lost < 0) return `${start}.`;
    const label = ett.get("data/site").components[components.component[lost]].label;
    const owner = components.owner[lost] ? `, owned by ${components.owner[lost]}` : "";
    return `${start}. Most of the rest went to ${label}: ${format.duration(components.duration_ms[lost])}${owner}.`;
  }

  function facts(columns) {
    const listing = ett.get("data/site").listings.facts;
    const known = listing.fields.filter((field) => !format.isUnknown(columns[field.name][0]));
    byId("job-facts").replaceChildren(
      ...known.map((field) => element("div", {}, element("dt", {}, field.label), element("dd", {}, ett.cells.show(field, 0, columns, listing)))),
    );
  }

  const fileName = (jobId) => jobId.replace(/[^\w.-]+/g, "_").replace(/^\.+/, "").slice(0, 60) || "job";

  return { open, close };
})();
