"use strict";
// From the sums of a choice to the rows of each table; columns are those of dashboards/listings.py.

ett.rows = (() => {
  const { cube } = ett;
  const FLAGS = ["is_censored", "is_presumed_dead", "is_clock_conflict", "is_position_uncertain"];
  const FLAG_WORDS = ["running", "presumed dead", "clock conflict", "position uncertain"];
  const ratio = (part, whole) => (whole ? part / whole : null);
  // A lower bound where no source tells of some of the whole, null where none tells of any.
  const knownRatio = (part, whole, untold) => (untold < whole ? part / whole : null);
  const stages = () => Object.keys(ett.get("data/site").stages);
  const column = (rows, name) => rows.map((row) => row[name]);
  const columns = (rows, names) => Object.fromEntries(names.map((name) => [name, column(rows, name)]));

  // Everything that a page shows under `filters`; tables are made of it when they are drawn.
  function choose(page, argument, filters) {
    const scope = page === "fleet" ? {} : { [page]: [argument] };
    const select = cube.select({ ...filters, ...scope });
    const choice = { page, argument, filters, select, by: filters.by || fitting(select), ...cube.sums(select) };
    choice.totals = totals(choice, select.first, select.last);
    choice.isByGpu = choice.totals.held > 0;
    choice.ett = ettOf(choice);
    choice.change = change(choice);
    return choice;
  }

  // ETT% of a choice by GPU time, or by wall time without GPUs: the ratio, and what is untold of it.
  function ettOf({ totals, isByGpu }) {
    const untold = isByGpu ? totals.untold : totals.untoldMs, whole = isByGpu ? totals.held : totals.wall;
    const value = knownRatio(isByGpu ? totals.effective : totals.effectiveMs, whole, untold);
    return { value, untold, isBound: untold > 0 && value !== null, isUnknown: untold > 0 && value === null };
  }

  const fitting = ({ first, last }) => (last - first >= 62 ? "week" : "day");

  function totals(choice, first, last) {
    const { codes, prices } = cube.dims(), K = codes.length, order = stages();
    const out = { held: 0, wall: 0, effective: 0, effectiveMs: 0, lost: 0, lostMs: 0, stageGpu: {}, stageMs: {}, untold: 0, untoldMs: 0, cost: 0, priced: 0, isPriced: false };
    for (const stage of [...order, "other"]) out.stageGpu[stage] = out.stageMs[stage] = 0;
    for (let d = first; d <= last; d++) {
      for (let c = 0; c < K; c++) {
        const gpu = choice.dayGpu[d * K + c], ms = choice.dayMs[d * K + c];
        if (!ms && !gpu) continue;
        const isLost = choice.select.loss[c], stage = codes[c][1];
        out.held += gpu; out.wall += ms;
        if (isLost) { out.lost += gpu; out.lostMs += ms; }
        const isEffective = codes[c][0] === cube.EFFECTIVE;
        if (isEffective) { out.effective += gpu; out.effectiveMs += ms; }
        const place = isLost || isEffective ? stage : "other";
        out.stageGpu[place] += gpu; out.stageMs[place] += ms;
      }
      out.untold += choice.dayUntold[d]; out.untoldMs += choice.dayUntoldMs[d];
      out.cost += choice.dayCost[d]; out.priced += choice.dayPriced[d];
      out.isPriced ||= prices[d].some((price) => price !== null);
    }
    return { ...out, cost: out.isPriced && (out.priced || !out.lost) ? out.cost : null };
  }

  // Buckets of days: each day, the weeks from Monday on, months, or all of them as one.
  function buckets({ select: { first, last }, by }) {
    const { days } = cube.dims(), out = [];
    for (let d = first; d <= last; d++) {
      const name = bucketOf(days[d], by), before = out[out.length - 1];
      if (before && before.name === name) before.last = d;
      else out.push({ name, first: d, last: d });
    }
    return out;
  }

  function bucketOf(day, by) {
    if (by === "month") return day.slice(0, 7);
    if (by === "period") return "all";
    if (by !== "week") return day;
    const at = new Date(`${day}T00:00:00Z`);
    at.setUTCDate(at.getUTCDate() - ((at.getUTCDay() + 6) % 7));
    return at.toISOString().slice(0, 10);
  }

  // One row per bucket that has time in it.
  function overTime(choice) {
    if (choice.overTime) return choice.overTime;
    const { days, provisional, stale } = cube.dims();
    const flagged = (list, { first, last }) => list.some((d) => d >= first && d <= last);
    choice.overTime = buckets(choice).map((bucket) => {
      const sum = totals(choice, bucket.first, bucket.last);
      const isOpen = flagged(provisional, bucket);
      return {
        bucket, sum, ds: days[bucket.first], last_ds: days[bucket.last], held_gpu_ms: sum.held, lost_gpu_ms: sum.lost, lost_cost: sum.cost,
        priced_gpu_ms: sum.priced, wall_ms: sum.wall, effective_ms: sum.effectiveMs,
        untold_gpu_ms: sum.untold, untold_ms: sum.untoldMs,
        gpu_ett_ratio: knownRatio(sum.effective, sum.held, sum.untold), ett_ratio: knownRatio(sum.effectiveMs, sum.wall, sum.untoldMs), lost_share_ratio: ratio(sum.lost, sum.held),
        is_provisional: isOpen, note: [...(isOpen ? ["provisional"] : []), ...(flagged(stale, bucket) ? ["stale"] : [])],
        ...Object.fromEntries([...stages(), "other"].map((stage) => [`${stage}_gpu_ms`, sum.stageGpu[stage]])),
      };
    }).filter((row) => row.wall_ms > 0);
    return choice.overTime;
  }

  const days = (choice) => columns(overTime(choice), [
    "ds", "last_ds", "held_gpu_ms", "lost_gpu_ms", "lost_cost", "priced_gpu_ms", "wall_ms", "effective_ms", "gpu_ett_ratio", "ett_ratio",
    "untold_gpu_ms", "untold_ms", "lost_share_ratio", "is_provisional", "note", ...stages().map((stage) => `${stage}_gpu_ms`),
  ]);

  function byCode(choice, table) {
    const K = cube.dims().codes.length, out = new Float64Array(K);
    for (let d = choice.select.first; d <= choice.select.last; d++) for (let c = 0; c < K; c++) out[c] += table[d * K + c];
    return out;
  }

  // The days that the choice is compared with: as many before it; else its own first half.
  function change(choice) {
    const { first, last } = choice.select, count = last - first + 1, { days, codes } = cube.dims();
    if (count < 1) return null;
    const held = (sums) => sums.reduce((a, b) => a + b, 0);
    const effective = ({ spent, untold }) => knownRatio(codes.reduce((sum, [key], c) => sum + (key === cube.EFFECTIVE ? spent[c] : 0), 0), held(spent), untold);
    const made = (one, other, earlier, later) => {
      const before = one.spent, after = other.spent, [heldBefore, heldAfter] = [held(before), held(after)];
      if (!heldBefore || !heldAfter) return null;
      const share = (list, sums, whole) => list.reduce((sum, c) => sum + sums[c], 0) / whole;
      return {
        earlier: earlier.map((d) => days[d]), later: later.map((d) => days[d]), before: effective(one), after: effective(other), open: [one.untold / heldBefore, other.untold / heldAfter],
        of: (list) => [share(list, before, heldBefore), share(list, after, heldAfter)],
      };
    };
    if (first - count >= 0) {
      return made(cube.byCode(choice.select, first - count, first - 1), spentIn(choice, first, last), [first - count, first - 1], [first, last]);
    }
    if (count < 2) return null;
    const half = Math.floor(count / 2);
    return made(spentIn(choice, first, first + half - 1), spentIn(choice, last - half + 1, last), [first, first + half - 1], [last - half + 1, last]);
  }

  // What `cube.byCode` says, of some days of the choice.
  function spentIn(choice, first, last) {
    const spent = byCode({ ...choice, select: { ...choice.select, first, last } }, choice.dayGpu);
    return { spent, untold: choice.dayUntold.slice(first, last + 1).reduce((a, b) => a + b, 0) };
  }

  // One row per key of the lossy codes, largest first, with share and change.
  function lossesBy(choice, keyOf) {
    const { codes } = cube.dims(), gpu = byCode(choice, choice.dayGpu), ms = byCode(choice, choice.dayMs), groups = new Map();
    codes.forEach((code, c) => {
      if (!choice.select.loss[c] || !(gpu[c] || ms[c])) return;
      const key = JSON.stringify(keyOf(code));
      if (!groups.has(key)) groups.set(key, { component: code[0], owner: code[2], list: [], lost_gpu_ms: 0, lost_ms: 0, cost: 0, priced_gpu_ms: 0, hasPrice: 0 });
      const group = groups.get(key);
      group.list.push(c);
      group.lost_gpu_ms += gpu[c]; group.lost_ms += ms[c];
      group.cost += choice.codeCost[c]; group.priced_gpu_ms += choice.codePriced[c]; group.hasPrice |= choice.codeHasPrice[c];
    });
    const measure = choice.isByGpu ? "lost_gpu_ms" : "lost_ms";
    const whole = choice.isByGpu ? choice.totals.lost : choice.totals.lostMs;
    const rows = [...groups.values()].sort((a, b) => b.lost_gpu_ms - a.lost_gpu_ms || b.lost_ms - a.lost_ms || a.component.localeCompare(b.component));
    for (const row of rows) {
      row.share_ratio = ratio(row[measure], whole);
      row.lost_cost = row.hasPrice ? row.cost : null;
      row.change_ratio = choice.change && moved(choice.change.of(row.list));
    }
    return rows;
  }

  const moved = ([before, after]) => after - before;
  const sources = (choice) => (choice.sources ||= lossesBy(choice, ([component, , owner]) => [component, owner]));
  const NAMES = ["component", "owner", "lost_gpu_ms", "lost_ms", "share_ratio", "change_ratio", "lost_cost", "priced_gpu_ms"];
  const ranking = (choice) => columns(sources(choice), NAMES);

  function owners(choice) {
    const first = new Map();
    for (const row of sources(choice)) if (!first.has(row.owner)) first.set(row.owner, row.component);
    const rows = lossesBy(choice, ([, , owner]) => [owner]).map((row) => ({ ...row, component: first.get(row.owner) }));
    return columns(rows, NAMES);
  }

  // One code for each component, to sum the codes of its stages and owners in.
  function firstCodes() {
    const { codes } = cube.dims(), one = new Map(codes.map(([key], c) => [key, c]));
    return codes.map(([key]) => one.get(key));
  }

  // Sums of a job's codes: by stage, lost, and the component that took most. `byModel` has a row of
  // components for each model: all in one walk, since it is the tables' memory that takes the time.
  function perJob(choice) {
    if (choice.perJob) return choice.perJob;
    const { codes, models: known } = cube.dims(), K = codes.length, names = stages(), S = names.length, jobs = cube.jobs();
    const stageOf = codes.map(([, stage]) => names.indexOf(stage));
    const isEffective = codes.map(([key]) => key === cube.EFFECTIVE);
    const list = [], gpu = new Float64Array(jobs.length * S), ms = new Float64Array(jobs.length * S);
    const lost = new Float64Array(jobs.length), lostMs = new Float64Array(jobs.length), most = new Int32Array(jobs.length).fill(-1);
    const isWhole = choice.page === "fleet" || choice.page === "model" ? choice.filters.owner === undefined : false;
    const firstOf = firstCodes();
    const taken = new Float64Array(K), takenMs = new Float64Array(K), byModel = new Float64Array(known.length * K);
    for (let j = 0; j < jobs.length; j++) {
      if (!choice.jobSeen[j]) continue;
      const atModel = jobs.model[j] * K;
      let best = -1;
      taken.fill(0); takenMs.fill(0);
      for (let c = 0, at = j * K; c < K; c++, at++) {
        const g = choice.jobGpu[at], m = choice.jobMs[at];
        if (!m && !g) continue;
        gpu[j * S + stageOf[c]] += g; ms[j * S + stageOf[c]] += m;
        if (isEffective[c] || !choice.select.loss[c]) continue;
        lost[j] += g; lostMs[j] += m;
        const f = firstOf[c];
        taken[f] += g; takenMs[f] += m;
        byModel[atModel + f] += choice.isByGpu ? g : m;
        if (best < 0 || taken[f] > taken[best] || (taken[f] === taken[best] && takenMs[f] > takenMs[best])) best = f;
      }
      most[j] = best;
      if (isWhole || lost[j] || lostMs[j]) list.push(j);
    }
    list.sort((a, b) => lost[b] - lost[a] || lostMs[b] - lostMs[a] || a - b);
    return (choice.perJob = { list, gpu, ms, lost, lostMs, most, byModel, S, names });
  }

  // The jobs with time of which no line says how many GPUs they held, and that time.
  function sizeless(choice) {
    const { max_gpus: gpus, length } = cube.jobs(), K = cube.dims().codes.length, out = { count: 0, ms: 0 };
    for (let j = 0; j < length; j++) {
      if (!choice.jobSeen[j] || gpus[j]) continue;
      let ms = 0;
      for (let c = 0; c < K; c++) ms += choice.jobMs[j * K + c];
      if (ms) { out.count += 1; out.ms += ms; }
    }
    return out;
  }

  // The jobs with time of whose training no source tells.
  function untold(choice) {
    const { is_training_told: isTold, length } = cube.jobs(), K = cube.dims().codes.length;
    let count = 0;
    for (let j = 0; j < length; j++) {
      if (choice.jobSeen[j] && !isTold[j] && choice.jobMs.subarray(j * K, (j + 1) * K).some((ms) => ms > 0)) count += 1;
    }
    return count;
  }

  // How often sources disagreed on jobs of the choice, in its days.
  const disagreements = (choice, { disagreements: table }) => cube.passing(table, choice.select).reduce((sum, i) => sum + table.count[i], 0);

  // The job that lost most to a component and its owner: where to look first.
  function hardest(choice, { list, lost_gpu_ms: all, lost_ms: allMs }) {
    const K = cube.dims().codes.length, spent = choice.isByGpu ? choice.jobGpu : choice.jobMs;
    const lost = (j) => list.reduce((sum, c) => sum + spent[j * K + c], 0);
    let job = -1, most = 0;
    for (let j = 0; j < cube.jobs().length; j++) {
      if (!choice.jobSeen[j]) continue;
      const ms = lost(j);
      if (ms > most) { job = j; most = ms; }
    }
    return job < 0 ? null : { job, ms: most, share: ratio(most, choice.isByGpu ? all : allMs) };
  }

  function jobs(choice) {
    const all = cube.jobs(), { clusters, models, teams, outcomes, codes } = cube.dims();
    const { list, gpu, ms, lost, lostMs, most, S, names } = perJob(choice);
    const nullable = (value) => (Number.isNaN(value) ? null : value);
    const effective = names.indexOf("effective");
    const held = (j) => { let sum = 0; for (let s = 0; s < S; s++) sum += gpu[j * S + s]; return sum; };
    const took = (j) => { let sum = 0; for (let s = 0; s < S; s++) sum += ms[j * S + s]; return sum; };
    const untoldOf = (j) => (all.is_training_told[j] ? 0 : held(j));
    const told = {
      job_id: (j) => all.job_id[j], cluster: (j) => clusters[all.cluster[j]], model: (j) => models[all.model[j]],
      team: (j) => teams[all.team[j]], max_gpus: (j) => all.max_gpus[j], attempt_count: (j) => all.attempt_count[j],
      failure_count: (j) => all.failure_count[j], outcome: (j) => outcomes[all.outcome[j]],
      started_at: (j) => nullable(all.started_at[j]), wall_ms: (j) => all.wall_ms[j],
      flags: (j) => [...FLAG_WORDS.filter((_, bit) => all.flags[j] & (1 << bit)), ...(all.is_training_told[j] ? [] : ["training not told"])],
      is_training_told: (j) => Boolean(all.is_training_told[j]), shown_untold_gpu_ms: untoldOf,
      shown_untold_ms: (j) => (all.is_training_told[j] ? 0 : took(j)),
      ...Object.fromEntries(FLAGS.map((flag, bit) => [flag, (j) => Boolean(all.flags[j] & (1 << bit))])),
      shown_gpu_ett_ratio: (j) => knownRatio(gpu[j * S + effective], held(j), untoldOf(j)), shown_lost_gpu_ms: (j) => lost[j], shown_lost_ms: (j) => lostMs[j],
      shown_lost_cost: (j) => (choice.jobHasPrice[j] ? choice.jobCost[j] : null),
      shown_largest_loss: (j) => (most[j] < 0 ? null : codes[most[j]][0]),
      ...Object.fromEntries(names.flatMap((name, s) => [[`shown_${name}_gpu_ms`, (j) => gpu[j * S + s]], [`shown_${name}_ms`, (j) => ms[j * S + s]]])),
    };
    return lazily(list, told);
  }

  // Columns of the rows of `list`, each made when it is asked for: most are wanted by a CSV or a sort alone.
  function lazily(list, told) {
    const columns = {};
    for (const [name, make] of Object.entries(told)) {
      const get = () => {
        const value = list.map(make);
        Object.defineProperty(columns, name, { value });
        return value;
      };
      Object.defineProperty(columns, name, { get, enumerable: true, configurable: true });
    }
    return columns;
  }

  function models(choice) {
    const told = cube.jobs(), { models: known, codes } = cube.dims(), K = codes.length;
    const { list, gpu, ms, lost, lostMs, byModel, S, names } = perJob(choice), groups = new Map();
    for (const j of list) {
      const m = told.model[j];
      if (!groups.has(m)) groups.set(m, { model: known[m], job_count: 0, lost: 0, lostMs: 0, untold: 0, untoldMs: 0, cost: 0, hasPrice: 0, gpu: new Float64Array(S), ms: new Float64Array(S), taken: byModel.subarray(m * K, (m + 1) * K) });
      const group = groups.get(m);
      group.job_count += 1; group.lost += lost[j]; group.lostMs += lostMs[j]; group.cost += choice.jobCost[j]; group.hasPrice |= choice.jobHasPrice[j];
      if (!told.is_training_told[j]) for (let s = 0; s < S; s++) { group.untold += gpu[j * S + s]; group.untoldMs += ms[j * S + s]; }
      for (let s = 0; s < S; s++) { group.gpu[s] += gpu[j * S + s]; group.ms[s] += ms[j * S + s]; }
    }
    const rows = [...groups.values()].sort((a, b) => b.lost - a.lost || b.lostMs - a.lostMs);
    const effective = names.indexOf("effective");
    return {
      model: column(rows, "model"), job_count: column(rows, "job_count"), shown_lost_gpu_ms: column(rows, "lost"), shown_lost_ms: column(rows, "lostMs"),
      shown_lost_cost: rows.map((row) => (row.hasPrice ? row.cost : null)),
      shown_gpu_ett_ratio: rows.map((row) => knownRatio(row.gpu[effective], row.gpu.reduce((a, b) => a + b, 0), row.untold)),
      shown_untold_gpu_ms: column(rows, "untold"), shown_untold_ms: column(rows, "untoldMs"),
      shown_largest_loss: rows.map(({ taken }) => { const most = taken.indexOf(Math.max(...taken)); return taken[most] > 0 ? codes[most][0] : null; }),
      ...Object.fromEntries(names.flatMap((name, s) => [[`shown_${name}_gpu_ms`, rows.map((row) => row.gpu[s])], [`shown_${name}_ms`, rows.map((row) => row.ms[s])]])),
    };
  }

  function recoveries(choice, { recoveries: table }) {
    if (choice.recoveries) return choice.recoveries;
    const { causes, ttr_edges: edges } = cube.dims(), rows = cube.passing(table, choice.select), counts = new Array(edges.length + 1).fill(0), groups = new Map();
    for (const i of rows) {
      const ms = table.ttr_ms[i], place = edges.findIndex((edge) => ms < edge), cause = causes[table.cause[i]];
      counts[place < 0 ? edges.length : place] += 1;
      if (!groups.has(cause)) groups.set(cause, []);
      groups.get(cause).push(ms);
    }
    const told = [...groups].map(([cause, list]) => ({ cause, list: list.sort((a, b) => a - b), ttr_ms: list.reduce((a, b) => a + b, 0) }));
    told.sort((a, b) => b.ttr_ms - a.ttr_ms);
    return (choice.recoveries = { counts, count: rows.length, told, all: told.flatMap(({ list }) => list).sort((a, b) => a - b) });
  }

  function ttr(choice, events) {
    const { counts, count } = recoveries(choice, events);
    if (!count) return { length: [], recovery_count: [], share_ratio: [] };
    return { length: cube.dims().ttr_bins, recovery_count: counts, share_ratio: counts.map((n) => ratio(n, count)) };
  }

  function ttrCauses(choice, events) {
    const { told } = recoveries(choice, events);
    return {
      cause: column(told, "cause"), recovery_count: told.map(({ list }) => list.length), ttr_ms: column(told, "ttr_ms"),
      p50_ms: told.map(({ list }) => cube.quantile(list, 0.5)), p95_ms: told.map(({ list }) => cube.quantile(list, 0.95)),
    };
  }

  function causes(choice, { interruptions, losses }) {
    if (choice.causes) return choice.causes;
    const names = cube.dims().causes;
    const rows = names.map((cause) => ({ cause, interruption_count: 0, failure_count: 0, struck: new Set(), lost_gpu_ms: 0, lost_ms: 0 }));
    for (const i of cube.passing(interruptions, choice.select)) {
      const row = rows[interruptions.cause[i]];
      row.interruption_count += 1; row.failure_count += interruptions.is_infrastructure[i]; row.struck.add(interruptions.job[i]);
    }
    for (const i of cube.passing(losses, choice.select)) {
      const row = rows[losses.cause[i]];
      row.lost_gpu_ms += losses.gpu_ms[i]; row.lost_ms += losses.ms[i];
    }
    const told = rows.filter((row) => row.interruption_count || row.lost_ms).sort((a, b) => b.interruption_count - a.interruption_count || (a.cause < b.cause ? -1 : 1));
    for (const row of told) row.job_count = row.struck.size;
    return (choice.causes = columns(told, ["cause", "interruption_count", "failure_count", "job_count", "lost_gpu_ms", "lost_ms"]));
  }

  // A component's time per attempt, by model and size; the groups with most of it first.
  function spread(choice, table) {
    const told = cube.jobs(), { models: known, sizes } = cube.dims(), groups = new Map();
    for (const i of table ? cube.passing(table, choice.select) : []) {
      const j = table.job[i], key = told.model[j] * 16 + told.size[j];
      if (!groups.has(key)) groups.set(key, { model: known[told.model[j]], size: sizes[told.size[j]], list: [] });
      groups.get(key).list.push(table.ms[i]);
    }
    const rows = [...groups.values()];
    for (const row of rows) Object.assign(row, quantiles(row.list));
    rows.sort((a, b) => b.duration_ms - a.duration_ms);
    return columns(rows, ["model", "size", "attempt_count", "p50_ms", "p95_ms", "max_ms", "duration_ms"]);
  }

  function quantiles(list) {
    const sorted = Float64Array.from(list).sort();
    return {
      attempt_count: sorted.length, p50_ms: cube.quantile(sorted, 0.5), p95_ms: cube.quantile(sorted, 0.95),
      max_ms: sorted.length ? sorted[sorted.length - 1] : null, duration_ms: sorted.reduce((a, b) => a + b, 0),
    };
  }

  const everyAttempt = (choice, table) => quantiles(table ? cube.passing(table, choice.select).map((i) => table.ms[i]) : []);

  return { choose, ratio, knownRatio, overTime, days, sources, ranking, owners, perJob, sizeless, untold, disagreements, hardest, jobs, models, recoveries, ttr, ttrCauses, causes, spread, everyAttempt };
})();
