"""Callbacks for the Trainer of `transformers`: a monitor of its losses, a meter of its noise."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from accelerate.state import GradientState
from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from extrap.integrations.callbacks import Listener, Metered, Metering
from extrap.monitoring import Monitor

NOISE_SCALE = "noise_scale"
"""Its key in the Trainer's logs."""

logger = logging.getLogger(__name__)


class MonitorCallback(TrainerCallback):
    """Tells a monitor the loss of every log of a `transformers.Trainer`, from process zero.

    An alarm is logged as a warning, once::

        monitor = Monitor("forecast.json", at={"width": 4096}, total_steps=args.max_steps)
        trainer = Trainer(model, args, callbacks=[MonitorCallback(monitor)], ...)
        trainer.train()

    The Trainer hides a loss of NaN unless `logging_nan_inf_filter=False` is among its arguments.

    Args:
        monitor: What receives the losses.
        metric: The loss's key in the Trainer's logs.
        stop: Whether an alarm ends the training, in every process.
        raises: Whether an error in here does; by default it is logged, once.
    """

    def __init__(
        self, monitor: Monitor, *, metric: str = "loss", stop: bool = False, raises: bool = False
    ) -> None:
        self._listener = Listener(monitor, logger, raises=raises)
        self._metric = metric
        self._stop = stop

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Pass the loss on if this log has one; all processes log at the same steps."""
        if logs is None or self._metric not in logs:
            return
        if state.is_world_process_zero:
            self._listener.hear(state.global_step, logs[self._metric])
        if self._stop and _is_raised(self._listener.alarm, n_processes=args.world_size):
            control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Say so if no log had the loss."""
        if state.is_world_process_zero:
            self._listener.finish(self._metric)


class NoiseCallback(Metered, TrainerCallback):
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

    def __init__(self, *, every: int | None = None, raises: bool = False) -> None:
        self._metering = Metering(logger, every=every, raises=raises)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **_: Any,
    ) -> None:
        """Watch the model's gradients."""
        batch_size = state.train_batch_size or args.train_batch_size
        # The Trainer clips before the first event after a step's last backward pass.
        self._metering.start(model, batch_size, lambda: GradientState().sync_gradients)

    def on_pre_optimizer_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        optimizer: Any = None,
        **_: Any,
    ) -> None:
        """End the step."""
        scaler = getattr(optimizer, "scaler", None)
        self._metering.step(lambda: 1.0 if scaler is None else scaler.get_scale())

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Add the running noise scale to a log of the training loss."""
        value = self._metering.newest() if logs is not None and "loss" in logs else None
        if logs is not None and value is not None:
            logs[NOISE_SCALE] = value
            state.log_history[-1][NOISE_SCALE] = value

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Stop watching; log the estimate."""
        self._metering.finish()


def _is_raised(alarm: bool, *, n_processes: int) -> bool:
    """What process zero says, for one that stops alone leaves the others waiting."""
    return broadcast_object_list([alarm])[0] if n_processes > 1 else alarm
