"""The command `ett`: each call a thin wrapper that prints what the packages return."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pipelines import clock
from pipelines.engine import DEFAULT_ENGINE
from pipelines.errors import EttError, InputError, UsageError, harmless
from pipelines.taxonomy import DEFAULT, Taxonomy

if TYPE_CHECKING:
    from pipelines.materialise import RunReport
    from pipelines.site import Site
    from pipelines.spot import Spot

F = TypeVar("F", bound=Callable[..., Any])
_WIDE = 200  # what is piped is for programs and files: nothing is cut to a screen
out = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)
err = Console(stderr=True, highlight=False, soft_wrap=True)
EXIT_FAILED, EXIT_INTERRUPTED = 1, 130
_SHOWN = 10
_MINUTE_MS = 60_000
_DEAD_AFTER = 30  # minutes
_LONGEST_LINE = 1000
_DEMO_REGISTRY = """\
# The simulated fleet's site: what a GPU-hour costs there (made up).
currency: USD
prices:
  default: 2.50
"""

ENGINE_HELP = "sail (no Java), local[*], spark://host:port, yarn, k8s://… or sc://host:port."
AS_OF_HELP = "Account up to this moment: epoch ms or RFC 3339. Default: now."


def engine_option(command: F) -> F:
    """--engine, the same on every command that computes."""
    option = click.option("--engine", default=DEFAULT_ENGINE, show_default=True, help=ENGINE_HELP)
    return option(command)


def as_of_option(command: F) -> F:
    """--as-of, read as a moment."""
    return click.option("--as-of", "as_of_ms", type=_Moment(), default=None, help=AS_OF_HELP)(
        command
    )


def registry_option(command: F) -> F:
    """--registry, the site's YAML."""
    kind = click.Path(path_type=Path, dir_okay=False)
    said = (
        "The site's YAML: components, owners, prices, sources (docs/registry.md, docs/sources.md)."
    )
    return click.option("--registry", type=kind, envvar="ETT_REGISTRY", help=said)(command)


def dead_after_option(command: F) -> F:
    """--dead-after, in minutes."""
    option = click.option(
        "--dead-after",
        type=click.IntRange(min=1),
        default=_DEAD_AFTER,
        show_default=True,
        help="Minutes of silence after which a job is presumed dead.",
    )
    return option(command)


def warehouse_option(command: F) -> F:
    """--warehouse, where the published tables are."""
    option = click.option(
        "--warehouse",
        default="warehouse",
        show_default=True,
        envvar="ETT_WAREHOUSE",
        help="Folder (or object-store URL) of the published tables.",
    )
    return option(command)


