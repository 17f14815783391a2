"""The assets raw -> logbook -> ledger -> scorecard -> charges -> site, each a thin call."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import dagster as dg

from pipelines import checks, publishing
from pipelines.errors import ConflictError
from pipelines.publishing import ROOMS, tables_of
from pipelines.resources import Fleet
from pipelines.tables import (
    CHARGES_OWNER_COMPONENT,
    LEDGER_INTERVAL,
    LOGBOOK_EVENT,
    SCORECARD_JOB,
    Table,
)
from pipelines.taxonomy import Taxonomy
from pipelines.warehouse import RETENTION, Staged

GROUP = "walk"
RANKED = 10
HOUR_MS = 3_600_000
MAIN = {
    "logbook": LOGBOOK_EVENT,
    "ledger": LEDGER_INTERVAL,
    "scorecard": SCORECARD_JOB,
    "charges": CHARGES_OWNER_COMPONENT,
}
WALK = ("raw", "logbook", "ledger", "scorecard", "charges", "site")
TOLD = {
    "raw": "Log files as found; never edited.",
    "logbook": "Typed events in UTC with their source line, and the lines that could not be read.",
    "ledger": "Every millisecond of every job in exactly one component.",
    "scorecard": "ETT%, TTS, TTR and NoF by job, attempt, model, component, team, day and fleet.",
    "charges": "Lost GPU time by owner, component and cause.",
    "site": "The pages, written whole from the published tables.",
}


def daily(
    first: date, last: date | None = None, *, but: Sequence[date] = ()
) -> dg.DailyPartitionsDefinition:
    """The days of every asset: from the first to today (or to `last`), leaving some out."""
    today = datetime.now(UTC).date()
    is_over = last is not None and last < today
    ahead = 0 if is_over else ((last or today) - today).days + 1  # today counts, though not over
    return dg.DailyPartitionsDefinition(
        start_date=first.isoformat(),
        end_date=(last + timedelta(days=1)).isoformat() if last and is_over else None,
        end_offset=ahead,
        exclusions=[datetime(d.year, d.month, d.day, tzinfo=UTC) for d in but] or None,
    )


def range_tags(first: date, last: date) -> dict[str, str]:
    """The tags that make a run be of all days from `first` to `last`."""
    return {
        "dagster/asset_partition_range_start": first.isoformat(),
        "dagster/asset_partition_range_end": last.isoformat(),
    }


@contextmanager
def preview_allowed() -> Iterator[None]:
    """Single-run backfills and checks by partition are announced as beta and preview in 1.13."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield


def build_assets(days: dg.DailyPartitionsDefinition) -> list[dg.AssetsDefinition]:
    """The assets of the walk over these days, with their checks."""
    common: dict[str, Any] = {
        "partitions_def": days,
        "backfill_policy": dg.BackfillPolicy.single_run(),
        "group_name": GROUP,
    }

    def told(asset: str, kind: str) -> dict[str, Any]:
        return {
            "description": TOLD[asset],
            "owners": [f"team:{_owner(asset)}"],
            "kinds": {kind},
        }

    def tables(op: str, chain: Sequence[str]) -> Any:
        """One step for the assets of a chain but the first; each, and each check, by itself."""
        return dg.multi_asset(
            name=op,
            specs=[
                dg.AssetSpec(
                    asset,
                    deps=[before],
                    group_name=GROUP,
                    metadata=_described(asset),
                    partitions_def=days,
                    **told(asset, "deltalake"),
                )
                for before, asset in pairwise(chain)
            ],
            check_specs=[spec for asset in chain[1:] for spec in checks.specs(asset, days)],
            can_subset=True,
            partitions_def=days,
            backfill_policy=common["backfill_policy"],
        )

    return [
        dg.asset(name="raw", **told("raw", "file"), **common)(raw),
        tables("reading", ["raw", "logbook"])(logbook),
        tables("accounts", ["logbook", *ROOMS])(accounts),
        dg.asset(name="site", deps=["charges"], **told("site", "plotly"), **common)(site),
    ]


