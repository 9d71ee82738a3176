"""Columns by name: the one that was asked for, and the one that was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence

from extrap.errors import Choice, DataError, argument, shown
from extrap.reading.losses import loss_unit
from extrap.reading.names import (
    ALIKE,
    COMPUTE_NAMES,
    DEPTH_NAMES,
    EPOCH_NAMES,
    HELD_OUT,
    LAST_WORDS,
    MEASURED,
    PARAMS_NAMES,
    SEED_NAMES,
    STEP_NAMES,
    TOKEN_NAMES,
    WIDTH_NAMES,
    bare_name,
    known_name,
    loss_rank,
    short_name,
    synonyms,
)
from extrap.records.runs import MOST_NAME_CHARACTERS

MOST_NAMES_OFFERED, LIKENESS_MARGIN = 6, 0.1
"""Names that an error offers; those whose likeness is within this of the nearest are as near."""

SIZE_QUANTITIES = (WIDTH_NAMES, DEPTH_NAMES, PARAMS_NAMES, TOKEN_NAMES, COMPUTE_NAMES)
"""Quantities that a size column may be of."""
TRAINING_PATTERN = "tr(?:ain|n)"
"""What the name of a loss on training data says."""
UNIT_PHRASES = {
    **{"perplexity": "a perplexity", "bits": "in bits", "error": "an error rate"},
    **{"nats": "a log loss", "accuracy": "what an accuracy leaves"},
}
"""Unit of a loss → what a message says of a loss in it."""
QUANTITY_OF_ARGUMENT: dict[str, object] = {
    **{"loss": "nats", "seed": SEED_NAMES, "steps": STEP_NAMES},
    **{"params": PARAMS_NAMES, "tokens": TOKEN_NAMES, "compute": COMPUTE_NAMES},
}
"""Argument → the quantity of the column that it names, where that column's name does not say."""


def find_column(
    name: str, have: Sequence[str], where: str, *, is_metric: bool = False
) -> str | None:
    """The column of that name, whatever a tracker writes before it; else the one that ends so.

    Settings come before metrics of that name, unless a metric is asked for.

    Raises:
        DataError: Several do.
    """
    if name in have:
        return name
    bare = [column for column in have if bare_name(column) == bare_name(name)]
    ends = [c for c in have if c.endswith((f".{name}", f"/{name}", f":{name}"))]
    tiers = [
        [c for c in tier if bool(MEASURED.match(c)) == of_metrics]
        for of_metrics in (is_metric, not is_metric)
        for tier in (bare, ends)
    ]
    matches = next(filter(None, tiers), [])
    if len(matches) > 1:
        raise DataError(
            f"{where} has several columns that could be {name!r}: "
            f"{', '.join(map(shown, matches))}; write the whole name of one."
        )
    return matches[0] if matches else None


def require_column(
    name: str,
    have: Sequence[str],
    where: str,
    *,
    option: str | None = None,
    is_metric: bool = False,
) -> str:
    """As `find_column`; `option` is the argument that would name the right one.

    Raises:
        DataError: None does; the nearest are named. Or several do.
    """
    column = find_column(name, have, where, is_metric=is_metric)
    if column is None:
        raise missing_column(name, have, where, option=option)
    return column


def display_name(column: str, have: Collection[str]) -> str:
    """The shortest name to which a column alone answers, among settings or among metrics."""
    short, bare = short_name(column), bare_name(column)
    is_metric = bool(MEASURED.match(column))
    like = [c for c in have if bool(MEASURED.match(c)) == is_metric]
    if short not in have and sum(short in (short_name(c), bare_name(c)) for c in like) == 1:
        return short
    is_dotted = column.endswith((f".{bare}", f"/{bare}", f":{bare}"))
    is_alone = bare not in have and sum(bare == bare_name(c) for c in like) == 1
    return bare if is_dotted and is_alone else column


def is_same_name(name: str, other: str) -> bool:
    """Whether names differ in case, separators or an abbreviation only: `Learning rate`, `lr`."""
    return _spelled(name) == _spelled(other)


def _spelled(column: str) -> str:
    plain = re.sub(r"[\W_]+", "_", short_name(column).lower()).strip("_")
    meanings = (word for word, pattern in LAST_WORDS if pattern.fullmatch(plain))
    return next(meanings, plain).replace("_", "")


def missing_column(
    name: str, have: Sequence[str], where: str, *, option: str | None = None
) -> DataError:
    """The error to raise: what is missing where, and the nearest of the names there are.

    `option` is the argument that would name the right one; `rename`: only another name for it is
    missing.
    """
    near = [c for c in _nearest(name, have) if _may_mean(c, name, option)]
    names = ", ".join(c if len(c) <= MOST_NAME_CHARACTERS else shown(c) for c in have[:12])
    missing = f"{where} has no column {name!r}"
    if not near:
        todo = f"; name one with {argument(option, ...)}" if option else ""
        if option == "rename":
            todo = f"; rename the one that is, with {argument(option, {'COLUMN': name})}"
        return DataError(f"{missing}; it has {names}{todo}.")
    guesses = [display_name(guess, have) if option else guess for guess in near]
    choices = [Choice({option: guess}, instead=name) for guess in guesses] if option else []
    if option == "rename":
        choices = [Choice({option: {guess: name}}, "if it is the same") for guess in guesses]
    return DataError(f"{missing}; did you mean {' or '.join(map(repr, guesses))}?", choices)


