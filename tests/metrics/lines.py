"""Lines of jobs as the transforms get them: after reading, and after placing."""

from __future__ import annotations

from pipelines.tables import LOGBOOK_EVENT
from tests.frames import frame

SAID = [c for c in LOGBOOK_EVENT.columns if c.name not in ("ds", "event_at")]
LINE = "at long, " + ", ".join(
    f"{c.name} {c.type}" for c in SAID if not c.name.startswith("source")
)
PLACED = f"{LINE}, run long"
MARK = (
    "cluster string, job_id string, at long, event string, attempt long, rank long, host string,"
    " step long, samples long, rest long, run long"
)
OF_ONE_JOB = {"cluster": "c", "job_id": "j"}


def read_lines(spark, *lines):
    """Lines of the job c/j, or of what they name."""
    return frame(spark, LINE, [OF_ONE_JOB | line for line in lines])


def placed_lines(spark, *lines):
    """Lines of attempt 0 of the only run of the job c/j, or of what they name."""
    return frame(spark, PLACED, [OF_ONE_JOB | {"run": 1, "attempt": 0} | line for line in lines])


def placed_marks(spark, *marks):
    """As `placed_lines`, with the columns of marks: a step, or what they name."""
    usual = OF_ONE_JOB | {"run": 1, "attempt": 0, "event": "step", "step": 0, "rest": 0}
    return frame(spark, MARK, [usual | mark for mark in marks])
