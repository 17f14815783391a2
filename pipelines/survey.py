"""What logs are, before anything is accounted: the figures that `ett check` prints."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.errors import InputError
from pipelines.ingest.coverage import PROGRESS
from pipelines.ingest.files import RawFile, raw_files
from pipelines.ingest.reading import UNKNOWN_SOURCE, files_batch, read_files
from pipelines.ingest.sources import SOURCES, Role
from pipelines.site import Site

Row = dict[str, Any]
Job = tuple[str, str]


class Reject(NamedTuple):
    """Why lines were not read: how many, and the first of them."""

    source: str
    reason: str
    line_count: int
    place: str
    excerpt: str


@dataclass
class Survey:
    """What some files hold.

    `files` are rows of logbook__file, `words` counts events by (source, kind or phase), `rejects`
    by (source, what is alike in the reason) with the first of each, `unjoined` own names by reason,
    `jobs` what each source told of each (cluster, job_id), `open_phases` begins less ends of each
    phase by source, `sized` the jobs whose accelerators some line says, `idle_rules` the paths of
    the site's sources that no file has.
    """

    files: list[Row] = field(default_factory=list)
    words: Counter[tuple[str, str]] = field(default_factory=Counter)
    rejects: dict[tuple[str, str], Reject] = field(default_factory=dict)
    joined_count: int = 0
    unjoined: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    jobs: dict[Job, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(dict))
    open_phases: Counter[tuple[str, str]] = field(default_factory=Counter)
    sized: set[Job] = field(default_factory=set)
    idle_rules: list[str] = field(default_factory=list)

    def total(self, column: str) -> int:
        """A count of logbook__file over all files."""
        return sum(row[column] for row in self.files)

    @property
    def is_balanced(self) -> bool:
        """Is it known of every line what became of it?"""
        accounted = ("event_line_count", "reject_count", "ignored_count")
        return all(f["line_count"] == sum(f[c] for c in accounted) for f in self.files)

    @property
    def notes(self) -> dict[str, list[str]]:
        """What is odd about files, in words, and the files of which the like is said."""
        said: dict[str, tuple[str, list[str]]] = {}
        for row in self.files:
            for note in filter(None, (row["note"] or "").split("; ")):
                said.setdefault(alike(note), (note, []))[1].append(row["source_file"])
        return dict(said.values())

    @property
    def company(self) -> dict[tuple[str, ...], list[str]]:
        """The jobs that each set of sources speaks of, the largest set of jobs first."""
        found: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for (cluster, job_id), told in sorted(self.jobs.items()):
            found[tuple(sorted(told))].append(f"{cluster}/{job_id}")
        return dict(sorted(found.items(), key=lambda item: -len(item[1])))

    @property
    def split_jobs(self) -> dict[str, list[str]]:
        """Names of jobs that occur in several clusters, with the clusters."""
        clusters: dict[str, list[str]] = defaultdict(list)
        for cluster, job_id in sorted(self.jobs):
            clusters[job_id].append(cluster)
        return {job_id: of for job_id, of in clusters.items() if len(of) > 1}


def alike(reason: str) -> str:
    """A reason without the numbers and the words quoted from the line: what many have in common.

    >>> alike("the time 2021-04-07 23:56 names no zone: see 'x.log'")
    'the time … names no zone: see …'
    """
    return _OWN.sub("…", reason)


_OWN = re.compile(r"'[^']*'|[\w.:+-]*\d[\w.:+-]*(?: \d[\w.:+-]*)?")


def survey(
    paths: Sequence[str], site: Site | None = None, tick: Callable[[int], None] = lambda _: None
) -> Survey:
    """Read `paths` (files or folders) and tell what they hold; no engine is started.

    `tick` is told how many files are read. Raises InputError for a path that is not there or holds
    no file.
    """
    found = raw_files(paths)
    if not found:
        raise InputError(f"no files in {', '.join(map(str, paths))}: give the folder of the logs")
    ours = site or Site()
    seen = Survey(idle_rules=_idle(ours, found))
    for batch in _read(found, ours):
        kind = batch["record"][0].as_py() if batch.num_rows else None
        if kind in _TAKE:
            _TAKE[kind](seen, batch)
            tick(len(seen.files))
    return seen


def events_of(paths: Sequence[str], site: Site | None = None) -> Iterator[Row]:
    """The events that files tell, as rows of logbook__event, each file's in the order of its lines.

    Raises InputError as `survey` does.
    """
    for file in raw_files(paths):
        batches = (b for b in _read([file], site or Site()) if b["record"][0].as_py() == "event")
        rows = [row for batch in batches for row in batch.to_pylist()]
        yield from sorted(rows, key=lambda row: (row["source_line"], row["event_at"]))


def _idle(site: Site, found: Iterable[RawFile]) -> list[str]:
    """The paths of rules that are the first for no file."""
    rules = site.sources.rules
    used = {id(rule) for file in found if (rule := site.sources.rule_of(file.name))}
    return [rule.path for rule in rules if id(rule) not in used]


def _read(found: Iterable[RawFile], site: Site) -> Iterator[pa.RecordBatch]:
    return read_files([files_batch(found)], site.taxonomy, site.sources)


def _take_events(seen: Survey, batch: pa.RecordBatch) -> None:
    names = ("cluster", "job_id", "source", "event", "phase", "gpus")
    columns = [batch[name].to_pylist() for name in names]
    for cluster, job_id, source, event, phase, gpus in zip(*columns, strict=True):
        word = phase or event
        seen.words[source, word] += 1
        seen.jobs[cluster, job_id].setdefault(source, set()).add(word)
        if phase:
            seen.open_phases[source, phase] += 1 if event == "phase_begin" else -1
        if gpus is not None:
            seen.sized.add((cluster, job_id))


def _take_rejects(seen: Survey, batch: pa.RecordBatch) -> None:
    for row in batch.to_pylist():
        key = row["source"], alike(row["reason"])
        place = f"{row['source_file']}:{row['source_line']}"
        first = seen.rejects.get(key) or Reject(
            row["source"], row["reason"], 0, place, row["excerpt"]
        )
        seen.rejects[key] = first._replace(line_count=first.line_count + 1)


def _take_files(seen: Survey, batch: pa.RecordBatch) -> None:
    seen.files += batch.to_pylist()


def _take_joins(seen: Survey, batch: pa.RecordBatch) -> None:
    for row in batch.to_pylist():
        if row["reason"] is None:
            seen.joined_count += 1
        else:
            seen.unjoined[row["reason"]].append(f"{row['source_file']}: {row['own_id']}")


_TAKE: dict[str, Callable[[Survey, pa.RecordBatch], None]] = {
    "event": _take_events,
    "reject": _take_rejects,
    "file": _take_files,
    "join": _take_joins,
}


class Advice(NamedTuple):
    """What would tell more, and of how many jobs."""

    job_count: int
    text: str


def advice(seen: Survey) -> list[Advice]:
    """What could be switched on to learn more, what concerns most jobs first."""
    counted = [
        Advice(sum(lacks(told) for told in seen.jobs.values()), text) for lacks, text in _LACKS
    ]
    counted.append(Advice(len(seen.jobs.keys() - seen.sized), _UNSIZED))
    unknown = sum(f["source"] == UNKNOWN_SOURCE and f["line_count"] > 0 for f in seen.files)
    if unknown:
        counted.append(
            Advice(
                0,
                f"{unknown:,} files were not recognised: write a profile for the trainer's lines "
                "(docs/sources/profiles.md), or name the reader with `source:` (docs/sources.md)",
            )
        )
    return sorted((a for a in counted if a.job_count or "recognised" in a.text), reverse=True)


def doubts(seen: Survey) -> list[str]:
    """What looks like a mistake of the site's file or of a profile, in words."""
    idle = [
        f"the entry with the path {path} holds for no file: it is searched in names relative to "
        "the folder given, and an earlier entry may hold for its files"
        for path in seen.idle_rules
    ]
    split = [
        f"{job_id} is a job in each of {', '.join(of)}: if it is one job, give all its sources the "
        "same `cluster:`"
        for job_id, of in sorted(seen.split_jobs.items())
    ]
    unclosed = [
        f"{count:,} more begins than ends of {phase} in {source}: each lasts to the next step"
        for (source, phase), count in sorted(seen.open_phases.items())
        if count > 0
    ]
    return [*idle, *split, *unclosed]


