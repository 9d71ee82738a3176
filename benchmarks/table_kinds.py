"""Tables of known truth in many layouts: what `benchmarks.random_tables` reads.

Sweeps of learning rates over widths, and tables of parameters, tokens and compute. A change
renames, drops, rewrites or arranges columns and cells; the truth is that of the simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Generator = np.random.Generator
RATES = (
    *("lr", "learning_rate", "max_lr", "peak_lr", "base_lr", "LR", "Learning Rate"),
    *("config.optimizer.lr", "params_lr", "hparams/lr", "Param lr", "config/learning_rate"),
)
UNUSUAL_RATES = (
    *("muon_lr", "initial_lr", "adam_lr", "matrix_lr", "lr0", "lr (peak)", "lr.value", "alpha"),
    *("optimizer.lr.value", "eta0", "lr_hidden", "knob", "x1", "step_length", "lrate"),
)
SIZES = (
    *("width", "d_model", "hidden_size", "n_embd", "config.model.d_model", "dim", "embed_dim"),
    *("hparams/width", "Param width", "params_width", "Width"),
)
UNUSUAL_SIZES = ("hidden", "h", "w", "my_size", "net_width", "ffn", "N", "neurons")
LOSSES = (
    *("loss", "val_loss", "eval/loss", "summary.val_loss", "validation_loss", "test_nll"),
    *("final_val_loss", "Value", "dev.loss", "eval_loss"),
)
SEEDS = ("seed", "random_seed", "config.seed", "UserAttribute seed", "params_seed", "")
UNUSUAL_SEEDS = ("rep", "trial_seed", "run_idx", "r")
SETTINGS = ("optimizer", "dataset", "warmup_steps", "schedule", "dropout", "activation", "beta2")
UNUSUAL_SETTINGS = ("version", "group", "flag", "k", "variant2", "my_option", "mode", "tau")
SECOND = ("weight_decay", "wd", "config.optimizer.weight_decay")
UNUSUAL_SECOND = ("regularisation", "lambda", "decoupled", "wd_mult", "q")
STATES = ("status", "State", "exit_status", "outcome", "run_state")
UNFINISHED = ("failed", "FAILED", "TIMEOUT", "OOM", "killed", "ERROR", "running", "aborted")
FINISHED = ("complete", "FINISHED", "TERMINATED", "COMPLETED", "done", "success")


@dataclass
class Sweep:
    """A table in the making and what is true of it.

    Attributes:
        rng: Draws everything.
        table: One row per run; `width`, `rate`, `loss` and `seed` until they are renamed.
        offsets: Log losses by which the recipes in it differ; an answer for any is right.
        kinds: What was done to it.
        is_sound: Whether nothing in it needs a question.
        names: Column → what it is called in the end.
        largest: The largest width.
        title: Lines above the header.
        quantities: Quantity (`width`, `N`, `D`, `C`, `ratio`) → its values in the table.
        is_allocated: Whether an allocation is asked for, not a forecast.
    """

    rng: Generator
    table: pd.DataFrame
    floor: float
    exponent: float
    drift: float
    scale: float = 0.0
    best: float = 0.0
    offsets: list[float] = field(default_factory=lambda: [0.0])
    kinds: list[str] = field(default_factory=list)
    is_sound: bool = True
    names: dict[str, str] = field(default_factory=dict)
    largest: float = 0.0
    title: str = ""
    quantities: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    is_allocated: bool = False

    def loss_at(self, width: float) -> float:
        """The loss at the best rate."""
        return self.floor + self.scale * (width / 64) ** -self.exponent

    def rate_at(self, width: float) -> float:
        """The best rate."""
        return self.best * (width / 64) ** -self.drift

    def loss_of(self, params: float, tokens: float) -> float:
        """The loss of a number of parameters and of tokens."""
        return float(self.floor + 400 * params**-self.exponent + 410 * tokens**-self.drift)

    def best_params(self, flops: float) -> float:
        """The number of parameters of the smallest loss of a budget C = 6 N D."""
        ratio = self.exponent * 400 / (self.drift * 410) * (flops / 6) ** self.drift
        return float(ratio ** (1 / (self.exponent + self.drift)))

    def pick(self, *values: str) -> str:
        """One of them."""
        return str(self.rng.choice(values))

    def note(self, kind: str, *, is_sound: bool = False) -> None:
        """Remember what was done."""
        self.kinds.append(kind)
        self.is_sound &= is_sound


def rate_sweep(rng: Generator) -> Sweep:
    """A sweep: a grid of rates, or a random search, over four to six widths."""
    sweep = Sweep(
        rng=rng,
        table=pd.DataFrame(),
        floor=float(rng.uniform(0.5, 2.5)),
        scale=float(rng.uniform(0.8, 3.0)),
        exponent=float(rng.uniform(0.2, 0.6)),
        best=float(10 ** rng.uniform(-3, -1)),
        drift=float(rng.uniform(0.0, 0.8)),
    )
    widths = [2.0**k for k in range(4, 4 + int(rng.integers(4, 7)))]
    n_rates, n_seeds = int(rng.integers(5, 9)), int(rng.integers(1, 4))
    is_grid = rng.random() < 0.6
    octaves = np.arange(n_rates) - n_rates // 2 + rng.uniform(-0.4, 0.4)
    curvature, noise = float(rng.uniform(0.008, 0.05)), float(10 ** rng.uniform(-3.2, -2))
    rows = []
    for width in widths:
        for seed in range(n_seeds):
            tried = octaves if is_grid else rng.uniform(-3, 3, n_rates)
            centre = sweep.rate_at(float(np.sqrt(widths[0] * widths[-1]) if is_grid else width))
            for rate in centre * 2.0**tried:
                off = math.log2(rate / sweep.rate_at(width))
                log_loss = curvature * off**2 + noise * rng.normal()
                loss = sweep.loss_at(width) * math.exp(log_loss)
                rows.append({"width": int(width), "rate": rate, "seed": seed, "loss": loss})
    sweep.table, sweep.largest = pd.DataFrame(rows), float(widths[-1])
    return sweep


def add_bookkeeping(sweep: Sweep) -> None:
    """Columns that time, place or name a run, metrics, and what follows from the settings."""
    rng, table, n = sweep.rng, sweep.table, len(sweep.table)
    width = table["width"]
    columns: dict[str, Callable[[], object]] = {
        "hostname": lambda: rng.choice(["node-1", "node-2", "node-3"], n),
        "gpu": lambda: rng.choice(["A100", "H100"], n),
        "runtime_s": lambda: rng.integers(100, 900, n),
        "created_at": lambda: [f"2026-02-{1 + i % 28:02}T10:00:00" for i in range(n)],
        "run_id": lambda: [f"{i:06x}" for i in rng.permutation(n)],
        "name": lambda: [f"happy-{i}" for i in range(n)],
        "train_loss": lambda: table["loss"] * rng.uniform(0.9, 0.99, n),
        "val_accuracy": lambda: 1 / (1 + table["loss"]),
        "n_params": lambda: 12 * width**2,
        "flops": lambda: 1e6 * width.astype(float) ** 3,
        "n_layers": lambda: np.maximum(width // 32, 1),
        "min_lr": lambda: table["rate"] / 10,
        "tokens_per_s": lambda: rng.integers(1000, 9000, n),
        "git_commit": lambda: rng.choice(["a1b2", "c3d4"], n),
        "grad_norm": lambda: rng.uniform(0.1, 2.0, n),
        "batch_size": lambda: 64,
        "steps": lambda: 1000,
        "peak_memory_gb": lambda: rng.uniform(1, 40, n),
    }
    names = rng.choice(list(columns), int(rng.integers(1, 7)), replace=False)
    sweep.table = table.assign(**{name: columns[name]() for name in names})
    sweep.note("bookkeeping", is_sound=True)


def mix_recipes(sweep: Sweep) -> None:
    """Another setting that varies and moves the loss: crossed, at random, or at some sizes."""
    rng = sweep.rng
    is_text, name = rng.random() < 0.4, sweep.pick(*SETTINGS, *UNUSUAL_SETTINGS)
    values: list[Any] = ["adam", "sgd"] if is_text else [0.1, 0.3]
    excess, table = float(rng.uniform(0.03, 0.4)), sweep.table
    how = sweep.pick("crossed", "random", "sizes")
    if how == "crossed":
        parts = [table.assign(**{name: value}) for value in values]
        parts[1]["loss"] *= math.exp(excess)
        sweep.table = pd.concat(parts, ignore_index=True)
    else:
        other = rng.random(len(table)) < 0.5
        if how == "sizes":
            other = table["width"].isin(rng.choice(table["width"].unique(), 2, replace=False))
        sweep.table = table.assign(**{name: np.where(other, values[1], values[0])})
        sweep.table.loc[np.asarray(other), "loss"] *= math.exp(excess)
    sweep.offsets.append(excess)
    sweep.note(f"recipes {how} in {name}")


def tune_another(sweep: Sweep) -> None:
    """A second tuned value, swept or drawn at random, whose best value is in the middle."""
    rng, table = sweep.rng, sweep.table
    name = sweep.pick(*SECOND, *UNUSUAL_SECOND)
    if rng.random() < 0.5:
        table = table.merge(pd.DataFrame({name: 0.1 * 4.0 ** np.arange(-2, 3)}), how="cross")
    else:
        table = table.assign(**{name: 0.1 * 4.0 ** rng.uniform(-2.5, 2.5, len(table))})
    octaves = np.log2(table[name] / 0.1)
    sweep.table = table.assign(loss=table["loss"] * np.exp(rng.uniform(0.005, 0.03) * octaves**2))
    sweep.note(f"second tuned {name}")


def leave_unfinished(sweep: Sweep) -> None:
    """Some runs ended early with a high loss; a word or their steps say so."""
    rng, n = sweep.rng, len(sweep.table)
    is_early = rng.random(n) < rng.uniform(0.05, 0.25)
    table = sweep.table.assign(loss=sweep.table["loss"] * np.where(is_early, 1.3, 1.0))
    how = sweep.pick("word", "steps")
    if how == "word":
        words = np.where(is_early, sweep.pick(*UNFINISHED), sweep.pick(*FINISHED))
        sweep.table = table.assign(**{sweep.pick(*STATES): words})
    else:
        sweep.table = table.assign(
            **{"steps": np.where(is_early, rng.integers(100, 700, n), 1000)}
        )
    sweep.note(f"unfinished, by {how}")


def diverge(sweep: Sweep) -> None:
    """The highest rates have no finite loss."""
    off = np.log2(sweep.table["rate"] / sweep.table["width"].map(sweep.rate_at))
    sweep.table = sweep.table.assign(loss=sweep.table["loss"].where(off < 2.3, np.inf))
    sweep.note("diverged", is_sound=True)


def write_text(sweep: Sweep) -> None:
    """Numbers as people write them."""
    table, how = sweep.table, sweep.pick("thousands", "power", "percent", "letter", "log2")
    if how == "thousands":
        sweep.table = table.assign(width=[f"{1000 * w:,}" for w in table["width"]])
    elif how == "power":
        sweep.table = table.assign(width=[f"2^{int(math.log2(w))}" for w in table["width"]])
    elif how == "letter":
        sweep.table = table.assign(width=[f"{w}M" for w in table["width"]])
    elif how == "log2":
        sweep.table = table.assign(rate=np.log2(table["rate"]))
    else:
        sweep.table = table.assign(seed=[f"s{seed}" for seed in table["seed"]])
    sweep.note(f"text {how}")


def disturb(sweep: Sweep) -> None:
    """Rows dropped, copied, in another order."""
    table, rng = sweep.table, sweep.rng
    how = sweep.pick("dropped", "copied", "shuffled")
    if how == "dropped":
        sweep.table = table.sample(frac=0.85, random_state=int(rng.integers(2**31)))
    elif how == "copied":
        sweep.table = pd.concat([table, table.head(5)], ignore_index=True)
    else:
        sweep.table = table.sample(frac=1.0, random_state=int(rng.integers(2**31)))
    sweep.note(how, is_sound=True)


def rename(sweep: Sweep) -> None:
    """Names as several tools write them; one in four is unusual."""
    rng = sweep.rng
    candidates = {
        "rate": (RATES, UNUSUAL_RATES),
        "width": (SIZES, UNUSUAL_SIZES),
        "seed": (SEEDS, UNUSUAL_SEEDS),
        "loss": (LOSSES, LOSSES),
    }
    names = {}
    for column, (usual, unusual) in candidates.items():
        is_usual = rng.random() < 0.75
        names[column] = sweep.pick(*(usual if is_usual else unusual))
        if not is_usual and usual is not unusual:
            sweep.note(f"{column} called {names[column]}")
    sweep.names = names
    table = sweep.table.drop(columns="seed") if not names["seed"] else sweep.table
    table = table.rename(columns=names)
    order = rng.permutation(table.columns) if rng.random() < 0.5 else list(table.columns)
    sweep.table = table.loc[:, ~table.columns.duplicated()][list(dict.fromkeys(order))]


CHANGES: Sequence[tuple[float, Callable[[Sweep], None]]] = (
    (0.6, add_bookkeeping),
    (0.25, diverge),
    (0.3, mix_recipes),
    (0.2, tune_another),
    (0.2, leave_unfinished),
    (0.3, disturb),
    (0.12, write_text),
)
"""How often each change is made, in this order."""


WIDE = 96.0
"""Parameters of a model are this times its width squared."""
HEADERS = {
    "units": (
        {"Params (M)": "N/1e6", "Tokens (B)": "D/1e9", "Loss": "loss"},
        {"N [1e6]": "N/1e6", "D [1e9]": "D/1e9", "loss": "loss"},
        {"params_M": "N/1e6", "tokens_B": "D/1e9", "val_loss": "loss"},
        {"Model size (millions)": "N/1e6", "Data (billion tokens)": "D/1e9", "eval_loss": "loss"},
    ),
    "logarithms": (
        {"log10_N": "log10 N", "log10_D": "log10 D", "log10_C": "log10 C", "loss": "loss"},
        {"log_params": "log N", "log_tokens": "log D", "loss": "loss"},
        {"lg_flops": "log10 C", "params": "N", "val_loss": "loss"},
        {"log2_params": "log2 N", "log2_tokens": "log2 D", "final_loss": "loss"},
    ),
    "ratios": (
        {"params": "N", "tpp": "ratio", "val_loss": "loss"},
        {"params": "N", "tokens/param": "ratio", "loss": "loss"},
        {"n_params": "N", "tok_ratio": "ratio", "loss": "loss"},
        {"flops": "C", "D/N": "ratio", "loss": "loss"},
        {"params": "N", "tokens": "D", "tokens_per_param": "ratio", "loss": "loss"},
    ),
    "symbols": (
        {"N": "N", "D": "D", "L": "loss"},
        {"N": "N", "D": "D", "loss": "loss"},
        {"N": "N", "D": "D", "C": "C", "L": "loss"},
        {"C": "C", "N": "N", "L": "loss"},
    ),
    "compute axis": (
        {"flops": "C", "width": "width", "loss": "loss"},
        {"compute_budget": "C", "parameters": "N", "final_loss": "loss"},
        {"C": "C", "d_model": "width", "val_loss": "loss"},
        {"FLOPs": "C", "params": "N", "loss": "loss"},
    ),
    "sound names": (
        {"params": "N", "tokens": "D", "loss": "loss"},
        {"n_params": "N", "n_tokens": "D", "val_loss": "loss"},
        {"parameters": "N", "num_tokens": "D", "flops": "C", "eval_loss": "loss"},
    ),
}
"""Kind → headers that a table of model sizes and data may have, and what stands below them."""


def data_table(rng: Generator, kind: str) -> Sweep:
    """A table of sizes and data, or of sizes at several budgets of compute."""
    floor, alpha, beta = map(float, rng.uniform([1.5, 0.3, 0.25], [2.2, 0.38, 0.32]))
    sweep = Sweep(rng=rng, table=pd.DataFrame(), floor=floor, exponent=alpha, drift=beta)
    layout = HEADERS[kind][int(rng.integers(len(HEADERS[kind])))]
    if "C" in layout.values() and "D" not in layout.values():
        budgets = 10.0 ** np.arange(17, 20.1, 0.5)
        best = np.array([sweep.best_params(flops) for flops in budgets])
        width = np.round(np.sqrt(np.outer(best, 2.0 ** np.arange(-3, 3.1)) / WIDE) / 8) * 8
        params, flops = WIDE * width.ravel() ** 2, np.repeat(budgets, width.shape[1])
        tokens = flops / (6 * params)
    else:
        grid = np.meshgrid(3e7 * 2.5 ** np.arange(6), 1e9 * 3.0 ** np.arange(5))
        params, tokens = (np.round(axis.ravel(), -5) for axis in grid)
        flops = 6 * params * tokens
    exact = np.array([sweep.loss_of(*pair) for pair in zip(params, tokens, strict=True)])
    loss = exact * np.exp(0.002 * rng.normal(size=len(exact)))
    values = {"N": params, "D": tokens, "C": flops, "ratio": tokens / params}
    sweep.quantities = values | {"width": np.sqrt(params / WIDE)}
    shown = {}
    for header, text in layout.items():
        quantity = next((q for q in sweep.quantities if q in text.split("/")[0].split()), "loss")
        cells = loss if quantity == "loss" else sweep.quantities[quantity]
        cells = cells / float(text.split("/")[1]) if "/" in text else cells
        base = {"log10": np.log10, "log2": np.log2, "log": np.log}.get(text.split()[0])
        shown[header] = np.round(base(cells), 6) if base else cells
    sweep.table = pd.DataFrame(shown)
    is_asked = {"N", "D"} <= {q for q in values if q in " ".join(layout.values())}
    sweep.is_allocated = (is_asked or kind == "compute axis") and rng.random() < 0.5
    sweep.note(f"{kind}: {', '.join(layout)}", is_sound=kind == "sound names")
    return sweep


def write_words(sweep: Sweep) -> None:
    """Text in the losses: words for what has none, errors, marks of the best."""
    loss, rng = sweep.table["loss"], sweep.rng
    how = sweep.pick("diverged", "—", "coming soon", "OOM", "n/a", "±", "(+)", "**")
    texts = loss.map("{:.4f}".format)
    if how == "±":
        texts += " ± .01"
    elif how == "(+)":
        texts += " (+0.01)"
    elif how == "**":
        texts = texts.where(loss.groupby(sweep.table["width"]).rank() > 1, "**" + texts + "**")
    else:
        texts[rng.choice(len(texts), 2, replace=False)] = how
    sweep.table = sweep.table.assign(loss=texts)
    sweep.note(f"text in the loss: {how}")


def by_seed(sweep: Sweep) -> None:
    """A column per seed, or the mean, the deviation and the number of seeds."""
    table = pd.concat([sweep.table.assign(seed=seed) for seed in range(3)])
    table["loss"] *= np.exp(0.005 * sweep.rng.normal(size=len(table)))
    groups = table.groupby(["width", "rate"])["loss"]
    if sweep.rng.random() < 0.5:
        sweep.table = groups.agg(loss_mean="mean", loss_std="std", n="count").reset_index()
    else:
        wide = table.pivot_table(index=["width", "rate"], columns="seed", values="loss")
        sweep.table = wide.add_prefix(sweep.pick("val_loss_seed", "loss_s", "seed_")).reset_index()
    sweep.note(f"layout: {', '.join(map(str, sweep.table))}")


def merge_cells(sweep: Sweep) -> None:
    """The size stands in the first row of its block only."""
    table = sweep.table.sort_values("width", kind="stable", ignore_index=True)
    widths = table["width"].astype(object).where(~table["width"].duplicated(), "")
    sweep.table = table.assign(width=widths)
    sweep.note("layout: merged cells")


def add_title(sweep: Sweep) -> None:
    """Lines above the header."""
    sweep.title = sweep.pick("Sweep of May,,\n", "Results,,\nModel: MLP,,\n,,\n", "# my sweep\n\n")
    sweep.note("layout: title")


def split_rate(sweep: Sweep) -> None:
    """A rate of its own for each of two optimizers; the best of the second is ten times that."""
    sgd = sweep.table.assign(optimizer="sgd", sgd_lr=10 * sweep.table["rate"])
    sgd["loss"] *= math.exp(0.1)
    table = pd.concat([sweep.table.assign(optimizer="adam", adam_lr=sweep.table["rate"]), sgd])
    sweep.table = table.drop(columns="rate").reset_index(drop=True)
    sweep.offsets.append(0.1)
    sweep.note("layout: conditional rates")


def crash(sweep: Sweep) -> None:
    """Some runs ended far before their last step, with a high loss and no state."""
    n = len(sweep.table)
    is_early = sweep.rng.random(n) < 0.15
    last = np.where(is_early, sweep.rng.integers(50, 900, n), 2000)
    loss = sweep.table["loss"] * np.where(is_early, 1.5, 1.0)
    done = sweep.pick("last_step", "_step", "global_step", "steps_done")
    sweep.table = sweep.table.assign(loss=loss, **{"steps": 2000, done: last})
    sweep.note(f"crashed: steps, {done}")


def mix_schedules(sweep: Sweep) -> None:
    """Two schedules without a seed."""
    table, name = sweep.table.drop_duplicates(["width", "rate"]), sweep.pick("schedule", "decay")
    parts = [table.assign(**{name: "cosine"}), table.assign(**{name: "wsd"})]
    parts[1]["loss"] *= math.exp(0.08)
    sweep.table = pd.concat(parts, ignore_index=True)
    sweep.offsets.append(0.08)
    sweep.note(f"two schedules in {name}")


def take_logarithm(sweep: Sweep) -> None:
    """The rate or the width as a logarithm, under a name that says so."""
    what, table = sweep.pick("rate", "width"), sweep.table
    name = {
        "rate": sweep.pick("log2lr", "log10_lr", "log_lr", "lg_lr"),
        "width": sweep.pick("log2_width", "log2(width)"),
    }[what]
    function = np.log2 if "2" in name else np.log if "log_" in name else np.log10
    sweep.table = table.assign(**{what: function(table[what])}).rename(columns={what: name})
    sweep.note(f"logarithm: {name}")


LAYOUTS: dict[str, Callable[[Sweep], None]] = {
    "text in losses": write_words,
    "columns of seeds": by_seed,
    "merged cells": merge_cells,
    "title rows": add_title,
    "conditional rates": split_rate,
    "last steps": crash,
    "two schedules": mix_schedules,
    "logarithm of a setting": take_logarithm,
}
"""Kind → what is done to a plain sweep of rates."""