class _Moment(click.ParamType[int]):
    name = "moment"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        try:
            return value if isinstance(value, int) else clock.moment_ms(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class _Day(click.ParamType[date]):
    name = "YYYY-MM-DD"

    def convert(self, value: Any, param: Any, ctx: Any) -> date:
        try:
            return value if isinstance(value, date) else clock.day(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ettledger", prog_name="ett")
def ett() -> None:
    """Where every millisecond of a GPU training fleet went, and whose it was.

    \b
    Try it:        ett demo
    On your logs:  ett account LOGS
    Every day:     ett run LOGS --warehouse warehouse; ett top; ett site
    """


@ett.command()
@click.argument("paths", nargs=-1, required=True)
@as_of_option
@engine_option
@registry_option
@dead_after_option
@click.option("--json", "as_json", is_flag=True, help="Print the accounts as JSON.")
def account(
    paths: tuple[str, ...], as_of_ms: int | None, engine: str, registry: Path | None,
    dead_after: int, *, as_json: bool,
) -> None:  # fmt: skip
    """Account files or folders on the spot, without a warehouse.

    \b
    ett account job.jsonl
    ett account logs/ --as-of 2026-11-01T00:00:00Z
    ett account logs/ --json | jq '.jobs[] | {job_id, ett_ratio}'
    """
    from pipelines import spot  # noqa: PLC0415 - the engine's packages load slowly

    with progress_of(spot.STEPS, "accounting") as tick:
        result = spot.account_paths(
            paths,
            as_of_ms=as_of_ms,
            dead_after_ms=dead_after * _MINUTE_MS,
            engine=engine,
            site=site_file(registry),
            tick=tick,
        )
    if as_json:
        json.dump({"jobs": result.jobs, "rejects": result.reject_count}, sys.stdout)
        sys.stdout.write("\n")
    else:
        _print_spot(result)
    if not result.jobs:
        raise InputError("no job in these files: `ett check` says what they are read as")


def _print_spot(result: Spot) -> None:
    from pipelines import terminal  # noqa: PLC0415

    out.print(terminal.jobs_table(result.jobs, width=out.width))
    out.print(terminal.stages_legend())
    out.print(terminal.files_table(result.files))
    for reject in result.rejects:
        place = f"{reject['source_file']}:{reject['source_line']}"
        err.print(harmless(f"{place}: {reject['reason']}"), markup=False)
    hidden = result.reject_count - len(result.rejects)
    if hidden > 0:
        err.print(f"… and {hidden:,} more rejects")


@ett.command()
@click.argument("raw", nargs=-1, required=True)
@warehouse_option
@click.option(
    "--site",
    type=click.Path(file_okay=False),
    envvar="ETT_SITE",
    help="Folder of the pages. Default: site, beside the warehouse.",
)
@click.option(
    "--from", "first", type=_Day(), help="First UTC day to compute. Default: whatever needs it."
)
@click.option(
    "--to", "last", type=_Day(), help="Last UTC day to compute. Default: whatever needs it."
)
@as_of_option
@dead_after_option
@engine_option
@registry_option
def run(raw: tuple[str, ...], warehouse: str, **options: Any) -> None:
    """Read logs, publish the ledger, scorecards and charges, and write the pages.

    \b
    ett run logs/ --warehouse warehouse
    ett run logs/ --warehouse warehouse --from 2026-11-01 --to 2026-11-07
    """
    _tell(_materialised(raw, warehouse, **options), warehouse, options["registry"])


def _materialised(  # noqa: PLR0913 - a parameter for each option of the command
    raw: Sequence[str], warehouse: str, *, site: str | None = None, first: date | None = None,
    last: date | None = None, as_of_ms: int | None = None, dead_after: int = _DEAD_AFTER,
    engine: str = DEFAULT_ENGINE, registry: Path | None = None,
) -> RunReport:  # fmt: skip
    from pipelines.materialise import materialise  # noqa: PLC0415 - Dagster loads slowly
    from pipelines.resources import Fleet  # noqa: PLC0415

    fleet = Fleet(
        raw=[str(path) for path in raw],
        warehouse=warehouse,
        site=site or site_of(warehouse),
        engine=engine,
        as_of=None if as_of_ms is None else clock.rfc3339(as_of_ms),
        dead_after_ms=dead_after * _MINUTE_MS,
        registry=str(registry) if registry else None,
    )
    with progress_of(None, "publishing") as tick:
        return materialise(fleet, first=first, last=last, tick=tick)


def site_of(warehouse: str) -> str:
    """Where the pages of a warehouse go by default: the folder `site` beside it."""
    return str(Path(warehouse).absolute().parent / "site")


def _tell(report: RunReport, warehouse: str, registry: Path | None) -> None:
    """Say what a run read and published, what is left to do, and where the page is."""
    out.print(
        f"{report.fresh_file_count:,} of {report.file_count:,} files read: {report.line_count:,}"
        f" lines, {report.reject_count:,} of them rejects (table logbook__reject)"
    )
    for why in report.set_aside:
        err.print(harmless(why), markup=False)
    if not report.days:
        why = "none lies in the range asked for" if report.stale_days else "nothing is new"
        out.print(f"no day needed to be computed: {why}")
    else:
        count = len(report.days)
        span = f"{count:,} day{'s' * (count != 1)}, {report.days[0]} to {report.days[-1]}"
        out.print(f"published {span}")
    for restated in report.restatements:
        sign = "was provisional" if restated.was_provisional else "RESTATED"
        out.print(f"  {restated.ds} {sign}: {_changes(restated.before, restated.after)}")
    if report.stale_days:
        few = [str(day) for day in report.stale_days[:_SHOWN]]
        more = ", …" if len(report.stale_days) > _SHOWN else ""
        out.print(f"{len(report.stale_days):,} other days have new lines: {', '.join(few)}{more}")
        out.print("run without --from and --to, up to a later --as-of, to compute them")
    if not report.days:
        return
    _show_top(warehouse, registry, report.days[0], report.days[-1], _SHOWN)
    if report.index:
        out.print(f"page: {report.index}", soft_wrap=True, markup=False)


def _changes(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    moved = [
        f"{name} {before[name]:,} to {after[name]:,}"
        for name in before
        if before[name] != after[name]
    ]
    return ", ".join(moved)


@ett.command()
@warehouse_option
@registry_option
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False),
    help="Folder to write. Default: site, beside the warehouse.",
)
@click.option("--title", default="Training fleet", show_default=True, help="Title of the pages.")
@click.option("--from", "first", type=_Day(), help="First UTC day.")
@click.option("--to", "last", type=_Day(), help="Last UTC day.")
def site(
    warehouse: str, registry: Path | None, folder: str | None, title: str, first: date | None,
    last: date | None,
) -> None:  # fmt: skip
    """Write the pages of what is published: a folder of files, no server needed.

    \b
    ett site --warehouse warehouse --out site
    """
    from dashboards.pages import write_site  # noqa: PLC0415
    from pipelines import told  # noqa: PLC0415

    summary = write_site(
        Path(warehouse),
        Path(folder or site_of(warehouse)),
        title=title,
        days=told.days_between(warehouse, first, last),
        taxonomy=taxonomy_of(registry),
    )
    out.print(f"page: {summary.index}", soft_wrap=True, markup=False)


@ett.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("demo"))
@click.option(
    "--events",
    type=click.IntRange(min=20_000),
    default=1_000_000,
    show_default=True,
    help="About so many log lines.",
)
@click.option(
    "--seed", type=int, default=7, show_default=True, help="The same seed, the same fleet."
)
@engine_option
def demo(folder: Path, events: int, seed: int, engine: str) -> None:
    """Simulate a fleet, publish its ledger and its page into FOLDER, and say where the page is.

    \b
    ett demo
    ett demo try --events 100000
    """
    began = time.monotonic()
    registry = folder / "registry.yaml"
    _make_room(folder, registry)
    summary = _simulated(
        folder / "logs", scenario="baseline", events=events, jobs=None, days=14,
        start=date(2026, 11, 1), seed=seed,
    )  # fmt: skip
    out.print(f"simulated {summary.events:,} events of {summary.jobs:,} jobs in {_since(began)}")
    began = time.monotonic()
    warehouse = str(folder / "warehouse")
    report = _materialised(
        [str(folder / "logs" / "raw")], warehouse, site=str(folder / "site"),
        as_of_ms=summary.as_of_ms, engine=engine, registry=registry,
    )  # fmt: skip
    out.print(f"read, accounted and published in {_since(began)} on {engine}", markup=False)
    _tell(report, warehouse, registry)
    asked = f"ett top --warehouse {warehouse} --registry {registry}"
    out.print(f"ask it: {asked}", soft_wrap=True, markup=False)


