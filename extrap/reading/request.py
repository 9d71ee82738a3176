"""How runs are read: the options of a reading, in Python and on the command line.

The command line is made of these fields, so they are imported without pandas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

Where = Mapping[str, object]
"""Column → the value its cells must have, or a sequence of such values."""


def _option(
    default: object, metavar: str, text: str, sources: str = "table big", *, flag: str = ""
) -> Any:
    """A field that is an option of the command line too.

    Args:
        default: The default.
        metavar: What stands for its value in the help, with `...` where there may be several;
            empty for a flag.
        text: Its help.
        sources: Kinds of source on which it has an effect, as in `commands.option_table`.
        flag: How it is written, if that is not its name.
    """
    metadata = {"metavar": metavar, "text": text, "sources": sources, "flag": flag}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """How runs are read: the arguments of `read_runs`, which says what they mean."""

    size: tuple[str, ...] = _option(
        (), "TEXT...", "A size column, e.g. width (repeatable); default by name.", "table"
    )
    tune: tuple[str, ...] | None = _option(
        None,
        "TEXT...",
        "A tuned column, e.g. lr (repeatable); default by name; none: the law of the loss alone.",
        "table",
    )
    loss: str | None = _option(None, "TEXT", "The loss column; default loss, else by name.")
    seed: str = _option("seed", "TEXT", "The seed column.")
    conditions: tuple[str, ...] = _option(
        (),
        "TEXT...",
        "Recipe column that must not vary (repeatable).",
        "table",
        flag="--condition",
    )
    study: str | None = _option(None, "TEXT", "Name of the study, if a storage holds several.")
    stage: str = "tune"
    curves: str | Path | pd.DataFrame | None = _option(
        None,
        "FILE",
        "Loss curves of the sweep's runs: a table with the columns run, step and loss.",
        "table",
    )
    final: str = _option(
        "last",
        "RULE",
        "Final loss of a curve: last, best, tail (mean of the last 5 %) or tail:0.1.",
    )
    let: tuple[str, ...] = _option(
        (),
        "FORMULA...",
        'New column, e.g. "lr_mult = lr * width / 256", or tau, the timescale of AdamW '
        "(repeatable, in order).",
    )
    maximise: tuple[str, ...] = _option(
        (),
        "METRIC...",
        "Metric that is better when larger: the loss is 1 − x of a share, −x below 0 "
        "(repeatable).",
    )
    where: Where = _option(None, "COLUMN=VALUE...", "Read only rows with this value (repeatable).")
    rename: Mapping[str, str] = _option(
        None, "OLD=NEW...", "Rename a column before anything else is read (repeatable)."
    )
    ignore: tuple[str, ...] = _option(
        (), "COLUMN...", "Take runs that differ in this column for replicates (repeatable)."
    )
    partial: bool = _option(
        False,
        "",
        "Also count runs that stopped before the steps that others of their size reached.",
    )
    loss_kind: str | None = _option(
        None,
        "nats|bits|error|accuracy|other",
        "What the loss is; default: by its name and values.",
        "table",
    )
    losses: tuple[str, ...] = ()
    """Columns to take the loss from, the first there is, where none is given; known of a sweep."""
    split: tuple[str | None, str | None] | None = None
    """Columns of parameters and of tokens, None by their names, where these are the sizes."""
    like: str | None = None
    """Kind of the sweep's losses where the columns are to be those of a sweep that was read."""
    may_be_one_size: bool = False
    """Whether one size is enough: a constant one, or `ONLY_SIZE` of a table that names none."""
    optional: tuple[str, ...] = ()
    """Formulas, renamings `old=new` and columns of `where` and `ignore` that are skipped where the
    table lacks their columns."""

    def __post_init__(self) -> None:
        """Take one name for a tuple of one, and None for nothing, but of what is tuned."""
        object.__setattr__(self, "size", self.size or ())
        for name in ("where", "rename"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, {})
        for name in ("size", "tune", "conditions", "let", "maximise", "ignore"):
            value = getattr(self, name)
            if value is not None:
                names = (value,) if isinstance(value, str) else tuple(value)
                object.__setattr__(self, name, names)

    @property
    def is_sweep(self) -> bool:
        """Whether it is of a sweep, and not of larger runs to judge."""
        return self.stage == "tune"

    @property
    def asked_loss(self) -> str | None:
        """The loss that was asked for, if only as the one metric that is maximised."""
        return self.loss or (self.maximise[0] if len(self.maximise) == 1 else None)
