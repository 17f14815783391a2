"""The simulated site: which sources each cluster keeps, under which names, on which clocks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pipelines.errors import UsageError
from simulator.intents import DAY_MS, HOUR_MS

if TYPE_CHECKING:
    from simulator.intents import Intent


class Joining(StrEnum):
    """By what the records of a cluster's scheduler are joined to a job."""

    SLURM_ID = "the number of the job, which is the job's name everywhere"
    JOB_NAME = "the name given at submission"
    LABEL = "a label of the objects"


Prefixes = tuple[str, str, str]
"""What stands before lines of the agent, the first rank, and the last one on `{node}`."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster as a source of logs.

    `zone`: of its naive local times. `clock_ms`: the step of the trainer's clock. `has_restarts`:
    its sacct has the column. `prefixes`: some for each way to launch.
    """

    name: str
    scheduler: str
    zone: str
    joining: Joining
    clock_ms: int
    has_restarts: bool = False
    prefixes: tuple[Prefixes, ...] = (("", "", ""),)

    @property
    def is_recent(self) -> bool:
        """Does it run the later version of the trainer, which says more and finer?"""
        return self.clock_ms == 1

    def local(self, at_ms: int) -> datetime:
        """The local time there of an instant, as a clock on the wall shows it: without a zone."""
        return _EPOCH + timedelta(milliseconds=at_ms + self._offset_ms(at_ms))

    def seconds(self, at_ms: int) -> str:
        """A naive local time in whole seconds, as sacct writes it."""
        return f"{self.local(at_ms):%Y-%m-%dT%H:%M:%S}"

    def trainer_time(self, at_ms: int) -> str:
        """A naive local time as the trainer's version of this cluster writes it."""
        local = at_ms + self._offset_ms(at_ms)
        day, of_day = divmod(local, DAY_MS)
        seconds, ms = divmod(of_day, 1000)
        minutes, second = divmod(seconds, 60)
        time = f"{_name_of_day(day)} {minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
        return f"{time}.{ms:03d}000" if self.is_recent else time

    def _offset_ms(self, at_ms: int) -> int:
        return _offset_ms(self.zone, at_ms // HOUR_MS)

    def job_id(self, one: Intent, job_id: str) -> str:
        """What its sources call the job `job_id` of `one` once they are joined."""
        if self.joining is not Joining.SLURM_ID:
            return job_id
        return str(slurm_id(one, job_id))


@lru_cache(maxsize=4096)
def _offset_ms(zone: str, hour: int) -> int:
    """What a zone is ahead of UTC in an hour since the epoch."""
    offset = datetime.fromtimestamp(hour * 3600, ZoneInfo(zone)).utcoffset() or timedelta()
    return round(offset.total_seconds()) * 1000


@lru_cache(maxsize=1024)
def _name_of_day(day: int) -> str:
    return f"{_EPOCH + timedelta(days=day):%Y-%m-%d}"


def slurm_id(one: Intent, job_id: str) -> int:
    """The number of a job at its cluster's scheduler."""
    return _FIRST_ID + 2 * one.index + (job_id != one.job_id)


_FIRST_ID = 480_000
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive, as the clocks of the site

PLACES = {
    p.name: p
    for p in (
        Place(
            "cedar", "slurm", "Europe/Oslo", Joining.SLURM_ID, 1, has_restarts=True,
            prefixes=(("", "", ""), ("", "[default0]:", "[default7]:")),
        ),
        Place(
            "basalt", "slurm", "Asia/Singapore", Joining.JOB_NAME, 1000,
            prefixes=(("", "", ""), ("0: ", "0: ", "{node}: ")),
        ),
        Place("heron", "kubernetes", "UTC", Joining.LABEL, 1),
    )
}  # fmt: skip

SITE_YAML = """\
# How the sources of this (simulated) site are read and joined into jobs.
sources:
  - path: '^cedar/slurm/'
    source: slurm
    cluster: cedar
    zone: Europe/Oslo
  - path: '^cedar/jobs/(?P<job_id>[^/]+)/attempt_(?P<attempt>\\d+)'
    cluster: cedar
    zone: Europe/Oslo
  - path: '^basalt/slurm/'
    source: slurm
    cluster: basalt
    zone: Asia/Singapore
    identity: {field: JobName}
  - path: '^basalt/jobs/(?P<job_id>[^/]+)/slurm-\\d+_(?P<attempt>\\d+)'
    cluster: basalt
    zone: Asia/Singapore
  - path: '^heron/k8s/'
    source: kubernetes
    cluster: heron
    identity: {field: 'label:ettledger/job'}
  - path: '^heron/jobs/(?P<job_id>[^/]+)/attempt_(?P<attempt>\\d+)'
    cluster: heron
    zone: UTC
"""


def place_of(one: Intent) -> Place:
    """The place of a job's cluster, or a UsageError where the site does not know it."""
    try:
        return PLACES[one.cluster.name]
    except KeyError:
        known = ", ".join(PLACES)
        raise UsageError(
            f"cluster '{one.cluster.name}' keeps no such logs; known: {known}"
        ) from None
