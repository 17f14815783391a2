"""A callback and a checkpoint plug-in for PyTorch Lightning."""

from __future__ import annotations

from lightning.pytorch import Callback
from lightning.pytorch.plugins.io import TorchCheckpointIO

from ettledger import recorder


class Recording(Callback):
    """`Trainer(callbacks=[recording], plugins=[RecordedCheckpoints(recording)])`."""

    log = None

    def setup(self, trainer, pl_module, stage):
        if self.log is None:
            # Lightning starts ranks itself: it knows the rank where the environment does not.
            self.log = recorder.trainer(rank=trainer.global_rank, gpus=trainer.world_size)
            self.evaluation = self.log.phase("evaluation")

    def on_fit_start(self, trainer, pl_module):
        self.log.attempt_started()

    def on_train_start(self, trainer, pl_module):
        self.last_step = trainer.global_step
        self.log.train_begin(trainer.global_step)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step > self.last_step:  # several batches may make one step
            self.last_step = trainer.global_step
            self.log.step(trainer.global_step)

    def on_validation_start(self, trainer, pl_module):
        self.evaluation.begin()

    def on_validation_end(self, trainer, pl_module):
        self.evaluation.end()

    def on_exception(self, trainer, pl_module, exception):
        self.log.attempt_left_by(exception)

    def on_fit_end(self, trainer, pl_module):
        self.log.attempt_ended("succeeded")


class RecordedCheckpoints(TorchCheckpointIO):
    """Lightning calls it on rank 0."""

    def __init__(self, recording):
        super().__init__()
        self.recording = recording

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        log = self.recording.log
        with log.phase("checkpoint_save"):
            super().save_checkpoint(checkpoint, path, storage_options)
        log.checkpoint_durable(checkpoint["global_step"])
