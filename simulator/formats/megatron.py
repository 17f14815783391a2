"""What Megatron-LM writes of a launch: start-up, iterations, saves, evaluations, its end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from typing import TYPE_CHECKING

from pipelines.taxonomy import Outcome
from simulator.formats.failures import Fate
from simulator.life import NEVER
from simulator.loop import EVALUATION, SAVE
from simulator.scenario import phase
from simulator.startup import COMPILE, RESTORE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.formats.console import Console, Line
    from simulator.formats.story import Launch, Span

_PARENT = phase("trainer_init")
_DEVICE = phase("trainer_init.device_init")
_GROUPS = phase("trainer_init.process_group_init")
_MODULE = phase("trainer_init.train_module_creation")
_PREPROC = phase("trainer_init.preproc_creation")
_PRE_TRAIN = phase("trainer_init.pre_train")
_UNSAID_BATCH = 256
_SKIPPED_EACH = 53
_RANK_SPREAD_MS = 1.87
_TIMER_COLUMNS = 48
_NAME_COLUMNS = 32
_RULE = "-" * 105
_MODEL_IS_BUILT = "after model, optimizer, and learning rate scheduler are built"
_TRACKER = "latest_checkpointed_iteration.txt"
_KERNELS = "compiling and loading fused kernels"


@dataclass(frozen=True, slots=True)
class Start:
    """One start of the workers: their phases by name, and when they entered the loop, if at all."""

    spans: dict[str, Span]
    entered: int | None
    step: int

    def end(self, *phases: str) -> int | None:
        """When the last of `phases` ended; None where one was cut short or never begun."""
        ends = [self.spans[p].end if p in self.spans else None for p in phases]
        return None if None in ends else max(e for e in ends if e is not None)


def lines(console: Console, launch: Launch) -> Iterator[Line]:
    """(epoch ms, text) of the first rank."""
    for start in _starts(launch):
        yield from _start_up(console, launch, start)
    yield from _memory(launch)
    yield from _evaluations(console, launch)
    yield from _saves(console, launch)
    yield from _exit(console, launch)


def batch_of(console: Console, launch: Launch) -> int:
    """Samples per step; where the course counts steps only, any constant says the same."""
    return console.one.habits.batch * launch.gpus or _UNSAID_BATCH


def _starts(launch: Launch) -> Iterator[Start]:
    """The starts of the workers, each from a `trainer_init` phase to the loop."""
    spans = [
        s for s in launch.spans if s.phase.startswith(_PARENT) or s.phase in (RESTORE, COMPILE)
    ]
    entries = [m.at_ms for m in launch.of("train_begin")]
    begins = [s.begin for s in spans if s.phase == _DEVICE]
    for begin, following in pairwise([*begins, NEVER]):
        own = {s.phase: s for s in spans if begin <= s.begin < following}
        inside = [e for e in entries if begin <= e <= following]
        entered = inside[0] if inside else None
        yield Start(own, entered, 0 if entered is None else launch.step_at(entered))


def _start_up(console: Console, launch: Launch, start: Start) -> Iterator[Line]:
    begin = start.spans[_DEVICE].begin
    sizes = {"data-parallel": max(launch.gpus // 8, 1), "tensor-model-parallel": 8}
    told = ", ".join(f"{name} size: {size}" for name, size in sizes.items())
    yield begin, f"using world size: {launch.gpus}, {told}, pipeline-model-parallel size: 1"
    if _GROUPS in start.spans:
        yield start.spans[_GROUPS].begin, _arguments(console, launch)
    if (ready := start.end(_GROUPS)) is not None:
        yield ready, _initialized(console, begin, ready)
    yield from _built(console, start)
    yield from _restored(console, start)
    yield from _compiled(start)
    if start.entered is not None:
        yield start.entered, "done with setup ...\ntraining ..."
        yield start.entered, _stamp(console, "before the start of training step", start.entered)


def _built(console: Console, start: Start) -> Iterator[Line]:
    """Model and data: the ends that the trainer dates."""
    if (model := start.end(_MODULE)) is not None:
        yield model, "building GPT model ..."
        yield model, _stamp(console, _MODEL_IS_BUILT, model)
    if (data := start.end(_MODULE, _PREPROC)) is not None:
        yield data, "> building train, validation, and test datasets for GPT ..."
        yield data, _stamp(console, "after dataloaders are built", data)


def _restored(console: Console, start: Start) -> Iterator[Line]:
    """The checkpoint: how long it took to load it, not when; or that there is none."""
    if (span := start.spans.get(RESTORE)) is None:
        model = start.end(_MODULE)
        if model is not None and start.entered is not None and start.step == 0:
            yield model, f"WARNING: could not find the metadata file {_folder(console)}/{_TRACKER}"
            yield model, "    will not load any checkpoints and will start from random"
        return
    where = f"checkpoint from {_folder(console)}"
    yield span.begin, f" loading {where} at iteration {start.step}"
    if span.end is not None:
        yield span.end, f"  successfully loaded {where} [ t 1/8, p 1/1 ] at iteration {start.step}"
        yield span.end, _timer(console, "load-checkpoint", span.end - span.begin)


def _compiled(start: Start) -> Iterator[Line]:
    """Kernels compiled before the loop: how long it took, not when."""
    span = start.spans.get(COMPILE)
    if span is None or (start.entered is not None and span.begin >= start.entered):
        return
    yield span.begin, f"> {_KERNELS} ..."
    if span.end is not None:
        seconds = (span.end - span.begin) / 1000
        yield span.end, f">>> done with {_KERNELS}. Compilation time: {seconds:.3f} seconds"


def _stamp(console: Console, what: str, at: int) -> str:
    return f"[{what}] datetime: {console.place.trainer_time(at)} "


def _initialized(console: Console, begin: int, ready: int) -> str:
    """The end of the initialisation; later versions also date its begin, afterwards."""
    told = [f"time to initialize megatron (seconds): {(ready - begin) / 1000:.3f}"]
    if console.place.is_recent:
        time = console.place.trainer_time(begin)
        told += [
            _stamp(console, "after in-process setup and before initialize_megatron", begin),
            _stamp(console, "after in-job setup and before initialize_megatron", begin),
            f"[before library-setup] datetime: {time}",
        ]
    told.append(_stamp(console, "after megatron is initialized", ready))
    return "\n".join(told)


def _arguments(console: Console, launch: Launch) -> str:
    """Some of the arguments, as they are dumped."""
    values = {
        "async_save": "True" if console.one.index % 2 else "False",
        "bf16": "True",
        "clip_grad": "1.0",
        "exit_signal_handler": "True",
        "global_batch_size": batch_of(console, launch),
        "hidden_size": "4096",
        "load": _folder(console),
        "log_interval": console.one.log_every,
        "save": _folder(console),
        "seq_length": "4096",
        "tensor_model_parallel_size": "8",
        "train_iters": console.one.steps,
        "world_size": launch.gpus,
    }
    told = ["------------------------ arguments ------------------------"]
    told += [f"  {(key + ' ').ljust(_NAME_COLUMNS, '.')} {value}" for key, value in values.items()]
    told.append("-------------------- end of arguments ---------------------")
    told.append("> initializing torch distributed ...")
    return "\n".join(told)


def _folder(console: Console) -> str:
    return f"/checkpoints/{console.job_id}"


def _timer(console: Console, name: str, length_ms: int) -> str:
    """A length of time as this version's timers tell it, without saying when."""
    if console.place.is_recent:
        padded = f"{name} ".ljust(_TIMER_COLUMNS, ".")
        fastest = max(length_ms - _RANK_SPREAD_MS, 0)
        return f"(min, max) time across ranks (ms):\n    {padded}: ({fastest:.2f}, {length_ms:.2f})"
    return f"time (ms) | {name}: {length_ms:.2f}"


