"""Tables with several runs in a row, or a setting in the first of its rows only.

| layout | is read as |
|---|---|
| a column of losses for each seed, `loss_seed0` | a row for each seed |
| a mean, a standard deviation and a number of seeds | a loss, `seed_sd` and `n_seeds` |
| losses such as `10.7 ± 0.1` | a loss and its standard error |
| merged cells: a setting in the first row of its block only | the setting in every row |
"""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd

from extrap.reading.cells import ERROR_AFTER_NUMBER, is_empty, numbers_of, read_numbers, texts_of
from extrap.reading.contents import Contents
from extrap.reading.endings import read_losses
from extrap.reading.names import (
    MEAN_PATTERN,
    N_SEEDS,
    SEED_NAMES,
    SPREAD_PATTERN,
    is_bookkeeping,
    is_measured,
    known_name,
    loss_rank,
    plain_words,
)

SEEDED = re.compile(
    r"(?i)(?P<before>.*?)[\W_]*(?<![a-z])(?:seed|run|rep|repeat|replicate|repetition|trial|s)[\W_]*"
    r"(?P<seed>\d+)[\W_]*(?P<after>.*?)[\W_]*"
)
"""A metric and the seed it is of."""
LONG_BLOCKS = 0.75
"""Share of the blocks of merged cells with two rows or more."""
LARGEST_SEED_COUNT = 1000
"""A larger number in a column such as `n` counts no seeds."""


def with_row_per_run(contents: Contents, loss: str | None = None) -> Contents:
    """A source whose table has a row per run, if it can be read so; `loss` is what was asked for.

    Raises:
        DataError: A column of losses for a seed holds text that says nothing of a run.
    """
    table, notes, losses = contents.table, list(contents.notes), contents.losses
    seeds: dict[str, dict[str, str]] = {}
    if contents.points is None and contents.tuned is None:
        table, filled = _filled_down(table)
        notes += filled
        seeds = {} if "seed" in table else _seed_columns(table, loss)
    of_seeds = [column for columns in seeds.values() for column in columns.values()]
    names = [c for c in table if c in of_seeds or c == loss or loss_rank(c) is not None]
    for name in names:
        errors = texts_of(table[name]).str.extract(ERROR_AFTER_NUMBER.pattern, expand=False)
        if errors.notna().any() and not {"loss_se", f"{name}_se"} & {*table}:
            table = table.assign(**{f"{name}_se": errors.reindex(table.index)})
            notes.append(f"the number after ± is the standard error of {name}")
        cells, said = read_losses(table[name], name)
        table, notes = table.assign(**{name: cells}), [*notes, *said]
    if seeds:
        for name in of_seeds:
            read_numbers(table[name], name)
        table = _melted(table, seeds)
        notes.append(f"{', '.join(of_seeds)} are runs of one row, each with its seed")
    else:
        means = sorted((c for c in names if c not in of_seeds), key=lambda c: loss_rank(c) or ())
        table, mean, said = _with_errors(table, means)
        notes += said
        if mean and losses == ("loss",) and "loss" not in table:
            places = [(loss_rank(name) or ())[:1] for name in (mean, means[0])]
            losses = (mean,) if places[0] == places[1] else losses
    return replace(contents, table=table, notes=tuple(notes), losses=losses)


def _filled_down(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Leading columns whose cells are merged over blocks of rows, filled in; and a note."""
    names = [c for c in table if known_name(c) in SEED_NAMES or not is_bookkeeping(c)]
    names = [c for c in names if not is_measured(c)]
    if not names or not is_empty(table[names[0]]).any():
        return table, []
    is_gap = table.apply(is_empty)
    rows, is_gap = table[~is_gap.all(axis=1)], is_gap[~is_gap.all(axis=1)]
    merged = [c for c in names if is_gap[c].any()]
    if not merged or merged != names[: len(merged)] or len(merged) == table.shape[1]:
        return table, []
    outer, filled = pd.Series(data=False, index=rows.index), {}
    for name in merged:
        starts, cells = ~is_gap[name], rows[name].astype(object)
        is_repeated = cells[starts].eq(cells[starts].shift()) & ~outer[starts]
        is_long = starts.cumsum().value_counts().gt(1).mean() >= LONG_BLOCKS
        if not (starts.iloc[0] and is_long) or is_repeated.any() or (outer & ~starts).any():
            return table, []
        outer, filled[name] = starts, cells.where(starts).ffill()
    note = f"{', '.join(merged)} is given in the first row of a block: the rows below have it too"
    return rows.assign(**filled), [note]


def _seed_columns(table: pd.DataFrame, loss: str | None) -> dict[str, dict[str, str]]:
    """Metric → seed → its column; none unless one of the metrics is a loss."""
    metrics: dict[str, dict[str, str]] = {}
    for column in table:
        if match := SEEDED.fullmatch(column):
            metric = "_".join(filter(None, (match["before"], match["after"]))) or "loss"
            metrics.setdefault(metric, {})[match["seed"]] = column
    of_loss = [m for m in metrics if loss_rank(m) is not None and len(metrics[m]) > 1]
    has_other = any(loss_rank(c) is not None and not SEEDED.fullmatch(c) for c in table)
    if not of_loss or (of_loss == ["loss"] and has_other):
        return {}
    seeds = metrics[min(of_loss, key=lambda m: loss_rank(m) or ())]
    if loss in seeds.values():
        return {}
    return {
        metric: by_seed for metric, by_seed in metrics.items() if by_seed.keys() == seeds.keys()
    }


def _melted(table: pd.DataFrame, metrics: dict[str, dict[str, str]]) -> pd.DataFrame:
    """A row for each seed of a row; without those that no metric is known of."""
    columns = [column for by_seed in metrics.values() for column in by_seed.values()]
    others = table.drop(columns=[*columns, *(metric for metric in metrics if metric in table)])
    parts = [
        others.assign(seed=seed, **{metric: table[by[seed]] for metric, by in metrics.items()})
        for seed in next(iter(metrics.values()))
    ]
    return pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)


def _with_errors(
    table: pd.DataFrame, means: list[str]
) -> tuple[pd.DataFrame, str | None, list[str]]:
    """A table with the errors of the likeliest loss that has some, that loss, and notes."""
    plain = {c: plain_words(c) for c in table}
    spreads = {c: [*SPREAD_PATTERN.finditer(name)] for c, name in plain.items()}
    pairs = [
        (mean, column)
        for mean in means
        for column, name in plain.items()
        if spreads[column] and column != f"{mean}_se"
        if SPREAD_PATTERN.sub("", name).strip("_")
        in ("", MEAN_PATTERN.sub("", plain[mean]).strip("_"))
    ]
    for mean, column in pairs[:1]:
        if all(match["error"] for match in spreads[column]):
            return table.assign(**{f"{mean}_se": table[column]}), mean, []
        metric = MEAN_PATTERN.sub("", plain[mean]).strip("_")
        for n_seeds in (c for c in plain if plain[c].removeprefix(f"{metric}_") in N_SEEDS):
            counts = numbers_of(table[n_seeds])
            if (counts >= 1).all() and counts.max() <= LARGEST_SEED_COUNT:
                errors = read_numbers(table[column], column)
                table = table.rename(columns={n_seeds: "n_seeds"}).assign(n_seeds=counts)
                note = f"{column} / sqrt({n_seeds}) is the standard error of {mean}"
                return table.assign(seed_sd=errors), mean, [note]
        note = f"{column} is not used: no column such as n_seeds says of how many runs it is"
        return table, mean, [note]
    return table, None, []