def loss_like(
    sweep_loss: str, have: Sequence[str], where: str, *, kind: str, named_loss: str = ""
) -> str:
    """The column that holds the loss of the sweep under another name.

    Args:
        sweep_loss: Its name in the sweep.
        have: The columns.
        where: What to call the table.
        kind: The kind of the sweep's losses.
        named_loss: The column that the user named.

    Raises:
        DataError: None does, or one may.
    """
    unit = loss_unit(sweep_loss)
    if unit == "nats" and kind not in ("nats", "other"):
        unit = kind
    ranks = {c: rank for c in have if (rank := loss_rank(c))}
    column = named_loss and require_column(named_loss, have, where, option="loss", is_metric=True)
    if (column and column not in ranks) or sweep_loss == column:
        return column
    columns = [column] if column else sorted(ranks, key=lambda c: ranks[c])
    alike = [c for c in columns if loss_unit(c) == unit]
    on_same = [c for c in alike if loss_rank(sweep_loss) and _is_on_same_data(c, sweep_loss)]
    if len(on_same) == 1 or (column and alike):
        return (on_same or alike)[0]
    if alike or not columns or not loss_rank(sweep_loss):
        error = missing_column(sweep_loss, have, where, option="rename")
        choices = [Choice({"rename": {c: sweep_loss}}, "if it is the same") for c in alike]
        raise DataError(error.args[0], choices) if alike else error
    other = columns[0]
    written = {c: c if c.isidentifier() else f"`{c}`" for c in (other, sweep_loss)}
    formulas = {
        ("perplexity", "nats"): "log({})",
        ("nats", "perplexity"): "exp({})",
        ("bits", "nats"): "{} * log(2)",
        ("nats", "bits"): "{} / log(2)",
    }
    formula = formulas.get((loss_unit(other), unit))
    more = {"loss": sweep_loss} if column else {}
    choices = [Choice({"rename": {other: sweep_loss}, **more}, "if the sweep's loss is too")]
    if formula:
        formula = f"{written[sweep_loss]} = {formula.format(written[other])}"
        choices = [Choice({"let": formula, **more})]
    units = [UNIT_PHRASES[loss_unit(other)], UNIT_PHRASES[unit]]
    raise DataError(
        f"runs are compared in one unit, {other} of {where} is {units[0]}, the loss of the sweep "
        f"{units[1]}; write:",
        choices,
    )


def _is_on_same_data(loss: str, sweep_loss: str) -> bool:
    """Whether a loss may be of the data of another, whose name may say nothing of them."""
    plain = (re.sub(r"[\W_]+", "_", name.lower()) for name in (loss, sweep_loss))
    kinds = (*HELD_OUT, TRAINING_PATTERN)
    data = [next((k for k in kinds if re.search(f"(^|_)({k})", n)), "") for n in plain]
    return data[0] == data[1] or (not data[1] and data[0] != TRAINING_PATTERN)


def _may_mean(guess: str, name: str, option: str | None) -> bool:
    """Whether a column may be what was asked for: it is of no other quantity."""
    quantity, asked_quantity = _quantity(guess), _quantity(name)
    if option == "size":
        return quantity in (None, asked_quantity, *SIZE_QUANTITIES)
    if asked_quantity is None and option in QUANTITY_OF_ARGUMENT:
        asked_quantity = QUANTITY_OF_ARGUMENT[option]
    return quantity is None or asked_quantity is None or quantity == asked_quantity


def _quantity(name: str) -> object:
    """What a column of that name counts, sets or measures; None where the name does not say."""
    canonical = known_name(name)
    groups = (
        group for group in (*ALIKE, COMPUTE_NAMES, STEP_NAMES, EPOCH_NAMES) if canonical in group
    )
    return next(groups, None) or (loss_unit(name) if loss_rank(name) else None)


def _nearest(name: str, have: Sequence[str]) -> list[str]:
    """The names that differ in their case, that mean the same, or that are spelled nearly so."""
    canonical = known_name(name)
    for means in ({canonical}, synonyms(canonical)):
        if same := [column for column in have if known_name(column) in means]:
            return same[:MOST_NAMES_OFFERED]
    bare = {bare_name(column).lower(): column for column in reversed(have)}
    for names in (bare, {known_name(column): column for column in reversed(have)}):
        near = difflib.get_close_matches(name.lower(), names, n=MOST_NAMES_OFFERED, cutoff=0.5)
        ratios = [
            difflib.SequenceMatcher(None, name.lower(), candidate).ratio() for candidate in near
        ]
        if near:
            scored = zip(near, ratios, strict=True)
            return [
                names[candidate]
                for candidate, ratio in scored
                if ratio > max(ratios) - LIKENESS_MARGIN
            ]
    return []
