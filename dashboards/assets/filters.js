"use strict";
// The filters of a page: controls that write the address, and show what it says.

ett.filters = (() => {
  const { element, format, address } = ett;
  const byId = (id) => document.getElementById(id);
  const CHOICES = [["cluster", "Cluster", "clusters"], ["team", "Team", "teams"], ["model", "Model", "models"], ["owner", "Owner of the loss", "owners"], ["size", "Size in GPUs", "sizes"]];
  const SEARCHED = 10; // a longer list of choices can be searched
  const inputs = {};
  const go = (changed) => { location.hash = address.here(changed); };
  const dims = () => ett.cube.dims();
  const said = (value) => (value === null ? "not said" : format.visible(value));
  const chosen = (name) => address.current().filters[name] || [];

  function build() {
    const { days } = dims(), form = byId("filter-form");
    for (const [name, label] of [["from", "From"], ["to", "To"]]) {
      inputs[name] = element("input", { type: "date", min: days[0], max: days[days.length - 1], id: `filter-${name}` });
      inputs[name].addEventListener("change", () => go({ [name]: inputs[name].value || undefined }));
      form.append(element("label", { class: "field", "data-filter": name, for: `filter-${name}` }, element("span", {}, label), inputs[name]));
    }
    form.append(...CHOICES.map(([name, label, list]) => element("div", { class: "field", "data-filter": name }, element("span", { "aria-hidden": "true" }, label), several(name, label, dims()[list]))));
    byId("filter-quick").append(quick("All days", () => [undefined, undefined]), ...[7, 28].filter((n) => n < days.length).map((n) => quick(`Last ${n} days`, () => [days[days.length - n], days[days.length - 1]])), clear());
    for (const group of document.querySelectorAll("[data-by]")) group.append(...["day", "week", "month", "period"].map(step));
    byId("filters").open = matchMedia("(min-width: 701px)").matches;
    form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("click", ({ target }) => close((box) => !box.contains(target)));
    addEventListener("keydown", ({ key }) => key === "Escape" && close((box) => { if (box.open) box.querySelector("summary").focus(); return true; }));
  }

  const close = (isMeant) => CHOICES.forEach(([name]) => { if (isMeant(inputs[name].box)) inputs[name].box.open = false; });

  // A list that opens: any number of its values can be ticked, none of them means all.
  function several(name, label, values) {
    const told = element("summary", {}), list = element("div", { class: "choices-list", role: "group", "aria-label": label });
    const box = element("details", { class: "choices", id: `filter-${name}` }, told, element("div", { class: "choices-panel" }, ...(values.length > SEARCHED ? [search(label, list)] : []), list));
    inputs[name] = { box, told, list, label, values };
    list.append(...values.map((value) => option(name, value)));
    box.addEventListener("toggle", () => box.open && CHOICES.forEach(([other]) => { if (other !== name) inputs[other].box.open = false; }));
    return box;
  }

  function option(name, value, note = "") {
    const tick = element("input", { type: "checkbox" });
    tick.addEventListener("change", () => {
      const others = chosen(name).filter((one) => one !== value), now = tick.checked ? [...others, value] : others;
      go({ [name]: now.length ? now : undefined });
    });
    const line = element("label", {}, tick, element("bdi", { class: "text", title: said(value) }, said(value)), note);
    return Object.assign(line, { tick, value });
  }

  function search(label, list) {
    const input = element("input", { type: "search", placeholder: "Search", "aria-label": `Search ${label}` });
    input.addEventListener("input", () => {
      const words = input.value.trim().toLowerCase();
      for (const line of list.children) line.hidden = !line.textContent.toLowerCase().includes(words);
    });
    return input;
  }

  function quick(label, range) {
    const button = element("button", { type: "button" }, label);
    button.addEventListener("click", () => { const [from, to] = range(); go({ from, to }); });
    return button;
  }

  function clear() {
    const button = element("button", { type: "button", id: "filter-clear" }, "Clear filters");
    button.addEventListener("click", () => go(Object.fromEntries(["from", "to", ...CHOICES.map(([name]) => name)].map((name) => [name, undefined]))));
    return button;
  }

  function step(by) {
    const button = element("button", { type: "button", "data-step": by }, by[0].toUpperCase() + by.slice(1));
    button.addEventListener("click", () => go({ by }));
    return button;
  }

  // Ticks what is chosen; a value of the address that no job here has is shown as such.
  function tick(name, now) {
    const { told, list, label, values } = inputs[name];
    for (const line of [...list.children]) {
      line.tick.checked = now.includes(line.value);
      if (!values.includes(line.value)) line.remove();
    }
    for (const value of now.filter((one) => !values.includes(one))) {
      const line = option(name, value, " (none here)");
      line.tick.checked = true;
      list.append(line);
    }
    const words = now.length > 2 ? `${now.length} of ${values.length}` : now.map(said).join(", ");
    told.replaceChildren(element("span", {}, words || "all"));
    told.title = now.map(said).join(", ");
    told.setAttribute("aria-label", `${label}: ${words || "all"}`);
    told.classList.toggle("is-set", now.length > 0);
  }

  function show(choice) {
    const { filters, page } = choice;
    inputs.from.value = filters.from || "";
    inputs.to.value = filters.to || "";
    for (const [name] of CHOICES) {
      tick(name, filters[name] || []);
      const isFixed = page === name || (page === "component" && name === "owner");
      inputs[name].box.closest(".field").hidden = isFixed;
    }
    for (const button of document.querySelectorAll("[data-step]")) button.setAttribute("aria-pressed", String(button.dataset.step === choice.by));
    const told = CHOICES.filter(([name]) => filters[name] !== undefined).map(([name, label]) => `${label.split(" ")[0].toLowerCase()} ${filters[name].map(said).join(" or ")}`);
    const isRange = filters.from || filters.to;
    byId("filter-told").textContent = [isRange ? `${filters.from || "the first day"} to ${filters.to || "the last day"}` : "all days", ...(told.length ? told : ["all jobs"])].join(", ");
    byId("filter-clear").disabled = !isRange && !told.length;
  }

  return { build, show };
})();
