"use strict";
// Numbers as words, the same words as dashboards/format.py: one test holds both to one list.

ett.format = (() => {
  const UNKNOWN = "—";
  const HOUR = 3600000;
  const isUnknown = (value) => value === null || value === undefined;

  // A formatter takes far longer to make than to use.
  const formatters = Array.from({ length: 4 }, (_, digits) => new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  const fixed = (value, digits) => formatters[digits].format(value);

  function gpuHours(gpuMs) {
    if (isUnknown(gpuMs)) return UNKNOWN;
    const hours = gpuMs / HOUR;
    if (hours === 0) return "0";
    if (Math.abs(hours) < 0.005) return "<0.01";
    return fixed(hours, hourDigits(hours));
  }

  const hourDigits = (hours) => (Math.abs(hours) >= 99.95 ? 0 : Math.abs(hours) >= 0.995 ? 1 : 2);
  const sum = (list) => list.reduce((a, b) => a + b, 0);

  // Each part in whole units, so that together they are `whole` of them (largest remainders).
  function shared(parts, whole) {
    const units = parts.map(Math.floor), left = whole - sum(units);
    const byRest = parts.map((part, i) => [units[i] - part, i]).sort(([a, i], [b, j]) => a - b || i - j);
    for (const [, i] of byRest.slice(0, left)) units[i] += 1;
    return units;
  }

  // Hours that are read together: effective and lost are what was held, and the losses are what
  // was lost, to the last digit shown.
  function balance(effective, losses) {
    const lost = sum(losses), held = effective + lost, digits = hourDigits(held / HOUR), unit = HOUR / 10 ** digits;
    const say = (units, ms) => (ms === 0 ? "0" : `${units ? "" : "<"}${fixed((units || 1) / 10 ** digits, digits)}`);
    const heldUnits = Math.floor(held / unit + 0.5), lostUnits = Math.floor(lost / unit + 0.5);
    const parts = shared(losses.map((ms) => ms / unit), lostUnits);
    return { held: say(heldUnits, held), effective: say(heldUnits - lostUnits, effective), lost: say(lostUnits, lost), losses: parts.map((units, i) => say(units, losses[i])) };
  }

  // The same of shares: the losses are what the effective share, as `percent` shows it, leaves of 100%.
  function lossShares(effective, losses) {
    const held = effective + sum(losses);
    if (!held) return losses.map(() => UNKNOWN);
    const parts = shared(losses.map((ms) => (1000 * ms) / held), 1000 - Math.floor((1000 * effective) / held + 0.5));
    return parts.map((units, i) => (losses[i] === 0 ? "0%" : units ? percent(units / 1000) : "<0.1%"));
  }

  function percent(ratio) {
    if (isUnknown(ratio)) return UNKNOWN;
    if (ratio === 0 || ratio === 1) return `${100 * ratio}%`;
    if (ratio > 0 && ratio < 0.0005) return "<0.1%";
    if (ratio >= 0.9995 && ratio < 1) return ">99.9%";
    return `${(100 * ratio).toFixed(1)}%`;
  }

  // A share that is a lower bound where some of the whole is `untold`, and says so.
  function bounded(ratio, untold, sign = "≥ ") {
    if (isUnknown(ratio) || !untold) return percent(ratio);
    return sign + percent(ratio).replace("<0.1", "0").replace(/^>/, "");
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

  // To the millisecond: 2:05:01.250.
  function exactDuration(ms) {
    if (isUnknown(ms)) return UNKNOWN;
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
    UNKNOWN, gpuHours, balance, lossShares, percent, bounded, points, duration, exactDuration, amount, count, plural, iso, instant,
    exactInstant, word, visible, isUnknown,
  };
})();
