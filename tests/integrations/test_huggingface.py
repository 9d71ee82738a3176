"""The callbacks in a real Trainer, on a model of two parameters."""

import logging
from types import SimpleNamespace

import pytest
import torch
from accelerate.state import GradientState
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from extrap.integrations.huggingface import MonitorCallback, NoiseCallback

from ..monitors import FakeMonitor


def test_monitor_hears_every_logged_loss(train_huggingface, warnings_of):
    monitor = FakeMonitor()
    trainer = train_huggingface(MonitorCallback(monitor, stop=True))  # nothing stops it
    logged = [(log["step"], log["loss"]) for log in trainer.state.log_history if "loss" in log]
    assert monitor.heard == logged
    assert [step for step, _ in logged] == [2, 4, 6, 8, 10, 12]
    assert warnings_of() == []


def test_other_processes_feed_no_monitor_but_stop_with_the_first(
    tmp_path, monkeypatch, warnings_of
):
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
    assert warnings_of() == []


def gradients_of(rows, weight, bias):
    """The gradient of each row's squared error of a line, by hand. Shape (n_rows, 2)."""
    return torch.tensor(
        [
            [2 * (weight * x + bias - y) * x, 2 * (weight * x + bias - y)]
            for x, y in ((row["x"].item(), row["labels"].item()) for row in rows)
        ]
    )


STILL = {"learning_rate": 0.0, "gradient_accumulation_steps": 2}


def test_norms_are_those_before_clipping(train_huggingface):
    noise = NoiseCallback(every=1, raises=True)
    trainer = train_huggingface(noise, max_grad_norm=1e-6, **STILL)
    free = NoiseCallback(every=1, raises=True)
    train_huggingface(free, max_grad_norm=0.0, **STILL)
    assert noise.meter.history == free.meter.history
    assert [step.step for step in noise.meter.history] == list(range(12))
    line = trainer.model.line
    ones = gradients_of(trainer.train_dataset, line.weight.item(), line.bias.item())
    for step in noise.meter.history:  # the eight rows are one step, in two batches
        assert (step.batch_small, step.batch_big) == (4, 8)
        assert step.grad_sq_big == pytest.approx(ones.mean(0).square().sum().item(), rel=1e-4)
        assert step.grad_sq_small > step.grad_sq_big


def test_noise_scale_joins_every_log_of_the_training_loss(train_huggingface, caplog):
    caplog.set_level(logging.INFO, logger="extrap")
    noise, seen = NoiseCallback(every=2, raises=True), []

    class Tracker(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):
            seen.append(dict(logs))

    trainer = train_huggingface(noise, trackers=[Tracker()], **STILL)
    losses = [log for log in trainer.state.log_history if "loss" in log]
    assert len(losses) == 6
    assert len(noise.meter.history) == 6
    assert losses[-1]["noise_scale"] == noise.meter.running_noise_scale > 0
    assert [log.get("noise_scale") for log in losses] == [
        log.get("noise_scale") for log in seen if "loss" in log
    ]
    assert not any("noise_scale" in log for log in seen if "loss" not in log)
    assert str(noise.meter.estimate()) in caplog.text
    assert all(p._backward_hooks is None for p in trainer.model.parameters())


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


def test_gradients_that_are_not_finite_give_no_noise_scale(train_huggingface, warnings_of):
    train_huggingface(NoiseCallback(every=1), breaks_at=0, **STILL)
    assert ["none of 12" in said for said in warnings_of()] == [True]
