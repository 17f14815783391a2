"use strict";
// Starts the site, and shows what the address asks for: the fleet, an owner, a source, a model, a job.

(() => {
  const { address } = ett;
  const byId = (id) => document.getElementById(id);
  const title = document.title;
  const left = new Map(); // where each page was left: scroll position and focus, by its address
  let before = null;

  async function start() {
    if (address.parse(location.hash).page !== "job") ett.cube.open().catch(trouble);
    try {
      await ett.cube.openJobs();
      ett.filters.build();
      // On a telephone the words about each chart wait behind a heading.
      if (matchMedia("(max-width: 700px)").matches) for (const words of document.querySelectorAll(".explained")) words.open = false;
      addEventListener("hashchange", () => route().catch(trouble));
      await route();
    } catch (error) {
      trouble(error);
    }
  }

  function trouble(error) {
    byId("trouble").hidden = false;
    byId("trouble").textContent = `This page cannot be shown whole: ${error.message}`;
  }

  const placeOf = ({ page, argument }) => JSON.stringify([page, argument]);

  async function route() {
    const wish = address.enter(location.hash);
    const isNew = !before || placeOf(before) !== placeOf(wish);
    if (before && isNew) left.set(placeOf(before), { y: lastY, focus: lastFocus });
    links(wish);
    byId("fleet").hidden = byId("filters").hidden = wish.page === "job";
    byId("job").hidden = wish.page !== "job";
    const wasBefore = before;
    before = wish;
    if (wish.page === "job") return showJob(wish);
    ett.job.close();
    await showPage(wish, isNew, wasBefore);
  }

  function links({ filters }) {
    for (const link of document.querySelectorAll("a[data-section]")) link.href = address.link(link.dataset.section || "fleet", undefined, filters);
  }

  function showJob({ argument: [cluster, jobId] }) {
    document.title = `${ett.format.visible(jobId)} · ${title}`;
    ett.job.open(cluster, jobId);
    scrollTo(0, 0);
    byId("job-title").focus({ preventScroll: true });
  }

  async function showPage(wish, isNew, wasBefore) {
    await ett.cube.open();
    if (before !== wish) return;
    const choice = ett.rows.choose(wish.page, wish.argument, wish.filters);
    const subject = ett.head.subject(choice);
    document.title = subject ? `${subject} · ${title}` : title;
    ett.filters.show(choice);
    const drawn = ett.page.show(choice);
    if (!wish.section && isNew && wasBefore) {
      const back = left.get(placeOf(wish));
      scrollTo(0, back ? back.y : 0);
      const focus = back && back.focus && back.focus.isConnected ? back.focus : byId("head-title");
      focus.focus({ preventScroll: true });
    }
    await drawn;
    if (before !== wish) return;
    if (wish.find !== undefined) ett.page.find("jobs", wish.find);
    const target = wish.section && byId(wish.section);
    if (target) target.scrollIntoView();
    else if (isNew && wasBefore && left.has(placeOf(wish))) scrollTo(0, left.get(placeOf(wish)).y);
  }

  // Where the reader was when the address changed: by then a click has not moved the page yet.
  let lastY = 0, lastFocus = null;
  const remember = () => { if (!byId("fleet").hidden) lastY = scrollY; };
  addEventListener("scroll", remember, { passive: true });
  addEventListener("click", remember, true); // a click may come before the event of the last scroll
  addEventListener("focusin", (event) => { if (byId("fleet").contains(event.target)) lastFocus = event.target; });

  start();
})();