def iterations(console: Console, launch: Launch) -> Iterator[Line]:
    """(epoch ms, text) of the last rank: a line per log interval.

    In later versions its time per iteration leaves saves and evaluations out.
    """
    entries = [(m.at_ms, m.fields["step"]) for m in launch.of("train_begin")]
    pauses = [s for s in launch.spans if s.blocking and s.phase in {SAVE, EVALUATION}]
    if not console.place.is_recent:
        pauses = []
    batch = batch_of(console, launch)
    last, step = entries[0] if entries else (launch.start, 0)
    for own in launch.steps:
        if restarts := [e for e in entries if last <= e[0] <= own.times[0]]:
            last, step = restarts[-1]
        samples = own.samples or [s * batch for s in own.steps]
        for at, done, position in zip(own.times, own.steps, samples, strict=True):
            paused = _paused(pauses, last, at)
            each = (at - last - paused) / (done - step)
            yield at, _iteration(console, launch, at, (done, position), each)
            last, step = at, done


def _paused(pauses: list[Span], begin: int, end: int) -> int:
    """Milliseconds of `pauses` in `[begin, end)`; those before it are dropped."""
    total = 0
    while pauses and pauses[0].begin < end:
        span = pauses.pop(0)
        if span.end is not None and span.begin >= begin:
            total += span.end - span.begin
    return total


