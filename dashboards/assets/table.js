"use strict";
// One table: sorting, search, rows in portions, CSV. Everything shown is text, never markup.

ett.table = (() => {
  const { element, format, cells, csv } = ett;

  // `before` is the same table under another filter: its order and its search stay.
  function draw(host, id, columns, filename = id, before = null) {
    const listing = ett.get("data/site").listings[id];
    const shown = fitting(listing.fields, columns).filter((field) => field.rank > 0 && !isUnpriced(field, columns));
    const length = columns[listing.fields.find((field) => columns[field.name]).name].length;
    const state = { host, listing, shown, columns, filename, length, sort: before && before.sort, find: (before && before.find) || "", limit: listing.page };
    host.replaceChildren();
    if (!length) {
      host.append(element("p", { class: "empty" }, listing.empty));
      return state;
    }
    state.body = element("tbody");
    state.more = element("p", { class: "more" });
    state.told = element("span", { class: "muted small", role: "status" });
    host.append(tools(state), scrolled(state), state.more);
    refresh(state);
    return state;
  }

  // Where no GPU was counted at all, a loss is told in wall time instead, and has no price.
  const isOfGpus = ({ kind }) => kind === "gpu_ms" || kind === "money";
  function fitting(fields, columns) {
    const counted = fields.filter(({ rank, kind, name }) => rank > 0 && kind === "gpu_ms" && columns[name]);
    if (!counted.length || !fields.some(isLostTime) || !counted.every(({ name }) => columns[name].every((ms) => ms === 0))) return fields;
    return fields.filter((field) => !isOfGpus(field) || !field.rank).map((field) => (isLostTime(field) ? { ...field, rank: 1 } : field));
  }
  const isLostTime = ({ name }) => name === "lost_ms" || name === "shown_lost_ms";

  // Without a single price a column of costs says nothing.
  const isUnpriced = (field, columns) => field.kind === "money" && (columns[field.name] || []).every(format.isUnknown);

  function tools(state) {
    const bar = element("div", { class: "tools" });
    if (state.listing.is_searchable) {
      state.input = element("input", { type: "search", placeholder: "Search", "aria-label": `Search ${state.listing.label}` });
      state.input.value = state.find;
      state.input.addEventListener("input", () => find(state, state.input.value));
      bar.append(state.input);
    }
    const button = element("button", { type: "button" }, "Download CSV");
    button.setAttribute("aria-label", `Download CSV: ${state.listing.label}`);
    button.addEventListener("click", () => csv.download(`${state.filename}.csv`, asCsv(state)));
    bar.append(state.told, button);
    return bar;
  }

  function scrolled(state) {
    const head = element("tr", {}, ...state.shown.map((field) => heading(state, field)));
    state.head = head;
    const table = element(
      "table", {}, element("caption", { class: "hidden" }, state.listing.label), element("thead", {}, head), state.body,
    );
    return element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": `${state.listing.label}, table` }, table);
  }

  const columnClass = (field) => `${cells.isNumber(field) ? "right " : ""}rank-${field.rank} kind-${field.kind}`;

  function heading(state, field) {
    const cell = element("th", { scope: "col", class: columnClass(field) });
    if (!state.columns[field.name] || field.kind === "flags") {
      cell.append(element("span", { title: field.hint }, cells.label(field)));
      return cell;
    }
    const button = element("button", { type: "button", class: "sort", title: field.hint || `Sort by ${field.label}` }, cells.label(field));
    button.addEventListener("click", () => sort(state, field));
    cell.append(button);
    return cell;
  }

  function sort(state, field) {
    const first = cells.isNumber(field) ? -1 : 1;
    const isSame = state.sort && state.sort.field === field;
    state.sort = { field, direction: isSame ? -state.sort.direction : first };
    refresh(state);
  }

  function find(state, words) {
    if (!state.body) return;
    state.find = words.trim().toLowerCase();
    if (state.input && state.input.value !== words) state.input.value = words;
    state.limit = state.listing.page;
    refresh(state);
  }

  function haystacks(state) {
    state.said ||= Array.from({ length: state.length }, (_, row) =>
      state.shown.map((field) => cells.say(field, row, state.columns)).join("\n").toLowerCase());
    return state.said;
  }

  function order(state) {
    let rows = Array.from({ length: state.length }, (_, row) => row);
    if (state.find) rows = rows.filter((row) => haystacks(state)[row].includes(state.find));
    if (state.sort) {
      const values = state.columns[state.sort.field.name], direction = state.sort.direction;
      const isNull = (row) => format.isUnknown(values[row]);
      rows.sort((a, b) => isNull(a) - isNull(b) || direction * cells.compare(values[a], values[b]) || a - b);
    }
    return rows;
  }

  function refresh(state) {
    const rows = order(state);
    state.body.replaceChildren(...rows.slice(0, state.limit).map((row) => tableRow(state, row)));
    [...state.head.children].forEach((cell, i) => {
      const isSorted = state.sort && state.sort.field === state.shown[i];
      if (isSorted) cell.setAttribute("aria-sort", state.sort.direction > 0 ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    });
    state.told.textContent = state.find
      ? `${format.count(rows.length)} of ${format.plural(state.length, "row")}`
      : format.plural(state.length, "row");
    more(state, rows.length);
  }

  function tableRow(state, row) {
    return element("tr", {}, ...state.shown.map((field, i) => {
      const cell = cells.show(field, row, state.columns);
      const attributes = { class: columnClass(field), ...(i === 0 ? { scope: "row" } : {}) };
      return element(i === 0 ? "th" : "td", attributes, cell);
    }));
  }

  function more(state, total) {
    const left = total - state.limit;
    state.more.replaceChildren();
    if (total === 0) {
      state.more.append(`Nothing matches "${format.visible(state.find)}": shorten the search, or empty it to see all rows.`);
      return;
    }
    if (left <= 0) return;
    const offer = left > 100 ? `Show 100 more of ${format.count(left)}` : `Show the other ${left}`;
    const button = element("button", { type: "button" }, offer);
    button.addEventListener("click", () => {
      const seen = state.limit;
      state.limit += 100;
      refresh(state);
      const next = state.body.children[seen];
      if (next) (next.querySelector("a") || state.more.querySelector("button") || state.host).focus();
    });
    state.more.append(button);
  }

  function asCsv(state) {
    const isDrawn = (field) => !state.columns[field.name] || field.kind === "flags";
    return csv.text(state.listing.fields.filter((field) => !isDrawn(field)), state.columns, order(state));
  }

  return { draw, find, asCsv };
})();