Told = dict[str, set[str]]


def _words(told: Told) -> set[str]:
    return set().union(*told.values())


def _roles(told: Told) -> set[Role]:
    return {SOURCES[name].role for name in told}


def _has_no_progress(told: Told) -> bool:
    return not any(name in PROGRESS for name in told)


def _has_no_steps(told: Told) -> bool:
    return not _has_no_progress(told) and "step" not in _words(told)


def _has_no_allocation(told: Told) -> bool:
    strong = {Role.SCHEDULER, Role.ORCHESTRATOR, Role.RECORDER}
    return not _roles(told) & strong


def _has_no_checkpoint(told: Told) -> bool:
    return "step" in _words(told) and not _words(told) & {"checkpoint_durable", "checkpoint_save"}


def _has_no_startup(told: Told) -> bool:
    starts = ("trainer_init", "launcher_init", "checkpoint_restore")
    return "step" in _words(told) and not any(w.startswith(starts) for w in _words(told))


def _has_no_compile(told: Told) -> bool:
    return "step" in _words(told) and "compile" not in _words(told)


_UNSIZED = (
    "no line says how many accelerators they held, so they have no GPU time: add the scheduler's "
    "records, or `gpus` to the start"
)
_LACKS: tuple[tuple[Callable[[Told], bool], str], ...] = (
    (
        _has_no_progress,
        (
            "only schedulers or launchers speak of them: ETT% is unknown; add the trainers' logs, "
            "or write steps with the recorder (docs/recorder.md)"
        ),
    ),
    (
        _has_no_steps,
        (
            "no step is told of them, so they look as if they never trained: log steps, or write a "
            "profile for the trainer's lines (docs/sources/profiles.md)"
        ),
    ),
    (
        _has_no_allocation,
        (
            "no scheduler speaks of them: queue, true start and end, and often the GPUs are "
            "unknown: add `sacct -D -P` output or Kubernetes objects (docs/sources/slurm.md)"
        ),
    ),
    (
        _has_no_checkpoint,
        (
            "no checkpoint is told, so what the last crash lost is unknown: log saves, or "
            "`checkpoint_durable` with the recorder"
        ),
    ),
    (
        _has_no_startup,
        (
            "nothing tells what was before the first step: that time stays unattributed; add the "
            "launcher's log, or phases with the recorder"
        ),
    ),
    (
        _has_no_compile,
        (
            "no compilation is told: at best it is inferred from a slow first step; set "
            "TORCH_TRACE (docs/sources/torch-trace.md)"
        ),
    ),
)
