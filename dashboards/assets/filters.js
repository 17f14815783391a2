"use strict";
// The filters of a page: controls that write the address, and show what it says.

ett.filters = (() => {
  const { element, format, address } = ett;
  const byId = (id) => document.getElementById(id);
  const CHOICES = [["cluster", "Cluster", "clusters"], ["team", "Team", "teams"], ["model", "Model", "models"], ["owner", "Owner of the loss", "owners"], ["size", "Size in GPUs", "sizes"]];
  const inputs = {};
  const go = (changed) => { location.hash = address.here(changed); };
  const dims = () => ett.cube.dims();

  function build() {
    const { days } = dims(), form = byId("filter-form");
    for (const [name, label] of [["from", "From"], ["to", "To"]]) {
      inputs[name] = element("input", { type: "date", min: days[0], max: days[days.length - 1], id: `filter-${name}` });
      inputs[name].addEventListener("change", () => go({ [name]: inputs[name].value || undefined }));
      form.append(field(name, label));
    }
    for (const [name, label, list] of CHOICES) {
      inputs[name] = element("select", { id: `filter-${name}` }, element("option", { value: "" }, "all"));
      dims()[list].forEach((value, i) => inputs[name].append(element("option", { value: String(i) }, value === null ? "not said" : format.visible(value))));
      inputs[name].addEventListener("change", () => go({ [name]: inputs[name].value === "" ? undefined : dims()[list][Number(inputs[name].value)] }));
      form.append(field(name, label));
    }
    byId("filter-quick").append(quick("All days", () => [undefined, undefined]), ...[7, 28].filter((n) => n < days.length).map((n) => quick(`Last ${n} days`, () => [days[days.length - n], days[days.length - 1]])), clear());
    for (const group of document.querySelectorAll("[data-by]")) group.append(...["day", "week", "month", "period"].map(step));
    byId("filters").open = matchMedia("(min-width: 701px)").matches;
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  const field = (name, label) => element("label", { class: "field", "data-filter": name, for: `filter-${name}` }, element("span", {}, label), inputs[name]);

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

  // A value of the address that no job here has is shown as such.
  function stranger(name, value) {
    for (const option of inputs[name].querySelectorAll('[value="-1"]')) option.remove();
    if (value !== undefined) inputs[name].append(element("option", { value: "-1" }, `${value === null ? "not said" : format.visible(value)} (none here)`));
  }

  function show(choice) {
    const { filters, page } = choice;
    inputs.from.value = filters.from || "";
    inputs.to.value = filters.to || "";
    for (const [name, , list] of CHOICES) {
      const place = filters[name] === undefined ? "" : String(dims()[list].indexOf(filters[name]));
      stranger(name, place === "-1" ? filters[name] : undefined);
      inputs[name].value = place;
      const isFixed = page === name || (page === "component" && name === "owner");
      inputs[name].closest(".field").hidden = isFixed;
    }
    for (const button of document.querySelectorAll("[data-step]")) button.setAttribute("aria-pressed", String(button.dataset.step === choice.by));
    const told = CHOICES.filter(([name]) => filters[name] !== undefined).map(([name, label]) => `${label.split(" ")[0].toLowerCase()} ${filters[name] === null ? "not said" : format.visible(filters[name])}`);
    const isRange = filters.from || filters.to;
    byId("filter-told").textContent = [isRange ? `${filters.from || "the first day"} to ${filters.to || "the last day"}` : "all days", ...(told.length ? told : ["all jobs"])].join(", ");
    byId("filter-clear").disabled = !isRange && !told.length;
  }

  return { build, show };
})();
