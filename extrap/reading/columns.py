"""Columns by name: what names mean, the column that was asked for, the one that was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from extrap.errors import DataError, argument
from extrap.reading.bounds import shown

__all__ = [
    "BATCHES",
    "KNOWN",
    "MOST_COMPARED",
    "MOST_NAME",
    "PARAMS",
    "SEEDS",
    "TOKENS",
    "WORDS",
    "bare_name",
    "find_column",
    "known_name",
    "missing_column",
    "short_name",
    "taken_column",
]

MOST_NAME, MOST_COMPARED = 100, 2000
"""Longer names, and more of them, are not searched for the one that was meant."""
PREFIX = re.compile(
    r"(?:config|summary|hparams|hyperparameters|params?|metrics|user_attrs|attrs|tags)[./:_]"
)
"""What trackers write before the name of a setting or a metric."""
ENDINGS = ("min", "max", "mean", "best", "last", "std", "avg")
"""Last parts of a name that say nothing without the part before them."""
WIDTHS = ("width", "d_model", "n_embd", "hidden_size", "hidden_dim", "dim", "embed_dim")
WIDTHS += ("model_dim", "embedding_dim", "n_embed", "n_hidden", "channels", "units")
DEPTHS = ("depth", "n_layers", "n_layer", "num_layers", "num_hidden_layers", "layers")
PARAMS = ("n_params", "params", "num_params", "n_parameters", "num_parameters", "parameters")
PARAMS += ("param_count", "params_no_embed", "params_no_emb", "non_embedding_params")
PARAMS += ("n_params_total", "active_params", "model_size", "size", "scale")
TOKENS = ("n_tokens", "tokens", "num_tokens", "train_tokens", "n_examples", "examples")
TOKENS += ("seen_examples", "n_samples", "num_samples", "dataset_size", "data_size")
RATES = ("lr", "learning_rate", "max_lr", "peak_lr", "base_lr", "learningrate", "lr_max")
RATES += ("lr_mult", "eta", "rate", "step_size")
DECAYS = ("weight_decay", "wd")
BATCHES = ("batch_size", "batch_size_tokens", "batch_size_seqs", "global_batch_size", "bs")
BATCHES += ("batch_tokens", "tokens_per_batch", "batch", "per_device_train_batch_size")
WARMUPS = ("warmup", "warmup_steps", "num_warmup_steps", "warmup_ratio", "warmup_frac")
SEEDS = ("seed", "random_seed", "rng_seed", "model_seed", "init_seed", "run_seed", "data_seed")
SEEDS += ("manual_seed", "torch_seed", "trial_seed", "random_state", "replicate", "repeat")
WORDS = {
    "size": (*WIDTHS, *DEPTHS, *PARAMS),
    "data": TOKENS,
    "tune": (
        *(*RATES, *DECAYS, *BATCHES, "momentum", "beta1", "beta2", "adam_beta1", "adam_beta2"),
        *("dropout", *WARMUPS, "temperature", "init_std", "init_scale", "eps", "grad_clip"),
    ),
    "seed": SEEDS,
}
"""Part of a column → names that are commonly given to such, the likeliest first."""
ALIKE = (WIDTHS, DEPTHS, PARAMS, TOKENS, RATES, DECAYS, BATCHES, WARMUPS, SEEDS)
"""Names that are given to one and the same thing."""
KNOWN = frozenset(name for names in WORDS.values() for name in names)


def bare_name(column: str) -> str:
    """A column's name without what a tracker writes before it: `config/lr` → `lr`."""
    return PREFIX.sub("", column, count=1) if PREFIX.match(column) else column


def short_name(column: str) -> str:
    """The last part of a column's name: `config.optimizer.lr` → `lr`.

    Example:
        >>> short_name("val/loss"), short_name("summary.val_loss.min")
        ('loss', 'val_loss.min')
    """
    bare = bare_name(column)
    if column[: len(column) - len(bare)].endswith("_") and bare.lower() not in KNOWN:
        bare = column  # `param_count` is no setting called `count`
    parts = [part for part in re.split(r"[./:]", bare) if part.strip()]
    is_open = bool(parts[1:]) and (parts[-1].lower() in ENDINGS or parts[-1].isdigit())
    return ".".join(parts[-2:] if is_open else parts[-1:]) or column


def known_name(column: str) -> str:
    """A column's name as `WORDS` would have it: short, in lower case, with underscores."""
    whole = _plain(column)
    return whole if whole in KNOWN else _plain(short_name(column))


def _plain(name: str) -> str:
    return re.sub(r"[\s\-]+", "_", name.strip().lower())


def find_column(name: str, have: Sequence[str], where: str) -> str | None:
    """The column of that name; else the only one that ends in it behind a tracker's prefix or dot.

    Raises:
        DataError: Several do.
    """
    if name in have:
        return name
    found = [column for column in have if bare_name(column) == name]
    found = found or [c for c in have if c.endswith((f".{name}", f"/{name}", f":{name}"))]
    if len(found) > 1:
        raise DataError(
            f"{where} has several columns that could be {name!r}: "
            f"{', '.join(map(shown, found))}; write the whole name of one."
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
        option: The argument that would name the right one.
    """
    guess = _nearest(name, [c for c in have if len(c) <= MOST_NAME][:MOST_COMPARED])
    names = ", ".join(c if len(c) <= MOST_NAME else shown(c) for c in have[:12])
    if guess is None:
        return DataError(f"{where} has no column {name!r}; it has {names}.")
    todo = f" write {argument(option, guess)}" if option else ""
    return DataError(f"{where} has no column {name!r}; did you mean {guess!r}?{todo}")


def _nearest(name: str, have: Sequence[str]) -> str | None:
    """The name that differs in its case, that means the same, or that is spelled nearly so."""
    known, asked = {known_name(c): c for c in reversed(have)}, known_name(name)
    means = {word for names in ALIKE if asked in names for word in names}
    if asked in known or means & known.keys():
        return known.get(asked) or next(known[word] for word in known if word in means)
    bare = {bare_name(c).lower(): c for c in reversed(have)}
    for names in (bare, known):
        near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
        if near:
            return names[near[0]]
    return None


def taken_column(name: str, where: str) -> DataError:
    """The error to raise where a definition makes a column that is there already."""
    return DataError(
        f"a definition makes a new column, {where} has {name!r} already; choose another name."
    )
