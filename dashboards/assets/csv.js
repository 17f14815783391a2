"use strict";
// A table as CSV: raw published values, and no cell that a spreadsheet would run as a formula.

ett.csv = (() => {
  // What spreadsheets take for the begin of a formula, also behind blanks and in full width.
  const FORMULA = /^\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/;

  function cell(value) {
    if (value === null || value === undefined) return "";
    if (typeof value !== "string") return String(value);
    const safe = FORMULA.test(value) ? `'${value}` : value;
    return /[",\r\n;\t]/.test(safe) || safe !== safe.trim() ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  const isTime = (field) => field.kind === "at" || field.kind === "exact_at";

  function text(fields, columns, order) {
    const told = (field, row) => {
      const value = columns[field.name][row];
      return isTime(field) && value !== null ? ett.format.iso(value) : value;
    };
    const rows = order.map((row) => fields.map((field) => cell(told(field, row))).join(","));
    return [fields.map((field) => field.name).join(","), ...rows, ""].join("\r\n");
  }

  function download(filename, content) {
    // The mark tells spreadsheets that this is UTF-8.
    const url = URL.createObjectURL(new Blob(["\ufeff", content], { type: "text/csv;charset=utf-8" }));
    const link = ett.element("a", { href: url, download: filename });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  return { cell, text, download };
})();