def raw(context: dg.AssetExecutionContext, fleet: Fleet) -> dg.MaterializeResult[Any]:
    """Look which log files there are, and which of them were not read yet."""
    del context
    listed = publishing.manifest(fleet.open_warehouse(), fleet.raw_files(), fleet.settings())
    return dg.MaterializeResult(metadata=_of_files(listed))


def logbook(
    context: dg.AssetExecutionContext, fleet: Fleet
) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[Any]]:
    """Read what is new; every day that gets a line is swapped, whichever days were asked for."""
    run = fleet.run(context.run.run_id)
    logged = publishing.read_logs(run, fleet.raw_files())
    yield from checks.results(context, logged.findings, _days(context))
    try:
        publishing.publish_logbook(run, logged)
    except ConflictError as error:
        raise dg.RetryRequested(max_retries=3, seconds_to_wait=1) from error
    _tell_days(context, "logbook", {s.table.name: s.row_counts() for s in logged.staged})
    yield dg.MaterializeResult(
        asset_key="logbook",
        metadata={
            **_of_files(logged.manifest),
            **{c: logged.total(c) for c in ("line_count", "event_count", "reject_count")},
            "set_aside": list(logged.set_aside),
            "changed_days": [d.isoformat() for d in logged.changed_days],
            "stale_days": [d.isoformat() for d in publishing.stale_days(run.warehouse)],
        },
    )


def accounts(
    context: dg.AssetExecutionContext, fleet: Fleet
) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[Any]]:
    """Ledger, scorecard and charges: all written, all checked, then made visible in that order.

    One step, for none of them may be seen unless all of them agree; one alone can be asked for.
    """
    run, days = fleet.run(context.run.run_id), _days(context)
    rooms = [r for r in ROOMS if dg.AssetKey(r) in context.selected_asset_keys]
    accounted = publishing.account(run, days)
    yield from checks.results(context, accounted.findings, days)
    publishing.publish(run, accounted, rooms)
    for room in rooms:
        counts = {s.table.name: s.row_counts() for s in accounted.of_room(room)}
        _tell_days(context, room, counts)
        if room == "charges":
            _tell_rankings(
                context, accounted.staged[CHARGES_OWNER_COMPONENT.name], run.settings.taxonomy
            )
        yield dg.MaterializeResult(
            asset_key=room,
            metadata={
                "engine": run.engine.version,
                "as_of_ms": run.settings.as_of_ms,
                "rows": {name: sum(of.values()) for name, of in counts.items()},
                "stale_days": [d.isoformat() for d in publishing.stale_days(run.warehouse)],
            },
        )


def site(context: dg.AssetExecutionContext, fleet: Fleet) -> dg.MaterializeResult[Any]:
    """Write the pages anew from all published days."""
    del context
    from dashboards.pages import write_site  # noqa: PLC0415 - plotly loads slowly

    written = write_site(Path(fleet.warehouse), Path(fleet.site), taxonomy=fleet.taxonomy())
    return dg.MaterializeResult(
        metadata={
            "index": dg.MetadataValue.path(str(written.index)),
            "day_count": len(written.days),
            "job_count": written.job_count,
            "size_bytes": written.size_bytes,
        }
    )


class VacuumConfig(dg.Config):
    """How long a version can be read after a newer one took its place."""

    retention_days: int = RETENTION.days


@dg.asset(
    group_name="upkeep",
    owners=["team:observability"],
    kinds={"deltalake"},
    description="Old files of the tables, and what killed runs left behind, deleted.",
)
def vacuum(config: VacuumConfig, fleet: Fleet) -> dg.MaterializeResult[Any]:
    """Delete files that no version younger than the retention shows."""
    deleted = fleet.open_warehouse().vacuum(timedelta(days=config.retention_days))
    return dg.MaterializeResult(metadata={"deleted_files": deleted})


