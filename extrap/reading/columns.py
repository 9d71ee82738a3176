"""Columns by name: the one that was asked for, the one that was meant, those that could be."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import shown

__all__ = [
    "WORDS",
    "bare_name",
    "candidates",
    "find_column",
    "missing_column",
    "taken_column",
    "unnamed_columns",
]

MOST_NAME, MOST_COMPARED = 100, 2000
"""Longer names, and more of them, are not searched for the one that was meant."""
MOST_SUGGESTED = 3
PREFIX = re.compile(
    r"(?:config|summary|hparams|hyperparameters|params?|metrics|user_attrs|attrs|tags)[./:_]"
)
"""What trackers write before the name of a setting or a metric."""
WORDS = {
    "size": (
        *("width", "d_model", "n_embd", "hidden_size", "hidden_dim", "dim", "embed_dim", "depth"),
        *("n_layers", "n_layer", "num_layers", "num_hidden_layers", "layers", "params"),
        *("n_params", "num_params", "n_parameters", "num_parameters", "parameters", "model_size"),
        *("size", "scale", "tokens", "n_tokens", "num_tokens"),
    ),
    "tune": (
        *("lr", "learning_rate", "max_lr", "peak_lr", "base_lr", "lr_mult", "eta", "rate"),
        *("weight_decay", "wd", "batch_size", "momentum", "beta1", "beta2", "dropout"),
        *("warmup", "warmup_steps", "temperature", "init_std"),
    ),
}
"""Part of a column → names that are commonly given to such, the likeliest first."""
LOSSES = re.compile(
    r"loss|nll|perplexity|ppl|bpb|cross_entropy|error|acc|auc|score", re.IGNORECASE
)


def bare_name(column: str) -> str:
    """A column's name without what a tracker writes before it: `config/lr` → `lr`."""
    return PREFIX.sub("", column, count=1) if PREFIX.match(column) else column


def find_column(name: str, have: Sequence[str], where: str) -> str | None:
    """The column of that name, or the only one that bears it behind a tracker's prefix.

    Raises:
        DataError: Several bear it behind a prefix.
    """
    if name in have:
        return name
    found = [column for column in have if column != name and bare_name(column) == name]
    if len(found) > 1:
        raise DataError(
            f"{where} has several columns that could be {name!r}: {_listed(found)}; write the "
            "whole name of one."
        )
    return found[0] if found else None


def missing_column(
    name: str, have: Sequence[str], where: str, *, option: str | None = None
) -> DataError:
    """The error to raise: what is missing where, and the nearest of the names there are.

    Args:
        name: The column.
        have: Those there are.
        where: What lacks it.
        option: The option that would name the right one.
    """
    short = [c for c in have if len(c) <= MOST_NAME][:MOST_COMPARED]
    bare = {bare_name(c).lower(): c for c in reversed(short)}
    near = difflib.get_close_matches(name.lower(), bare, n=1, cutoff=0.5)
    lowered = {c.lower(): c for c in short}
    guess = lowered.get(name.lower()) or (bare[near[0]] if near else None)
    names = ", ".join(c if len(c) <= MOST_NAME else shown(c) for c in have[:12])
    if guess is None:
        return DataError(f"{where} has no column {name!r}; it has {names}.")
    todo = f" write --{option} {_word(guess)}" if option else ""
    return DataError(f"{where} has no column {name!r}; did you mean {guess!r}?{todo}")


def taken_column(name: str, where: str) -> DataError:
    """The error to raise where a definition makes a column that is there already."""
    return DataError(
        f"a definition makes a new column, {where} has {name!r} already; choose another name."
    )


def unnamed_columns(
    table: pd.DataFrame,
    where: str,
    parts: Iterable[str],
    *,
    have_tuned: bool,
    metrics: Sequence[str] = (),
) -> DataError:
    """The error to raise where it was not said which columns play a part.

    Args:
        table: The table.
        where: What to call it.
        parts: `size`, `loss`: those that were not named.
        have_tuned: Whether the tuned columns are known.
        metrics: Columns that were measured, where that is known: no others are losses.
    """
    parts = tuple(parts)
    known = table[[name for name in metrics if name in table]] if metrics else table
    settings = table.drop(columns=list(known.columns)) if metrics else table
    found = {part: candidates(known if part == "loss" else settings, part) for part in parts}
    if "loss" in found:
        found["loss"] = found["loss"] or list(metrics)[:MOST_SUGGESTED]
    if "size" in parts and not have_tuned:
        found["tune"] = [c for c in candidates(settings, "tune") if c not in found["size"]]
    meant = [f"{part}: {_listed(names)}" for part, names in found.items() if names] or [
        f"it has {_listed([str(c) for c in table.columns][:12])}"
    ]
    example = " ".join(
        f"--{part} {_word(names[0]) if names else part.upper()}" for part, names in found.items()
    )
    return DataError(
        f"name the {' and the '.join(parts)} column of {where}; did you mean "
        f"{'; '.join(meant)}? write {example}"
    )


def candidates(table: pd.DataFrame, part: str) -> list[str]:
    """Columns that could play a part, the likeliest first; at most three.

    Args:
        table: The table.
        part: `size`, `tune` or `loss`.
    """
    names = [str(c) for c in table.columns if len(str(c)) <= MOST_NAME][:MOST_COMPARED]
    if part == "loss":
        by_word = [c for c in names if LOSSES.search(bare_name(c))]
        by_word = sorted(by_word, key=_loss_rank)
        return [c for c in by_word if _numbers(table[c]).notna().any()][:MOST_SUGGESTED]
    words = WORDS[part]
    last = {c: re.split(r"[./:]", bare_name(c).lower())[-1] for c in names}
    known = sorted((c for c in names if last[c] in words), key=lambda c: words.index(last[c]))
    found = [c for c in known if _may_set(_numbers(table[c]))]
    if not found:
        others = {word for each in WORDS.values() for word in each} | {"seed", "step", "_step"}
        free = [c for c in names if last[c] not in others and not LOSSES.search(c)]
        found = [c for c in free if not c.startswith("_") and _is_grid(_numbers(table[c]))]
    return found[:MOST_SUGGESTED]


def _loss_rank(column: str) -> tuple[bool, bool, int]:
    """Losses before metrics, of held-out data before others, short names before long ones."""
    is_metric = not re.search(r"loss|nll|ppl|perplexity|bpb|entropy", column, re.IGNORECASE)
    return is_metric, not re.search("val|eval|test", column, re.IGNORECASE), len(column)


def _numbers(values: pd.Series) -> pd.Series:
    return pd.to_numeric(values.astype(object), errors="coerce").astype(float)


def _may_set(numbers: pd.Series) -> bool:
    """Whether runs differ in it, and it is positive."""
    there = numbers.dropna()
    return there.nunique() > 1 and bool((there > 0).all())


def _is_grid(numbers: pd.Series) -> bool:
    """Whether it takes a few values, several times each."""
    return (
        _may_set(numbers) and numbers.notna().all() and 3 <= numbers.nunique() <= len(numbers) / 2
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(shown(name) for name in names)


def _word(name: str) -> str:
    """A name as one word of a command line."""
    return name if re.fullmatch(r"[\w./:\-]+", name) else f"'{name}'"
