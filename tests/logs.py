"""Small lifecycle logs for tests: one job in a few words, written as a file."""

import json
from datetime import UTC, datetime
from pathlib import Path


def at(text: str) -> int:
    """Epoch milliseconds of a UTC time such as `11-01 23:30` of the year 2026."""
    return int(datetime.fromisoformat(f"2026-{text}").replace(tzinfo=UTC).timestamp() * 1000)


def line(when: str, event: str, job: str = "a", **fields) -> dict:
    return {"ts": at(when), "event": event, "job_id": job, **fields}


def started(when: str, job: str = "a", *, training: str | None = None, gpus: int = 8) -> list[dict]:
    """An attempt that enters the loop at `training`, or at once."""
    return [
        line(when, "attempt_started", job, gpus=gpus, model="m", team="t"),
        line(training or when, "train_begin", job, step=0),
    ]


def steps(*marks: tuple[str, int], job: str = "a") -> list[dict]:
    return [line(when, "step", job, step=step) for when, step in marks]


def ended(when: str, job: str = "a", outcome: str = "succeeded") -> list[dict]:
    return [line(when, event, job, outcome=outcome) for event in ("attempt_ended", "job_finished")]


def write(path: Path, lines: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return path
