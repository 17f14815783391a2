"""What is compared with what: inputs made, contenders named, results checked."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import zstandard
from fleets import write_fleet
from longjob import AS_OF_MS, JOB, write_entries
from measure import FRESH, Comparison, Contender, DifferenceError, Measurements, Row, run_once

from simulator import simulate

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Sizes:
    """How much work the contenders get, and where."""

    folder: Path
    bench_python: str
    lines: int
    marks: int
    steps: int
    events: int
    jobs: int
    has_spark: bool


def reader(sizes: Sizes) -> Comparison:
    """Lines of the lifecycle format to Arrow batches, against decoding them only."""
    plain, count = _one_log(sizes)
    paths = {
        "plain": plain,
        ".gz": plain.with_suffix(".jsonl.gz"),
        ".zst": plain.with_suffix(".jsonl.zst"),
    }
    data = plain.read_bytes()
    paths[".gz"].write_bytes(gzip.compress(data, 6))
    paths[".zst"].write_bytes(zstandard.compress(data, 3))
    scripts = {"json.loads": "read_json.py", "reader": "read_lifecycle.py"}
    contenders = [
        Contender(f"{name}, {kind}", script, [str(path)])
        for kind, path in paths.items()
        for name, script in scripts.items()
    ]

    def same_count(found: Measurements) -> list[str]:
        counts = {m.result for measured in found.values() for m in measured}
        if counts != {count}:
            raise DifferenceError(f"the file has {count} lines, the contenders saw {counts}")
        return []

    return Comparison(
        title="reader",
        about=f"One log of {count:,} lines, {len(data) / 1e6:.0f} MB, of a simulated fleet, read by"
        " one process.",
        unit="lines",
        count=count,
        contenders=contenders,
        rows=[Row(c.name, c.name, ("read",)) for c in contenders],
        baseline="json.loads, plain",
        check=same_count,
    )


def _one_log(sizes: Sizes) -> tuple[Path, int]:
    """A simulated fleet's logs as one file."""
    folder = sizes.folder / "logs"
    start = datetime(2026, 11, 1, tzinfo=UTC)
    simulate("baseline", out=folder, events=sizes.lines, days=14, start=start, seed=7)
    plain = sizes.folder / "fleet.jsonl"
    with plain.open("wb") as out:
        for path in sorted((folder / "raw").rglob("*.jsonl")):
            out.write(path.read_bytes())
    with plain.open("rb") as lines:
        return plain, sum(1 for _ in lines)


# What each kind of file is asked for by grep: the lines that tell something.
_PATTERNS = {
    "slurm": r"^[0-9_]+\|",
    "jobs": r"iteration +[0-9]+/ *[0-9]+ \|.*elapsed time per iteration \((ms|s)\): [0-9.]+ \|",
    "k8s": r'"kind": ?"(Job|JobSet|PyTorchJob|Workload|Pod|Event)"',
}


def sources(sizes: Sizes) -> list[Comparison]:
    """The readers of the logs that sites have, against `grep -c` of what they look for."""
    folder = sizes.folder / "joined"
    start = datetime(2026, 11, 1, tzinfo=UTC)
    simulate(
        "exercise", out=folder, events=sizes.lines, days=14, start=start, seed=7, is_joined=True
    )
    return [_source(folder, kind, pattern) for kind, pattern in _PATTERNS.items()]


def _source(folder: Path, kind: str, pattern: str) -> Comparison:
    """One kind of file of the joined fleet, under its clusters' names in a folder of its own."""
    raw = folder / f"only-{kind}"
    for found in sorted((folder / "raw").glob(f"*/{kind}")):
        shutil.copytree(found, raw / found.parent.name / kind)
    files = [path for path in raw.rglob("*") if path.is_file()]
    data = [path.read_bytes() for path in files]
    count = sum(text.count(b"\n") for text in data)
    reader_, grep = f"reader, {kind}", f"grep -c, {kind}"
    return Comparison(
        title=f"sources: {kind}",
        about=f"{count:,} lines, {sum(map(len, data)) / 1e6:.0f} MB, {len(files):,} files of"
        " a simulated fleet; `grep -rcE` for the lines that tell something.",
        unit="lines",
        count=count,
        contenders=[
            Contender(grep, "grep_count.py", [pattern, str(raw)]),
            Contender(reader_, "read_sources.py", [str(raw), str(folder / "site.yaml")]),
        ],
        rows=[Row(grep, grep, ("read",)), Row(reader_, reader_, ("read",))],
        baseline=grep,
    )


# As far as the contenders by hand go; and all that is published.
_PARTS = {
    "component sums": ("--until", "rows", "--again"),
    "whole walk": ("--until", "charges"),
}


