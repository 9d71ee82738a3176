"""A monitor in the Trainer of `transformers`: its losses are heard as they are logged."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from extrap.integrations.listening import Listener
from extrap.monitoring import Monitor

__all__ = ["MonitorCallback"]

logger = logging.getLogger(__name__)


class MonitorCallback(TrainerCallback):
    """Tells a monitor the loss of every log of a `transformers.Trainer`, from process zero.

    An alarm is logged as a warning, once::

        monitor = Monitor("forecast.json", at={"width": 4096}, total_steps=args.max_steps)
        trainer = Trainer(model, args, callbacks=[MonitorCallback(monitor)], ...)
        trainer.train()

    The Trainer hides a loss of NaN unless `logging_nan_inf_filter=False` is among its arguments.

    Args:
        monitor: What hears the losses.
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


def _is_raised(alarm: bool, *, n_processes: int) -> bool:
    """What process zero says, for one that stops alone leaves the others waiting."""
    return broadcast_object_list([alarm])[0] if n_processes > 1 else alarm
