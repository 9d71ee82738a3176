"""The callback in a real Trainer, on a model of two parameters."""

from __future__ import annotations

import logging
import math

import pytest
import torch
from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments

from extrap.integrations.huggingface import MonitorCallback

from ..monitors import FakeMonitor


class Line(torch.nn.Module):
    """y = w x + b, or a loss of NaN once it was asked `breaks_at` times."""

    def __init__(self, breaks_at=math.inf):
        super().__init__()
        self.line = torch.nn.Linear(1, 1)
        self.breaks_at = breaks_at
        self.n_calls = 0

    def forward(self, x, labels):
        self.n_calls += 1
        loss = torch.nn.functional.mse_loss(self.line(x), labels)
        return {"loss": loss * math.nan if self.n_calls >= self.breaks_at else loss}


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Train twelve steps and log every second; returns the Trainer."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rows = [{"x": torch.tensor([i / 8]), "labels": torch.tensor([i / 4])} for i in range(8)]

    def train(callback, *, model=None, **options):
        torch.manual_seed(0)
        arguments = TrainingArguments(
            output_dir=str(tmp_path),
            max_steps=12,
            per_device_train_batch_size=4,
            logging_steps=2,
            logging_nan_inf_filter=False,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            seed=0,
            **options,
        )
        trainer = Trainer(model or Line(), arguments, train_dataset=rows, callbacks=[callback])
        trainer.train()
        return trainer

    return train


def warnings_of(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("extrap") and record.levelno >= logging.WARNING
    ]


def test_monitor_hears_every_logged_loss(train, caplog):
    monitor = FakeMonitor()
    trainer = train(MonitorCallback(monitor))
    logged = [(log["step"], log["loss"]) for log in trainer.state.log_history if "loss" in log]
    assert monitor.heard == logged
    assert [step for step, _ in logged] == [2, 4, 6, 8, 10, 12]
    assert warnings_of(caplog) == []


def test_alarm_is_logged_once_and_training_goes_on(train, caplog):
    monitor = FakeMonitor()
    trainer = train(MonitorCallback(monitor), model=Line(breaks_at=5))
    assert trainer.state.global_step == 12
    assert warnings_of(caplog) == ["Stop the run."]


def test_alarm_stops_the_training_on_request(train):
    trainer = train(MonitorCallback(FakeMonitor(), stop=True), model=Line(breaks_at=5))
    assert trainer.state.global_step == 6


def test_without_an_alarm_nothing_stops(train):
    assert train(MonitorCallback(FakeMonitor(), stop=True)).state.global_step == 12


def test_broken_monitor_is_logged_once_and_training_goes_on(train, caplog):
    monitor = FakeMonitor(fails_at=4)
    trainer = train(MonitorCallback(monitor))
    assert trainer.state.global_step == 12
    assert [step for step, _ in monitor.heard] == [2]
    assert warnings_of(caplog) == ["the monitor failed; training goes on without it"]
    assert "the monitor is broken" in caplog.text


def test_broken_monitor_ends_the_training_on_request(train):
    with pytest.raises(ZeroDivisionError):
        train(MonitorCallback(FakeMonitor(fails_at=4), raises=True))


def test_metric_that_is_never_logged_is_said(train, caplog):
    monitor = FakeMonitor()
    train(MonitorCallback(monitor, metric="nll"))
    assert monitor.heard == []
    assert warnings_of(caplog) == ["the monitor heard nothing: no 'nll' was ever logged"]


def test_other_processes_feed_no_monitor_but_stop_with_the_first(tmp_path, monkeypatch, caplog):
    monitor = FakeMonitor(limit=1.0)
    callback = MonitorCallback(monitor, stop=True)
    asked = []

    def first_process_says(objects):
        asked.append(list(objects))
        return [True]

    monkeypatch.setattr(
        "extrap.integrations.huggingface.broadcast_object_list", first_process_says
    )
    monkeypatch.setattr(TrainingArguments, "world_size", 2)
    arguments = TrainingArguments(output_dir=str(tmp_path), report_to=[], use_cpu=True)
    state = TrainerState(is_world_process_zero=False, global_step=2)
    control = TrainerControl()
    callback.on_log(arguments, state, control, {"loss": 9.0})
    callback.on_log(arguments, state, control, {"eval_loss": 9.0})
    callback.on_train_end(arguments, state, control)
    assert monitor.heard == []
    assert asked == [[False]]
    assert control.should_training_stop
    assert warnings_of(caplog) == []