def _iteration(
    console: Console, launch: Launch, at: int, place: tuple[int, int], each: float
) -> str:
    step, samples = place
    rate = f"{3.0e-4 * min(1.0, step / 2000):.6E}"
    loss = _loss(step)
    skipped = 1 if step % _SKIPPED_EACH == 1 else 0
    return (
        f" [{console.place.trainer_time(at)}] iteration {step:8d}/{console.one.steps:8d} |"
        f" consumed samples: {samples:12d} | elapsed time per iteration (ms): {each:.1f} |"
        f" learning rate: {rate} | global batch size: {batch_of(console, launch):5d} |"
        f" lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {0.2 + loss / 20:.3f} |"
        f" number of skipped iterations: {skipped:3d} | number of nan iterations:   0 |"
    )


def _memory(launch: Launch) -> Iterator[Line]:
    """After the first line ranks report their memory, two of them on one line."""
    if launch.steps:
        first = launch.steps[0]
        told = (
            f"[Rank {rank}] (after {first.steps[0]} iterations) memory (MB) | "
            f"allocated: {21633 + rank}.0859375 | max allocated: {24432 + rank}.009765625 | "
            f"reserved: {29316 + rank}.0 | max reserved: {29316 + rank}.0"
            for rank in (1, 0)
        )
        yield first.times[0], "".join(told)


def _saves(console: Console, launch: Launch) -> Iterator[Line]:
    """Saves that hold the loop, those that only begin in it, and what came of them."""
    spans = [s for s in launch.spans if s.phase == SAVE]
    beside = {s.begin for s in spans if not s.blocking}
    for span in (s for s in spans if s.blocking):
        which = f"at iteration {launch.step_at(span.begin):7d} to {_folder(console)}"
        yield span.begin, f"saving checkpoint {which} in torch_dist format"
        if span.end is not None:
            if span.end in beside:
                yield span.end, f"  scheduled an async checkpoint save {which}"
            else:
                yield span.end, _saved(console, launch.step_at(span.begin))
            yield span.end, _timer(console, "save-checkpoint", span.end - span.begin)
    blocking = {s.end for s in spans if s.blocking}
    for moment in launch.of("checkpoint_durable"):
        if moment.at_ms not in blocking:
            yield moment.at_ms, _saved(console, moment.fields["step"])


def _saved(console: Console, step: int) -> str:
    which = f"from iteration {step:7d} to {_folder(console)} [ t 1/8, p 1/1 ]"
    return f"  successfully saved checkpoint {which}"


def _evaluations(console: Console, launch: Launch) -> Iterator[Line]:
    """Evaluations; only later versions say that one begins, and how long it took."""
    for span in (s for s in launch.spans if s.phase == EVALUATION):
        step, is_recent = launch.step_at(span.begin), console.place.is_recent
        if is_recent:
            yield span.begin, f"Evaluating on {32 * batch_of(console, launch)} samples"
        if span.end is None:
            continue
        if is_recent:
            yield span.end, _timer(console, "evaluate", span.end - span.begin)
        loss = _loss(step) + 0.05
        told = f"lm loss value: {loss:.6E} | lm loss PPL: {exp(loss):.6E} | "
        yield span.end, f"{_RULE}\n validation loss at iteration {step} | {told}\n{_RULE}"


def _loss(step: int) -> float:
    return 1.9 + 9.0 * exp(-0.35 * log(1 + step))


def _exit(console: Console, launch: Launch) -> Iterator[Line]:
    """The last dated line: training is done, or a signal was obeyed."""
    if launch.outcome is Outcome.SUCCEEDED and launch.steps:
        at = launch.steps[-1].times[-1]
        yield at, _stamp(console, "after training is done", at)
    is_noticed = any(sign.fate is Fate.NOTICE for sign in console.signs(launch))
    if is_noticed and launch.end is not None and launch.steps:
        at = launch.last_ms
        yield at, _stamp(console, "exiting program after receiving SIGTERM.", at)
