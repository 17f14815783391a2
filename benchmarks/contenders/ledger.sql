-- The ledger by hand, for DuckDB: milliseconds of each component of each job of a synthetic fleet
-- (benchmarks/fleets.py says what it holds; docs/benchmarks.md what is left out). $events: the files.

CREATE TEMP TABLE other AS
SELECT job_id, attempt, event, epoch_ms(event_at) AS t, phase, is_blocking, is_held, outcome
FROM read_parquet($events)
WHERE event IN ('attempt_started', 'attempt_ended', 'phase_begin', 'phase_end');

-- One integer orders attempts within their job and jobs among themselves.
CREATE TEMP TABLE attempts AS
WITH bounds AS (
    SELECT job_id, attempt,
        min(t) FILTER (WHERE event = 'attempt_started') AS t_begin,
        max(t) FILTER (WHERE event = 'attempt_ended') AS t_end,
        bool_or(is_held) AS is_held,
        max(outcome) FILTER (WHERE event = 'attempt_ended') AS outcome
    FROM other GROUP BY job_id, attempt
)
SELECT *, row_number() OVER (ORDER BY job_id, t_begin) AS att,
    lead(t_begin) OVER course AS next_begin, lead(is_held) OVER course AS next_held
FROM bounds WINDOW course AS (PARTITION BY job_id ORDER BY t_begin);

CREATE TEMP TABLE jobs AS
SELECT job_id, min(att) AS job FROM attempts GROUP BY job_id;

-- Phases: an end closes the begin before it.
CREATE TEMP TABLE spans AS
WITH edges AS (
    SELECT a.att, o.phase, o.t AS t_begin, o.event = 'phase_begin' AS is_begin,
        lead(o.t) OVER (PARTITION BY a.att, o.phase ORDER BY o.t, is_begin) AS t_end
    FROM other o JOIN attempts a USING (job_id, attempt)
    WHERE o.phase IS NOT NULL
)
SELECT att, phase, t_begin, t_end FROM edges WHERE is_begin AND t_begin < t_end;

