"""The callbacks in real Trainers, of both of Lightning's names, on a model of two parameters."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace

import lightning.pytorch
import pandas as pd
import pytest
import pytorch_lightning
import torch
from lightning.pytorch.loggers import CSVLogger

from extrap.integrations.lightning import MonitorCallback, NoiseCallback

from ..monitors import FakeMonitor

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),  # on many cores
    pytest.mark.filterwarnings("ignore:GPU available but not used.*"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated.*"),
]


def make_model(library, *, breaks_at=math.inf, lr=0.1, **logging_options):
    """A line with a logged loss, which is NaN from step `breaks_at` on."""

    class Line(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.line = torch.nn.Linear(1, 1)
            self.losses = []

        def training_step(self, batch, batch_idx):
            x, y = batch
            loss = torch.nn.functional.mse_loss(self.line(x), y)
            if self.global_step + 1 >= breaks_at:
                loss = loss * math.nan
            self.losses.append(loss.item())
            self.log("train_loss", loss, **logging_options)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=lr)

    return Line()


@pytest.fixture(params=[lightning.pytorch, pytorch_lightning], ids=lambda it: it.__name__)
def train(request, tmp_path):
    """Train twelve steps of an epoch of four; returns the Trainer and its model."""
    x = torch.arange(16.0).reshape(16, 1) / 16
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, 2 * x), batch_size=4)

    def train(callback, *, model_options=None, **options):
        torch.manual_seed(0)
        model = make_model(request.param, **(model_options or {}))
        trainer = request.param.Trainer(
            **{"max_steps": 12, "log_every_n_steps": 3, "logger": False, **options},
            accelerator="cpu",
            devices=1,
            callbacks=[callback],
            default_root_dir=str(tmp_path),
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
        )
        trainer.fit(model, data)
        return trainer, model

    return train


def warnings_of(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("extrap") and record.levelno >= logging.WARNING
    ]


@pytest.mark.parametrize("on_epoch", [False, True])
def test_monitor_hears_the_loss_of_every_step(train, caplog, on_epoch):
    monitor = FakeMonitor()
    callback = MonitorCallback(monitor)
    _, model = train(callback, model_options={"on_step": True, "on_epoch": on_epoch})
    assert monitor.heard == list(zip(range(1, 13), model.losses, strict=True))
    assert warnings_of(caplog) == []


def test_losses_that_wait_at_the_end_are_heard(train):
    monitor = FakeMonitor()
    train(MonitorCallback(monitor), max_steps=5, log_every_n_steps=3)
    assert [step for step, _ in monitor.heard] == [1, 2, 3, 4, 5]


def test_one_loss_is_heard_a_step_when_gradients_accumulate(train):
    monitor = FakeMonitor()
    train(MonitorCallback(monitor), max_steps=6, accumulate_grad_batches=2)
    assert [step for step, _ in monitor.heard] == [1, 2, 3, 4, 5, 6]


def test_loss_of_an_epoch_is_heard_once_an_epoch(train):
    monitor = FakeMonitor()
    train(MonitorCallback(monitor), model_options={"on_step": False, "on_epoch": True})
    assert len(monitor.heard) == len({loss for _, loss in monitor.heard}) == 2


def test_alarm_is_logged_once_and_training_goes_on(train, caplog):
    trainer, _ = train(MonitorCallback(FakeMonitor()), model_options={"breaks_at": 5})
    assert trainer.global_step == 12
    assert warnings_of(caplog) == ["Stop the run."]


def test_alarm_stops_the_training_on_request(train):
    callback = MonitorCallback(FakeMonitor(), stop=True)
    trainer, _ = train(callback, model_options={"breaks_at": 5})
    assert trainer.global_step == 6


def test_without_an_alarm_nothing_stops(train):
    assert train(MonitorCallback(FakeMonitor(), stop=True))[0].global_step == 12


def test_broken_monitor_is_logged_once_and_training_goes_on(train, caplog):
    monitor = FakeMonitor(fails_at=4)
    trainer, _ = train(MonitorCallback(monitor))
    assert trainer.global_step == 12
    assert [step for step, _ in monitor.heard] == [1, 2, 3]
    assert warnings_of(caplog) == ["the monitor failed; training goes on without it"]


def test_broken_monitor_ends_the_training_on_request(train):
    with pytest.raises(ZeroDivisionError):
        train(MonitorCallback(FakeMonitor(fails_at=4), raises=True))


def test_metric_that_is_never_logged_is_said(train, caplog):
    train(MonitorCallback(FakeMonitor(), metric="nll"))
    assert warnings_of(caplog) == ["the monitor heard nothing: no 'nll' was ever logged"]


def test_other_processes_feed_no_monitor_but_stop_with_the_first(caplog):
    monitor = FakeMonitor(limit=1.0)
    callback = MonitorCallback(monitor, stop=True)
    asked = []

    def first_process_says(decision, *, all):
        asked.append((decision, all))
        return True

    trainer = SimpleNamespace(
        global_step=3,
        is_global_zero=False,
        log_every_n_steps=3,
        callback_metrics={"train_loss": torch.tensor(9.0)},
        strategy=SimpleNamespace(reduce_boolean_decision=first_process_says),
        should_stop=False,
    )
    callback.on_train_batch_end(trainer, None, None, None, 0)
    callback.on_train_end(trainer, None)
    assert monitor.heard == []
    assert asked == [(False, False)]
    assert trainer.should_stop
    assert warnings_of(caplog) == []


SPLIT = {"accumulate_grad_batches": 2, "max_steps": 6}


def test_norms_are_those_before_clipping(train):
    noise, free = (NoiseCallback(every=1, raises=True) for _ in range(2))
    options = {"model_options": {"lr": 0.0}, **SPLIT}
    _, model = train(noise, gradient_clip_val=1e-6, **options)
    train(free, **options)
    assert noise.meter.history == free.meter.history
    x = torch.arange(16.0).reshape(16, 1) / 16
    residual = 2 * (model.line(x) - 2 * x).detach()
    ones = torch.cat([residual * x, residual], dim=1)
    batches = ones.reshape(4, 4, 2).mean(dim=1)
    for step in noise.meter.history:  # an epoch is two steps of two batches each
        own = batches.reshape(2, 2, 2)[step.step % 2]
        assert (step.batch_small, step.batch_big) == (4, 8)
        assert step.grad_sq_small == pytest.approx(own.square().sum().item() / 2, rel=1e-4)
        assert step.grad_sq_big == pytest.approx(own.mean(0).square().sum().item(), rel=1e-4)
    assert [step.step for step in noise.meter.history] == list(range(6))


def test_noise_scale_is_logged_where_the_trainer_logs(train, caplog, tmp_path):
    caplog.set_level(logging.INFO, logger="extrap")
    noise = NoiseCallback(every=1, raises=True)
    _, model = train(noise, logger=CSVLogger(tmp_path), **SPLIT)
    (path,) = tmp_path.rglob("metrics.csv")
    table = pd.read_csv(path)
    logged = table.dropna(subset="noise_scale")
    assert list(logged["step"]) == [2, 5]  # Lightning counts from 0, and logs every third
    assert logged["noise_scale"].iloc[-1] == pytest.approx(noise.meter.running.noise_scale)
    assert len(noise.meter.history) == 6
    assert str(noise.meter.estimate()) in caplog.text
    assert all(p._backward_hooks is None for p in model.parameters())


def test_batch_that_is_not_split_is_said_once_and_training_goes_on(train, caplog):
    trainer, _ = train(NoiseCallback(every=1))
    assert trainer.global_step == 12
    (said,) = warnings_of(caplog)
    assert said.startswith("the noise meter failed; training goes on without it")
    assert "split the batch" in said


def test_batch_that_is_not_split_ends_the_training_on_request(train):
    with pytest.raises(ValueError, match="split the batch"):
        train(NoiseCallback(raises=True))


def test_loader_without_a_batch_size_needs_one_by_hand(caplog):
    trainer = SimpleNamespace(train_dataloader=[])
    model = torch.nn.Linear(1, 1)
    noise = NoiseCallback()
    noise.on_train_start(trainer, model)
    assert noise.meter is None
    assert "hand them to NoiseCallback(batch_size=…)" in warnings_of(caplog)[0]
    noise = NoiseCallback(batch_size=3)
    noise.on_train_start(trainer, model)
    assert noise.meter is not None


@pytest.mark.parametrize("is_fused", [False, True])
def test_scale_of_mixed_precision_is_taken_out(is_fused):
    model = torch.nn.Linear(1, 1, bias=False)
    noise = NoiseCallback(batch_size=4, raises=True)
    trainer = SimpleNamespace(
        train_dataloader=[],
        precision_plugin=SimpleNamespace(scaler=SimpleNamespace(get_scale=lambda: 8.0)),
    )
    noise.on_train_start(trainer, model)
    for x in (1.0, 3.0):
        (model(torch.tensor([[x]])) * 8 / 2).backward()
    if not is_fused:
        model.weight.grad /= 8
    noise.on_before_optimizer_step(
        trainer, model, SimpleNamespace(_step_supports_amp_scaling=is_fused)
    )
    (step,) = noise.meter.history
    assert step.grad_sq_small / step.grad_sq_big == pytest.approx(5 / 4)
