"""The callbacks in real Trainers, of both of Lightning's names, on a model of two parameters."""

import logging
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger

from extrap.integrations.lightning import MonitorCallback, NoiseCallback

from ..monitors import FakeMonitor

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),  # on many cores
    pytest.mark.filterwarnings("ignore:GPU available but not used.*"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated.*"),
]


@pytest.mark.parametrize("on_epoch", [False, True])
@pytest.mark.parametrize("n_batches", [1, 2])
def test_monitor_hears_one_loss_at_every_step(train_lightning, warnings_of, on_epoch, n_batches):
    monitor = FakeMonitor()
    options = {"max_steps": 6, "accumulate_grad_batches": n_batches}
    logging = {"on_step": True, "on_epoch": on_epoch}
    _, model = train_lightning(MonitorCallback(monitor), model_options=logging, **options)
    losses = model.losses[n_batches - 1 :: n_batches]
    assert monitor.heard == list(zip(range(1, 7), losses, strict=True))
    assert warnings_of() == []


def test_other_processes_feed_no_monitor_but_stop_with_the_first(warnings_of):
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
    assert warnings_of() == []


SPLIT = {"accumulate_grad_batches": 2, "max_steps": 6}


def test_norms_are_those_before_clipping(train_lightning):
    noise, free = (NoiseCallback(every=1, raises=True) for _ in range(2))
    options = {"model_options": {"lr": 0.0}, **SPLIT}
    _, model = train_lightning(noise, gradient_clip_val=1e-6, **options)
    train_lightning(free, **options)
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


def test_noise_scale_is_logged_where_the_trainer_logs(train_lightning, caplog, tmp_path):
    caplog.set_level(logging.INFO, logger="extrap")
    noise = NoiseCallback(every=1, raises=True)
    _, model = train_lightning(noise, logger=CSVLogger(tmp_path), **SPLIT)
    (path,) = tmp_path.rglob("metrics.csv")
    table = pd.read_csv(path)
    logged = table.dropna(subset="noise_scale")
    assert list(logged["step"]) == [2, 5]  # Lightning counts from 0, and logs every third
    assert logged["noise_scale"].iloc[-1] == pytest.approx(noise.meter.running_noise_scale)
    assert len(noise.meter.history) == 6
    assert str(noise.meter.estimate()) in caplog.text
    assert all(p._backward_hooks is None for p in model.parameters())


def test_loader_without_a_batch_size_needs_one_by_hand(warnings_of):
    trainer = SimpleNamespace(train_dataloader=[])
    model = torch.nn.Linear(1, 1)
    noise = NoiseCallback()
    noise.on_train_start(trainer, model)
    assert noise.meter is None
    assert "(batch_size=…)" in warnings_of()[0]
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


def test_loss_of_an_epoch_is_heard_once_an_epoch(train_lightning):
    monitor = FakeMonitor()
    train_lightning(MonitorCallback(monitor), model_options={"on_step": False, "on_epoch": True})
    assert len(monitor.heard) == len({loss for _, loss in monitor.heard}) == 2
