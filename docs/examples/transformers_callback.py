"""A callback for the Trainer of Hugging Face transformers."""

from __future__ import annotations

from transformers import TrainerCallback


class Recording(TrainerCallback):
    """`Trainer(..., callbacks=[Recording(log)])`, inside `with log.attempt():`."""

    def __init__(self, log):
        self.log = log
        self.evaluation = log.phase("evaluation")
        self.save = log.phase("checkpoint_save")

    def on_train_begin(self, args, state, control, **kwargs):
        self.log.train_begin(state.global_step)

    def on_step_end(self, args, state, control, **kwargs):
        self.log.step(state.global_step)
        self.begin_what_follows(control)

    def on_epoch_end(self, args, state, control, **kwargs):
        self.begin_what_follows(control)

    def on_evaluate(self, args, state, control, **kwargs):
        self.evaluation.end()
        self.begin_what_follows(control)

    def on_save(self, args, state, control, **kwargs):
        self.save.end()
        self.log.checkpoint_durable(state.global_step)

    def begin_what_follows(self, control):
        """The Trainer evaluates first, then saves."""
        if control.should_evaluate:
            self.evaluation.begin()
        elif control.should_save:
            self.save.begin()
