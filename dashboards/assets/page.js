"use strict";
// Which sections a page has, and how each is drawn for a choice; those in view come first.

ett.page = (() => {
  const { rows, figures, chart, cube } = ett;
  const byId = (id) => document.getElementById(id);
  const NO_GPU = "Nothing to draw: no GPU time was held in this choice of days and jobs.";
  const UNTOLD = "Nothing to draw: no source tells of training in this choice of days and jobs. Add the trainers' logs.";
  const NO_LOSS = "Nothing to draw: nothing was lost in this choice of days and jobs.";
  const tables = new Map();
  let turn = 0, seen = 0, settled = 0; // numbers of the choice shown, of what is in view, of everything

  const SECTIONS = [
    { id: "days", pages: ["fleet", "model"], draw: (choice) => { overTime("days", figures.days(choice), choice, choice.ett.isUnknown ? UNTOLD : NO_GPU); table("days", rows.days(choice)); } },
    { id: "losses", pages: ["owner", "component"], draw: (choice) => { overTime("losses", figures.losses(choice), choice, NO_LOSS); table("loss_days", rows.days(choice)); } },
    { id: "spread", pages: ["component"], draw: drawSpread },
    { id: "ranking", pages: ["fleet", "owner", "model"], draw: (choice) => { chart.draw("ranking", figures.ranking(choice), NO_LOSS); table("ranking", rows.ranking(choice)); } },
    { id: "owners", pages: ["fleet", "model"], draw: (choice) => table("owners", rows.owners(choice)) },
    { id: "models", pages: ["fleet", "owner", "component"], draw: (choice) => table("models", rows.models(choice)) },
    { id: "jobs", pages: ["fleet", "owner", "component", "model"], draw: (choice) => table("jobs", rows.jobs(choice)) },
    { id: "recoveries", pages: ["fleet", "model"], draw: drawRecoveries },
    { id: "causes", pages: ["fleet", "model"], draw: drawCauses },
    { id: "quality", pages: ["fleet"], draw: drawQuality },
    { id: "glossary", pages: ["fleet"], draw: () => {} },
  ];

  // A folded table is drawn when it is opened.
  function table(id, columns) {
    const host = document.querySelector(`#fleet [data-listing="${id}"]`), fold = host.closest("details");
    const draw = () => tables.set(id, ett.table.draw(host, id, columns, id, tables.get(id)));
    if (fold) fold.ontoggle = () => fold.open && draw();
    if (!fold || fold.open) draw();
  }

  let shown = null;
  function overTime(name, spec, choice, empty) {
    shown = choice;
    chart.draw(name, spec, empty, ({ points }) => {
      const at = rows.overTime(shown).filter((row) => row.held_gpu_ms > 0)[points[0].pointIndex];
      if (at) location.hash = ett.address.here({ from: at.ds, to: at.last_ds });
    });
  }

  async function drawSpread(choice, isCurrent) {
    const told = await cube.attempts(choice.argument);
    if (!isCurrent()) return;
    const groups = rows.spread(choice, told), all = rows.everyAttempt(choice, told);
    byId("spread-lead").textContent = all.attempt_count
      ? `${ett.format.plural(all.attempt_count, "attempt")} spent time on it: half of them more than ${ett.format.duration(all.p50_ms)} (p50), one in twenty more than ${ett.format.duration(all.p95_ms)} (p95).`
      : "No attempt of this choice spent any time on it.";
    chart.draw("spread", figures.spread(choice, groups), "Nothing to draw: no attempt of this choice spent any time on it.");
    table("spread", groups);
  }

  async function drawRecoveries(choice, isCurrent) {
    const events = await cube.openEvents();
    if (!isCurrent()) return;
    const { all } = rows.recoveries(choice, events);
    byId("recoveries-lead").textContent = all.length
      ? `${ett.format.plural(all.length, "recovery").replace("recoverys", "recoveries")}: half took longer than ${ett.format.duration(cube.quantile(all, 0.5))}, one in twenty longer than ${ett.format.duration(cube.quantile(all, 0.95))}.`
      : "";
    chart.draw("recoveries", figures.recoveries(choice, events), "Nothing to draw: no recovery was completed in this choice of days and jobs.");
    table("ttr", rows.ttr(choice, events));
    table("ttr_causes", rows.ttrCauses(choice, events));
  }

  async function drawCauses(choice, isCurrent) {
    const events = await cube.openEvents();
    if (!isCurrent()) return;
    chart.draw("causes", figures.causes(choice, events), "Nothing to draw: no job was interrupted in this choice of days and jobs.");
    table("causes", rows.causes(choice, events));
  }

  // Numbers of the choice; files, rejects and names are of the whole warehouse and never change.
  let isDrawn = false;
  async function drawQuality(choice, isCurrent) {
    const events = await cube.openEvents();
    if (!isCurrent()) return;
    const { codes, days } = cube.dims(), K = codes.length, { totals } = choice;
    let ms = 0, gpu = 0;
    codes.forEach(([key], c) => {
      if (key !== "unattributed") return;
      for (let d = 0; d < days.length; d++) { ms += choice.dayMs[d * K + c]; gpu += choice.dayGpu[d * K + c]; }
    });
    const inferred = choice.codeInferred.reduce((a, b) => a + b, 0), flags = cube.jobs().flags;
    const count = (bit) => choice.jobSeen.reduce((sum, seen, j) => sum + (seen && flags[j] & (1 << bit) ? 1 : 0), 0);
    const { percent, duration, gpuHours } = ett.format;
    const told = {
      unattributed: [percent(rows.ratio(ms, totals.wall)), `Nobody's lines claim it: ${duration(ms)}, ${gpuHours(gpu)} GPU-hours. Log the phase that runs then.`],
      inferred: [percent(rows.ratio(inferred, totals.wall)), `Concluded by a rule, not told by a line: ${duration(inferred)}. Log its begin and end to be sure of it.`],
      running: [ett.format.count(count(0))], dead: [ett.format.count(count(1))], clock: [ett.format.count(count(2))],
      sizeless: [ett.format.count(rows.sizeless(choice).count)], untold: [ett.format.count(rows.untold(choice))],
      uncertain: [ett.format.count(count(3))], disagreements: [ett.format.count(rows.disagreements(choice, events))],
    };
    for (const [key, [value, meaning]] of Object.entries(told)) {
      const host = document.querySelector(`[data-quality="${key}"]`);
      host.querySelector("strong").textContent = value;
      if (meaning) host.querySelector("span").textContent = meaning;
    }
    if (isDrawn) return;
    isDrawn = true;
    for (const [id, columns] of Object.entries(ett.get("data/files"))) table(id, columns);
  }

  // Draws what is in view at once, then what a reader scrolls to, then the rest piece by piece, the
  // charts out of sight last; unless another choice comes first.
  async function show(choice) {
    const mine = ++turn, isCurrent = () => mine === turn;
    const mineOnly = SECTIONS.filter(({ pages }) => pages.includes(choice.page));
    for (const { id, pages } of SECTIONS) byId(id).hidden = !pages.includes(choice.page);
    for (const words of document.querySelectorAll("[data-pages]")) words.hidden = !words.dataset.pages.split(" ").includes(choice.page);
    // Asked before anything is drawn, while the browser still knows where everything lies.
    const boxes = new Map(mineOnly.map((section) => [section, byId(section.id).getBoundingClientRect()]));
    const within = (room) => mineOnly.filter((section) => boxes.get(section).top < innerHeight + room && boxes.get(section).bottom > -room);
    const first = within(0);
    chart.attend(new Set(within(innerHeight / 2).map(({ id }) => id)));
    waiting = new Map(mineOnly.filter((one) => !first.includes(one)).map((section) => [section.id, () => section.draw(choice, isCurrent)]));
    ett.head.draw(choice);
    await Promise.all(first.map((section) => section.draw(choice, isCurrent)));
    if (chart.isReady()) await chart.done();
    if (!isCurrent()) return;
    seen = mine;
    if (mine === 1) performance.mark("ett-usable");
    await painted();
    stamp("ett-shown");
    await drawWaiting(isCurrent);
    if (!isCurrent()) return;
    stamp("ett-answered");
    await chart.rest(idle, isCurrent);
    if (!isCurrent()) return;
    settled = mine;
    stamp("ett-settled");
  }

  // When the latest choice was painted, when all of it was drawn save charts out of sight, and when
  // these were too: for benchmarks.
  function stamp(name) {
    performance.clearMarks(name);
    performance.mark(name);
  }

  let waiting = new Map(); // what is still to be drawn, by section
  const drawing = new Set();
  function drawNow(id) {
    const draw = waiting.get(id);
    waiting.delete(id);
    if (!draw) return null;
    const work = Promise.resolve(draw()).finally(() => drawing.delete(work));
    drawing.add(work);
    return work;
  }
  const near = new IntersectionObserver(
    (entries) => entries.filter((one) => one.isIntersecting).forEach(({ target }) => drawNow(target.id)), { rootMargin: "50% 0px" });

  async function drawWaiting(isCurrent) {
    // Watched anew each time: an observer tells at once of what is near already.
    near.disconnect();
    for (const id of waiting.keys()) near.observe(byId(id));
    while (waiting.size) {
      await pause();
      if (!isCurrent()) return;
      if (waiting.size) await drawNow(waiting.keys().next().value);
    }
    await Promise.all(drawing);
    await chart.done();
  }

  // Paper shows all of it.
  addEventListener("beforeprint", () => { while (waiting.size) drawNow(waiting.keys().next().value); });

  // After the next frame; a page in the background has none, and waits a little instead.
  const painted = () => new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve, 0));
    setTimeout(resolve, 100);
  });
  // When nothing else is to be done; a browser that cannot tell goes on.
  const idle = () => new Promise((resolve) => (window.requestIdleCallback ? requestIdleCallback(resolve, { timeout: 300 }) : setTimeout(resolve, 0)));
  // After whatever the browser has to do first, such as an answer to a click.
  const pause = () => (window.scheduler && scheduler.yield ? scheduler.yield() : new Promise((resolve) => setTimeout(resolve, 0)));

  return { show, find: (id, words) => tables.has(id) && ett.table.find(tables.get(id), words), turn: () => turn, isSeen: () => seen === turn && turn > 0, isSettled: () => settled === turn && turn > 0 };
})();
