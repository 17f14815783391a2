"use strict";
// The part of the address behind `#`: which page is shown, of what, and under which filters.
//
//   #days                        a section of the fleet page
//   #owner=checkpointing         a page: owner, component, model, or job (cluster/job_id)
//   #fleet&from=2026-11-03&team=ads,search   filters follow; every link of a page carries them
//   #jobs&find=words             what is searched in a table

ett.address = (() => {
  const PAGES = ["owner", "component", "model", "job"];
  const FILTERS = ["from", "to", "cluster", "team", "model", "owner", "size", "by"];
  const LISTS = ["cluster", "team", "model", "owner", "size"]; // any of several values; a comma inside one is %2C
  const NOTHING = "-"; // a null, such as the team of a job whose lines name none; a real "-" is %2D

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text; // a lone % written by hand
    }
  }

  const read = (text) => (text === NOTHING ? null : decoded(text));
  const written = (value) => (value === null ? NOTHING : value === NOTHING ? "%2D" : encodeURIComponent(value));

  function pair(text) {
    const at = text.indexOf("=");
    return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
  }

  function parse(hash) {
    const [head, ...settings] = hash.replace(/^#/, "").split("&");
    const [page, argument] = pair(head);
    const told = { page: "fleet", argument: null, section: "", find: undefined, filters: {} };
    if (PAGES.includes(page) && argument !== undefined) Object.assign(told, { page, argument: argumentOf(page, argument) });
    else told.section = page === "fleet" ? "" : page;
    for (const [name, value] of settings.map(pair)) {
      if (value === undefined) continue;
      if (name === "find") told.find = decoded(value);
      if (name === "section") told.section = decoded(value);
      if (FILTERS.includes(name)) told.filters[name] = LISTS.includes(name) ? value.split(",").map(read) : read(value);
    }
    return told;
  }

  function argumentOf(page, text) {
    if (page !== "job") return read(text);
    const [cluster, ...rest] = text.split("/");
    return [decoded(cluster), decoded(rest.join("/"))];
  }

  function link(page, argument, filters = {}) {
    const head = argument === undefined ? page : `${page}=${page === "job" ? argument.map(encodeURIComponent).join("/") : written(argument)}`;
    const settings = FILTERS.filter((name) => filters[name] !== undefined).map((name) => `&${name}=${[filters[name]].flat().map(written).join(",")}`);
    return `#${head}${settings.join("")}`;
  }

  let now = parse("");
  const enter = (hash) => (now = parse(hash));

  return {
    parse, enter, link,
    current: () => now,
    // A link to another page under the filters of this one; `changed` overrides some of them.
    to: (page, argument, changed = {}) => link(page, argument, { ...now.filters, ...changed }),
    // The same page under other filters.
    here: (changed) => link(now.page, now.page === "fleet" ? undefined : now.argument, { ...now.filters, ...changed }),
  };
})();
