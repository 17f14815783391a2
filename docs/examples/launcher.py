"""A launcher that starts a command, and starts it again where it fails, on the same hardware."""

from __future__ import annotations

import subprocess
import sys

from ettledger import recorder


def launch(log, start, *, gpus, restarts):
    """`start` runs all ranks once and returns their exit code."""
    with log.attempt(gpus=gpus):
        for _ in range(restarts + 1):
            code = start()
            if code == 0:
                return
            log.interruption(exit_code=code)
        raise SystemExit(code)


if __name__ == "__main__":
    command = sys.argv[1:]
    with recorder.launcher() as log:
        log.at_sigterm("preemption")
        launch(log, lambda: subprocess.run(command, check=False).returncode, gpus=8, restarts=3)
        log.job_finished("succeeded")