def _make_room(folder: Path, registry: Path) -> None:
    """Take away what an earlier demo left in FOLDER, and nothing that anybody else put there."""
    parts = [folder / part for part in ("logs", "warehouse", "site")]
    is_ours = registry.is_file() and registry.read_bytes() == _DEMO_REGISTRY.encode()
    foreign = [path for path in (registry, *parts) if path.exists() and not is_ours]
    if foreign:
        raise UsageError(f"{foreign[0]} is not of a demo: give another folder, as `ett demo try`")
    folder.mkdir(parents=True, exist_ok=True)
    registry.write_text(_DEMO_REGISTRY)  # first: whatever stops from here on is known as a demo's
    for part in parts:
        shutil.rmtree(part, ignore_errors=True)


def _since(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"


@ett.command()
@warehouse_option
@registry_option
@click.option("--from", "first", type=_Day(), help="First UTC day.")
@click.option("--to", "last", type=_Day(), help="Last UTC day.")
@click.option(
    "-n", "count", type=click.IntRange(min=1), default=15, show_default=True, help="Lines."
)
def top(
    warehouse: str, registry: Path | None, first: date | None, last: date | None, count: int
) -> None:
    """Rank the overhead sources: component, owner, GPU-hours lost.

    \b
    ett top
    ett top --from 2026-11-01 --to 2026-11-07 -n 5
    """
    _show_top(warehouse, registry, first, last, count)


def _show_top(
    warehouse: str, registry: Path | None, first: date | None, last: date | None, count: int
) -> None:
    from pipelines import terminal, told  # noqa: PLC0415

    ranking = told.ranking(warehouse, first=first, last=last)
    taxonomy = taxonomy_of(registry)
    currency = taxonomy.currency if registry else None
    out.print(told.headline(ranking))
    out.print(terminal.ranking_table(ranking.rows, taxonomy, count, currency=currency))


@ett.command()
@click.argument("job_id")
@warehouse_option
@registry_option
@click.option("--cluster", default=None, help="Cluster, where several have a job of that name.")
def job(job_id: str, warehouse: str, registry: Path | None, cluster: str | None) -> None:
    """Explain one job: its bar over time, its stages, what was lost to whom.

    \b
    ett job llm-70b-0042
    ett job llm-70b-0042 --cluster west
    """
    from pipelines import terminal, told  # noqa: PLC0415

    known = told.job(warehouse, job_id, cluster=cluster)
    out.print(
        terminal.job_report(known.account, known.model, known.intervals, taxonomy_of(registry))
    )


@ett.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--scenario", default="baseline", show_default=True, help="baseline, optimised or exercise."
)
@click.option("--events", type=click.IntRange(min=1), default=None, help="About so many lines.")
@click.option("--jobs", type=click.IntRange(min=1), default=None, help="So many training jobs.")
@click.option("--days", type=click.IntRange(min=1), default=14, show_default=True, help="Days.")
@click.option("--start", type=_Day(), default="2026-11-01", show_default=True, help="First day.")
@click.option(
    "--seed", type=int, default=7, show_default=True, help="The same seed, the same fleet."
)
@click.option("--compress", is_flag=True, help="Write .gz files.")
@click.option(
    "--format",
    "log_format",
    type=click.Choice(("lifecycle", "joined")),
    default="lifecycle",
    show_default=True,
    help="Lifecycle events, or the logs that sites have, with a site.yaml.",
)
def simulate(folder: Path, *, log_format: str, **wanted: Any) -> None:
    """Simulate a fleet: its logs in FOLDER/raw and its true ledger in FOLDER/truth.

    \b
    ett simulate fleet --events 1000000
    ett simulate better --scenario optimised --jobs 200 --days 30
    ett simulate sources --format joined --jobs 100
    """
    is_joined = log_format == "joined"
    summary = _simulated(folder, is_joined=is_joined, **wanted)
    out.print(
        f"{summary.events:,} events of {summary.jobs:,} jobs in {summary.files:,} files under"
    )
    out.print(str(folder / "raw"), soft_wrap=True, markup=False)
    site = f" --registry {folder / 'site.yaml'}" if is_joined else ""
    following = f"next: ett run {folder / 'raw'}{site} --as-of {summary.as_of_ms}"
    out.print(following, soft_wrap=True, markup=False)


