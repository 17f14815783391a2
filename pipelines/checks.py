"""Asset checks: generated from the tables' contracts, the conservation laws, and freshness."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

import dagster as dg

from pipelines.contracts import CONSERVATION, Finding
from pipelines.publishing import tables_of
from pipelines.resources import Fleet
from pipelines.tables import WAREHOUSE_PUBLICATION, Table

_LAW_OF = {"balance": "ledger", "job_sums": "scorecard", "day_sums": "charges"}
PUBLISHED_BY = timedelta(hours=3)  # after midnight UTC


def specs(asset: str, days: dg.PartitionsDefinition[str]) -> list[dg.AssetCheckSpec]:
    """One blocking check by day for each table of an asset, and for each law told of it."""
    told = {t.name: _description(t) for t in tables_of(asset)}
    told |= {law: CONSERVATION[law] for law, of in _LAW_OF.items() if of == asset}
    return [
        dg.AssetCheckSpec(name, asset=asset, description=text, blocking=True, partitions_def=days)
        for name, text in told.items()
    ]


def _description(table: Table) -> str:
    never_null = ", ".join(c.name for c in table.columns if not c.is_nullable)
    return (
        f"{table.name} ({table.grain}): its columns and types are those declared; never null: "
        f"{never_null}; ratios lie within 0 and 1, amounts are not negative, words are known; "
        f"unique: {', '.join(table.key)}."
    )


def results(
    context: dg.AssetExecutionContext, findings: Sequence[Finding], days: Sequence[date]
) -> Iterator[dg.AssetCheckResult]:
    """The findings as results of the checks that this run was asked for.

    Dagster files the result of a run over several days under no day, so in an instance that
    lasts each day is told by itself.
    """
    is_range = len(days) > 1 and not context.instance.is_ephemeral
    for key in sorted(context.selected_asset_check_keys):
        of_check = [f for f in findings if key.name in (f.table, f.rule)]
        failed = [f.message for f in of_check if not f.is_passed]
        told = "; ".join(failed) or f"{len(of_check)} rules hold"
        rules = {f.rule: f.is_passed for f in of_check}
        for day in days if is_range else ():
            context.log_event(
                dg.AssetCheckEvaluation(
                    asset_key=key.asset_key,
                    check_name=key.name,
                    passed=not failed,
                    metadata={},
                    description=told,
                    blocking=True,
                    partition=day.isoformat(),
                )
            )
        yield dg.AssetCheckResult(
            passed=not failed,
            asset_key=key.asset_key,
            check_name=key.name,
            description=told,
            metadata={"rules": dg.MetadataValue.json(rules)},
        )


PUBLISHED = dg.AssetSpec(
    "published_days",
    deps=["charges"],
    group_name="upkeep",
    owners=["team:observability"],
    kinds={"deltalake"},
    description="What readers see: the days that are published. Materialised by nobody.",
)


@dg.asset_check(
    asset=PUBLISHED.key,
    description=f"The last day that ended {PUBLISHED_BY} or longer ago is published.",
)
def freshness(fleet: Fleet) -> dg.AssetCheckResult:
    """Go by the days published, not by when a run ended: a backfill makes nothing fresh."""
    warehouse = fleet.open_warehouse()
    published: set[date] = set()
    if warehouse.has(WAREHOUSE_PUBLICATION):
        published = set(warehouse.read_arrow(WAREHOUSE_PUBLICATION, ["ds"])["ds"].to_pylist())
    due = day_due()
    latest = max(published).isoformat() if published else "none"
    return dg.AssetCheckResult(
        passed=due in published,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{due} is due; the latest day that is published is {latest}",
        metadata={"due": due.isoformat(), "latest": latest},
    )


def day_due() -> date:
    """The last day that should be published by now."""
    return (datetime.now(UTC) - PUBLISHED_BY).date() - timedelta(days=1)