# --- metadata -------------------------------------------------------------------------------


def _days(context: dg.AssetExecutionContext) -> list[date]:
    return [date.fromisoformat(key) for key in context.partition_keys]


def _owner(asset: str) -> str:
    return MAIN[asset].owner if asset in MAIN else "observability"


def _described(asset: str) -> dict[str, Any]:
    """The columns of an asset's tables, and which main table they come from by the same name."""
    before = next((b for b, a in pairwise(MAIN) if a == asset), None)
    told: dict[str, Any] = {f"schema/{t.name}": _schema(t) for t in tables_of(asset)}
    told["dagster/column_schema"] = _schema(MAIN[asset])
    if before:
        told["dagster/column_lineage"] = dg.TableColumnLineage(
            {
                name: [dg.TableColumnDep(asset_key=before, column_name=name)]
                for name in MAIN[asset].names
                if name in MAIN[before].names
            }
        )
    return told


def _schema(table: Table) -> dg.TableSchema:
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                c.name,
                c.type,
                description=c.meaning,
                constraints=dg.TableColumnConstraints(nullable=c.is_nullable),
            )
            for c in table.columns
        ],
        constraints=dg.TableConstraints(other=[f"unique: {', '.join(table.key)}"]),
    )


def _of_files(listed: publishing.Manifest) -> dict[str, Any]:
    return {
        "files": len(listed.found),
        "fresh_files": len(listed.fresh),
        "unchanged_files": listed.unchanged_count,
        "vanished_files": len(listed.vanished),
        "size_bytes": sum(f.size_bytes for f in listed.found),
    }


def _tell_days(
    context: dg.AssetExecutionContext,
    asset: str,
    counts: Mapping[str, Mapping[date | None, int]],
) -> None:
    """Rows of each day, of the asset's main table and of all."""
    for day in _days(context):
        of_day = {name: rows[day] for name, rows in counts.items() if day in rows}
        context.add_asset_metadata(
            {
                "dagster/partition_row_count": of_day.get(MAIN[asset].name, 0),
                "rows_of_day": of_day,
            },
            asset_key=asset,
            partition_key=day.isoformat(),
        )


def _tell_rankings(context: dg.AssetExecutionContext, charges: Staged, taxonomy: Taxonomy) -> None:
    """The largest losses of each day, as a small table."""
    told = rankings(charges, taxonomy)
    for day in _days(context):
        context.add_asset_metadata(
            {"ranking": dg.MetadataValue.md(told.get(day, "Nothing was lost on this day."))},
            asset_key="charges",
            partition_key=day.isoformat(),
        )


def rankings(charges: Staged, taxonomy: Taxonomy) -> dict[date, str]:
    """Markdown by day: overhead sources by lost GPU-hours, with owner and price."""
    columns = ["ds", "owner", "component", "lost_gpu_ms", "lost_cost"]
    rows = (
        charges.rows(columns)
        .group_by(columns[:3])
        .aggregate([("lost_gpu_ms", "sum"), ("lost_cost", "sum")])
    )
    order = [("ds", "ascending"), ("lost_gpu_ms_sum", "descending")]
    by_day = groupby(rows.sort_by(order).to_pylist(), key=lambda r: r["ds"])
    head = f"| overhead | owner | GPU-hours | {taxonomy.currency} |\n|---|---|---:|---:|\n"
    return {
        day: head + "\n".join(_ranked(row, taxonomy) for row in list(lines)[:RANKED])
        for day, lines in by_day
    }


def _ranked(row: Mapping[str, Any], taxonomy: Taxonomy) -> str:
    cost = "" if row["lost_cost_sum"] is None else f"{row['lost_cost_sum']:,.0f}"
    hours = row["lost_gpu_ms_sum"] / HOUR_MS
    return f"| {taxonomy[row['component']].label} | {row['owner']} | {hours:,.1f} | {cost} |"