def ledger(sizes: Sizes) -> Comparison:
    """Component sums of a synthetic fleet: the pipeline on its engines, DuckDB's SQL, pandas."""
    events = sizes.folder / "events"
    count = write_fleet(events, marks=sizes.marks, seed=7)
    engines = {"Sail": "sail"} | ({"Spark local[2]": "local[2]"} if sizes.has_spark else {})
    sums: dict[str, Path] = {}

    def contender(name: str, script: str, python: str | None, *more: str) -> Contender:
        sums[name] = sizes.folder / f"sums-{len(sums)}.json"
        chosen = {"python": python} if python else {}
        return Contender(name, script, [str(events), str(sums[name]), *more], **chosen)

    by_hand = [
        contender("DuckDB SQL", "ledger_duckdb.py", sizes.bench_python),
        contender("pandas", "ledger_pandas.py", None),
    ]
    ours = [
        contender(f"{name}, {part}", "ledger_pipeline.py", None, "--engine", engine, *arguments)
        for name, engine in engines.items()
        for part, arguments in _PARTS.items()
    ]
    return Comparison(
        title="ledger",
        about="A synthetic fleet: "
        + ", ".join(f"{n:,} {what}" for what, n in count.items())
        + "; read from Parquet.",
        unit="marks",
        count=count["marks"],
        contenders=[*by_hand, *ours],
        rows=_ledger_rows(by_hand, ours),
        baseline="DuckDB SQL",
        check=lambda _: [_same_sums(sums)],
    )


def _ledger_rows(by_hand: list[Contender], ours: list[Contender]) -> list[Row]:
    rows = [Row(c.name, c.name, ("first",)) for c in by_hand]
    for c in ours:
        rows += [
            Row(c.name, c.name, ("first",)),
            Row(f"{c.name}, engine start included", c.name, ("start", "first")),
        ]
        if "--again" in c.arguments:
            rows.append(Row(f"{c.name}, again in the same session", c.name, ("second",)))
    return rows


def _same_sums(paths: dict[str, Path]) -> str:
    """Every contender gave every job the same milliseconds, or DifferenceError."""
    sums = {name: json.loads(path.read_text()) for name, path in paths.items()}
    (first, expected), *others = sums.items()
    for name, found in others:
        for job in sorted(expected.keys() | found.keys()):
            ours, theirs = expected.get(job), found.get(job)
            if ours != theirs:
                raise DifferenceError(f"{job}: {first} has {ours}, {name} has {theirs}")
    values = [ms for job in expected.values() for ms in job.values()]
    return (
        f"All {len(sums)} contenders gave the same {len(values):,} component sums of"
        f" {len(expected):,} jobs, {sum(values):,} ms in all, to the millisecond."
    )


def goodput(sizes: Sizes) -> list[Comparison]:
    """One long job: `ett account` against Google's library, without and with evaluations."""
    return [_goodput(sizes, has_evaluations=has) for has in (False, True)]


def _goodput(sizes: Sizes, *, has_evaluations: bool) -> Comparison:
    path = sizes.folder / f"job-{has_evaluations}.jsonl"
    count = write_entries(path, steps=sizes.steps, has_evaluations=has_evaluations, seed=7)
    library = Contender(
        "ml-goodput-measurement", "goodput_library.py", [str(path), JOB], sizes.bench_python
    )
    account = Contender("ett account", "goodput_account.py", [str(path), str(AS_OF_MS)])

    def close(found: Measurements) -> list[str]:
        theirs, ours = (found[c.name][0].result for c in (library, account))
        if abs(theirs["ratio"] - ours["ratio"]) > 0.001:
            raise DifferenceError(f"{theirs['name']} says {theirs}, {ours['name']} says {ours}")
        return [f"Goodput: {theirs['name']} {theirs['ratio']:.5%}, ours {ours['ratio']:.5%}."]

    what = "with" if has_evaluations else "without"
    return Comparison(
        title=f"one job of {sizes.steps:,} steps, {what} evaluations",
        about=f"{count:,} entries in one file of JSON lines; {what} evaluations in the loop.",
        unit="entries",
        count=count,
        contenders=[library, account],
        rows=[
            Row("ml-goodput-measurement, entries in memory", library.name, ("account",)),
            Row("ml-goodput-measurement, file read", library.name, ("read", "account")),
            Row("ett account, engine running", account.name, ("account",)),
            Row("ett account, engine start included", account.name, ("whole",)),
        ],
        baseline="ml-goodput-measurement, file read",
        check=close,
    )


def writing(sizes: Sizes) -> list[Comparison]:
    """The simulator's speed; then `ett run` and the pages over what it wrote."""
    simulated = sizes.folder / "simulated"
    asked = [str(sizes.jobs), str(sizes.events)]
    told = run_once(Contender("input", "fleet_simulate.py", [str(simulated), *asked])).result
    simulating = Contender("simulator", "fleet_simulate.py", [FRESH, *asked])
    publishing = Contender(
        "publisher", "fleet_publish.py", [str(simulated / "raw"), str(told["as_of_ms"]), FRESH]
    )
    about = f"{told['lines']:,} lines of {told['jobs']:,} jobs in {told['files']:,} files."

    def pages(found: Measurements) -> list[str]:
        site = found[publishing.name][0].result
        if site["lines"] != told["lines"]:
            raise DifferenceError(f"{told['lines']} lines were written, {site['lines']} were read")
        size = site["site_bytes"] / 1e6
        return [
            (
                f"{site['days']} days published; {site['files']} files, {size:.1f} MB of pages for"
                f" {site['jobs']:,} jobs."
            )
        ]

    return [
        Comparison(
            title="simulator and publishing",
            about=about,
            unit="lines",
            count=told["lines"],
            contenders=[simulating, publishing],
            rows=[
                Row("simulate", simulating.name, ("simulate",)),
                Row("`ett run`, raw logs to tables and pages, Sail", publishing.name, ("run",)),
                Row("pages alone", publishing.name, ("site",)),
            ],
            baseline="simulate",
            check=pages,
        )
    ]


def cleared(folder: Path) -> Path:
    """An empty folder of that name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
