"""Charges: the ledger's loss by owner and component, and by cause."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.tables import CHARGES_CAUSE, CHARGES_OWNER_COMPONENT
from pipelines.taxonomy import EFFECTIVE, Taxonomy

HOUR_MS = 3_600_000


def owner_of(component: Column, model: Column, taxonomy: Taxonomy) -> Column:
    """The owner of a component, of this model where the site names one for it."""
    branches = F.when(F.lit(False), "")
    for (for_model, key), owner in taxonomy.model_owners.items():
        branches = branches.when((model == for_model) & (component == key), owner)
    for known in taxonomy:
        branches = branches.when(component == known.key, known.owner)
    return branches


def price_of(cluster: Column, prices: Mapping[str, float]) -> Column:
    """Price of one GPU-hour in a cluster; null where the site names none."""
    branches = F.when(F.lit(False), F.lit(None).cast("double"))
    for key, price in prices.items():
        if key != "default":
            branches = branches.when(cluster == key, F.lit(float(price)))
    default = prices.get("default")
    return branches.otherwise(F.lit(None if default is None else float(default)).cast("double"))


def losses(intervals: DataFrame) -> DataFrame:
    """The ledger's rows that are not effective training."""
    return intervals.where(F.col("component") != EFFECTIVE)


def by_owner(intervals: DataFrame, taxonomy: Taxonomy) -> DataFrame:
    """charges__owner_component of ledger__interval rows."""
    owned = losses(intervals).withColumn(
        "owner", owner_of(F.col("component"), F.col("model"), taxonomy)
    )
    key = ["ds", "owner", "component", "cluster", "model", "team"]
    return CHARGES_OWNER_COMPONENT.select_from(_summed(owned, key, taxonomy))


def by_cause(intervals: DataFrame, taxonomy: Taxonomy) -> DataFrame:
    """charges__cause of ledger__interval rows; a null cause is charged to no interruption."""
    key = ["ds", "cause", "cluster", "model", "team"]
    return CHARGES_CAUSE.select_from(_summed(losses(intervals), key, taxonomy))


def _summed(rows: DataFrame, key: list[str], taxonomy: Taxonomy) -> DataFrame:
    gpu_hours = F.col("lost_gpu_ms") / F.lit(HOUR_MS)
    return (
        rows.groupBy(*key)
        .agg(F.sum("duration_ms").alias("lost_ms"), F.sum("gpu_ms").alias("lost_gpu_ms"))
        .withColumn("lost_cost", gpu_hours * price_of(F.col("cluster"), taxonomy.prices))
    )
