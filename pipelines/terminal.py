"""Accounts, rankings and jobs as text for a terminal: tables and coloured bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dashboards.format import amount, duration, gpu_hours, percent
from pipelines.errors import harmless
from pipelines.survey import Reject, Survey, advice, doubts
from pipelines.taxonomy import EFFECTIVE, Stage, Taxonomy

Row = dict[str, Any]
_BAR_WIDTH = 60
_MOST_LOSSES = 12
_SMALL_BAR = 16
# Without colours, in print or for the colour-blind, the stages still differ.
_GLYPHS = dict(zip(Stage, "█░▒▓·", strict=True))
_OTHER_COLUMNS = 82  # what the columns beside the name take
_SHORTEST_NAME = 16


def jobs_table(accounts: Sequence[Row], *, width: int) -> Table:
    """One line per job in `width` cells: its ETT%, its stages as a bar, and the largest loss.

    A name too long for its share keeps its end, which tells jobs of one folder apart.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("job", no_wrap=True)
    for title in ("ETT", "wall", "GPU-hours"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("stages", no_wrap=True)
    table.add_column("largest loss", no_wrap=True)
    table.add_column("flags", no_wrap=True)
    for job in accounts:
        table.add_row(
            Text(shortened(harmless(name_of(job)), max(width - _OTHER_COLUMNS, _SHORTEST_NAME))),
            percent(job["ett_ratio"]),
            duration(job["wall_ms"]),
            held(job),
            stage_bar(job["stages"], width=_SMALL_BAR),
            _largest_loss(job["components"]),
            ", ".join(job["flags"]),
        )
    return table


def held(job: Row) -> str:
    """GPU-hours held; unknown where the job ran and never said how many GPUs it had."""
    return gpu_hours(job["held_gpu_ms"] if job["held_gpu_ms"] or not job["wall_ms"] else None)


def shortened(name: str, cells: int) -> str:
    """The name, or its end where it is longer than `cells`."""
    return name if len(name) <= cells else f"…{name[1 - cells :]}"


def stages_legend() -> Text:
    """Which colour is which stage."""
    legend = Text()
    for stage in Stage:
        legend.append(f"{_GLYPHS[stage]} ", style=stage.colour).append(f"{stage.label}  ")
    return legend


def name_of(job: Row) -> str:
    """The job's name, with its cluster where that is not the default one."""
    return f"{job['cluster']}/{job['job_id']}" if "cluster" in job else str(job["job_id"])


def _largest_loss(components: dict[str, int]) -> str:
    losses = {key: ms for key, ms in components.items() if key != EFFECTIVE}
    if not losses:
        return ""
    worst = max(losses, key=lambda key: losses[key])
    return f"{worst} {duration(losses[worst])}"


def stage_bar(stages: dict[str, int], *, width: int = _BAR_WIDTH) -> Text:
    """A bar of `width` cells, shared by the stages in stacking order."""
    return bar([(stages.get(s.value, 0), s.colour, _GLYPHS[s]) for s in Stage], width=width)


def bar(parts: Iterable[tuple[int, str, str]], *, width: int = _BAR_WIDTH) -> Text:
    """Cells in proportion to the parts (size, colour, glyph); the smallest may get none."""
    shown = list(parts)
    whole = sum(size for size, _, _ in shown)
    text = Text()
    if not whole:
        return text
    done = drawn = 0
    for size, colour, glyph in shown:
        done += size
        cells = done * width // whole - drawn
        drawn += cells
        text.append(glyph * cells, style=colour)
    return text


def job_report(
    account: Row, model: str | None, intervals: Sequence[Row], taxonomy: Taxonomy
) -> RenderableType:
    """One job explained: its bar over time, its stages, what was lost to whom, its recoveries."""
    head = Text.assemble(
        (harmless(name_of(account)), "bold"),
        f"  ETT {percent(account['ett_ratio'])} of {duration(account['wall_ms'])}",
        f", {held(account)} GPU-hours held",
    )
    parts: list[RenderableType] = [head, Text(harmless(f"told by {', '.join(account['sources'])}"))]
    if account["flags"]:
        parts.append(Text(f"flags: {', '.join(account['flags'])}"))
    parts += [
        timeline_bar(intervals, taxonomy),
        stage_legend(account),
        losses_table(account, model, taxonomy),
    ]
    parts.append(Text(_course(account)))
    return Group(*parts)


def timeline_bar(intervals: Sequence[Row], taxonomy: Taxonomy) -> Text:
    """The job from its start to its end: each row of the ledger in the colour of its component."""
    ordered = sorted(intervals, key=lambda r: r["started_at"])
    return bar(
        [
            (r["duration_ms"], taxonomy[r["component"]].colour, _GLYPHS[Stage(r["stage"])])
            for r in ordered
        ]
    )


def stage_legend(account: Row) -> Table:
    """The stages with their time and share."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for stage in Stage:
        ms = account["stages"].get(stage.value, 0)
        if ms:
            share = percent(ms / account["wall_ms"])
            table.add_row(
                Text(_GLYPHS[stage], style=stage.colour), stage.label, duration(ms), share
            )
    return table


def losses_table(account: Row, model: str | None, taxonomy: Taxonomy) -> Table:
    """The components that cost the job most, with their owners."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("component")
    table.add_column("time", justify="right")
    table.add_column("of wall", justify="right")
    table.add_column("owner")
    losses = [(ms, key) for key, ms in account["components"].items() if key != EFFECTIVE]
    for ms, key in sorted(losses, reverse=True)[:_MOST_LOSSES]:
        component = taxonomy[key]
        table.add_row(
            Text("•", style=component.colour),
            Text(harmless(component.label)),
            duration(ms),
            percent(ms / account["wall_ms"]),
            Text(harmless(taxonomy.owner_of(key, model) or "")),
        )
    return table


def _course(account: Row) -> str:
    told = [f"time to start {duration(account['tts_ms'])}"]
    if account["ttr_ms"]:
        told.append("recoveries " + ", ".join(duration(ms) for ms in account["ttr_ms"]))
    if account["interruptions"]:
        causes = ", ".join(f"{cause} x{n}" for cause, n in account["interruptions"].items())
        told.append(f"interruptions {causes}")
    if account.get("lost_tail_ms"):
        told.append(f"lost with the last checkpoint {duration(account['lost_tail_ms'])}")
    return "; ".join(told)


def ranking_table(
    rows: Sequence[Row], taxonomy: Taxonomy, count: int, *, currency: str | None
) -> Table:
    """The first `count` overhead sources by lost GPU time: component, owner, share, price.

    `currency` None: the reader did not name the site's registry, so the amounts go without one.
    """
    is_priced = any(row["lost_cost"] is not None for row in rows)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right")
    table.add_column("component")
    table.add_column("owner")
    table.add_column("GPU-hours lost", justify="right")
    table.add_column("of the loss", justify="right")
    table.add_column("wall lost", justify="right")
    if is_priced:
        table.add_column(currency or "cost", justify="right")
    whole = sum(row["lost_gpu_ms"] for row in rows)
    for place, row in enumerate(rows[:count], start=1):
        known = taxonomy.components.get(row["component"])
        cost = (
            [] if not is_priced else ["" if row["lost_cost"] is None else amount(row["lost_cost"])]
        )
        table.add_row(
            str(place),
            Text(harmless(known.label if known else row["component"])),
            Text(harmless(row["owner"])),
            gpu_hours(row["lost_gpu_ms"]),
            percent(row["lost_gpu_ms"] / whole) if whole else "",
            duration(row["lost_ms"]),
            *cost,
        )
    return table


def files_table(files: Sequence[Row]) -> Table:
    """What was read: format, files, lines, and how many of them said nothing or were rejected."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("read as", "files", "lines", "told something", "rejected", "ignored"):
        table.add_column(title, justify="left" if title == "read as" else "right")
    for source in sorted({f["source"] for f in files}):
        of = [f for f in files if f["source"] == source]
        counts = ("line_count", "event_line_count", "reject_count", "ignored_count")
        table.add_row(source, str(len(of)), *(f"{sum(f[c] for f in of):,}" for c in counts))
    return table


_FEW = 5
_NAMED = 2


def survey_report(seen: Survey) -> RenderableType:
    """What files hold, by source and kind; what was not read or joined; what would tell more."""
    parts: list[RenderableType] = [files_table(seen.files), _words_table(seen)]
    parts += _blocks("not read", [_reject(r) for r in _worst(seen.rejects.values())])
    joins = [f"{len(of):,} x {why}, as {of[0]}" for why, of in _most(seen.unjoined)]
    parts += _blocks("not joined", joins)
    notes = [f"{_files(of)}: {note}" for note, of in _most(seen.notes)]
    parts += _blocks("odd", notes)
    parts += _blocks("doubtful", doubts(seen))
    told = [
        f"{len(jobs):,} jobs of which {' + '.join(names)} speak, as {', '.join(jobs[:_NAMED])}"
        for names, jobs in seen.company.items()
    ]
    parts += _blocks("jobs", told)
    advised = [f"{a.job_count:,} jobs: {a.text}" if a.job_count else a.text for a in advice(seen)]
    return Group(*parts, *_blocks("to learn more", advised))


def _words_table(seen: Survey) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("source")
    table.add_column("tells of")
    table.add_column("events", justify="right")
    for (source, word), count in sorted(seen.words.items()):
        table.add_row(source, Text(harmless(word)), f"{count:,}")
    return table


def _blocks(title: str, lines: Sequence[str]) -> list[RenderableType]:
    """A titled list, its first lines; nothing where there are none."""
    if not lines:
        return []
    hidden = len(lines) - _FEW
    more = [Text(f"  … and {hidden:,} other kinds")] if hidden > 0 else []
    shown = [Text(f"  {harmless(line)}", overflow="fold") for line in lines[:_FEW]]
    return [Text(f"\n{title}", style="bold"), *shown, *more]


def _worst(rejects: Iterable[Reject]) -> list[Reject]:
    return sorted(rejects, key=lambda r: -r.line_count)


def _reject(reject: Reject) -> str:
    excerpt = " ".join(reject.excerpt[:_SHORT_EXCERPT].split())
    return f"{reject.line_count:,} x {reject.place}: {reject.reason} | {excerpt}"


_SHORT_EXCERPT = 80


def _most(said: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    return sorted(said.items(), key=lambda item: -len(item[1]))


def _files(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names):,} files, as {names[0]}"


_EVENT = ("job_id", "attempt", "rank", "step", "samples", "span_id", "gpus", "outcome", "cause")


def event_line(event: Row) -> str:
    """One event as a line: where it stands, when it was, what it says."""
    place = f"{event['source_file']}:{event['source_line']}"
    at = event["event_at"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
    what = " ".join(filter(None, (event["event"], event["phase"])))
    said = " ".join(f"{name}={event[name]}" for name in _EVENT if event[name] is not None)
    return harmless(f"{place}  {at}  {what}  {said}  {event['attrs'] or ''}".rstrip())
