"""What torchrun 2.x writes of a launch: rendezvous, workers' start, failures, restarts, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.taxonomy import Outcome
from simulator.formats.failures import Fate, Sign
from simulator.scenario import phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.formats.console import Console, Line
    from simulator.formats.story import Launch

LAUNCHER = phase("launcher_init")
_MAX_RESTARTS = 3
_ELASTIC = "torch/distributed/elastic"
_SERVER = f"{_ELASTIC}/agent/server/api.py"
_PROCESSES = f"{_ELASTIC}/multiprocessing/api.py"
_KILLED, _ERROR = -9, 1
_SIGNALLED = "Received Signals.SIGTERM death signal, shutting down workers"
_WAITING = "Waiting 300 seconds for other agents to finish"
_LAST_WORDS = """\
Traceback (most recent call last):
  File "/opt/conda/bin/torchrun", line 33, in <module>
    sys.exit(load_entry_point('torch==2.5.1', 'console_scripts', 'torchrun')())
  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/run.py", line 910, in run
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
pretrain_gpt.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : {when}
  host      : {host}
  rank      : 0 (local_rank: 0)
  exitcode  : {exit}
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================"""
_PER_NODE = 8
_LAST_WORD_MS = 400


def lines(console: Console, launch: Launch) -> Iterator[Line]:
    """(epoch ms, text) of the agent on the first node; of one moment the failure comes first."""
    for sign in console.signs(launch):
        yield from _sign(console, sign, restarts_left=_MAX_RESTARTS - _restarts(launch, sign.at_ms))
    starts = [s for s in launch.spans if s.phase == LAUNCHER]
    for restarts, span in enumerate(starts):
        yield span.begin, _begin(console, launch, span.begin, restarts)
        if span.end is not None:
            yield span.end, _met(console, launch, span.end, restarts)
    if launch.outcome is Outcome.SUCCEEDED and launch.end is not None:
        at = max(launch.end - _LAST_WORD_MS, launch.last_ms)
        yield at, _finished(console, at)


def _restarts(launch: Launch, at_ms: int) -> int:
    begins = [s for s in launch.spans if s.phase == LAUNCHER and s.begin < at_ms]
    return max(len(begins) - 1, 0)


def _begin(console: Console, launch: Launch, at: int, restarts: int) -> str:
    say = console.glog
    if restarts:
        return say("I", at, f"{_SERVER}:677", "[default] Rendezvous'ing worker group")
    nodes = -(-launch.gpus // _PER_NODE)
    configs = {
        "entrypoint": "pretrain_gpt.py",
        "min_nodes": nodes,
        "max_nodes": nodes,
        "nproc_per_node": _PER_NODE,
        "run_id": console.run_id,
        "rdzv_backend": "c10d",
        "rdzv_endpoint": f"{console.host}:29500",
        "rdzv_configs": "{'timeout': 900}",
        "max_restarts": _MAX_RESTARTS,
        "monitor_interval": 0.1,
        "log_dir": "/tmp/torchelastic_4tl8luxn",  # noqa: S108 - text of a log
        "metrics_cfg": "{}",
    }
    where = "torch/distributed/launcher/api.py:194"
    told = [say("I", at, where, "Starting elastic_operator with launch configs:")]
    told += [say("I", at, where, f"  {key:<16} : {value}") for key, value in configs.items()]
    told.append(say("I", at, where, ""))
    told.append(
        say("I", at, f"{_SERVER}:860", "[default] starting workers for entrypoint: python3")
    )
    told.append(say("I", at, f"{_SERVER}:677", "[default] Rendezvous'ing worker group"))
    return "\n".join(told)


def _met(console: Console, launch: Launch, at: int, restarts: int) -> str:
    nodes = -(-launch.gpus // _PER_NODE)
    local = list(range(_PER_NODE))
    results = {
        "restart_count": restarts,
        "master_addr": console.host,
        "master_port": 29500,
        "group_rank": 0,
        "group_world_size": nodes,
        "local_ranks": local,
        "role_ranks": local,
        "global_ranks": local,
        "role_world_sizes": [launch.gpus] * _PER_NODE,
        "global_world_sizes": [launch.gpus] * _PER_NODE,
    }
    where = f"{_SERVER}:525"
    told = [console.glog("I", at, where, "[default] Rendezvous complete for workers. Result:")]
    told += [console.glog("I", at, where, f"  {key}={value}") for key, value in results.items()]
    told.append(console.glog("I", at, where, ""))
    told.append(console.glog("I", at, f"{_SERVER}:685", "[default] Starting worker group"))
    return "\n".join(told)


def _sign(console: Console, sign: Sign, *, restarts_left: int) -> Iterator[Line]:
    """What the agent makes of a failure of its workers, or of a signal to itself."""
    at = sign.at_ms
    if sign.fate in (Fate.NOTICE, Fate.PASSING):
        return
    if sign.fate is Fate.KILLED:
        told = [console.glog("W", at, f"{_SERVER}:704", _SIGNALLED)]
        told += [_closing(console, at, worker) for worker in range(_PER_NODE)]
    else:
        told = [_closing(console, at, worker) for worker in range(1, _PER_NODE)]
        told += _failed(console, sign, max(restarts_left, 1))
    yield at, "\n".join(told)


def _closing(console: Console, at: int, worker: int) -> str:
    text = f"Sending process {console.pid + 1 + worker} closing signal SIGTERM"
    return console.glog("W", at, f"{_PROCESSES}:900", text)


def _failed(console: Console, sign: Sign, restarts_left: int) -> list[str]:
    """A worker failed: the group is restarted, or the agent has the last word."""
    at, worker = sign.at_ms, console.pid + 1
    code = _KILLED if sign.cause is None else _ERROR
    which = f"local_rank: 0 (pid: {worker}) of binary: /opt/conda/bin/python3"
    failed = console.glog("E", at, f"{_PROCESSES}:869", f"failed (exitcode: {code}) {which}")
    if sign.fate is not Fate.RESTARTED:
        when = f"{console.place.local(at):%Y-%m-%d_%H:%M:%S}"
        words = {"when": when, "host": console.host, "exit": f"{code} (pid: {worker})"}
        return [failed, _LAST_WORDS.format(**words)]
    left = f"{restarts_left}/{_MAX_RESTARTS} attempts left; will restart worker group"
    return [
        failed,
        console.glog("I", at, f"{_SERVER}:889", f"[default] Worker group FAILED. {left}"),
        console.glog("I", at, f"{_SERVER}:699", "[default] Stopping worker group"),
    ]


def _finished(console: Console, at: int) -> str:
    told = (
        (879, f"[default] worker group successfully finished. {_WAITING}."),
        (932, f"Local worker group finished (WorkerState.SUCCEEDED). {_WAITING}"),
        (945, "Done waiting for other agents. Elapsed: 0.00031423568725585938 seconds"),
    )
    return "\n".join(console.glog("I", at, f"{_SERVER}:{line}", text) for line, text in told)
