import pytest

from pipelines.ingest import recognise as module
from pipelines.ingest.recognise import GOODPUT_ARRAY, GOODPUT_LINES, LIFECYCLE, MLLOG, recognise
from pipelines.ingest.unpack import DamageError

STEP = b'{"ts": 1764576000000, "job_id": "a", "event": "step", "step": 1}\n'
ENTRY = b'{"job_name": "a", "job_start_time": 1764000000.0}'


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        (STEP, LIFECYCLE),
        (b"\xef\xbb\xbf\n" + STEP, LIFECYCLE),
        (b"torn\n{\x00}\n" + STEP, LIFECYCLE),
        (b'{"job_id": "a", "event": "heartbeat"}', LIFECYCLE),
        (b'{"event": "attempt_started", "ts": 5}', LIFECYCLE),
        (b'{"ts": 1764576000000, "job_id": "a", "eve', LIFECYCLE),
        (b'{"job_id": "a", "event": "x", "message": ":::MLLOG"}', LIFECYCLE),
        (b'  0: :::MLLOG {"time_ms": 1}', MLLOG),
        (b"log of something\n" * 5000 + b":::MLLOG {}", MLLOG),
        (b"[0] :::MLLOG {}", MLLOG),
        (ENTRY, GOODPUT_LINES),
        (b'{"job_name": "a", "other": 1}\n' + ENTRY, GOODPUT_LINES),
        (b"[" + ENTRY + b"]", GOODPUT_ARRAY),
        (b' [\n  {\n   "job_name": "a",\n   "step_count": 1', GOODPUT_ARRAY),
        (b"", None),
        (b"[]", None),
        (b"ts,job_id,event\n1,2,3\n", None),
        (b'{"ts": 1, "event": "click"}\n', None),
        (b'[{"name": "x"}]', None),
        (bytes(range(256)) * 40, None),
    ],
)
def test_the_format_is_told_by_the_content(text, format_):
    chunks = [text[i : i + 5] for i in range(0, len(text), 5)]
    for pieces in ([text], chunks):
        found, stream = recognise(pieces)
        assert found == format_
        assert b"".join(stream) == text


def test_no_more_than_the_head_is_looked_at(monkeypatch):
    monkeypatch.setattr(module, "HEAD_BYTES", 1000)
    monkeypatch.setattr(module, "_BEGIN_BYTES", 100)
    pieces = [b"text\n"] * 400 + [STEP]
    found, stream = recognise(pieces)
    assert found is None
    assert b"".join(stream) == b"".join(pieces)


def test_damage_comes_after_what_was_read():
    def chunks():
        yield STEP
        raise DamageError("cut off")

    found, stream = recognise(chunks())
    assert found == LIFECYCLE
    assert next(stream) == STEP
    with pytest.raises(DamageError, match="cut off"):
        next(stream)
