"""Write docs/components.md and docs/tables.md from their declarations, or check them for drift."""

from __future__ import annotations

import sys
from pathlib import Path

from pipelines.tables import TABLES, Table
from pipelines.taxonomy import DEFAULT, Cause, Outcome, Stage

DOCS = Path(__file__).parent.parent / "docs"
_NOTE = "<!-- Written by `make docs` from {source}; change it there. -->"


def components() -> str:
    """The glossary of components, stages, outcomes and causes."""
    lines = [
        "# Components",
        "",
        _NOTE.format(source="pipelines/taxonomy.py"),
        "",
        (
            "Every millisecond of a job is in exactly one of these. Those marked * are given by the"
            " accounting only: a log that claims one as a `phase` is rejected."
        ),
        "",
        "| key | label | area (L2) | owner | what it is | colour |",
        "|---|---|---|---|---|---|",
        *(
            f"| `{c.key}`{' *' if c.is_given else ''} | {c.label} | {c.area.value} |"
            f" {c.owner or '—'} | {c.definition} | `{c.colour}` |"
            for c in DEFAULT
        ),
        "",
        "## Stages (L1)",
        "",
        *(f"- `{s.value}`: {s.label}, `{s.colour}`" for s in Stage),
        "",
        "## Outcomes",
        "",
        ", ".join(f"`{o.value}`" for o in Outcome) + ". Any other word means `unknown`.",
        "",
        "## Causes",
        "",
        "The number of failures (NoF) counts the infrastructure's.",
        "",
        "| cause | infrastructure |",
        "|---|---|",
        *(f"| `{c.value}` | {'yes' if c.is_infrastructure else 'no'} |" for c in Cause),
        "",
    ]
    return "\n".join(lines)


def table(declared: Table) -> list[str]:
    """One table's section."""
    swapped = "day by day" if declared.is_daily else "whole"
    return [
        f"## {declared.name}",
        "",
        (
            f"Grain: {declared.grain}. Owner: {declared.owner}. Swapped {swapped}."
            f" Key: {', '.join(f'`{k}`' for k in declared.key)}."
        ),
        "",
        "| column | type | null | meaning |",
        "|---|---|---|---|",
        *(
            f"| `{c.name}` | {c.type} | {'yes' if c.is_nullable else 'no'} | {c.meaning} |"
            for c in declared.columns
        ),
        "",
    ]


def tables() -> str:
    """The glossary of published tables."""
    head = [
        "# Tables",
        "",
        _NOTE.format(source="pipelines/tables.py"),
        "",
        (
            "Columns end in their unit: `_at` a UTC timestamp, `_ms` milliseconds, `_gpu_ms`"
            " accelerator milliseconds, `_ratio` 0 to 1, `_count`, `is_`. Null means unknown."
        ),
        "",
    ]
    return "\n".join(head + [line for t in TABLES.values() for line in table(t)])


def main() -> int:
    """Write both pages; with --check, report what differs and change nothing."""
    pages = {DOCS / "components.md": components(), DOCS / "tables.md": tables()}
    stale = [path for path, text in pages.items() if not path.is_file() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            sys.stderr.write(f"{path} is not what the code declares: run `make docs`\n")
        return 1 if stale else 0
    for path, text in pages.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
