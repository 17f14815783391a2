"""Who writes the logs of a fleet: hands out a pen and a book for each job, takes its truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from simulator.book import Book
from simulator.logs import LogFiles, Pen

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from simulator.intents import Habits, Intent
    from simulator.truth import JobTruth


class Logs(Protocol):
    """The logs of a fleet, in whatever format; a context that completes the files at its end."""

    as_of: int

    @property
    def file_count(self) -> int:
        """Files written."""
        ...

    @property
    def byte_count(self) -> int:
        """Bytes written."""
        ...

    def open(self, one: Intent, job_id: str, habits: Habits | None = None) -> tuple[Pen, Book]:
        """Pen and book for the job `job_id` that `one` leads to; no `habits`: the plainest."""
        ...

    def close(self, one: Intent, truth: JobTruth) -> JobTruth:
        """The job opened last is over: `truth` is what happened."""
        ...

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Complete the files, unless something went wrong."""
        ...


_P = TypeVar("_P", bound=Pen)


def pen_of(kind: type[_P], files: LogFiles, one: Intent, job_id: str, habits: Habits | None) -> _P:
    """A pen that writes as the job's cluster keeps its logs and as the job reports."""
    pen = kind(files, one.cluster.name, job_id, one.cluster.layout)
    if habits is not None:
        pen.ranks = habits.ranks
        pen.is_numbered = habits.is_numbered
        pen.resends = habits.resends
    return pen


class LifecycleLogs:
    """Lifecycle events under `root`, compressed or not."""

    def __init__(self, root: Path, as_of: int, *, is_compressed: bool) -> None:
        self.as_of = as_of
        self._files = LogFiles(root, is_compressed=is_compressed)

    @property
    def file_count(self) -> int:
        """Files written."""
        return self._files.file_count

    @property
    def byte_count(self) -> int:
        """Bytes written."""
        return self._files.byte_count

    def open(self, one: Intent, job_id: str, habits: Habits | None = None) -> tuple[Pen, Book]:
        """Pen and book for one job."""
        return pen_of(Pen, self._files, one, job_id, habits), Book(self.as_of)

    def close(self, one: Intent, truth: JobTruth) -> JobTruth:  # noqa: ARG002 - all is written
        """The job is over; its lines are written already."""
        return truth

    def __enter__(self) -> Self:
        """Nothing to begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write what is pending."""
        self._files.flush()
