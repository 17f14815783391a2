"""trainer_state.json of the Hugging Face Trainer: it has steps without times, so no events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from pipelines.ingest.documents import Documents
from pipelines.ingest.records import Event, Format, Numbered, Reading, Reject

SOURCE = "steps"

_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"[a-z_]+"\s*:')


class _Entry(msgspec.Struct):
    step: Any = None
    train_runtime: Any = None


_decoder = msgspec.json.Decoder(_Entry)


def is_trainer_state(begin: bytes) -> bool:
    """Does the text begin as the Trainer writes its state?"""
    return bool(b'"log_history"' in begin and b'"global_step"' in begin and _BEGIN.match(begin))


def parse(documents: Numbered, reading: Reading) -> Iterator[Event | Reject]:
    """Entries of `log_history`: none names a time, so each is ignored, and the note says so."""
    highest, runtime = None, None
    for number, text in documents:
        try:
            entry = _decoder.decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            yield reading.tally.reject(number, f"no entry of a log_history: {error}", text)
            continue
        reading.tally.ignored_count += 1
        if isinstance(entry.step, int):
            highest = max(highest or 0, entry.step)
        if isinstance(entry.train_runtime, int | float):
            runtime = entry.train_runtime
    reached = "no step" if highest is None else f"step {highest}"
    took = "" if runtime is None else f" in {runtime} s of training"
    reading.tally.notes.append(
        f"it reached {reached}{took}, but a trainer_state.json says of no step when it was: "
        "give the job's console log with its progress bar"
    )


FORMAT = Format(SOURCE, Documents, parse, knows_begin=is_trainer_state)
