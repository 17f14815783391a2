"""Lifecycle events from a trainer or a launcher: `trainer()` and `launcher()` give the recorder.

    from ettledger import recorder

    log = recorder.trainer("logs/", every_s=1.0)
    with log.attempt(gpus=16):
        with log.phase("checkpoint_restore"):
            restored = load()
        log.train_begin(restored)
        for step in range(restored + 1, last + 1):
            train(step)
            log.step(step)

The format is docs/lifecycle-events.md of ettledger, the whole story docs/recorder.md.
"""

from __future__ import annotations

from ettledger.recorder.environment import Identity
from ettledger.recorder.recording import Phase, Recorder, launcher, now_ms, trainer

__all__ = ["Identity", "Phase", "Recorder", "launcher", "now_ms", "trainer"]
