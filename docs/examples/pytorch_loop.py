"""A PyTorch loop under torchrun, recorded: `torchrun --nproc-per-node=8 pytorch_loop.py`."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from ettledger import recorder

CHECKPOINT = Path("checkpoint.pt")


def main(log, *, last_step=1_000, save_every=100):
    with log.phase("trainer_init.process_group_init"):
        torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    with log.phase("trainer_init.train_module_creation"):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with log.phase("checkpoint_restore"):
        restored = restore(model)
    log.train_begin(restored)
    for step in range(restored + 1, last_step + 1):
        optimizer.zero_grad()
        model(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()
        log.step(step)
        if step % save_every == 0:
            with log.phase("checkpoint_save"):
                save(model, step)
            log.checkpoint_durable(step)


def restore(model):
    if not CHECKPOINT.exists():
        return 0
    saved = torch.load(CHECKPOINT)
    model.load_state_dict(saved["model"])
    return saved["step"]


def save(model, step):
    if int(os.environ["RANK"]) == 0:
        torch.save({"model": model.state_dict(), "step": step}, CHECKPOINT)
    torch.distributed.barrier()


if __name__ == "__main__":
    with recorder.trainer(every_s=1.0) as log, log.attempt():
        main(log)
