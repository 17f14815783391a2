"""A training loop, recorded: the model is yours, the calls of `log` are what to copy."""

from __future__ import annotations

import time

from ettledger import recorder


def train(log, model, *, last_step, save_every):
    with log.phase("trainer_init"):
        model.build()
    with log.phase("checkpoint_restore"):
        restored = model.restore()
    log.train_begin(restored)
    for step in range(restored + 1, last_step + 1):
        model.train(step)
        log.step(step)
        if step % save_every == 0:
            with log.phase("checkpoint_save"):
                model.copy_to_host()
            upload = log.phase("checkpoint_save", blocking=False).begin()
            model.upload(then=lambda step=step, upload=upload: uploaded(log, upload, step))
    with log.phase("model_publish"):
        model.publish()


def uploaded(log, upload, step):
    upload.end()
    log.checkpoint_durable(step)


class Sleeper:
    """In place of a model: a step takes 10 ms."""

    def build(self):
        time.sleep(0.2)

    def restore(self):
        return 0

    def train(self, step):
        time.sleep(0.01)

    def copy_to_host(self):
        time.sleep(0.05)

    def upload(self, then):
        then()

    def publish(self):
        time.sleep(0.05)


if __name__ == "__main__":
    with recorder.trainer(every_s=0.5) as log, log.attempt(gpus=8):
        train(log, Sleeper(), last_step=100, save_every=50)
