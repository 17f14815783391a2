"use strict";
// Starts the page, and shows what the address asks for: the fleet, a part of it, or one job.

(() => {
  const byId = (id) => document.getElementById(id);
  const title = document.title;
  const tables = {};
  let left = null; // where the fleet was left: scroll position and link

  function start() {
    const fleet = ett.get("data/fleet");
    for (const [id, columns] of Object.entries(fleet.tables)) {
      tables[id] = ett.table.draw(document.querySelector(`#fleet [data-listing="${id}"]`), id, columns);
    }
    tables.jobs = ett.table.draw(document.querySelector('#fleet [data-listing="jobs"]'), "jobs", ett.get("data/jobs").table);
    addEventListener("hashchange", route);
    route();
    drawFleet();
  }

  let isDrawn = false;
  function drawFleet() {
    // A hidden figure has no width: it is drawn when it is first seen.
    if (isDrawn || byId("fleet").hidden) return;
    isDrawn = true;
    for (const [name, spec] of Object.entries(ett.get("data/fleet").figures)) ett.chart.draw(name, spec);
  }

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text; // a lone % written by hand
    }
  }

  // #job=cluster/job_id, each part encoded; #jobs&find=words; or the id of a section.
  function asked() {
    const hash = location.hash.slice(1);
    if (hash.startsWith("job=")) {
      const [cluster, ...rest] = hash.slice(4).split("&")[0].split("/");
      return { job: [decoded(cluster), decoded(rest.join("/"))] };
    }
    const [section, ...settings] = hash.split("&");
    const find = settings.find((setting) => setting.startsWith("find="));
    return { section, find: find && decoded(find.slice(5)) };
  }

  function route() {
    const wish = asked();
    if (wish.job) showJob(...wish.job);
    else showFleet(wish);
  }

  function showJob(cluster, jobId) {
    if (!byId("fleet").hidden) left = { y: scrollY, link: document.activeElement };
    byId("fleet").hidden = true;
    byId("job").hidden = false;
    document.title = `${ett.format.visible(jobId)} · ${title}`;
    ett.job.open(cluster, jobId);
    scrollTo(0, 0);
    byId("job-title").focus({ preventScroll: true });
  }

  function showFleet({ section, find }) {
    const wasJob = byId("fleet").hidden;
    byId("fleet").hidden = false;
    byId("job").hidden = true;
    document.title = title;
    ett.job.close();
    drawFleet();
    if (find !== undefined && tables.jobs.body) ett.table.find(tables.jobs, find);
    const target = section && byId(section);
    if (wasJob && left && (!section || section === "jobs") && find === undefined) {
      scrollTo(0, left.y);
      if (left.link && left.link.isConnected) left.link.focus({ preventScroll: true });
    } else if (target) target.scrollIntoView();
  }

  start();
})();
