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
    byId("head-days").textContent = last < first ? "no day" : first === last ? days[first] : `${days[first]} to ${days[last]}`;
    byId("head-crumbs").replaceChildren(...crumbs(choice));
    const isShare = choice.page === "owner" || choice.page === "component";
    big(choice, isShare);
    byId("head-lead").replaceChildren(...lead(choice, isShare));
    byId("head-largest").replaceChildren(...largest(choice));
    strip(choice, isShare);
    byId("head-changed").replaceChildren(...changed(choice));
    byId("head-jobs").textContent = format.plural(jobCount(choice), "job");
    byId("head-wall-ett").textContent = format.percent(ett.rows.ratio(choice.totals.effectiveMs, choice.totals.wall));
  }

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

  const amount = (choice, gpu, ms) => (choice.isByGpu ? `${format.gpuHours(gpu)} GPU-hours` : `${format.gpuHours(ms)} hours`);
  const share = (choice, gpu, ms) => ett.rows.ratio(choice.isByGpu ? gpu : ms, choice.isByGpu ? choice.totals.held : choice.totals.wall);

  function big(choice, isShare) {
    const { totals } = choice, held = choice.isByGpu ? "GPU time held" : "wall time";
    byId("head-big").textContent = format.percent(isShare ? share(choice, totals.lost, totals.lostMs) : share(choice, totals.effective, totals.effectiveMs));
    byId("head-label").textContent = isShare ? `of the ${held} was lost to this ${choice.page === "owner" ? "owner's sources" : "source"}` : `ETT%: the share of the ${held} that trained on new data`;
  }

  function lead(choice, isShare) {
    const { totals } = choice;
    if (!totals.wall) return ["No job of this choice has any time in these days. Widen the filters above, or clear them."];
    const worth = cost(totals);
    const lost = strong(amount(choice, totals.lost, totals.lostMs), "loss");
    const intro = ["Jobs held ", strong(amount(choice, totals.held, totals.wall)), ". Of these, "];
    if (isShare) return [...definition(choice), ...intro, lost, ` were lost to ${choice.page === "owner" ? "what it owns" : "it"}`, ...worth, "."];
    const whose = choice.filters.owner === undefined ? [" were lost"] : [" were lost to what ", strong(named(choice.filters.owner)), " owns"];
    return [...intro, strong(amount(choice, totals.effective, totals.effectiveMs)), " trained on new data and ", lost, ...whose, ...worth, "."];
  }

  const definition = (choice) => (choice.page === "component" && component(choice.argument).definition ? [component(choice.argument).definition, " "] : []);

  function cost(totals) {
    if (totals.cost === null) return [];
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
    if (choice.page === "component") return [element("p", { class: "largest-title" }, "Owned by ", owner, ": they can make it smaller.")];
    const name = element("p", { class: "largest-title" }, "The largest loss: ", link("component", first.component, told.label), ", owned by ", owner);
    return [name, element("p", {}, `${amount(choice, first.lost_gpu_ms, first.lost_ms)}, ${format.percent(first.share_ratio)} of everything lost${choice.page === "fleet" ? "" : " here"}. ${told.definition}`)];
  }

  function strip(choice, isShare) {
    const bar = byId("head-strip"), list = byId("head-legend"), { totals } = choice;
    bar.hidden = list.hidden = isShare || !totals.wall;
    if (bar.hidden) return;
    const spent = choice.isByGpu ? totals.stageGpu : totals.stageMs;
    const other = { label: "Losses of other owners", colour: "#8a94a3" };
    const parts = Object.entries({ ...site().stages, ...(spent.other ? { other } : {}) }).map(([key, told]) => ({
      ...told, ratio: share(choice, totals.stageGpu[key], totals.stageMs[key]), words: amount(choice, totals.stageGpu[key], totals.stageMs[key]),
    }));
    bar.setAttribute("aria-label", parts.map((part) => `${part.label} ${format.percent(part.ratio)}`).join(", "));
    bar.replaceChildren(...parts.map((part) => element("span", { style: `width:${100 * part.ratio}%;background:${part.colour}` })));
    list.replaceChildren(...parts.map((part) =>
      element("li", {}, element("span", { class: "swatch", style: `background:${part.colour}` }), " ", part.label, " ", strong(format.percent(part.ratio)), " ", element("span", { class: "muted" }, part.words))));
  }

  const jobCount = (choice) => choice.jobSeen.reduce((sum, seen) => sum + seen, 0);

  // What rose and fell against the days before, and the worst day: where to look next.
  function changed(choice) {
    const out = [], told = choice.change;
    if (!choice.totals.wall) return out;
    if (told) {
      const movers = [...ett.rows.sources(choice)].filter((row) => row.change_ratio > 0.0005).sort((a, b) => b.change_ratio - a.change_ratio).slice(0, 3);
      const list = movers.flatMap((row, i) => [i ? ", " : " Grew most: ", link("component", row.component, component(row.component).label), ` ${format.points(row.change_ratio)}`]);
      out.push(element("p", {}, strong("What changed. "), whole(choice, told), ...(list.length ? [...list, "."] : [" No source grew."])));
    } else out.push(element("p", { class: "muted" }, "No change is shown: there are no earlier days to compare these with."));
    const worst = worstOf(choice);
    if (worst) out.push(element("p", {}, strong(`Worst ${choice.by}: `), element("a", { href: address.here({ from: worst.ds, to: worst.last_ds }) }, worst.ds), `, ${worst.words}.`));
    return out;
  }

  function whole(choice, { earlier, later, ettBefore, ettAfter, of }) {
    const span = `in ${later}, against ${earlier}`;
    if (choice.page === "owner" || choice.page === "component") {
      const lossy = [...choice.select.loss].flatMap((isLoss, c) => (isLoss ? [c] : [])), points = of(lossy);
      return `The loss ${points > 0 ? "grew" : "shrank"} by ${format.points(Math.abs(points)).replace("+", "")} of the GPU time held ${span}.`;
    }
    const points = ettAfter - ettBefore, verb = Math.abs(points) < 0.0005 ? "stayed at" : points < 0 ? "fell to" : "rose to";
    return `ETT% ${verb} ${format.percent(ettAfter)} from ${format.percent(ettBefore)} ${span}.`;
  }

  function worstOf(choice) {
    const rows = ett.rows.overTime(choice).filter((row) => row.held_gpu_ms > 0);
    if (rows.length < 2) return null;
    const isShare = choice.page === "owner" || choice.page === "component";
    const key = (row) => (isShare ? row.lost_share_ratio : -row.gpu_ett_ratio);
    const worst = rows.reduce((a, b) => (key(b) > key(a) ? b : a));
    const words = isShare ? `${format.percent(worst.lost_share_ratio)} of the GPU time held was lost to it` : `ETT% ${format.percent(worst.gpu_ett_ratio)}`;
    return { ds: worst.ds, last_ds: worst.last_ds, words };
  }

  return { draw, subject };
})();
