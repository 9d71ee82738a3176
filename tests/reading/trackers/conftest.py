"""One small sweep with curves, that every tracker is given."""

from typing import NamedTuple

import pandas as pd
import pytest

N_POINTS = 5


class Run(NamedTuple):
    width: int
    lr: float
    seed: int

    def loss(self, step):
        final = 1.5 + 6 / self.width + 40 * (self.lr * self.width**0.5 - 0.1) ** 2
        return final + self.seed / 128 + (N_POINTS - step) / 4

    @property
    def name(self):
        return f"width={self.width},lr={self.lr},seed={self.seed}"


@pytest.fixture(scope="session")
def sweep():
    cells = [(16, 0.015), (16, 0.04), (32, 0.01), (32, 0.03), (64, 0.008)]
    return [Run(width, lr, seed) for width, lr in cells for seed in (0, 1)]


@pytest.fixture(scope="session")
def table(sweep):
    return pd.DataFrame([{**run._asdict(), "loss": run.loss(N_POINTS)} for run in sweep])


@pytest.fixture(scope="session", autouse=True)
def _silent_trackers():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "WANDB_SILENT"):
            patch.setenv(name, "true")
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_ERROR_REPORTING", "false")
        yield
