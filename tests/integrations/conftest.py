"""Real Trainers on a model of two parameters; its loss is NaN from `breaks_at` on."""

import logging
import math
from types import SimpleNamespace

import lightning.pytorch
import pytest
import pytorch_lightning
import torch
from transformers import Trainer, TrainingArguments

from extrap.integrations import huggingface
from extrap.integrations import lightning as lightnings


class Line(torch.nn.Module):
    """y = w x + b."""

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
def train_huggingface(tmp_path, monkeypatch):
    """Train twelve steps and log every second; returns the Trainer."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rows = [{"x": torch.tensor([i / 8]), "labels": torch.tensor([i / 4])} for i in range(8)]

    def train(callback, *, breaks_at=math.inf, trackers=(), **options):
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
        trainer = Trainer(Line(breaks_at), arguments, train_dataset=rows, callbacks=callbacks)
        trainer.train()
        return trainer

    return train


def make_module(library, *, breaks_at=math.inf, lr=0.1, **logging_options):
    class Module(library.LightningModule):
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

    return Module()


LIGHTNINGS = {"lightning": lightning.pytorch, "pytorch_lightning": pytorch_lightning}


@pytest.fixture
def trainer_of(tmp_path):
    """Train twelve steps of an epoch of four with a Lightning; returns the Trainer."""
    x = torch.arange(16.0).reshape(16, 1) / 16
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, 2 * x), batch_size=4)

    def train(name, callback, *, model_options=None, **options):
        torch.manual_seed(0)
        model = make_module(LIGHTNINGS[name], **(model_options or {}))
        trainer = LIGHTNINGS[name].Trainer(
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
        return trainer

    return train


@pytest.fixture(params=LIGHTNINGS)
def train_lightning(request, trainer_of):
    """Train with either of Lightning's names; returns the Trainer and its model."""

    def train(callback, **options):
        trainer = trainer_of(request.param, callback, **options)
        return trainer, trainer.lightning_module

    return train


@pytest.fixture(params=["huggingface", *LIGHTNINGS])
def integration(request, train_huggingface, trainer_of):
    """The callbacks of one library, and how many steps a training with one of them makes."""
    if request.param == "huggingface":

        def count(callback, breaks_at=math.inf):
            return train_huggingface(callback, breaks_at=breaks_at).state.global_step

        return SimpleNamespace(name="huggingface", module=huggingface, train=count)

    def count(callback, breaks_at=math.inf):
        return trainer_of(
            request.param, callback, model_options={"breaks_at": breaks_at}
        ).global_step

    return SimpleNamespace(name="lightning", module=lightnings, train=count)


@pytest.fixture
def warnings_of(caplog):
    """What extrap has warned of since."""
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("extrap") and record.levelno >= logging.WARNING
    ]
