"""Tables as people have them, made from one sweep whose truth is known."""

import numpy as np
import pandas as pd

from benchmarks.sweeps import simulate

WIDTHS = (64, 128, 256, 512)
RATES = tuple(2.0**-k for k in range(4, 10))
SEEDS = (0, 1, 2)


def loss_at(width, lr):
    octaves = np.log2(lr / (0.01 * (width / 64) ** -0.4))
    return (1.5 + 2 * (width / 64) ** -0.4) * np.exp(0.01 * octaves**2)


def sweep(*, seeds=SEEDS, excess=0.0, **settings):
    """A grid of widths, rates and seeds; `excess` is what a worse recipe costs in log loss."""

    def loss(width, lr, seed):
        return loss_at(width, lr) * np.exp(excess)

    table = simulate(loss, noise=0.002, rng=7, width=WIDTHS, lr=RATES, seed=seeds)
    return table.assign(**settings)


def two(name, values, *, seeds=(SEEDS, SEEDS)):
    """Two sweeps in one table that differ in a column, the second a worse recipe."""
    first, second = values
    parts = [sweep(seeds=seeds[0]), sweep(seeds=seeds[1], excess=0.05)]
    return pd.concat(
        [parts[0].assign(**{name: first}), parts[1].assign(**{name: second})], ignore_index=True
    )


def wandb_export(table, *, warmup=100):
    """What W&B exports: everything that a run logs, settings and metrics with prefixes."""
    n, rng = len(table), np.random.default_rng(1)
    width, lr = table["width"], table["lr"]
    return pd.DataFrame(
        {
            "Name": [f"happy-{i}" for i in range(n)],
            "State": "finished",
            "Notes": rng.choice(["-", "rerun after a crash"], n),
            "Tags": rng.choice(["a", "b"], n),
            "Created": [f"2026-01-{1 + i % 28:02}T00:00:00" for i in range(n)],
            "Runtime": rng.integers(100, 900, n),
            "config.model.d_model": width,
            "config.model.n_layers": width // 32,
            "config.optimizer.lr": lr,
            "config.optimizer.min_lr": lr / 10,
            "config.optimizer.name": "adam",
            "config.optimizer.weight_decay": 0.1,
            "config.seed": table["seed"],
            "config.data.path": rng.choice(["/a/x", "/b/x"], n),
            "config.train.warmup_steps": warmup,
            "config.train.steps": width * 10,
            "config.gpu": rng.choice(["A100", "H100"], n),
            "config.git_commit": rng.choice(["aa", "bb", "cc"], n),
            "config.num_workers": rng.choice([2, 4], n),
            "config.compile": rng.choice([True, False], n),
            "summary.val_loss": table["loss"],
            "summary.train_loss": table["loss"] * 0.97,
            "summary.best_val_loss": table["loss"] * 0.999,
            "summary.lr": lr / 10,
            "summary.epoch": rng.choice([1, 2, 3], n),
            "summary.n_spikes": rng.choice([0, 1, 2], n),
            "summary._runtime": rng.random(n),
            "n_params": 12 * width**2,
            "flops": width**3 * 1e6,
            "best_epoch": rng.choice([3, 4, 5], n),
            "stopped_early": rng.choice([True, False], n),
        }
    )


def mlflow_runs(table):
    """What `mlflow.search_runs` gives: parameters are text."""
    return pd.DataFrame(
        {
            "run_id": [f"{i:08x}" for i in range(len(table))],
            "experiment_id": "1",
            "status": "FINISHED",
            "artifact_uri": "x",
            "start_time": "2026-01-01",
            "metrics.val_loss": table["loss"],
            "metrics.val_acc": 1 - table["loss"] / 8,
            "params.lr": table["lr"].astype(str),
            "params.hidden_size": table["width"].astype(str),
            "params.seed": table["seed"].astype(str),
            "tags.mlflow.source.git.commit": np.where(table["seed"] > 0, "a", "b"),
        }
    )


def optuna_frame(table):
    """What `study.trials_dataframe()` gives."""
    return pd.DataFrame(
        {
            "number": range(len(table)),
            "value": table["loss"],
            "datetime_start": "x",
            "duration": "1",
            "params_lr": table["lr"],
            "params_width": table["width"],
            "user_attrs_seed": table["seed"],
            "state": "COMPLETE",
        }
    )


def huggingface(table):
    """Arguments and results of HF's Trainer."""
    return pd.DataFrame(
        {
            "learning_rate": table["lr"],
            "per_device_train_batch_size": 8,
            "num_train_epochs": 3,
            "warmup_ratio": 0.03,
            "eval_loss": table["loss"],
            "hidden_size": table["width"],
            "num_hidden_layers": table["width"] // 64,
            "eval_runtime": table["loss"] * 3,
            "train_samples_per_second": table["loss"] * 7,
            "seed": table["seed"],
            "data_seed": table["seed"] + 5,
        }
    )


def ray_results(table):
    """What Ray Tune's `get_dataframe` gives."""
    return pd.DataFrame(
        {
            "trial_id": [f"t{i}" for i in range(len(table))],
            "loss": table["loss"],
            "time_this_iter_s": table["loss"] * 2,
            "training_iteration": 10 + table["seed"] % 2,
            "pid": range(len(table)),
            "hostname": np.where(table["seed"] > 0, "a", "b"),
            "config/lr": table["lr"],
            "config/width": table["width"],
            "config/seed": table["seed"],
        }
    )


def random_search(**others):
    """Rates, and other settings, drawn anew for every run; no seeds."""
    rng = np.random.default_rng(3)
    rows = []
    for width in WIDTHS:
        for lr in 10 ** rng.uniform(-4, -1.5, 40):
            drawn = {name: draw(rng) for name, draw in others.items()}
            loss = loss_at(width, lr) * np.exp(0.002 * rng.normal())
            rows.append({"width": width, "lr": lr, **drawn, "loss": loss})
    return pd.DataFrame(rows)


def isoflop(*, n=5, m=4):
    """Parameters and tokens that vary beside each other, one run each."""
    params, tokens = np.meshgrid(np.geomspace(1e7, 1e9, n), np.geomspace(1e9, 1e11, m))
    table = pd.DataFrame({"n_params": params.ravel(), "n_tokens": tokens.ravel()})
    table["loss"] = 1.7 + 400 / table["n_params"] ** 0.34 + 400 / table["n_tokens"] ** 0.28
    table["flops"] = 6 * table["n_params"] * table["n_tokens"]
    table["lr"] = 1e-3 * (table["n_params"] / 1e7) ** -0.1
    return table
