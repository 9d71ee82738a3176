"""The callback in real Trainers, of both of Lightning's names, on a model of two parameters."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace

import lightning.pytorch
import pytest
import pytorch_lightning
import torch

from extrap.integrations.lightning import MonitorCallback

from ..monitors import FakeMonitor

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),  # on many cores
    pytest.mark.filterwarnings("ignore:GPU available but not used.*"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated.*"),
]


def make_model(library, *, breaks_at=math.inf, **logging_options):
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
            return torch.optim.SGD(self.parameters(), lr=0.1)

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
            **{"max_steps": 12, "log_every_n_steps": 3, **options},
            accelerator="cpu",
            devices=1,
            callbacks=[callback],
            default_root_dir=str(tmp_path),
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            logger=False,
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
