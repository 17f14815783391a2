"""What the tests of the recorder share: a clock that stands still, and what a file then says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ettledger.recorder import Identity, Recorder

T0 = 1_764_576_000_000
ROOT = Path(__file__).parent.parent.parent
NAMES = ("ts", "job_id", "rank", "host", "span_id")


class Clock:
    """Epoch milliseconds that pass when a test says so."""

    def __init__(self):
        self.now = T0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += round(seconds * 1000)


def opened(path, *, clock=None, rank=0, leads=True, **options):
    who = Identity(job_id="j", rank=rank, host="n1", leads=leads)
    return Recorder(str(path), who, clock=clock or Clock(), **options)


def lines(*files):
    """All whole lines of the files; a folder's are those of its files by name."""
    found = [f for path in files for f in ([path] if path.is_file() else sorted(path.iterdir()))]
    return [json.loads(line) for f in found for line in f.read_bytes().splitlines()]


def short(told):
    """A line without what all lines of a test have in common."""
    return {name: value for name, value in told.items() if name not in NAMES}


def steps(told):
    return [line["step"] for line in told if line["event"] == "step"]


def run(script, *arguments, python=sys.executable, environment=None):
    """A script in a process of its own, which sees the standard library and the recorder only."""
    prologue = f"import sys; sys.path.insert(0, {str(ROOT / 'recorder')!r})\n"
    command = [str(python), "-S", "-E", "-c", prologue + script, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=30, env=environment or {}
    )
