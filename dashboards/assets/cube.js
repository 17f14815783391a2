"use strict";
// Sums of the published rows under a filter. Only sums are made here, and ratios of them later.

ett.cube = (() => {
  const EFFECTIVE = "effective_training";
  const HOUR = 3600000;
  const dims = () => ett.get("data/site").dims;
  let jobs = null, events = null, opening = null, openingJobs = null;
  const pieces = [];

  // The jobs alone: enough for filters and for the page of one job.
  function openJobs() {
    openingJobs ||= ett.load("data/jobs").then(async (told) => {
      jobs = { ...(await ett.unpack(told.packed)), job_id: told.job_id, length: told.job_id.length };
    });
    return openingJobs;
  }

  function open() {
    opening ||= (async () => {
      const names = Array.from({ length: dims().piece_count }, (_, i) => `cube/${i}`);
      const [, ...rows] = await Promise.all([openJobs(), ...names.map(numbers)]);
      pieces.push(...rows);
    })();
    return opening;
  }

  async function numbers(name) {
    const columns = await ett.unpack(await ett.load(name));
    ett.data.delete(name); // the packed text is not needed again
    return spread(columns);
  }

  // GPU time is packed as GPUs held, inferred time as yes or no, save in the rows that say more.
  function spread({ ms, gpus, is_inferred, mixed_row, mixed_gpu_ms, part_row, part_inferred_ms, ...rest }) {
    const gpu_ms = new Float64Array(ms.length), inferred_ms = new Uint32Array(ms.length);
    for (let row = 0; row < ms.length; row++) {
      gpu_ms[row] = ms[row] * gpus[row];
      inferred_ms[row] = ms[row] * is_inferred[row];
    }
    mixed_row.forEach((row, i) => { gpu_ms[row] = mixed_gpu_ms[i]; });
    part_row.forEach((row, i) => { inferred_ms[row] = part_inferred_ms[i]; });
    return { ...rest, ms, gpu_ms, inferred_ms };
  }

  function openEvents() {
    events ||= ett.load("data/events").then(async (told) => {
      const names = Object.keys(told), tables = await Promise.all(Object.values(told).map(ett.unpack));
      return Object.fromEntries(names.map((name, i) => [name, tables[i]]));
    });
    return events;
  }

  // What a filter lets through: days by number, jobs and codes as 0 or 1. A filter is a list of
  // values, any of which will do.
  function select(filters) {
    const { days, clusters, teams, models, sizes, codes } = dims();
    const [first, last] = range(filters, days);
    const wanted = [
      [jobs.cluster, clusters, filters.cluster], [jobs.team, teams, filters.team],
      [jobs.model, models, filters.model], [jobs.size, sizes, filters.size],
    ].filter(([, , values]) => values !== undefined).map(([column, names, values]) => [column, names.map((name) => values.includes(name))]);
    const pass = new Uint8Array(jobs.length).fill(1);
    for (const [column, isWanted] of wanted) for (let i = 0; i < pass.length; i++) if (!isWanted[column[i]]) pass[i] = 0;
    const isLoss = ([component, , owner]) =>
      component !== EFFECTIVE &&
      (filters.owner === undefined || filters.owner.includes(owner)) &&
      (filters.component === undefined || filters.component.includes(component));
    return { first, last, pass, loss: Uint8Array.from(codes, (code) => (isLoss(code) ? 1 : 0)) };
  }

  function range({ from, to }, days) {
    const first = from ? days.findIndex((day) => day >= from) : 0;
    const after = to ? days.findIndex((day) => day > to) : -1;
    return [first < 0 ? days.length : first, after < 0 ? days.length - 1 : after - 1];
  }

  // The two largest tables are kept from choice to choice: making them anew costs more than the sums.
  let kept = null;
  function perJobTables(length) {
    kept ||= { jobGpu: new Float64Array(length), jobMs: new Float64Array(length) };
    kept.jobGpu.fill(0);
    kept.jobMs.fill(0);
    return kept;
  }

  // What it returns holds until the next call.
  function sums({ first, last, pass, loss }) {
    const { days, codes, prices } = dims(), K = codes.length, N = jobs.length, D = days.length;
    const sum = (length) => new Float64Array(length);
    const out = {
      dayGpu: sum(D * K), dayMs: sum(D * K), dayUntold: sum(D), dayUntoldMs: sum(D), dayCost: sum(D), dayPriced: sum(D),
      ...perJobTables(N * K), jobCost: sum(N), jobPriced: sum(N), jobSeen: new Uint8Array(N),
      codeCost: sum(K), codePriced: sum(K), codeInferred: sum(K), codeHasPrice: new Uint8Array(K), jobHasPrice: new Uint8Array(N),
    };
    for (const { day, job, count, code, ms, gpu_ms, inferred_ms } of pieces) {
      let row = 0;
      for (let g = 0; g < job.length; g++) {
        const j = job[g], d = day[g], end = row + count[g];
        if (d < first || d > last || !pass[j]) { row = end; continue; }
        const price = prices[d][jobs.cluster[j]], atDay = d * K, atJob = j * K;
        const isUntold = !jobs.is_training_told[j];
        let lost = 0;
        out.jobSeen[j] = 1;
        for (; row < end; row++) {
          const c = code[row], gpu = gpu_ms[row];
          out.dayGpu[atDay + c] += gpu; out.dayMs[atDay + c] += ms[row];
          out.jobGpu[atJob + c] += gpu; out.jobMs[atJob + c] += ms[row];
          out.codeInferred[c] += inferred_ms[row];
          if (isUntold) { out.dayUntold[d] += gpu; out.dayUntoldMs[d] += ms[row]; }
          if (!loss[c]) continue;
          lost += gpu;
          if (price !== null) { out.codeCost[c] += (gpu / HOUR) * price; out.codePriced[c] += gpu; out.codeHasPrice[c] = 1; }
        }
        if (price !== null) {
          const cost = (lost / HOUR) * price;
          out.dayCost[d] += cost; out.dayPriced[d] += lost; out.jobCost[j] += cost; out.jobPriced[j] += lost; out.jobHasPrice[j] = 1;
        }
      }
    }
    return out;
  }

  // GPU time by code alone, of any days, and how much of it no source tells of: for comparisons.
  function byCode({ pass }, first, last) {
    const out = new Float64Array(dims().codes.length);
    let untold = 0;
    for (const { day, job, count, code, gpu_ms } of pieces) {
      let row = 0;
      for (let g = 0; g < job.length; g++) {
        const end = row + count[g];
        if (day[g] < first || day[g] > last || !pass[job[g]]) { row = end; continue; }
        const isUntold = !jobs.is_training_told[job[g]];
        for (; row < end; row++) {
          out[code[row]] += gpu_ms[row];
          if (isUntold) untold += gpu_ms[row];
        }
      }
    }
    return { spent: out, untold };
  }

  // The rows of an event table that a filter lets through.
  function passing(table, { first, last, pass }) {
    const rows = [];
    for (let i = 0; i < table.job.length; i++) if (table.day[i] >= first && table.day[i] <= last && pass[table.job[i]]) rows.push(i);
    return rows;
  }

  // A quantile of published numbers, between neighbours where it falls between them.
  function quantile(sorted, share) {
    if (!sorted.length) return null;
    const at = (sorted.length - 1) * share, low = Math.floor(at), high = Math.ceil(at);
    return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
  }

  const attempts = async (component) => {
    const place = dims().attempt_components.indexOf(component);
    return place < 0 ? null : ett.unpack(await ett.load(`attempts/${place}`));
  };

  return { open, openJobs, openEvents, select, sums, byCode, passing, quantile, attempts, jobs: () => jobs, dims, EFFECTIVE };
})();
