"use strict";
// Numbers as words, the same words as dashboards/format.py: one test holds both to one list.

ett.format = (() => {
  const UNKNOWN = "—";
  const HOUR = 3600000;
  const isUnknown = (value) => value === null || value === undefined;

  const fixed = (value, digits) =>
    value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

  function gpuHours(gpuMs) {
    if (isUnknown(gpuMs)) return UNKNOWN;
    const hours = gpuMs / HOUR;
    if (hours === 0) return "0";
    if (Math.abs(hours) < 0.005) return "<0.01";
    const size = Math.abs(hours);
    return fixed(hours, size >= 99.95 ? 0 : size >= 0.995 ? 1 : 2);
  }

  function percent(ratio) {
    if (isUnknown(ratio)) return UNKNOWN;
    if (ratio === 0 || ratio === 1) return `${100 * ratio}%`;
    if (ratio > 0 && ratio < 0.0005) return "<0.1%";
    if (ratio >= 0.9995 && ratio < 1) return ">99.9%";
    return `${(100 * ratio).toFixed(1)}%`;
  }

  // A change of a share, in points: +1.2 pt.
  function points(change) {
    if (isUnknown(change)) return UNKNOWN;
    const size = Math.abs(100 * change);
    if (size < 0.05) return "0 pt";
    return `${change > 0 ? "+" : "−"}${size.toFixed(1)} pt`;
  }

  function duration(ms) {
    if (isUnknown(ms)) return UNKNOWN;
    if (ms < 0) return `-${duration(-ms)}`;
    if (ms < 1000) return `${ms.toFixed(0)} ms`;
    if (ms < 59950) return `${(ms / 1000).toFixed(1)} s`;
    const pair = (value, size) => [Math.floor(Math.floor(value + 0.5) / size), Math.floor(value + 0.5) % size];
    const two = (number) => String(number).padStart(2, "0");
    const [minutes, seconds] = pair(ms / 1000, 60);
    if (minutes < 60) return `${minutes} m ${two(seconds)} s`;
    const [hours, rest] = pair(ms / 60000, 60);
    if (hours < 24) return `${hours} h ${two(rest)} m`;
    const [days, left] = pair(ms / HOUR, 24);
    return `${fixed(days, 0)} d ${two(left)} h`;
  }

  // To the millisecond: 2:05:01.250 or 61.250 s.
  function exactDuration(ms) {
    if (isUnknown(ms)) return UNKNOWN;
    if (ms < 60000) return `${(ms / 1000).toFixed(3)} s`;
    const two = (number) => String(number).padStart(2, "0");
    const seconds = (ms % 60000) / 1000;
    const minutes = Math.floor(ms / 60000);
    const tail = `${two(minutes % 60)}:${seconds < 10 ? "0" : ""}${seconds.toFixed(3)}`;
    return `${Math.floor(minutes / 60)}:${tail}`;
  }

  function amount(value) {
    if (isUnknown(value)) return UNKNOWN;
    return fixed(value, Math.abs(value) >= 99.995 ? 0 : 2);
  }

  const count = (number) => (isUnknown(number) ? UNKNOWN : fixed(number, 0));
  const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

  // Times are epoch milliseconds in the data, and always shown in UTC.
  const iso = (ms) => new Date(ms).toISOString();
  const instant = (ms) => (isUnknown(ms) ? UNKNOWN : iso(ms).slice(0, 16).replace("T", " "));
  const exactInstant = (ms) => (isUnknown(ms) ? UNKNOWN : iso(ms).slice(0, 23).replace("T", " "));
  const word = (text) => (isUnknown(text) ? UNKNOWN : visible(text).replaceAll("_", " "));

  // Characters that cannot be seen, or that turn the text around, as escapes.
  function visible(text) {
    return String(text).replace(
      /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
      (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
  }

  return {
    UNKNOWN, gpuHours, percent, points, duration, exactDuration, amount, count, plural, iso, instant,
    exactInstant, word, visible, isUnknown,
  };
})();
