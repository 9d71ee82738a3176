"""A monitor in the Trainer of Lightning: `lightning.pytorch` or `pytorch_lightning`."""

from __future__ import annotations

import logging
from typing import Any

try:
    from lightning.pytorch.callbacks import Callback
except ModuleNotFoundError:
    from pytorch_lightning.callbacks import Callback  # Lightning by its older name

from extrap.integrations.listening import Listener
from extrap.monitoring import Monitor

__all__ = ["MonitorCallback"]

logger = logging.getLogger(__name__)


class MonitorCallback(Callback):
    """Tells a monitor the loss of every step of a Lightning `Trainer`, from process zero.

    The module logs its loss, `self.log("train_loss", loss)`. It is read off the device every
    `log_every_n_steps` steps. An alarm is logged as a warning, once::

        monitor = Monitor("forecast.json", at={"width": 4096}, total_steps=10_000)
        trainer = Trainer(callbacks=[MonitorCallback(monitor)], max_steps=10_000)
        trainer.fit(model, data)

    Args:
        monitor: What hears the losses.
        metric: The name under which the module logs its loss, at each step.
        stop: Whether an alarm ends the training, in every process.
        raises: Whether an error in here does; by default it is logged, once.
    """

    def __init__(
        self,
        monitor: Monitor,
        *,
        metric: str = "train_loss",
        stop: bool = False,
        raises: bool = False,
    ) -> None:
        self._listener = Listener(monitor, logger, raises=raises)
        self._metric = metric
        self._stop = stop
        self._step = 0
        self._newest: Any = None
        self._waiting: list[tuple[int, Any]] = []

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Keep the loss of a step; pass all that wait on where the Trainer logs as well."""
        if trainer.global_step == self._step:  # its gradients are still accumulating
            return
        self._step = trainer.global_step
        if trainer.is_global_zero:
            self._keep(trainer.callback_metrics)
        if self._step % max(trainer.log_every_n_steps, 1) == 0:
            self._pass_on()
            if self._stop and trainer.strategy.reduce_boolean_decision(
                self._listener.alarm, all=False
            ):
                trainer.should_stop = True

    def on_train_end(self, trainer: Any, *_: Any) -> None:
        """Pass on what waits; say so if there never was a loss."""
        self._pass_on()
        if trainer.is_global_zero:
            self._listener.finish(self._metric)

    def _keep(self, metrics: dict[str, Any]) -> None:
        loss = metrics.get(self._metric)
        if loss is not None and loss is not self._newest:  # Lightning keeps showing an old one
            self._newest = loss
            self._waiting.append((self._step, loss))

    def _pass_on(self) -> None:
        for step, loss in self._waiting:
            self._listener.hear(step, loss)
        self._waiting.clear()
