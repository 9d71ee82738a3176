"""The callbacks in a real Trainer, on a model of two parameters."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace

import pytest
import torch
from accelerate.state import GradientState
from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from extrap.integrations.huggingface import MonitorCallback, NoiseCallback

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

    def train(callback, *, model=None, trackers=(), **options):
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
        callbacks = [callback, *trackers]
        trainer = Trainer(model or Line(), arguments, train_dataset=rows, callbacks=callbacks)
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


def gradients_of(rows, weight, bias):
    """The gradient of each row's squared error of a line, by hand. Shape (n_rows, 2)."""
    return torch.tensor(
        [
            [2 * (weight * x + bias - y) * x, 2 * (weight * x + bias - y)]
            for x, y in ((row["x"].item(), row["labels"].item()) for row in rows)
        ]
    )


STILL = {"learning_rate": 0.0, "gradient_accumulation_steps": 2}


def test_norms_are_those_before_clipping(train):
    noise = NoiseCallback(every=1, raises=True)
    trainer = train(noise, max_grad_norm=1e-6, **STILL)
    free = NoiseCallback(every=1, raises=True)
    train(free, max_grad_norm=0.0, **STILL)
    assert noise.meter.history == free.meter.history
    assert [step.step for step in noise.meter.history] == list(range(12))
    line = trainer.model.line
    ones = gradients_of(trainer.train_dataset, line.weight.item(), line.bias.item())
    for step in noise.meter.history:  # the eight rows are one step, in two batches
        assert (step.batch_small, step.batch_big) == (4, 8)
        assert step.grad_sq_big == pytest.approx(ones.mean(0).square().sum().item(), rel=1e-4)
        assert step.grad_sq_small > step.grad_sq_big


def test_noise_scale_joins_every_log_of_the_training_loss(train, caplog):
    caplog.set_level(logging.INFO, logger="extrap")
    noise, seen = NoiseCallback(every=2, raises=True), []

    class Tracker(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):
            seen.append(dict(logs))

    trainer = train(noise, trackers=[Tracker()], **STILL)
    losses = [log for log in trainer.state.log_history if "loss" in log]
    assert len(losses) == 6
    assert len(noise.meter.history) == 6
    assert losses[-1]["noise_scale"] == noise.meter.running.noise_scale > 0
    assert [log.get("noise_scale") for log in losses] == [
        log.get("noise_scale") for log in seen if "loss" in log
    ]
    assert not any("noise_scale" in log for log in seen if "loss" not in log)
    assert str(noise.meter.estimate()) in caplog.text
    assert all(p._backward_hooks is None for p in trainer.model.parameters())


def test_batch_that_is_not_split_is_said_once_and_training_goes_on(train, caplog):
    noise = NoiseCallback(every=1)
    assert train(noise).state.global_step == 12
    (said,) = warnings_of(caplog)
    assert said.startswith("the noise meter failed; training goes on without it")
    assert "split the batch" in said


def test_batch_that_is_not_split_ends_the_training_on_request(train):
    with pytest.raises(ValueError, match="split the batch"):
        train(NoiseCallback(raises=True))


def test_training_of_gradients_that_are_not_finite_gives_no_noise_scale(train, caplog):
    noise = NoiseCallback(every=1)
    train(noise, model=Line(breaks_at=0), **STILL)
    (said,) = warnings_of(caplog)
    assert said.startswith("no noise scale: none of 12 measured steps")


def test_scale_of_mixed_precision_is_taken_out():
    model = torch.nn.Linear(1, 1, bias=False)
    noise = NoiseCallback(every=1, raises=True)
    arguments = SimpleNamespace(train_batch_size=4)
    state = SimpleNamespace(train_batch_size=None)
    scaled = SimpleNamespace(scaler=SimpleNamespace(get_scale=lambda: 8.0))
    GradientState()._set_sync_gradients(False)
    noise.on_train_begin(arguments, state, None, model=model)
    (model(torch.tensor([[1.0]])) * 8 / 2).backward()
    GradientState()._set_sync_gradients(True)
    (model(torch.tensor([[3.0]])) * 8 / 2).backward()
    model.weight.grad /= 8
    noise.on_pre_optimizer_step(arguments, state, None, optimizer=scaled)
    (step,) = noise.meter.history
    assert (step.grad_sq_small, step.grad_sq_big) == pytest.approx((5.0, 4.0))