def _simulated(
    folder: Path, scenario: str, *, events: int | None, start: date, **wanted: Any
) -> Any:
    from simulator import simulate as simulated  # noqa: PLC0415

    with progress_of(events, "simulating") as tick:
        return simulated(
            scenario,
            out=folder,
            events=events,
            start=datetime.combine(start, datetime.min.time(), UTC),
            progress=tick,
            **wanted,
        )


@ett.command()
@click.argument("raw", nargs=-1, required=True)
@registry_option
@click.option("--events", "as_events", is_flag=True, help="Print every event, by file and line.")
def check(raw: tuple[str, ...], registry: Path | None, *, as_events: bool) -> None:
    """Say what logs are read as, what could not be read or joined, and what would tell more.

    \b
    ett check logs/
    ett check logs/ --registry site.yaml
    ett check logs/job.out --events
    """
    from pipelines import survey, terminal  # noqa: PLC0415 - pyarrow loads slowly

    if as_events:
        for event in survey.events_of(raw, site_file(registry)):
            click.echo(terminal.event_line(event))
        return
    with progress_of(None, "reading") as tick:
        seen = survey.survey(raw, site_file(registry), tick)
    out.print(terminal.survey_report(seen))
    if not seen.jobs:
        raise InputError("no job in these files: see above what they are read as")


@ett.command()
def doctor() -> None:
    """Report Python, engines, Java, memory and storage, and what to do where one is missing."""
    from pipelines import checkup  # noqa: PLC0415

    found = checkup.examine()
    for item in found:
        sign = "[green]ok[/]" if item.is_well else "[red]!![/]"
        out.print(sign, f"{item.name:10}", escape(item.found), sep=" ")
        if item.advice:
            out.print(f"   {'':10} {item.advice}", markup=False)
    if any(item.is_needed and not item.is_well for item in found):
        raise SystemExit(EXIT_FAILED)


def taxonomy_of(registry: Path | None) -> Taxonomy:
    """The site's taxonomy, or the built-in one."""
    if registry is None:
        return DEFAULT
    from pipelines.registry import load_registry  # noqa: PLC0415

    return load_registry(registry)


def site_file(registry: Path | None) -> Site:
    """What the site's file says, or the built-in settings."""
    from pipelines.site import Site, load_site  # noqa: PLC0415

    return load_site(registry) if registry else Site()


@contextmanager
def progress_of(total: int | None, what: str) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, told how much is done; silent elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def main() -> None:
    """Run `ett`; errors meant for the user end it with one message and status 1."""
    try:
        ett(standalone_mode=False)
    except click.exceptions.Abort:
        raise SystemExit(EXIT_INTERRUPTED) from None
    except click.ClickException as error:
        error.show()
        raise SystemExit(error.exit_code) from None
    except EttError as error:
        _fail(str(error))
    except OSError as error:  # a folder that may not be written, a full disk
        place = f": {os.fsdecode(error.filename)}" if error.filename else ""
        _fail(f"{error.strerror or error}{place}")
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "pyspark":
            raise
        first, *_ = str(error).splitlines() or [type(error).__name__]
        _fail(f"the engine failed: {first[:_LONGEST_LINE]}")


def _fail(why: str) -> NoReturn:
    err.print(harmless(f"ett: {why}"), markup=False, soft_wrap=True)
    raise SystemExit(EXIT_FAILED) from None
