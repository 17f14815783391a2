"use strict";
// The top of a page in words: of what it is, how much was lost, to what, whose it is, what changed.

ett.head = (() => {
  const { element, format, address } = ett;
  const byId = (id) => document.getElementById(id);
  const site = () => ett.get("data/site");
  const component = (key) => site().components[key] || { label: key, colour: "#8a94a3", definition: "" };
  const named = (value) => (value === null ? "not said" : format.visible(value));
  const strong = (text, name) => element("strong", name ? { class: name } : {}, text);
  const link = (page, argument, text) => element("a", { href: address.to(page, argument, without(page)) }, element("bdi", {}, text));
  const without = (page) => (["owner", "model"].includes(page) ? { [page]: undefined } : {});

  function draw(choice) {
    const { first, last } = choice.select, { days } = ett.cube.dims();
    byId("head-title").replaceChildren(...title(choice));
    byId("head-days").textContent = last < first ? "no day" : span(days[first], days[last]);
    byId("head-crumbs").replaceChildren(...crumbs(choice));
    const isShare = choice.page === "owner" || choice.page === "component";
    byId("head-big").closest(".hero-grid").classList.toggle("is-blank", !choice.totals.wall);
    big(choice, isShare);
    byId("head-lead").replaceChildren(...lead(choice, isShare));
    sizeless(choice);
    untold(choice);
    byId("head-largest").replaceChildren(...largest(choice));
    stages(choice, isShare);
    byId("head-changed").replaceChildren(...changed(choice));
    facts(choice, isShare);
  }

  const span = (from, to) => (from === to ? from : `${from} to ${to.slice(0, 4) === from.slice(0, 4) ? to.slice(5) : to}`);

  function subject({ page, argument }) {
    if (page === "fleet") return "";
    return page === "component" ? component(argument).label : named(argument);
  }

  function title(choice) {
    if (choice.page === "fleet") return ["Where the GPU time went"];
    const kind = { owner: "Owner", component: "Source", model: "Model" }[choice.page];
    return [element("span", { class: "muted" }, `${kind} `), element("bdi", {}, subject(choice))];
  }

  function crumbs(choice) {
    if (choice.page === "fleet") return [];
    const parts = [element("a", { href: address.to("fleet") }, "← Fleet")];
    const source = choice.page === "component" && ett.rows.sources(choice)[0];
    if (source) parts.push(" · ", link("owner", source.owner, named(source.owner)));
    return parts;
  }

  const unit = (choice) => (choice.isByGpu ? "GPU-hours" : "hours");
  const amount = (choice, gpu, ms) => `${format.gpuHours(choice.isByGpu ? gpu : ms)} ${unit(choice)}`;
  const share = (choice, gpu, ms) => ett.rows.ratio(choice.isByGpu ? gpu : ms, choice.isByGpu ? choice.totals.held : choice.totals.wall);
  const either = (names) => names.flatMap((name, i) => [i ? " or " : "", strong(named(name))]);

  function big(choice, isShare) {
    const { totals } = choice, held = choice.isByGpu ? "GPU time held" : "wall time";
    if (isShare) {
      const lost = share(choice, totals.lost, totals.lostMs);
      bigNumber(lossBound(choice), format.bounded(lost, choice.ett.untold, ""));
      byId("head-label").textContent = `of the ${held} was lost to this ${choice.page === "owner" ? "owner's sources" : "source"}`;
      return;
    }
    bigNumber(choice.ett.isBound ? AT_LEAST : "", format.bounded(choice.ett.value, choice.ett.untold, ""));
    byId("head-label").textContent = choice.ett.isUnknown ? "ETT% is unknown: no source tells of training" : `ETT%: the share of the ${held} that trained on new data`;
  }

  const AT_LEAST = "at least ", AT_MOST = "at most ";
  const bigNumber = (bound, number) => byId("head-big").replaceChildren(...(bound ? [element("span", { class: "bound" }, bound)] : []), number);

  // Of time of which no source tells whether it was training, all is lost to what nobody claims: that
  // loss can only be smaller, and every other one only larger.
  function lossBound({ ett: { untold }, select }) {
    if (!untold) return "";
    return ett.cube.dims().codes.some(([key], c) => key === "unattributed" && select.loss[c]) ? AT_MOST : AT_LEAST;
  }

  // The stages of a choice, with the losses that a filter leaves to other owners.
  function spentOf({ totals, isByGpu }) {
    const spent = isByGpu ? totals.stageGpu : totals.stageMs, all = ett.get("data/site").stages;
    const keys = Object.keys(all).filter((key) => key !== "effective");
    return { effective: spent.effective, keys: spent.other ? [...keys, "other"] : keys, of: spent };
  }

  function lead(choice, isShare) {
    const { totals } = choice, { owner } = choice.filters;
    if (!totals.wall) return ["No job of this choice has any time in these days. Widen the filters above, or clear them."];
    const worth = cost(totals), { effective, keys, of } = spentOf(choice);
    const told = format.balance(effective, keys.map((key) => of[key])), words = (hours) => `${hours} ${unit(choice)}`;
    const part = strong(`${lossBound(choice)}${amount(choice, totals.lost, totals.lostMs)}`, "loss");
    const intro = [choice.isByGpu ? "Jobs held " : "Jobs took ", strong(words(told.held)), ". Of these, "];
    if (isShare) return [...definition(choice), ...intro, part, ` were lost to ${choice.page === "owner" ? "what it owns" : "it"}`, ...worth, "."];
    const lost = owner === undefined ? [strong(`${lossBound(choice)}${words(told.lost)}`, "loss"), " were lost"] : [part, " were lost to what ", ...either(owner), " owns"];
    if (choice.ett.isUnknown) return [intro[0], intro[1], ". How much of them trained on new data is unknown."];
    return [...intro, strong(`${choice.ett.isBound ? AT_LEAST : ""}${words(told.effective)}`), " trained on new data and ", ...lost, ...worth, "."];
  }

  // Jobs that have no GPU time, since nobody says how many GPUs they held, are missing above.
  function sizeless(choice) {
    const { count, ms } = ett.rows.sizeless(choice), host = byId("head-sizeless");
    host.hidden = !count || !choice.isByGpu;
    host.textContent = `Not in these GPU-hours: ${format.plural(count, "job")} with ${format.duration(ms)} of wall time, of which no line says how many GPUs they held.`;
  }

  // Jobs that count as lost as long as nobody tells what they did.
  function untold(choice) {
    const host = byId("head-untold"), { totals, ett: { untold: ms, isUnknown } } = choice;
    host.hidden = !ms;
    if (!ms) return;
    const isShare = choice.page === "owner" || choice.page === "component";
    const sum = isUnknown ? "ETT% is unknown" : "their time counts as lost, and ETT% is a lower bound";
    const what = isShare ? "what nobody claims of it is unattributed, and may have been training or another loss" : sum;
    host.textContent = `Of ${format.plural(ett.rows.untold(choice), "job")}, with ${amount(choice, totals.untold, totals.untoldMs)}, no source tells of training: ${what}. Add the trainers' logs.`;
  }

  const definition = (choice) => (choice.page === "component" && component(choice.argument).definition ? [component(choice.argument).definition, " "] : []);

  function cost(totals) {
    if (totals.cost === null || !totals.held) return [];
    const isPart = totals.priced < totals.lost;
    return [", worth ", strong(`${site().currency} ${format.amount(totals.cost)}`, "loss"), ...(isPart ? [` (for the ${format.percent(totals.priced / totals.lost)} of it that has a price)`] : [])];
  }

  function largest(choice) {
    const [first] = ett.rows.sources(choice);
    const host = byId("head-largest");
    host.hidden = !first;
    if (!first) return [];
    const told = component(first.component), owner = link("owner", first.owner, named(first.owner));
    host.style.borderColor = told.colour;
    const next = hardest(choice, first);
    if (choice.page === "component") return [element("p", { class: "largest-title" }, "Owned by ", owner, ": they can make it smaller."), ...next];
    const source = link("component", first.component, told.label);
    const name = element("p", { class: "largest-title" }, ...(choice.page === "owner" ? ["Its largest loss: ", source] : [choice.ett.isUnknown ? "Most of the time: " : "The largest loss: ", source, ", owned by ", owner]));
    const whole = choice.ett.isUnknown && choice.page !== "owner" ? "of it" : `of everything lost${choice.page === "fleet" ? "" : " here"}`;
    return [name, element("p", {}, `${amount(choice, first.lost_gpu_ms, first.lost_ms)}, ${format.percent(first.share_ratio)} ${whole}. ${told.definition}`), ...next];
  }

  // The job to open first.
  function hardest(choice, source) {
    const found = ett.rows.hardest(choice, source);
    if (!found) return [];
    const { job_id: ids, cluster } = ett.cube.jobs(), { clusters } = ett.cube.dims();
    const job = element("a", { href: ett.jobHref(clusters[cluster[found.job]], ids[found.job]) }, element("bdi", {}, format.visible(ids[found.job])));
    return [element("p", {}, strong("Look first at "), job, `, which ${choice.ett.isUnknown ? "spent" : "lost"} ${amount(choice, found.ms, found.ms)} this way (${format.percent(found.share)} of it).`)];
  }

  function stages(choice, isShare) {
    const bar = byId("head-strip"), list = byId("head-legend"), { totals } = choice;
    bar.hidden = list.hidden = isShare || !totals.wall || choice.ett.isUnknown;
    if (bar.hidden) return;
    strip(bar, list, { ...spentOf(choice), untold: choice.ett.untold }, unit(choice));
  }

  // A bar of stages to scale and its legend; both add up as they are shown.
  function strip(bar, list, { effective, keys, of, untold = 0 }, hours) {
    const losses = keys.map((key) => of[key]), told = format.balance(effective, losses), shares = format.lossShares(effective, losses);
    const whole = losses.reduce((a, b) => a + b, effective);
    const look = (key) => site().stages[key] || { label: "Losses of other owners", colour: "#8a94a3" };
    const parts = [
      { ...look("effective"), ms: effective, share: format.bounded(ett.rows.ratio(effective, whole), untold), amount: `${untold ? "≥ " : ""}${told.effective} ${hours}` },
      ...keys.map((key, i) => ({ ...look(key), ms: of[key], share: shares[i], amount: `${told.losses[i]} ${hours}` })),
    ];
    bar.setAttribute("aria-label", parts.map((part) => `${part.label} ${part.share}`).join(", "));
    bar.replaceChildren(...parts.map((part) => element("span", { style: `width:${whole ? (100 * part.ms) / whole : 0}%;background:${part.colour}` })));
    list.replaceChildren(...parts.map((part) =>
      element("li", {}, element("span", { class: "swatch", style: `background:${part.colour}` }), " ", element("span", {}, part.label), " ", strong(part.share), " ", element("span", { class: "muted" }, part.amount))));
  }

  // Below the bar: figures that need no sentence.
  function facts(choice, isShare) {
    const all = jobCount(choice), struck = isShare ? ett.rows.perJob(choice).list.length : all;
    byId("head-jobs").textContent = isShare ? `${format.count(struck)} of ${format.count(all)}` : format.count(all);
    byId("head-jobs-label").textContent = isShare ? "Jobs that lost time to it" : "Jobs";
    const { effectiveMs, wall, untoldMs } = choice.totals;
    byId("head-wall-ett").textContent = format.bounded(ett.rows.knownRatio(effectiveMs, wall, untoldMs), untoldMs, AT_LEAST);
    byId("head-wall-ett-label").textContent = isShare ? "ETT% of all these jobs, by wall time" : "ETT% by wall time";
  }

  const jobCount = (choice) => choice.jobSeen.reduce((sum, seen) => sum + seen, 0);

  // What rose and fell against the days before, and the worst day: where to look next.
  function changed(choice) {
    const out = [], told = choice.change;
    if (!choice.totals.wall) return out;
    if (told) out.push(element("p", {}, strong("What changed. "), whole(choice, told), ...(choice.page === "component" ? [] : grown(choice))));
    else out.push(element("p", { class: "muted" }, "No change is shown: there are no earlier days to compare these with."));
    const worst = worstOf(choice);
    if (worst) out.push(element("p", {}, strong(`Worst ${choice.by}. `), element("a", { href: address.here({ from: worst.ds, to: worst.last_ds }) }, span(worst.ds, worst.last_ds)), `: ${worst.words}.`));
    return out;
  }

  // The sources that take more of the GPU time than before.
  function grown(choice) {
    const movers = [...ett.rows.sources(choice)].filter((row) => row.change_ratio > 0.0005).sort((a, b) => b.change_ratio - a.change_ratio).slice(0, 3);
    if (!movers.length) return [" No source grew."];
    const list = movers.flatMap((row, i) => [i ? ", " : " Grew most: ", link("component", row.component, component(row.component).label), ` ${format.points(row.change_ratio)}`]);
    return [...list, " (points of the GPU time held)."];
  }

  function whole(choice, { earlier, later, before, after, of, open }) {
    const days = ([first, last]) => `(${span(first, last)})`;
    if (choice.page === "owner" || choice.page === "component") {
      const lossy = [...choice.select.loss].flatMap((isLoss, c) => (isLoss ? [c] : [])), [then, now] = of(lossy);
      return `Its share of the GPU time held ${verb(now - then)} ${format.percent(then)} ${days(earlier)} to ${format.percent(now)} ${days(later)}.`;
    }
    if (before === null && after === null) return "How ETT% changed is not known: no source tells of training.";
    const said = (value, i) => (value === null ? "unknown" : format.bounded(value, open[i], AT_LEAST));
    const moved = !open[0] && !open[1] ? verb(after - before) : certain(before, after, open);
    if (moved) return `ETT% ${moved} ${said(before, 0)} ${days(earlier)} to ${said(after, 1)} ${days(later)}.`;
    return `ETT% was ${said(before, 0)} ${days(earlier)} and then ${said(after, 1)} ${days(later)}: whether it rose or fell is not known, since no source tells of some of this time.`;
  }

  // Which way it went for certain: each ETT% lies between its bound and what is `open` above it.
  function certain(before, after, open) {
    if (before === null || after === null) return null;
    if (after + open[1] < before) return "fell from";
    return before + open[0] < after ? "rose from" : null;
  }

  const verb = (points) => (Math.abs(points) < 0.0005 ? "hardly moved, from" : points < 0 ? "fell from" : "rose from");

  function worstOf(choice) {
    const isShare = choice.page === "owner" || choice.page === "component";
    const rows = ett.rows.overTime(choice).filter((row) => row.held_gpu_ms > 0 && (isShare || row.gpu_ett_ratio !== null));
    if (rows.length < 2) return null;
    const key = (row) => (isShare ? row.lost_share_ratio : -row.gpu_ett_ratio);
    const worst = rows.reduce((a, b) => (key(b) > key(a) ? b : a));
    const words = isShare ? `${format.percent(worst.lost_share_ratio)} of the GPU time held was lost to it` : `ETT% was ${format.bounded(worst.gpu_ett_ratio, worst.untold_gpu_ms, AT_LEAST)}`;
    return { ds: worst.ds, last_ds: worst.last_ds, words };
  }

  return { draw, strip, subject };
})();