-- Who has an instant of several phases: the one that began last, of equal begins the one that ends
-- first. Searched within islands of overlap; a lone phase has its time.
CREATE TEMP TABLE covers AS
WITH apart AS (
    SELECT *, t_begin >= coalesce(max(t_end) OVER (PARTITION BY att ORDER BY t_begin, t_end
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS is_apart
    FROM spans
), islands AS (
    SELECT *, count(*) FILTER (WHERE is_apart) OVER (PARTITION BY att ORDER BY t_begin, t_end
        ROWS UNBOUNDED PRECEDING) AS island
    FROM apart
), sized AS (
    SELECT *, count(*) OVER (PARTITION BY att, island) AS size FROM islands
), crowded AS (
    SELECT att, island, phase, t_begin, t_end FROM sized WHERE size > 1
), points AS (
    SELECT att, island, t_begin AS t FROM crowded UNION SELECT att, island, t_end FROM crowded
), pieces AS (
    SELECT att, island, t, lead(t) OVER (PARTITION BY att, island ORDER BY t) AS until FROM points
), owned AS (
    SELECT p.att, p.t, p.until, arg_min(c.phase, (-c.t_begin, c.t_end)) AS phase
    FROM pieces p JOIN crowded c
        ON c.att = p.att AND c.island = p.island AND c.t_begin <= p.t AND c.t_end >= p.until
    GROUP BY p.att, p.t, p.until
), parts AS (
    SELECT att, phase, t_begin, t_end FROM sized WHERE size = 1
    UNION ALL
    SELECT att, phase, t, until FROM owned
)
SELECT *, coalesce(sum(t_end - t_begin) OVER (PARTITION BY att ORDER BY t_begin
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::BIGINT AS before
FROM parts;

-- Marks with their free clock f, which stands still under phases.
CREATE TEMP TABLE marks AS
WITH placed AS (
    SELECT j.job, a.att, epoch_ms(m.event_at) AS t, m.event = 'train_begin' AS is_begin,
        m.step, m.samples
    FROM read_parquet($events) m
        JOIN attempts a USING (job_id, attempt) JOIN jobs j USING (job_id)
    WHERE m.event IN ('step', 'train_begin')
), kinds AS (
    SELECT job, count(samples) = count(*) AS by_samples FROM placed GROUP BY job
)
SELECT p.job, p.att, p.t, p.is_begin,
    CASE WHEN k.by_samples THEN p.samples ELSE p.step END AS position,
    p.t - coalesce(c.before + least(p.t, c.t_end) - c.t_begin, 0) AS f
FROM placed p JOIN kinds k USING (job)
    ASOF LEFT JOIN covers c ON p.att = c.att AND p.t >= c.t_begin;

-- Pairs of marks: progress, a restart inside the attempt, or neither.
CREATE TEMP TABLE pairs AS
WITH neighbours AS (
    SELECT job, att, t AS t1, f AS f1, position AS p1,
        lag(t) OVER course AS t0, lag(f) OVER course AS f0, lag(position) OVER course AS p0,
        lag(is_begin) OVER course AS was_begin,
        lag(att) OVER course AS att0, lag(att, 2) OVER course AS att00,
        lag(position, 2) OVER course AS p00,
        max(position) OVER (course ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS high
    FROM marks WINDOW course AS (PARTITION BY job ORDER BY att, t, is_begin)
)
SELECT job, att, t0, t1, f0, f1, p0, p1 - p0 AS n, high,
    p1 > p0 AS is_progress,
    p1 <= p0 AND p1 < high AS is_gap,
    was_begin OR coalesce(att00 = att AND p0 <= p00, false) AS is_resume
FROM neighbours WHERE att0 = att;

CREATE TEMP TABLE firsts AS
SELECT att, min(t0) AS first_t0 FROM pairs WHERE is_progress GROUP BY att;

-- The usual rate of an attempt, in ns a position: a lower median.
CREATE TEMP TABLE rates AS
SELECT p.job, p.att, (p.f1 - p.f0) * 1000000000 // p.n AS rate
FROM pairs p JOIN firsts USING (att)
WHERE p.is_progress AND p.t0 > first_t0 AND p.f1 > p.f0;

CREATE TEMP TABLE usual AS
WITH of_attempt AS (
    SELECT att, quantile_disc(rate, 0.5) AS m FROM rates GROUP BY att HAVING count(*) >= 3
), of_job AS (
    SELECT job, quantile_disc(rate, 0.5) AS m FROM rates GROUP BY job HAVING count(*) >= 3
)
SELECT a.att, coalesce(oa.m, oj.m) AS m
FROM attempts a JOIN jobs j USING (job_id)
    LEFT JOIN of_attempt oa USING (att) LEFT JOIN of_job oj USING (job);

CREATE TEMP TABLE compiled AS
SELECT DISTINCT p.att, p.t0
FROM pairs p JOIN firsts f USING (att) JOIN spans s USING (att)
WHERE p.is_progress AND (p.is_resume OR p.t0 = f.first_t0)
    AND s.phase = 'compile' AND s.t_begin < p.t1 AND s.t_end > p.t0;

-- What each progress interval is charged.
CREATE TEMP TABLE priced AS
WITH expected AS (
    SELECT p.att, p.p0, p.n, p.high, p.f1 - p.f0 AS free, u.m,
        u.m * p.n // 1000000000 AS expected,
        p.is_resume OR p.t0 = f.first_t0 AS is_warm,
        c.att IS NOT NULL AS is_compiled
    FROM pairs p JOIN firsts f USING (att) JOIN usual u USING (att)
        LEFT JOIN compiled c ON c.att = p.att AND c.t0 = p.t0
    WHERE p.is_progress
), charged AS (
    SELECT *, free - expected AS excess,
        CASE WHEN is_warm AND NOT is_compiled
            AND free - expected > greatest(m // 2000000000, expected // 10)
            THEN free - expected ELSE 0 END AS warmup,
        CASE WHEN NOT is_warm
            AND free - expected > greatest(4 * m // 1000000000, expected // 2, 60000)
            THEN free - expected ELSE 0 END AS stalled
    FROM expected
), shared AS (
    SELECT *, free - warmup - stalled AS rest,
        CASE WHEN high > p0 THEN least(high - p0, n) * (free - warmup - stalled) // n ELSE 0 END
            AS repeated
    FROM charged
)
SELECT att, sum(warmup) AS warmup, sum(stalled) AS stalled, sum(repeated) AS repeated,
    sum(rest - repeated) AS effective
FROM shared GROUP BY att;

CREATE TEMP TABLE ends AS
SELECT att, arg_min(f, t) AS f_first, arg_max(f, t) AS f_last FROM marks GROUP BY att;

CREATE TEMP TABLE clocks AS
SELECT a.*, a.t_end - coalesce(c.covered, 0) AS f_end, e.f_first, e.f_last
FROM attempts a
    LEFT JOIN (SELECT att, sum(t_end - t_begin) AS covered FROM covers GROUP BY att) c USING (att)
    LEFT JOIN ends e USING (att);

CREATE TEMP TABLE parts AS
SELECT att, phase AS component, t_end - t_begin AS ms FROM covers
UNION ALL
SELECT att, unnest(['first_step_warmup', 'stalled', 'repeated_training', 'effective_training']),
    unnest([warmup, stalled, repeated, effective]) FROM priced
UNION ALL
SELECT att, CASE WHEN is_gap THEN 'restart_gap' ELSE 'unattributed' END, f1 - f0
FROM pairs WHERE NOT is_progress
UNION ALL
SELECT att, 'unattributed', coalesce(f_first, f_end) - t_begin FROM clocks
UNION ALL
SELECT att, CASE WHEN outcome IN ('failed', 'preempted', 'timed_out') THEN 'failure_detection'
    WHEN outcome IN ('succeeded', 'cancelled') THEN 'teardown' ELSE 'unattributed' END,
    f_end - f_last FROM clocks WHERE f_last IS NOT NULL
UNION ALL
SELECT att, CASE WHEN next_held THEN 'restart_gap' ELSE 'requeue_wait' END, next_begin - t_end
FROM attempts WHERE next_begin IS NOT NULL;

SELECT job_id, component, sum(ms)::BIGINT AS ms
FROM parts JOIN attempts USING (att) WHERE ms > 0 GROUP BY job_id, component;
