"""Which columns are the loss, the sizes, the tuned values and the seed: names decide.

| part | is |
|---|---|
| loss | a held-out loss before others, the last value before a minimum; scores only when named |
| size | called so; of several the one from which the others follow; with tokens beside it, both |
| tuned | called a rate, with two values within a size; another setting, with three |
| seed | called so |

A column of another name plays no part: it is asked for, see `extrap.reading.mixtures`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from extrap.errors import Choice, DataError, argument, shown
from extrap.reading.cells import (
    Codes,
    Levels,
    is_empty,
    joint,
    levels_of,
    numbers_of,
    read_numbers,
)
from extrap.reading.columns import display_name, find_column, missing_column, require_column
from extrap.reading.contents import Contents
from extrap.reading.endings import REACHED, given_status, shares_of_steps
from extrap.reading.logged_rates import refuse_largest_logged
from extrap.reading.names import (
    BATCH_NAMES,
    COMPUTE_NAMES,
    COUNT_PATTERN,
    HELD_OUT,
    KNOWN,
    MEASURED,
    NAMES_OF_PART,
    PARAMS_NAMES,
    RATE_NAMES,
    RATIO_NAMES,
    SCORE_PATTERN,
    SEED_NAMES,
    SPREAD_PATTERN,
    SYMBOLS,
    TOKEN_NAMES,
    bare_name,
    from_logarithm,
    is_bookkeeping,
    is_measured,
    is_recipe,
    kind_of,
    kinds_of,
    known_name,
    loss_rank,
    plain_words,
    symbols_in,
)
from extrap.reading.request import Request
from extrap.reading.settings import words_in_names
from extrap.reading.wide_tables import check_wide
from extrap.records import condition_text
from extrap.records.notes import USING, note
from extrap.records.runs import ONLY_SIZE
from extrap.records.settings import ONE_AMOUNT

BoolArray = NDArray[np.bool_]
TRIED = 3
"""Values within a size from which on a setting is taken for tuned, and not for a condition."""
MOST_CHOICES_OFFERED = 6
"""Columns, values or runs that an error offers to choose from."""
CALLED = {"params": "parameters", "tokens": "tokens"}
"""Kind of a count → what a message calls it."""
N_LOSS_CELLS = 2000
"""Cells by which a column is known to hold numbers."""
SHARE_OF_ONE_AMOUNT = 0.75
"""Share of the runs of a size with one amount of data, beyond which it is the amount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Which column plays which part: as it was asked for, or as the table calls it.

    Attributes:
        sizes: Size columns.
        tuned: Tuned columns.
        loss: The loss.
        seed: The seed; None where none was found.
        unused: Columns that could have been the loss or a size as well.
    """

    sizes: tuple[str, ...]
    tuned: tuple[str, ...]
    loss: str
    seed: str | None
    unused: tuple[str, ...] = ()


def infer_parts(contents: Contents, request: Request) -> Parts:
    """Fill in the parts that were not given; of a few larger runs, no sweep, nothing is tuned.

    The conditions play no other part; the first of the maximised metrics may serve as the loss.

    Raises:
        DataError: No column is called a loss or a size, or several are; or a size is tuned.
    """
    sizes, tuned, is_sweep = request.size, request.tune, request.is_sweep
    loss_name = request.asked_loss
    loss, *unused = [loss_name] if loss_name else _losses(contents, request)
    both = [
        c for c in sizes if c in (contents.tuned or ()) and (contents.sizes or c in RATE_NAMES)
    ]
    if both and tuned is None:
        raise DataError(
            f"a size is not tuned, {both[0]} is a tuned parameter of {contents.where}; leave it "
            f"out of {argument('size')}."
        )
    if sizes and tuned is not None:
        if is_sweep and _have_gaps(contents, tuned):
            _refuse_gaps(_Columns(contents, loss), tuned, "tune")
        has_seed = find_column(request.seed, contents.have, contents.where) is not None
        seed = request.seed if has_seed else None
        return Parts(sizes=sizes, tuned=tuned, loss=loss, seed=seed)
    columns = _Columns(contents, loss)
    seed = columns.named(request.seed) if request.seed != "seed" else columns.seed()
    asked_for = (*sizes, *(tuned or ()), *request.conditions)
    columns.leave_out([seed, *map(columns.named, asked_for)])
    of_budget: tuple[str, ...] = ()
    if not sizes:
        if request.split is not None:
            sizes = _split_sizes(columns, request.split)
        elif contents.sizes:
            sizes = contents.sizes
        else:
            sizes, others, of_budget = _sizes(
                columns, is_fixed=tuned is not None, may_be_one=request.may_be_one_size
            )
            unused += others
        _refuse_gaps(columns, sizes, "size")
        columns.leave_out(map(columns.named, (*sizes, *of_budget)))
    if tuned is None:
        tuned = (*of_budget, *_tuned(columns, sizes)) if is_sweep else contents.tuned or ()
        refuse_largest_logged(tuned, contents.where)
    if is_sweep:
        _refuse_gaps(columns, tuned, "tune")
    return Parts(
        sizes=sizes,
        tuned=tuned,
        loss=loss,
        seed=seed,
        unused=tuple(name for name in unused if name not in tuned),
    )


class _Columns:
    """The columns that may still play a part, and their values in the runs with a loss."""

    def __init__(self, contents: Contents, loss: str) -> None:
        self.contents = contents
        self.have = contents.have
        self.kinds = kinds_of(self.have)
        self.symbols = symbols_in(self.have)
        column = require_column(loss, self.have, contents.where, option="loss", is_metric=True)
        cells = contents.table[column]
        is_lost = is_empty(cells) | cells.isna()
        is_lost |= given_status(contents.table)[0].isin(["failed", "pruned"])
        is_short = [share.lt(REACHED) for share in shares_of_steps(contents.table)][:1]
        if is_short and is_short[0].mean() <= 0.5:
            is_lost |= is_short[0]
        self.rows = ~is_lost | is_lost.all()
        measured = {column, *contents.metrics, *contents.losses}
        self.names = [n for n in self.have if n not in measured and not is_measured(n)]
        self._levels: dict[str, Levels] = {}

    def leave_out(self, names: Iterable[str | None]) -> None:
        """Consider these no more."""
        left = set(names)
        self.names = [name for name in self.names if name not in left]

    def named(self, name: str) -> str | None:
        """The column that answers to a name, or None."""
        return find_column(name, self.have, self.contents.where)

    def of(self, name: str) -> Levels:
        """Its values in the rows that count."""
        if name not in self._levels:
            self._levels[name] = levels_of(self.contents.table.loc[self.rows, name])
        return self._levels[name]

    def cells(self, names: Sequence[str]) -> Codes:
        """One code per combination of values of columns that were asked for."""
        there = [self.named(name) for name in names if name != ONLY_SIZE]
        if not there:
            return np.zeros(int(self.rows.sum()), dtype=int)
        if None in there:  # it stands in the names of the runs, or nowhere
            return np.arange(int(self.rows.sum()))
        return joint(*(self.of(str(name)).codes for name in there))

    def called(self, names: Sequence[str]) -> list[str]:
        """Columns of these names, those of settings and the likeliest first."""
        canonical = {name: self.symbols.get(name) or known_name(name) for name in self.names}
        return sorted(
            (name for name in self.names if canonical[name] in names),
            key=lambda c: (bool(MEASURED.match(c)), names.index(canonical[c]), len(c)),
        )

    def seed(self) -> str | None:
        """The likeliest seed that is filled in, or None."""
        filled = (c for c in self.called(SEED_NAMES) if not is_empty(self.contents.table[c]).all())
        return next(filled, None)

    def varying(self, names: Sequence[str]) -> list[str]:
        """Those of these names that are positive and differ between runs, see `is_positive`."""
        return [c for c in self.called(names) if self.is_positive(c) and len(self.of(c)) > 1]

    def is_positive(self, name: str) -> bool:
        """Whether a column holds positive numbers.

        Raises:
            DataError: It holds numbers and some text.
        """
        levels = self.of(name)
        if levels.numbers is None and np.isfinite(numbers_of(levels.labels)).mean() >= 0.5:
            read_numbers(self.contents.table[name], display_name(name, self.have))
        return levels.is_positive


def _losses(contents: Contents, request: Request) -> list[str]:
    """The loss, which is what the source names, else the likeliest; then other held-out losses.

    Of larger runs it is no other than what the source names.
    """
    have = contents.have
    bare = set(map(bare_name, have))
    named = [name for name in contents.losses if bare_name(name) in bare]
    if named or request.maximise:
        return [*named, *request.maximise][:1]
    if not request.is_sweep and contents.losses:
        raise missing_column(contents.losses[0], have, contents.where, option="loss")
    names = [c for c in have if c in contents.metrics] or have
    symbols = symbols_in(have)
    ranked = sorted((rank, c) for c in names if (rank := loss_rank(symbols.get(c, c))) is not None)
    ranked = [
        (rank, c) for rank, c in ranked if c in contents.metrics or _is_loss(contents.table[c])
    ]
    best = [c for rank, c in ranked if rank == ranked[0][0]]
    if len(best) != 1:
        check_wide(best or names, have, contents.where)
    if not ranked:
        raise missing_loss(names, contents)
    if len(best) > 1:
        raise ambiguous_part("loss", best, contents)
    return best + [c for rank, c in ranked[1:] if rank[0] < len(HELD_OUT)]


def missing_loss(names: Sequence[str], contents: Contents) -> DataError:
    """The error to raise where no column is called a loss: scores, else what could be one."""
    have, symbols = contents.have, symbols_in(contents.have)
    scores = [c for c in names if SCORE_PATTERN.search(c.lower()) and _is_loss(contents.table[c])]
    could = [c for c in names if known_name(c) not in KNOWN and not kind_of(c)]
    could = [c for c in could if not (is_bookkeeping(c) or is_recipe(c) or c in symbols)]
    could = [
        c
        for c in could
        if _is_loss(contents.table[c]) and not SPREAD_PATTERN.search(plain_words(c))
    ]
    if not (scores or could):
        return missing_column("loss", have, contents.where, option="loss")
    return DataError(
        f"no column of {contents.where} is called a loss; name one, or a score to maximise:",
        [Choice({"maximise": display_name(c, have)}) for c in scores[:3]]
        or [Choice({"loss": display_name(c, have)}) for c in could[:MOST_CHOICES_OFFERED]],
    )


def _is_loss(cells: pd.Series) -> bool:
    """Whether cells hold numbers that differ if they are several, most of those looked at."""
    levels = levels_of(cells[~is_empty(cells)].head(N_LOSS_CELLS))
    return len(levels) > (len(cells) > 1) and np.isfinite(numbers_of(levels.labels)).mean() > 0.5


def _sizes(
    columns: _Columns, *, is_fixed: bool, may_be_one: bool
) -> tuple[tuple[str, ...], list[str], tuple[str, ...]]:
    """The size columns, the model first and the data second, and other sizes of the model.

    The third is the size of the model where that was varied at each compute, which is then the
    size; unless it is fixed what is tuned.
    """
    models = columns.varying(NAMES_OF_PART["size"])
    data = columns.varying(TOKEN_NAMES) or columns.varying(RATIO_NAMES)
    parameters = set(columns.contents.tuned or ())
    if not parameters.issuperset((*models, *data)):
        models, data = ([c for c in names if c not in parameters] for names in (models, data))
    model, amount = _leading(models, columns), _leading(data, columns)
    if models and model is None:
        raise ambiguous_part("size", models, columns.contents, together=True)
    if model is None:
        alone = amount or _leading(columns.varying(COMPUTE_NAMES), columns)
        if alone is None and may_be_one:
            alone = _constant_size(columns)
        if alone is None:
            raise _no_size(columns)
        return (alone,), [], ()
    sizes: tuple[str, ...] = (model,)
    compute = _leading(columns.varying(COMPUTE_NAMES), columns) if amount is None else None
    if compute is not None and _is_axis(compute, model, columns) and not _is_set(compute, columns):
        codes = columns.of(compute).codes
        if not is_fixed and tried_share(columns.of(model), codes, TRIED) >= 0.5:
            return (compute,), [name for name in models if name != model], (model,)
        raise _ask_compute(columns, model, compute)
    logs = _logarithms(columns, ("tokens", "compute")) if amount is None else {}
    codes = columns.of(model).codes
    formulas = [logs[name] for name in logs if not columns.of(name).depends_on(codes)]
    if formulas:
        raise DataError(
            f"runs of one {model} in {columns.contents.where} differ in a logarithm; define what "
            "it is of:",
            [Choice({"let": formulas})],
        )
    if amount is not None and _is_axis(amount, model, columns):
        counts = [c for c in models if known_name(c) in PARAMS_NAMES]
        same = [c for c in counts if columns.of(model).depends_on(columns.of(c).codes)]
        sizes = ((same or [model])[0], amount)
    return sizes, [name for name in models if name not in sizes], ()


def _is_set(compute: str, columns: _Columns) -> bool:
    """Whether words in a column of settings decide how much compute a run of a size has."""
    settings = [c for c in columns.names if is_recipe(c) and columns.of(c).numbers is None]
    models = [columns.of(name).codes for name in columns.varying(NAMES_OF_PART["size"])]
    levels = columns.of(compute)
    return any(levels.depends_on(joint(*models, columns.of(c).codes)) for c in settings)


def _ask_compute(columns: _Columns, model: str, compute: str) -> DataError:
    """The error to raise where runs of one size have several amounts of compute."""
    choices = [Choice({"size": compute, "tune": model}, "the best size at each compute")]
    if columns.kinds.get(model) == "params" and model.isidentifier() and compute.isidentifier():
        choices.insert(0, Choice({"let": f"tokens = {compute} / (6 * {model})"}, "by C = 6 N D"))
    choices.append(Choice({"size": [model, compute]}, "as two sizes"))
    return DataError(
        f"runs of one {model} in {columns.contents.where} differ in {compute}, and no column is "
        "their number of tokens; say what the compute is:",
        choices,
    )


def _split_sizes(columns: _Columns, split: tuple[str | None, str | None]) -> tuple[str, str]:
    """The columns of parameters and of tokens."""
    where, sizes = columns.contents.where, []
    for kind, column in zip(("params", "tokens"), split, strict=True):
        named = [name for name in columns.names if columns.kinds.get(name) == kind]
        names = [column] if column else [*filter(columns.is_positive, named)]
        leading = names[0] if len(names) == 1 else _leading(names, columns)
        if names and leading is None:
            raise DataError(
                f"several columns of {where} are counts of {CALLED[kind]}, {', '.join(names)}; "
                "choose one:",
                [Choice({kind: name}) for name in names[:MOST_CHOICES_OFFERED]],
            )
        if leading is None:
            raise _no_count(columns, kind)
        sizes.append(leading)
    return sizes[0], sizes[1]


def _no_count(columns: _Columns, kind: str) -> DataError:
    """The error to raise where no column counts parameters or tokens."""
    logs = _logarithms(columns, ("params", "tokens", "compute"))
    if logs:
        return DataError(
            f"no column of {columns.contents.where} counts {CALLED[kind]}, {', '.join(logs)} is a "
            "logarithm; define what it is of:",
            [Choice({"let": [*logs.values()]})],
        )
    kinds = {
        columns.kinds[name]: name for name in reversed(columns.names) if name in columns.kinds
    }
    choices, width, depth = [], kinds.get("width"), kinds.get("depth")
    near = [c for c in columns.names if COUNT_PATTERN.search(c)]
    near = [c for c in near if ("oken" in c.lower()) == (kind == "tokens")]
    near += [c for c in columns.names if kind == "params" and known_name(c) in PARAMS_NAMES]
    choices += [Choice({kind: name}) for name in near if columns.is_positive(name)]
    if kind == "params" and "compute" in kinds and "tokens" in kinds:
        choices.append(Choice({"let": f"params = {kinds['compute']} / (6 * {kinds['tokens']})"}))
    if kind == "params" and width and depth:
        formula = f"params = 12 * {depth} * {width} ** 2"
        choices.append(Choice({"let": formula}, "of a transformer, without embeddings"))
    no_counts = [kinds[other] for other in ("width", "depth") if other in kinds]
    said = ""
    if kind == "params" and no_counts:
        said = f" ({no_counts[0]} is no count of parameters)"
    return DataError(
        f"an allocation takes parameters and tokens, no column of {columns.contents.where} counts "
        f"{CALLED[kind]}{said}; name one with {argument(kind, ...)}, or define it"
        + (":" if choices else f" with {argument('let', f'{kind} = FORMULA')}."),
        choices,
    )


def _logarithms(columns: _Columns, kinds: Collection[str]) -> dict[str, str]:
    """Columns that hold logarithms of counts → the formulas of these."""
    logs = dict[str, str]()
    symbols = {SYMBOLS.get(log[0]) for name in columns.have if (log := from_logarithm(name, 0.0))}
    for name in columns.names:
        numbers = columns.of(name).numbers
        largest = math.nan if numbers is None or not len(numbers) else float(numbers.max())
        log = from_logarithm(name, largest)
        is_symbol = log is not None and log[0] in SYMBOLS and {"params", "tokens"} <= symbols
        if log and (is_symbol or kind_of(log[0]) in kinds):
            logs[name] = log[1]
    return logs


def _leading(names: Sequence[str], columns: _Columns) -> str | None:
    """The first of these from which all others follow; None if there is none."""
    for name in names:
        codes = columns.of(name).codes
        is_count = known_name(name) in PARAMS_NAMES
        others = [c for c in names if not (is_count and known_name(c) in PARAMS_NAMES)]
        if all(columns.of(other).depends_on(codes) for other in others):
            return name
    return None


def _is_axis(data: str, model: str, columns: _Columns) -> bool:
    """Whether the data vary beside the model: two amounts or more at half of its sizes."""
    amounts, sizes = columns.of(data), columns.of(model)
    assert amounts.numbers is not None
    by_size = pd.Series(amounts.numbers[amounts.codes]).groupby(sizes.codes)
    is_repeated = by_size.size() > 1
    if is_repeated.mean() < 0.2:  # most sizes were trained once: are the data a function of it?
        return not amounts.follows(sizes, np.zeros_like(sizes.codes))
    commonest = by_size.agg(lambda of_size: of_size.value_counts(normalize=True).iloc[0])
    is_shared = commonest <= SHARE_OF_ONE_AMOUNT  # else some runs were cut short
    is_spread = by_size.max() / by_size.min() > ONE_AMOUNT
    if (is_shared & is_spread)[is_repeated].mean() < 0.5:
        return False
    for batch in columns.varying(BATCH_NAMES):  # tokens that only count the steps of a tuned batch
        examples = columns.of(batch)
        both = joint(sizes.codes, examples.codes), joint(sizes.codes, amounts.codes)
        if amounts.depends_on(both[0]) and examples.depends_on(both[1]):
            return False
    return True


def _constant_size(columns: _Columns) -> str:
    """The size of all runs, which is `ONLY_SIZE` where no column could be one.

    Raises:
        DataError: Another column could be a size.
    """
    for name in columns.called((*NAMES_OF_PART["size"], *TOKEN_NAMES, *COMPUTE_NAMES)):
        if columns.is_positive(name):
            return name
    error = _no_size(columns)
    if error.choices:
        raise error
    return ONLY_SIZE


def _no_size(columns: _Columns) -> DataError:
    """The error to raise where no column is called a size: what could be one."""
    where, contents = columns.contents.where, columns.contents
    if called := columns.called(NAMES_OF_PART["size"]):
        levels = columns.of(called[0])
        if levels.numbers is None:
            return DataError(
                f"a size is a number, {where} has {called[0]} {shown(levels.labels[0])}; write "
                f"numbers, or name another size with {argument('size', ...)}."
            )
        value = f" ({condition_text(levels.labels[0])})" if len(levels) else ""
        return DataError(
            f"a sweep has runs at three sizes or more, all runs of {where} have one "
            f"{called[0]}{value}; add smaller or larger ones, or name the size all the same:",
            [Choice({"size": display_name(called[0], columns.have)})],
        )
    names = [] if contents.names is None else contents.table[contents.names].astype(str).tolist()
    said = words_in_names(names, only_known=False)
    tuned = [word for word in said if word in NAMES_OF_PART["tune"]]
    sizes = [word for word in said if word in NAMES_OF_PART["size"]][:1]
    if sizes := sizes or [word for word in said if word not in KNOWN]:
        return DataError(
            f"no column of {where} is a size, but the names of its runs hold "
            f"{' and '.join([*sizes, *tuned])}; read them from there:",
            [Choice({"size": size, **({"tune": tuned} if tuned else {})}) for size in sizes],
        )
    if logs := _logarithms(columns, ("params", "tokens", "compute", "width", "depth")):
        return DataError(
            f"no column of {where} is a size, {', '.join(logs)} is the logarithm of one; define "
            "it:",
            [Choice({"let": [*logs.values()]})],
        )
    others = [c for c in columns.names if known_name(c) not in KNOWN and not is_bookkeeping(c)]
    others = [c for c in others if not (is_recipe(c) or from_logarithm(c) or columns.kinds.get(c))]
    could = [c for c in others if columns.of(c).is_positive and len(columns.of(c)) >= TRIED]
    if could:
        are_symbols = {*map(str.upper, could)} == {"N", "D"}
        return ambiguous_part("size", could, contents, together=are_symbols)
    listed = ", ".join(shown(c) for c in columns.have[:12])
    return DataError(
        f"no column of {where} looks like a size (a positive number that differs between runs); "
        f"name it with {argument('size', ...)}. It has {listed}."
    )


def _have_gaps(contents: Contents, names: Iterable[str]) -> bool:
    """Whether a column that was asked for is empty anywhere."""
    columns = [find_column(name, contents.have, contents.where) for name in names]
    return any(bool(levels_of(contents.table[c]).codes.min() < 0) for c in columns if c)


def _refuse_gaps(columns: _Columns, names: Sequence[str], part: str) -> None:
    """Raise where a column is empty for some runs and another one decides for which.

    Such are two tables in one, and a setting that exists for one optimizer only. The values of
    the other column are offered, with the tuned columns that their runs have.
    """
    where, candidates = columns.contents.where, [*filter(None, map(columns.named, names))]
    for name in candidates:
        is_given = columns.cells([name]) >= 0
        decider = None if is_given.all() else _decider(columns, name, is_given)
        if decider is None:
            continue
        levels, called = columns.of(decider), _bare(decider, columns)
        alike = dict.fromkeys([*candidates, *columns.varying(NAMES_OF_PART[part])])
        choices, values = list[Choice](), list[str]()
        for code, label in enumerate(levels.labels):
            rows, text = levels.codes == code, condition_text(label)
            full = [c for c in alike if c != decider and (columns.of(c).codes[rows] >= 0).all()]
            values += [text] * bool(is_given[rows].all())
            if full:
                tune = {} if part == "size" else {part: [_bare(c, columns) for c in full]}
                choices.append(Choice({"where": {called: text}, **tune}))
        raise DataError(
            f"{_bare(name, columns)} of {where} is given where {called} = {' or '.join(values)} "
            f"and empty in {int((~is_given).sum())} other run(s), but a column that is "
            f"{'tuned' if part == 'tune' else 'a size'} has a value in every run; choose runs:",
            choices[:MOST_CHOICES_OFFERED],
        )


def _bare(name: str, columns: _Columns) -> str:
    """A column's name without what Optuna's tables write before it, else as it is displayed."""
    bare = bare_name(name)
    is_plain = name.startswith("params_") and columns.named(bare) == name
    return bare if is_plain else display_name(name, columns.have)


def _decider(columns: _Columns, name: str, is_given: BoolArray) -> str | None:
    """The column that says in which runs another one is given, with the fewest values."""

    def decides(other: str) -> bool:
        codes = columns.of(other).codes
        full, empty = set(codes[is_given]), set(codes[~is_given])
        is_short = len(full) <= MOST_CHOICES_OFFERED and len(columns.of(other)) <= len(codes) / 2
        return is_short and not (-1 in full | empty or full & empty)

    could = [c for c in columns.names if c != name and decides(c)]
    return min(could, key=lambda c: (not is_recipe(c), len(columns.of(c))), default=None)


def ambiguous_part(
    part: str, names: Sequence[str], contents: Contents, *, together: bool = False
) -> DataError:
    """The error to raise where several columns could play a part, or one of no known name."""
    called = [display_name(name, contents.have) for name in names[:MOST_CHOICES_OFFERED]]
    choices = [Choice({part: name}) for name in called]
    if together and len(called) == 2:
        choices.append(Choice({part: called}, "as two sizes"))
    many = "several columns" if len(called) > 1 else "a column"
    return DataError(
        f"{many} of {contents.where} could be the {part}, {', '.join(called)}; choose one:",
        choices,
    )


def _tuned(columns: _Columns, sizes: Sequence[str]) -> tuple[str, ...]:
    """What was tuned: what the source says, else settings with several values within a size."""
    if columns.contents.tuned is not None:
        names = [c for c in columns.contents.tuned if c in columns.names and c not in sizes]
        return tuple(
            c for c in names if known_name(c) not in SEED_NAMES and len(columns.of(c)) > 1
        )
    cells, chosen = columns.cells(sizes), list[str]()
    for name in columns.varying(NAMES_OF_PART["tune"]):
        levels, is_rate = columns.of(name), known_name(name) in RATE_NAMES
        share = tried_share(levels, cells, 2 if is_rate else TRIED)
        is_tried = share >= 0.5 or (is_rate and share > 0)
        if is_tried and not any(_follows(levels, columns.of(other), cells) for other in chosen):
            chosen.append(name)
    return tuple(chosen)


def tried_share(levels: Levels, cells: Codes, n_values: int) -> float:
    """At which share of the sizes it has so many values."""
    pairs = pd.DataFrame({"cell": cells, "value": levels.codes})
    pairs = pairs[(pairs["cell"] >= 0) & (pairs["value"] >= 0)].drop_duplicates()
    return float(pairs["cell"].value_counts().ge(n_values).mean()) if len(pairs) else 0.0


def _follows(levels: Levels, other: Levels, cells: Codes) -> bool:
    """Whether one setting is computed from another, and perhaps the size."""
    meet = bool(((levels.codes >= 0) & (other.codes >= 0)).any())
    return meet and levels.depends_on(joint(cells, other.codes)) and levels.follows(other, cells)


def sentence(
    parts: Parts,
    called: Mapping[str, str],
    contents: Contents,
    pooled: Sequence[str] = (),
    *,
    split: tuple[str | None, str | None] | None = None,
) -> str:
    """What is announced: `Using size = width, tune = lr, loss = loss, seed = seed`.

    `called` has the name that a column goes by; runs that differ in the pooled are replicates. Of
    a `split` it is announced which column holds the parameters, and which the tokens.
    """
    symbols = symbols_in(contents.have)

    def said(names: Sequence[str]) -> str:
        pairs = [(called.get(name, name), symbols.get(name, name)) for name in names]
        labels = [name if name == meaning else f"{name} ({meaning})" for name, meaning in pairs]
        return " and ".join(labels) or "none"

    if split is not None:
        params, tokens = (said([name]) for name in parts.sizes)
        return note(USING, f"params = {params}, tokens = {tokens}, loss = {said([parts.loss])}")
    sizes = said([name for name in parts.sizes if name != ONLY_SIZE])
    seed = said([parts.seed]) if parts.seed else "none"
    names = ", ".join(called.get(name, name) for name in parts.unused)
    unused = f"; not used: {names}" if names else ""
    unused += f"; pooled over {', '.join(pooled)}" if pooled else ""
    return note(
        USING,
        f"size = {sizes}, tune = {said(parts.tuned)}, loss = {said([parts.loss])}, "
        f"seed = {seed}{unused}",
    )
