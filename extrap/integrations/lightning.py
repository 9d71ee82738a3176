"""Callbacks for the Trainer of Lightning: a monitor of its losses, a meter of its noise.

Lightning by either name, `lightning.pytorch` or `pytorch_lightning`.
"""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch.callbacks import Callback
except ModuleNotFoundError:
    from pytorch_lightning.callbacks import Callback  # Lightning by its older name

from extrap.integrations.callbacks import Listener, Metering


class MonitorCallback(Listener, Callback):
    """Tells a monitor the loss of every step of a Lightning `Trainer`, from process zero.

    The module logs its loss, `self.log("train_loss", loss)`. It is read off the device every
    `log_every_n_steps` steps. An alarm is logged as a warning, once::

        monitor = Monitor("forecast.json", at={"width": 4096}, total_steps=10_000)
        trainer = Trainer(callbacks=[MonitorCallback(monitor)], max_steps=10_000)
        trainer.fit(model, data)

    Args:
        monitor: What receives the losses.
        metric: The name under which the module logs its loss, by default `"train_loss"`.
        stop: Whether an alarm ends the training, in every process.
        raises: Whether an error in here does; by default it is logged, once.
    """

    METRIC = "train_loss"
    _last_step, _latest = 0, None
    _waiting: tuple[tuple[int, Any], ...] = ()

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Keep the loss of a step; pass all that wait on where the Trainer logs as well."""
        if trainer.global_step == self._last_step:  # its gradients are still accumulating
            return
        self._last_step = trainer.global_step
        loss = trainer.callback_metrics.get(self._metric) if trainer.is_global_zero else None
        if loss is not None and loss is not self._latest:  # Lightning keeps showing an old one
            self._latest = loss
            self._waiting += ((self._last_step, loss),)
        if self._last_step % max(trainer.log_every_n_steps, 1) == 0:
            self._pass_on()
            if self._stop and trainer.strategy.reduce_boolean_decision(self._alarm, all=False):
                trainer.should_stop = True

    def on_train_end(self, trainer: Any, *_: Any) -> None:
        """Pass on what waits; say so if there never was a loss."""
        self._pass_on()
        if trainer.is_global_zero:
            self._end()

    def _pass_on(self) -> None:
        for step, loss in self._waiting:
            self._hear(step, loss)
        self._waiting = ()


class NoiseCallback(Metering, Callback):
    """Measures the gradient noise scale of a Lightning `Trainer`, without a backward pass more.

    The batch must be split: `accumulate_grad_batches` of two or more, or several processes. For
    automatic optimisation with one optimiser. A running `noise_scale`, in examples, is logged
    every `log_every_n_steps` steps as the module's own metrics are::

        noise = NoiseCallback()
        trainer = Trainer(callbacks=[noise], accumulate_grad_batches=4)
        trainer.fit(model, data)
        print(noise.meter.estimate())

    Args:
        batch_size: Examples of one batch on one process; by default that of the data loader.
        every: As in `extrap.NoiseMeter`, which by default measures every step at first.
        raises: Whether an error in here ends the training; by default it is logged, once.
    """

    _last_step = 0

    def __init__(
        self, *, batch_size: int | None = None, every: int | None = None, raises: bool = False
    ) -> None:
        super().__init__(every=every, raises=raises)
        self._batch_size = batch_size

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Watch the module's gradients."""
        batch_size = self._batch_size or getattr(trainer.train_dataloader, "batch_size", None)
        self._start(pl_module, batch_size)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """End the step; its gradients are averaged and not yet clipped."""
        unscales = getattr(optimizer, "_step_supports_amp_scaling", False)  # in its own step
        self._step(None if unscales else getattr(trainer.precision_plugin, "scaler", None))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
        """Log the running noise scale where the Trainer logs."""
        is_new, self._last_step = trainer.global_step != self._last_step, trainer.global_step
        if is_new and self._last_step % max(trainer.log_every_n_steps, 1) == 0:
            value = self._newest()
            if value is not None:
                pl_module.log("noise_scale", value, on_step=True, on_epoch=False)

    def on_train_end(self, trainer: Any, *_: Any) -> None:
        """Stop watching; log the estimate."""
        self._end()
