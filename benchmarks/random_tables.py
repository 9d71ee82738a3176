"""Tables that people may have, made from known laws: are they read right, or asked about?

    python -m benchmarks.random_tables [--n 2000] [--seed 0] [--show KIND]

Each table is a sweep of learning rates over widths, with columns renamed, reordered, dropped and
duplicated, cells as text or in other units, other settings that vary, runs that failed. It is
read without any option. An answer is wrong where the loss or the rate at twice the largest size
is more than three half-widths of its interval from the truth and nothing warns of it.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row
from extrap.errors import ExtrapError

Generator = np.random.Generator
HALF_WIDTHS = 3.0
MOST_WRONG, MOST_REFUSED = 0.002, 0.05
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
        table: One row a run; `width`, `rate`, `loss` and `seed` under these names until renamed.
        offsets: Log losses by which the recipes in it differ; an answer for any is right.
        kinds: What was done to it.
        is_sound: Whether nothing in it needs a question.
        names: Column → what it is called in the end.
        largest: The largest width.
    """

    rng: Generator
    table: pd.DataFrame
    floor: float
    scale: float
    exponent: float
    best: float
    drift: float
    offsets: list[float] = field(default_factory=lambda: [0.0])
    kinds: list[str] = field(default_factory=list)
    is_sound: bool = True
    names: dict[str, str] = field(default_factory=dict)
    largest: float = 0.0

    def loss_at(self, width: float) -> float:
        """The loss at the best rate."""
        return self.floor + self.scale * float(width / 64) ** -self.exponent

    def rate_at(self, width: float) -> float:
        """The best rate."""
        return self.best * float(width / 64) ** -self.drift

    def pick(self, *values: str) -> str:
        """One of them."""
        return str(self.rng.choice(values))

    def note(self, kind: str, *, is_sound: bool = False) -> None:
        """Remember what was done."""
        self.kinds.append(kind)
        self.is_sound &= is_sound


def made(rng: Generator) -> Sweep:
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
    widths = 2 ** np.arange(4, 4 + int(rng.integers(4, 7)))
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
    values: list[object] = ["adam", "sgd"] if is_text else [0.1, 0.3]
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
        sweep.table = table.assign(**{name: np.where(other, *reversed(values))})
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
    """Names from several houses; one in four is nobody's usual one."""
    rng = sweep.rng
    houses = {
        "rate": (RATES, UNUSUAL_RATES),
        "width": (SIZES, UNUSUAL_SIZES),
        "seed": (SEEDS, UNUSUAL_SEEDS),
        "loss": (LOSSES, LOSSES),
    }
    names = {}
    for column, (usual, unusual) in houses.items():
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


def random_table(number: int, seed: int) -> Sweep:
    """The table of a number; the same whatever was made before it."""
    rng = np.random.default_rng([seed, number])
    sweep = made(rng)
    for share, change in CHANGES:
        if rng.random() < share:
            change(sweep)
    rename(sweep)
    return sweep


def judge(sweep: Sweep, folder: Path) -> tuple[str, str]:
    """How it was answered, `refused`, `right`, `wrong, warned` and so on, and in which words."""
    path = folder / "table.csv"
    sweep.table.to_csv(path, index=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forecast = extrap.forecast(path)
            frame = forecast.runs.to_frame()
            target = {
                c: (4 if c == "n_params" else 2) * frame[c].max() for c in forecast.runs.sizes
            }
            point = forecast.at(**target)
    except ExtrapError as error:
        return "refused", str(error)
    flags = [f for f in (*forecast.flags, *point.flags) if not f.startswith("flat-")]
    used = f"size {forecast.runs.sizes}, tuned {forecast.runs.tuned}, loss {point.loss}"
    width = 2 * sweep.largest
    losses = [sweep.loss_at(width) * math.exp(offset) for offset in sweep.offsets]
    rates = [e for name, e in point.tuned.items() if sweep.names["rate"].endswith(name)]
    is_off = _is_off(point.loss, point.loss_pi, losses)
    is_off |= any(_is_off(e.value, e.pi, [sweep.rate_at(width)]) for e in rates)
    told = f"{used} {point.loss_pi}, {point.tuned}; true {losses}, {sweep.rate_at(width):.4g}"
    is_warned = bool(flags) or point.loss is None or bool(point.refusals)
    return f"{'wrong' if is_off else 'right'}{', warned' * is_warned}", told


def _is_off(value: float | None, interval: Sequence[float | None], truths: list[float]) -> bool:
    low, high = interval
    if value is None or low is None or high is None:
        return False
    return all(abs(value - truth) > HALF_WIDTHS * (high - low) / 2 for truth in truths)


def rows(n: int, seed: int, show: str) -> list[Row]:
    """What became of `n` tables."""
    outcomes: Counter[str] = Counter()
    sound: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(n):
            sweep = random_table(number, seed)
            outcome, told = judge(sweep, Path(folder))
            outcomes[outcome] += 1
            if sweep.is_sound:
                sound[outcome] += 1
            if outcome == show or (show == "sound" and sweep.is_sound and outcome == "refused"):
                sys.stdout.write(f"{number}: {'; '.join(sweep.kinds)} ({sweep.names}): {told}\n\n")
    share, refused = outcomes["wrong"] / n, sound["refused"] / max(sound.total(), 1)
    return [
        Row(
            part=f"{n} tables, seed {seed}",
            figure="answers more than 3 half-widths off without a warning",
            target=f"≤ {MOST_WRONG:.1%}",
            reached=f"{share:.2%}; {dict(sorted(outcomes.items()))}",
            met=share <= MOST_WRONG,
        ),
        Row(
            part=f"{sound.total()} sound tables",
            figure="refused",
            target=f"≤ {MOST_REFUSED:.0%}",
            reached=f"{refused:.1%}; {dict(sorted(sound.items()))}",
            met=refused <= MOST_REFUSED,
        ),
    ]


def main() -> None:
    """Read the tables and print both figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", default="", help="an outcome, or sound: refused sound tables")
    given = parser.parse_args()
    print_rows(rows(given.n, given.seed, given.show))


if __name__ == "__main__":
    main()
