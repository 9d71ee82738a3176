"""Callbacks for the Trainer of `transformers`: a monitor of its losses, a meter of its noise."""

from __future__ import annotations

from typing import Any

from accelerate.state import GradientState
from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback

from extrap.integrations.callbacks import Listener, Metering

NOISE_SCALE = "noise_scale"
"""Its key in the Trainer's logs."""


class MonitorCallback(Listener, TrainerCallback):
    """Tells a monitor the loss of every log of a `transformers.Trainer`, from process zero.

    An alarm is logged as a warning, once::

        monitor = Monitor("forecast.json", at={"width": 4096}, total_steps=args.max_steps)
        trainer = Trainer(model, args, callbacks=[MonitorCallback(monitor)], ...)
        trainer.train()

    The Trainer hides a loss of NaN unless `logging_nan_inf_filter=False` is among its arguments.

    Args:
        monitor: What receives the losses.
        metric: The loss's key in the Trainer's logs, by default `"loss"`.
        stop: Whether an alarm ends the training, in every process.
        raises: Whether an error in here does; by default it is logged, once.
    """

    METRIC = "loss"

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Pass the loss on if this log has one; all processes log at the same steps."""
        if logs is None or self._metric not in logs:
            return
        if state.is_world_process_zero:
            self._hear(state.global_step, logs[self._metric])
        if self._stop and _is_raised(self._alarm, n_processes=args.world_size):
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Say so if no log had the loss."""
        if state.is_world_process_zero:
            self._end()


class NoiseCallback(Metering, TrainerCallback):
    """Measures the gradient noise scale of a `transformers.Trainer`, without a backward pass more.

    The batch must be split: `gradient_accumulation_steps` of two or more, or several processes. A
    running `noise_scale`, in rows of the data set, joins each log of the training loss::

        noise = NoiseCallback()
        trainer = Trainer(model, args, callbacks=[noise], ...)
        trainer.train()
        print(noise.meter.estimate())

    The trackers of `report_to` come before the callbacks handed to the Trainer and do not see what
    those add; they do after `trainer.callback_handler.callbacks.insert(0, noise)`.

    Args:
        every: As in `extrap.NoiseMeter`, which by default measures every step at first.
        raises: Whether an error in here ends the training; by default it is logged, once.
    """

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
    ) -> None:
        """Watch the model's gradients."""
        batch_size = state.train_batch_size or args.train_batch_size
        # The Trainer clips before the first event after a step's last backward pass.
        self._start(model, batch_size, lambda: GradientState().sync_gradients)

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any
    ) -> None:
        """End the step."""
        self._step(getattr(optimizer, "scaler", None))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Add the running noise scale to a log of the training loss."""
        value = self._newest() if logs is not None and "loss" in logs else None
        if value is not None:
            logs[NOISE_SCALE] = state.log_history[-1][NOISE_SCALE] = value

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop watching; log the estimate."""
        self._end()


def _is_raised(alarm: bool, *, n_processes: int) -> bool:
    """What process zero says, for one that stops alone leaves the others waiting."""
    return broadcast_object_list([alarm])[0] if n_processes > 1 else alarm
