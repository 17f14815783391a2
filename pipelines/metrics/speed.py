"""The usual speed of an attempt, and what is slower than it: first-step warm-up and stalls."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipelines.intervals import merge
from pipelines.taxonomy import COMPILE

NANO = 1_000_000_000
STALL_FLOOR_MS = 60_000
_FEW = 3
_BIG = "decimal(38,0)"


def big(column: Column | str) -> Column:
    """A whole number of up to 38 digits: products of times and positions pass 64 bits."""
    return (F.col(column) if isinstance(column, str) else column).cast(_BIG)


def div(numerator: Column, denominator: Column) -> Column:
    """Whole-number division of decimals, as a decimal: `div` itself gives 64 bits only."""
    left, right = big(numerator), big(denominator)
    return ((left - left % right) / right).cast(_BIG)


def first_progress(progress: DataFrame) -> DataFrame:
    """Per attempt: `first_seq`, the seq of its first progress interval."""
    return progress.where("is_progress").groupBy("job", "att").agg(F.min("seq").alias("first_seq"))


def counted_rates(progress: DataFrame, firsts: DataFrame) -> DataFrame:
    """(job, att, n, free, times, rate): the progress intervals but the first of each attempt.

    `rate` is in ns per position. Intervals of equal length and time are counted, not sorted.
    """
    return (
        progress.where("is_progress")
        .join(F.broadcast(firsts.select("att", "first_seq")), on="att", how="inner")
        .where("seq > first_seq AND f1 > f0")
        .groupBy("job", "att", "n", (F.col("f1") - F.col("f0")).alias("free"))
        .agg(F.count("*").alias("times"))
        .withColumn("rate", div(big("free") * F.lit(NANO).cast("decimal(18,0)"), big("n")))
    )


def usual_rates(rates: DataFrame, firsts: DataFrame) -> DataFrame:
    """Per attempt with progress: `m`, its usual rate in ns per position (null: too few to say).

    The lower median of its `counted_rates`; of fewer than three, that of all attempts of the job;
    of fewer than three, null.
    """
    of_attempt = _lower_median(rates, ["job", "att"]).select("att", F.col("m").alias("m_attempt"))
    of_job = _lower_median(rates, ["job"]).select("job", F.col("m").alias("m_job"))
    return (
        firsts.join(of_attempt, on="att", how="left")
        .join(of_job, on="job", how="left")
        .select("job", "att", "first_seq", F.coalesce("m_attempt", "m_job").alias("m"))
    )


def _lower_median(rates: DataFrame, key: list[str]) -> DataFrame:
    """Element (k - 1) div 2 of the k sorted rates of each key that has three or more."""
    counted = rates.groupBy(*key, "rate").agg(F.sum("times").alias("times"))
    course = Window.partitionBy(*key).orderBy("rate")
    upto = F.sum("times").over(course.rowsBetween(Window.unboundedPreceding, 0))
    k = F.sum("times").over(Window.partitionBy(*key))
    return (
        counted.withColumn("upto", upto)
        .withColumn("k", k)
        .where(F.col("k") >= _FEW)
        .where(F.col("upto") > F.expr("(k - 1) div 2"))
        .groupBy(*key)
        .agg(F.min("rate").alias("m"))
    )


def judged(progress: DataFrame, rates: DataFrame) -> DataFrame:
    """All pairs, with `m`, `is_warm` (first, or a resume) and `is_plain`: new data, nothing else.

    Plain is a progress interval without a phase inside, nothing repeated, not the first after a
    start, and not slow enough to be a stall. The bound on slowness is a little lower than the rule,
    so that floating point cannot miss one; `priced` then applies the rule exactly.
    """
    known = progress.join(
        F.broadcast(rates.select("att", "first_seq", "m")), on="att", how="left"
    ).withColumn("is_warm", F.col("is_resume") | (F.col("seq") == F.col("first_seq")))
    free = F.col("f1") - F.col("f0")
    expected = F.col("m").cast("double") * F.col("n") / NANO
    is_slow = (free > STALL_FLOOR_MS) & (free > expected * 1.4)
    is_plain = (
        F.col("is_progress")
        & ~F.coalesce("is_warm", F.lit(True))
        & (free == F.col("t1") - F.col("t0"))
        & (F.col("high") <= F.col("p0"))
        & ~F.coalesce(is_slow, F.lit(False))
    )
    return known.withColumn("is_plain", is_plain)


def compiled(warm: DataFrame, joined: DataFrame) -> DataFrame:
    """(att, seq) of first intervals that an explicit blocking `compile`, or a child, overlaps.

    One does where, of the spans begun before the interval's end, some reach beyond its begin.
    """
    is_compile = (F.col("phase") == COMPILE) | F.col("phase").startswith(f"{COMPILE}.")
    spans = joined.where(F.col("is_blocking") & is_compile)
    course = Window.partitionBy("att").orderBy("at", "turn")
    reach = F.max("reach").over(course.rowsBetween(Window.unboundedPreceding, 0))
    probes = warm.select("att", "seq", "t0", F.col("t1").alias("at"), F.lit(0).alias("turn"))
    begun = spans.select(
        "att", F.col("begin").alias("at"), F.col("end").alias("reach"), F.lit(1).alias("turn")
    )
    return (
        merge([probes, begun])
        .withColumn("reach", reach)
        .where("turn = 0 AND reach > t0")
        .select("att", "seq")
    )


def priced(exceptions: DataFrame, compiles: DataFrame) -> DataFrame:
    """Exceptional progress intervals with what is charged of their free time, in whole ms.

    Adds free, warmup_ms, stall_ms, repeated_ms and effective_ms, which sum to free.
    """
    progress = exceptions.where("is_progress").join(
        compiles.withColumn("is_compiled", F.lit(True)), on=["att", "seq"], how="left"
    )
    expected = div(F.col("m") * F.col("n").cast("decimal(20,0)"), F.lit(NANO))
    rated = (
        progress.withColumn("free", F.col("f1") - F.col("f0"))
        .withColumn("expected", expected)
        .withColumn("excess", big("free") - F.col("expected"))
    )
    known = rated.withColumn("warmup_ms", _charged(_is_warmup())).withColumn(
        "stall_ms", _charged(_is_stall())
    )
    rest = F.col("free") - F.col("warmup_ms") - F.col("stall_ms")
    before = F.least(F.col("high") - F.col("p0"), F.col("n"))
    repeated = F.when(
        F.col("high") > F.col("p0"), div(product(before, rest), F.col("n")).cast("long")
    ).otherwise(F.lit(0))
    return known.withColumn("repeated_ms", repeated).withColumn(
        "effective_ms", rest - F.col("repeated_ms")
    )


def _is_warmup() -> Column:
    half_step = div(F.col("m"), F.lit(2 * NANO))
    is_much = F.col("excess") > F.greatest(half_step, div(F.col("expected"), F.lit(10)))
    return F.col("is_warm") & F.col("is_compiled").isNull() & is_much


def _is_stall() -> Column:
    four_steps = div(F.col("m").cast("decimal(37,0)") * F.lit(4).cast("decimal(1,0)"), F.lit(NANO))
    half_more = div(F.col("expected"), F.lit(2))
    bound = F.greatest(four_steps, half_more, big(F.lit(STALL_FLOOR_MS)))
    return ~F.col("is_warm") & (F.col("excess") > bound)


def _charged(condition: Column) -> Column:
    """The excess where the condition holds; 0 where it does not, or no speed is known."""
    is_charged = F.coalesce(condition, F.lit(False))
    return F.when(is_charged, F.col("excess")).otherwise(0).cast("long")


def product(left: Column, right: Column) -> Column:
    """The product of two longs as a decimal."""
    return big(left.cast("decimal(19,0)") * right.cast("decimal(18,0)"))
