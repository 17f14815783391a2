"""The sources of a whole site: each job to its scheduler's and trainer's logs, and its truth."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from simulator.formats import tellable
from simulator.formats.console import consoles
from simulator.formats.kubernetes import KubernetesLog
from simulator.formats.rebook import RecordedBook
from simulator.formats.site import SITE_YAML, place_of
from simulator.formats.slurm import SlurmLog
from simulator.formats.story import Nowhere, Recorder, story
from simulator.truth import TruthWriter
from simulator.writers import pen_of

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from simulator.book import Book
    from simulator.formats.story import Story
    from simulator.intents import Habits, Intent
    from simulator.logs import Pen
    from simulator.truth import JobTruth


class JoinedLogs:
    """Writes `out/raw/<cluster>/…`, `out/site.yaml` and `out/truth/joined/`.

    The truth there is that of the same courses, with jobs named as the sources name them and
    attempts as the schedulers know them; `tellable.json` says what the sources can tell of it.
    """

    def __init__(self, out: Path, as_of: int, *, is_compressed: bool) -> None:
        self.as_of = as_of
        self._is_compressed = is_compressed
        self.file_count = self.byte_count = self.line_count = 0
        self._out = out
        self._slurm = SlurmLog(as_of)
        self._kubernetes = KubernetesLog(as_of)
        self._truths = TruthWriter(out / "truth" / "joined")
        self._nowhere = Nowhere(out)
        self._pen: Recorder
        self._book: RecordedBook

    def __enter__(self) -> Self:
        """Begin the truth."""
        self._truths.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write what the schedulers kept, and what says how to read it all."""
        self._truths.__exit__(kind, error, trace)
        if error is None:
            for log in (self._slurm, self._kubernetes):
                for name, text in log.close():
                    self._write(name, text)
            (self._out / "site.yaml").write_text(SITE_YAML, encoding="utf-8")
            tellable.write(self._out / "truth" / "joined" / "tellable.json")

    def open(self, one: Intent, job_id: str, habits: Habits | None = None) -> tuple[Pen, Book]:
        """A pen and a book that remember."""
        self._pen = pen_of(Recorder, self._nowhere, one, job_id, habits)
        self._book = RecordedBook(self.as_of, keeps_lost=place_of(one).scheduler == "slurm")
        return self._pen, self._book

    def close(self, one: Intent, truth: JobTruth) -> JobTruth:
        """Write what the sources say of the job."""
        told = story(self._pen, self._book)
        log = self._slurm if place_of(one).scheduler == "slurm" else self._kubernetes
        log.add(one, told)
        if told.job_id == one.job_id:
            for name, text in consoles(one, told):
                self._write(name, text)
        if told.submitted is not None:
            self._truths.add(self._truth(one, truth, told))
        return truth

    def _truth(self, one: Intent, truth: JobTruth, told: Story) -> JobTruth:
        """The truth as the sources name it: their job ids, the scheduler's attempts."""
        return replace(
            truth,
            job_id=place_of(one).job_id(one, truth.job_id),
            doubts=truth.doubts | tellable.doubts(told, waits_held=self._book.waits_held),
            book=self._book.booked_by_allocation(),
        )

    def _write(self, name: str, text: str) -> None:
        data = text.encode()
        if self._is_compressed:
            name, data = f"{name}.gz", gzip.compress(data, compresslevel=1, mtime=0)
        path = self._out / "raw" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.file_count += 1
        self.byte_count += len(data)
        self.line_count += text.count("\n")
