"""`read_runs`: whatever the source, the same validated table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import pandas as pd

from extrap.errors import Choice, DataError, argument, shown, without_password
from extrap.expressions import parse_definition
from extrap.reading.cells import is_empty, marked_notes, read_numbers
from extrap.reading.columns import (
    display_name,
    find_column,
    is_same_name,
    loss_like,
    missing_column,
    require_column,
)
from extrap.reading.contents import Contents, renamed_in, with_named_settings
from extrap.reading.endings import ended_early, has_settings, is_progress, read_status
from extrap.reading.layouts import with_row_per_run
from extrap.reading.losses import (
    loss_kind,
    loss_of_metric,
    parse_final,
    summary_notes,
    with_final_losses,
)
from extrap.reading.mixtures import refuse_mixtures
from extrap.reading.names import (
    BATCH_NAMES,
    PLAYED,
    RATE_NAMES,
    is_bookkeeping,
    is_measured,
    kinds_of,
    known_name,
    split_words,
    symbols_in,
)
from extrap.reading.replicates import count_notes, read_seeds, without_copies
from extrap.reading.request import Request, Where
from extrap.reading.roles import Parts, infer_parts, sentence
from extrap.reading.selecting import (
    formula_text,
    is_one_value,
    selected_rows,
    with_definitions,
)
from extrap.reading.settings import number_in
from extrap.reading.sources import find_runs
from extrap.reading.trackers.histories import check_rows_are_runs
from extrap.reading.units import check_units, with_tokens, without_units
from extrap.reading.wide_tables import check_has_losses
from extrap.records.notes import (
    COUNTED_COMPLETE,
    ELSEWHERE,
    LOSS_COLUMN,
    LOSS_KIND,
    OTHER_NAME,
    POOLED,
    SHOWN_AT_ONCE,
    UNUSED_TABLE,
    note,
    of_codes,
    values_of,
)
from extrap.records.runs import LOSS_KINDS, ONLY_SIZE, STAGES, Runs

MOST_RATE = 1e4
"""Larger rates are misread, such as `0.5m`."""
OPTIONAL_NUMBERS = split_words(
    "loss_se n_params n_tokens epochs batch_size noise_scale flops wall_s updates seed_sd n_seeds"
)
"""Columns with a fixed meaning that a table may have; they must be numbers where they are."""


class RowKeywords(TypedDict, total=False):
    """Keywords of `read_runs` that say which rows are read and how."""

    study: str | None
    curves: str | Path | pd.DataFrame | None
    final: str
    let: str | Iterable[str]
    maximise: str | Iterable[str]
    where: Where | None
    rename: Mapping[str, str] | None
    ignore: str | Iterable[str]
    partial: bool


class ReadingKeywords(RowKeywords, total=False):
    """The keywords of `read_runs`, which says what they mean, as the analyses take them."""

    size: str | Iterable[str] | None
    tune: str | Iterable[str] | None
    loss: str | None
    seed: str
    conditions: str | Iterable[str]
    loss_kind: str | None


def read_runs(
    source: Any,
    *,
    size: str | Iterable[str] | None = None,
    tune: str | Iterable[str] | None = None,
    loss: str | None = None,
    seed: str = "seed",
    conditions: str | Iterable[str] = (),
    study: str | None = None,
    stage: str = "tune",
    curves: str | Path | pd.DataFrame | None = None,
    final: str = "last",
    let: str | Iterable[str] = (),
    maximise: str | Iterable[str] = (),
    where: Where | None = None,
    rename: Mapping[str, str] | None = None,
    ignore: str | Iterable[str] = (),
    partial: bool = False,
    loss_kind: str | None = None,
) -> Runs:
    """Read training runs from a table, an Optuna storage or a tracker's files.

    What is left out is inferred from the names of the columns: a loss, a size such as `width`,
    `d_model` or `n_params`, a tuned column such as `lr`, `muon_lr` or `weight_decay` that takes
    several values within a size. Any other column in which runs of one size and tuned values
    differ, and that neither times, places nor measures a run, is an error that lists the ways to
    settle it. `Runs.notes` names columns that are shown under a shorter name.

    A column answers to its own name and, where no other does, to the end of its name: `lr` is
    `config/lr`, `config.optimizer.lr`, `params.lr`. A column that is missing is an error that
    names the nearest; several that could be the size are one that lists them.

    An empty loss is a failed run, a loss that is not finite (`nan`, `inf`) a diverged one; in a
    pandas DataFrame NaN is empty, as it has no other. A run that stopped before 95 % of the steps
    which others of its size reach is not complete. Without a seed column
    each row is its own replicate. Of rows that are equal in every column, seed and loss included,
    one is kept; runs to judge are all kept. A run without settings that has no loss or did not
    finish is left out. `Runs.notes` counts all of that, and names units that cannot be right:
    compute far from 6 N D, tokens that are not steps × batch × length.

    Args:
        source: A CSV, Parquet or JSONL file, open CSV text, a frame of pandas, polars or pyarrow,
            a list of dictionaries or of W&B's run objects, an Optuna study, the URL of an Optuna
            storage or of an MLflow store (`sqlite:///…`, `postgresql://…`, `http://…`), a folder
            of MLflow, TensorBoard, Lightning's CSV logs or HF Trainer's checkpoints, or
            `Runs`. A list of one kind of these is one sweep.
        size: Size column(s), positive numbers. With two, the model first and the data second.
        tune: Tuned column(s), positive numbers; `()`: the loss law alone.
        loss: The loss column, smaller is better; `loss` where there is one, of HF's `eval_loss`
            first.
        seed: The seed column, if there is one.
        conditions: Recipe columns that must not vary.
        study: Name of the study or MLflow experiment, where a storage holds several.
        stage: `"tune"` for a sweep, `"check"` for runs to judge. A table with a `stage` column is
            filtered by it; the rows of any other are all taken to be of this stage.
        curves: Loss curves of the runs of a table, one row per point: `run`, `step` and `loss`.
            `run` is that of the table's own `run` column, or counts its rows from 0. A storage
            or tracker has its own.
        final: The final loss of a curve: `last`, `best`, `tail` (the mean of its last 5 %) or
            `tail:SHARE`. A table without curves has last losses only.
        let: New columns by formula, `"lr_mult = lr * width / 256"`, in this order, before any
            other column is looked for; `"tau"` alone is the timescale of AdamW as a share of the
            run, `batch_size_tokens / (lr * weight_decay * tokens)`.
        maximise: Metrics that are better when larger. Where the loss is one of them it becomes
            1 − x of a share in [0, 1], −x of what is below 0; other metrics need a formula.
        where: Column → the value of the rows to read, or a list of values.
        rename: Old → new names of columns, before `let`.
        ignore: Columns in which runs may differ and yet count as replicates.
        partial: Whether runs count that stopped before the steps that others of their size
            reach.
        loss_kind: What the loss is: `"nats"` or `"bits"` per token, an `"error"` rate, what an
            `"accuracy"` leaves, or `"other"`; None goes by its name and values.

    Returns:
        The runs, in the order of the source.

    Raises:
        TypeError: The source is none of these.
        DataError: The source cannot be read, is empty, lacks a column (the nearest is named), has
            several that could play a part, or holds text or impossible values where numbers
            belong.
        ValueError: `stage`, `final`, `loss_kind` or a formula is none, or a column is named
            twice.
    """
    options = {name: value for name, value in locals().items() if name != "source"}
    return read_sweep(source, Request(**options))[0]


def read_sweep(source: Any, request: Request, *, may_mix: bool = False) -> tuple[Runs, str]:
    """The runs as `read_runs` gives them, and a sentence on what was inferred and what was pooled.

    It is empty where all was given and nothing is pooled. `may_mix`: settings may vary that are
    neither sizes nor tuned.

    Raises:
        DataError: As `read_runs`; or a setting varies that is neither a size nor tuned.
        ValueError: As `read_runs`.
    """
    contents, request, notes, as_read = _opened(source, request)
    if ONLY_SIZE in request.size:
        contents = _with_only_size(contents)
    have, sizes, tuned, loss = contents.have, request.size, request.tune, request.asked_loss
    if loss and not request.loss:
        _metric(contents, loss, "maximise")
    try:
        parts = infer_parts(contents, request)
    except DataError as error:
        from extrap.reading.experiment_log import is_experiment_log, log_is_no_sweep

        if request.is_sweep and is_experiment_log(contents.table):
            raise log_is_no_sweep(contents.where) from error
        raise
    if ONLY_SIZE in parts.sizes and not request.size:
        contents = _with_only_size(contents)
    played = (*parts.sizes, *parts.tuned, parts.loss, *filter(None, [parts.seed]), *parts.unused)
    called = {c: c if c in (*sizes, *(tuned or ())) else display_name(c, have) for c in played}
    displayed = replace(
        parts,
        sizes=tuple(called[name] for name in parts.sizes),
        tuned=tuple(called[name] for name in parts.tuned),
    )
    notes += [
        f"{called[name]} is the column {name}"
        for name in (*parts.sizes, *parts.tuned)
        if called[name] != name
    ]
    if not sizes and isinstance(source, str | Path):
        check_rows_are_runs(contents.table, (*displayed.sizes, *displayed.tuned))
    runs, pooled = _runs(contents, displayed, request, notes), tuple[str, ...]()
    if request.is_sweep:
        ignored = pooled = request.ignore
        if not may_mix:
            ends = filter(is_progress, map(str, runs.to_frame())) if request.partial else ()
            formulas = [formula_text(text, have, contents.where) for text in request.let]
            determined = _fixed_by_formulas(runs, formulas)
            may_vary = (*ignored, *ends, *determined)
            is_untuned = tuned is not None and not runs.tuned
            pooled = refuse_mixtures(runs, ignored=may_vary, is_untuned=is_untuned)
            called_determined = {*determined, *(display_name(c, have) for c in determined)}
            pooled = tuple(name for name in pooled if name not in called_determined)
        notes = [note(POOLED, name) for name in pooled if name in ignored]
        runs = replace(runs, notes=(*runs.notes, *notes))
    has_found_loss = loss is None and parts.loss not in contents.losses
    is_split = request.split is not None and None not in request.split
    is_inferred = not (sizes or is_split) or (tuned is None and not is_split) or has_found_loss
    remarks = of_codes(runs.notes, *SHOWN_AT_ONCE)
    if n_lost := int(runs.to_frame()["status"].eq("failed").sum()):
        remarks.append(f"{n_lost} of {len(runs)} runs have no loss or did not finish: left out")
    if request.like and (aliases := of_codes(runs.notes, OTHER_NAME)):
        remarks.append(f"in {contents.where} {', '.join(aliases)}")
    if not (is_inferred or pooled or as_read or remarks):
        return runs, ""
    used = sentence(parts, called, contents, pooled, split=request.split)
    announcement = "; ".join([used, *as_read, *remarks])
    return replace(runs, notes=(announcement, *runs.notes)), announcement


def as_runs(
    source: Any, columns: Mapping[str, Any], *, may_mix: bool = False, **defaults: Any
) -> Runs:
    """The runs of `announced_runs`, which says what it raises."""
    return announced_runs(source, columns, may_mix=may_mix, **defaults)[0]


def announced_runs(
    source: Any, columns: Mapping[str, Any], *, may_mix: bool = False, **defaults: Any
) -> tuple[Runs, str]:
    """The runs of an analysis: `Runs` as they are, anything else as `read_sweep` reads it.

    Of the `columns`, its `ReadingKeywords`, None is as if left out; there the `defaults` hold.
    The sentence says which column was taken for what, empty where all were named.

    Raises:
        TypeError: A keyword is none of `ReadingKeywords`; or as `read_runs`.
        DataError: As `read_sweep`.
        ValueError: As `read_runs`.
    """
    names = ReadingKeywords.__annotations__
    if unknown := [name for name in columns if name not in names]:
        raise TypeError(
            "an analysis takes keywords of its own and those that say how runs are read "
            f"({', '.join(names)}), got {unknown[0]!r}."
        )
    options = {name: value for name, value in columns.items() if value is not None}
    if isinstance(source, Runs) and not options:
        return source, ""
    return read_sweep(source, Request(**{**defaults, **options}), may_mix=may_mix)


def _opened(source: Any, request: Request) -> tuple[Contents, Request, list[str], list[str]]:
    """A source with the rows and columns that were asked for, and what applies to it.

    Also notes on what was left out, and on what was read otherwise than it is written.
    """
    stage = request.stage
    if stage not in STAGES:
        raise ValueError(f"{argument('stage')} must be one of {', '.join(STAGES)}; got {stage!r}.")
    for name in ("where", "rename"):
        mapping = getattr(request, name)
        if not isinstance(mapping, Mapping):
            raise TypeError(
                f'{argument(name)} is a mapping such as {{"column": "value"}}, got {mapping!r}; '
                "write it so."
            )
    parse_final(request.final)
    if request.loss_kind not in (None, *LOSS_KINDS):
        raise ValueError(
            f"{argument('loss_kind')} must be one of {', '.join(LOSS_KINDS)}; got "
            f"{request.loss_kind!r}."
        )
    tuned, loss = request.tune or (), request.asked_loss
    _check_parts(request.size, tuned, request.conditions, loss or "loss", request.seed)
    contents = find_runs(source, request)
    if contents.table.empty:
        raise DataError(f"a table needs at least one row, {contents.where} has none.")
    request, notes = _applicable(contents, request)
    is_table = contents.points is None and contents.tuned is None
    n_notes = 0 if is_table else len(contents.notes)
    contents = with_row_per_run(contents.renamed(request.rename), loss)
    as_read, contents = contents.notes[n_notes:], replace(contents, notes=contents.notes[:n_notes])
    table = with_definitions(contents.table, request.let, contents.where)
    table, renamed, unit_notes = without_units(table)
    request = _with_names(request, renamed)
    if request.like:
        contents, like_notes = _with_names_of_sweep(replace(contents, table=table), request)
        table, notes = contents.table, notes + like_notes
    if "stage" in table:
        table, _ = selected_rows(table, {"stage": stage}, contents.where)
    table, where_notes = selected_rows(table, request.where, contents.where)
    if not request.size:
        table, derived = with_tokens(table, request.split)
        unit_notes += derived
    check_has_losses(table, contents.where, sizes=request.size, tuned=tuned, seed=request.seed)
    contents = with_named_settings(
        replace(contents, table=table, losses=request.losses or contents.losses)
    )
    return contents, request, [*contents.notes, *notes, *where_notes], [*as_read, *unit_notes]


def _with_only_size(contents: Contents) -> Contents:
    return replace(contents, table=contents.table.assign(**{ONLY_SIZE: 1.0}))


def _fixed_by_formulas(runs: Runs, formulas: Iterable[str]) -> tuple[str, ...]:
    """Columns that follow from the sizes and tuned values by a formula.

    Raises:
        DataError: A tuned column itself follows from the sizes and the others.
    """
    played, frame, columns = {*runs.sizes, *runs.tuned}, runs.to_frame(), list[str]()
    for text in formulas:
        name, formula = parse_definition(text)
        used = [c for c in formula.names if c in frame and c != name]  # it may be defined anew
        varied = [c for c in used if frame[c].nunique() > 1]
        left = [c for c in varied if c not in played]
        others = [c for c in runs.tuned if c in varied]
        if name in runs.tuned and others and not left:
            raise DataError(
                f"{name} follows from {' and '.join(varied)}, so not all of them can be tuned; "
                "leave one out:",
                [Choice({"tune": [c for c in runs.tuned if c != out]}) for out in (*others, name)],
            )
        if name not in played and not left:
            columns.append(name)
        elif name in played and len(left) == 1:
            columns += left
    return tuple(columns)


def _with_names(request: Request, renamed: Mapping[str, str]) -> Request:
    """The request with the names that columns have now."""
    names = renamed_in(request, ("size", "tune", "ignore", "conditions", "split"), renamed)
    where = {renamed.get(name, name): v for name, v in request.where.items()}
    return replace(request, **names, where=where)


def _applicable(contents: Contents, request: Request) -> tuple[Request, list[str]]:
    """A request without its optional parts that do not apply to the table, and notes on these."""
    have, optional = contents.have, request.optional
    if not optional:
        return request, []

    def lacks(name: str) -> bool:
        return find_column(name, have, contents.where) is None

    rename, let, unused = dict[str, str](), tuple[str, ...](), list[str]()
    for old, new in request.rename.items():
        if (text := f"{old}={new}") in optional and (lacks(old) or new in have):
            unused.append(text)
        else:
            rename[old] = new
            have.append(new)
    for text in request.let:
        name, formula = parse_definition(formula_text(text, have, contents.where))
        is_there = name in have and name not in formula.names
        if text in optional and (is_there or any(map(lacks, formula.names))):
            unused.append(text)
        else:
            let += (text,)
            have.append(name)
    where = {c: v for c, v in request.where.items() if c not in optional or not lacks(c)}
    ignore = tuple(c for c in request.ignore if c not in optional or not lacks(c))
    request = replace(request, rename=rename, let=let, where=where, ignore=ignore)
    return request, [note(UNUSED_TABLE, text) for text in unused]


def _with_names_of_sweep(contents: Contents, request: Request) -> tuple[Contents, list[str]]:
    """Runs whose columns are called as in the sweep, and notes of those that are not."""
    have, names, losses = contents.have, dict[str, str](), request.losses or contents.losses
    settings = (*request.size, *(request.tune or ()), request.seed, *request.conditions)
    settings = (*settings, *request.where)
    is_asked = bool(request.loss or request.maximise)
    kinds, size_kinds, symbols = kinds_of(have), kinds_of(request.size), symbols_in(have)
    for name in (*settings, *(() if is_asked else losses)):
        there = find_column(name, have, contents.where, is_metric=name in losses)
        same = [column for column in have if is_same_name(name, column)]
        same = same or [c for c in kinds if kinds[c] == size_kinds.get(name)]
        same = same or [c for c in symbols if c in have and symbols[c] == name]
        if there is None and len(same) == 1:
            names[same[0]] = name
        elif there not in (None, name) and name in losses:
            names[str(there)] = name
    sweep_loss = losses[0] if losses else "loss"
    is_there = any(find_column(c, (*have, *names.values()), contents.where) for c in losses)
    if request.loss or not (is_asked or is_there):
        column = loss_like(
            sweep_loss, have, contents.where, kind=str(request.like), named_loss=request.loss or ""
        )
        names |= {} if request.loss else {column: sweep_loss}
    return contents.renamed(names), [note(OTHER_NAME, n, column) for column, n in names.items()]


def _runs(contents: Contents, parts: Parts, request: Request, notes: list[str]) -> Runs:
    """The runs of a source whose columns are known; rows keep their number to the end."""
    sizes, tuned, stage = parts.sizes, parts.tuned, request.stage
    seed, metric = parts.seed or request.seed, _metric(contents, parts.loss)
    if metric != "loss" and not request.maximise:  # which larger runs would have to be told
        notes.append(note(LOSS_COLUMN, metric))
    if request.loss_kind:
        notes.append(note(LOSS_KIND, request.loss_kind))
    for name in request.ignore:
        require_column(name, contents.have, contents.where, option="ignore", is_metric=True)
    recipe = _recipe(contents, request, (*sizes, *tuned, metric, seed))
    _check_parts(sizes, tuned, recipe, parts.loss, seed)
    arguments = {
        **dict.fromkeys(sizes, "size"),
        **(dict(zip(sizes, ("params", "tokens"), strict=True)) if request.split else {}),
        **dict.fromkeys(tuned, "tune"),
        **dict.fromkeys(recipe, "conditions"),
        seed: "seed",
    }
    if request.like:  # the names are those of the sweep
        arguments = dict.fromkeys(arguments, "rename")
    table = _renamed(contents, arguments, notes)
    if "loss_se" not in table:
        table = table.rename(columns={f"{metric}_se": "loss_se"})
    for name in (*sizes, *tuned, metric):
        notes += marked_notes(table[name], name)
    cells, points = _losses(contents, table, metric, request, notes)
    frame = table.drop(columns=[c for c in {"loss", "seed", metric} if c in table])
    frame["stage"] = stage
    frame["loss"] = read_numbers(cells, parts.loss)
    frame["status"], is_given, status_notes = read_status(table, frame["loss"], is_empty(cells))
    required = [*sizes, *(tuned if stage == "tune" else ())]
    is_run = has_settings(table, frame["status"], required)
    if not is_run.all():
        listed = " or ".join(required)
        status_notes.append(
            f"{(~is_run).sum()} run(s) without {listed} and without a result: left out"
        )
        table, frame = table[is_run], frame[is_run]
    for column in (*sizes, *tuned, *OPTIONAL_NUMBERS):
        if column in table and column not in recipe:
            frame[column] = read_numbers(table[column], column, required=column in required)
            if stage == "tune" and column in tuned and known_name(column) in RATE_NAMES:
                _require_rates(frame[column], table[column])
    by = [*sizes, *tuned]
    frame["seed"], seed_notes = read_seeds(table, seed, by=by, loss=frame["loss"])
    notes += status_notes
    if stage == "tune":  # every row that is to be judged is judged
        alike = [*sizes, *(name for name in tuned if known_name(name) in BATCH_NAMES)]
        is_open = frame["status"].eq("complete") & ~is_given[frame.index]
        is_early, ended = ended_early(
            frame[is_open], table, points, alike, is_asked=not request.partial
        )
        if ended and request.partial:
            notes.append(note(COUNTED_COMPLETE, ended))
        elif ended:
            frame.loc[is_early.index[is_early], "status"] = "failed"
            notes.append(f"{ended}: left out, or counted with {argument('partial', True)}")
        frame, copy_notes = without_copies(frame, by=by)
        notes += copy_notes
    notes += [*count_notes(frame, [*by, "seed"]), *seed_notes]
    if points is not None:
        row_numbers = pd.Series(range(len(frame)), index=frame.index)
        points = points[points["run"].isin(row_numbers.index)]
        points = points.assign(run=points["run"].map(row_numbers))
    frame = frame.reset_index(drop=True)
    return Runs.from_frame(
        frame,
        sizes=sizes,
        tuned=tuned,
        conditions=recipe,
        curves=points,
        source=without_password(contents.where),
        notes=(*notes, *check_units(frame, sizes)),
    )


def _require_rates(rates: pd.Series, cells: pd.Series) -> None:
    """Raise where a learning rate is no rate, as `0.5m`, which is read as half a million."""
    largest = str(cells[rates.idxmax()]).strip() if rates.notna().any() else ""
    if rates.max() > MOST_RATE and largest[-1:].isalpha():
        raise DataError(
            f"a learning rate is below {MOST_RATE:g}, {rates.name} has {shown(largest)}, read as "
            f"{rates.max():g}; write plain numbers."
        )


def _losses(
    contents: Contents, table: pd.DataFrame, metric: str, request: Request, notes: list[str]
) -> tuple[pd.Series, pd.DataFrame | None]:
    """The losses of runs, empty where there is none, and their curves."""
    rule, cells = parse_final(request.final), table[metric]
    points = contents.curves(metric, ask=rule.name != "last")
    maximised = [_metric(contents, name, "maximise") for name in request.maximise]
    if metric in (*maximised, *contents.maximised):
        numbers, empty = read_numbers(cells, metric), is_empty(cells)
        status, *_ = read_status(table, numbers, empty)
        best, transformed = loss_of_metric(numbers[status.eq("complete")], metric)
        if points is not None:
            points = points.assign(loss=best - points["loss"])
        cells = (best - numbers).astype(object).where(~empty, None)
        notes.append(transformed)
    cells, final_notes = with_final_losses(cells, points, rule, contents.where)
    notes += [*final_notes, *summary_notes(metric)]
    return cells, points


def _metric(contents: Contents, name: str, option: str = "loss") -> str:
    """The column of a metric."""
    return require_column(name, contents.have, contents.where, option=option, is_metric=True)


def request_fields_of(runs: Runs) -> dict[str, Any]:
    """Fields of a `Request` for other runs with the columns and the kind of loss of these."""
    losses = tuple(column for (column,) in values_of(runs.notes, LOSS_COLUMN))
    columns = {"size": runs.sizes, "tune": runs.tuned, "losses": losses}
    return {**columns, "like": loss_kind(runs)}


def skipped_optional(runs: Runs) -> set[str]:
    """The optional formulas and renamings that were skipped when these runs were read."""
    return {text for (text,) in values_of(runs.notes, UNUSED_TABLE)}


def _recipe(contents: Contents, request: Request, played: Sequence[str]) -> tuple[str, ...]:
    """The conditions: those that were asked for, and settings of which one value was asked for.

    Larger runs may not record them.
    """
    have = contents.have
    taken = {find_column(name, have, contents.where) for name in played}
    settings = [c for c in request.where if not (is_bookkeeping(c) or is_measured(c))]
    settings = [c for c in settings if is_one_value(request.where[c])]
    fixed = [c for c in settings if find_column(c, have, contents.where) not in taken]
    recipe = dict.fromkeys((*request.conditions, *fixed))
    return tuple(c for c in recipe if request.is_sweep or find_column(c, have, contents.where))


def _check_parts(
    sizes: Sequence[str], tuned: Sequence[str], recipe: Sequence[str], loss: str | None, seed: str
) -> None:
    """Raise where a column is given two parts, or one that is not its own."""
    played = [*sizes, *tuned, loss or "loss", seed]
    twice = sorted({c for c in played if played.count(c) > 1})
    if twice:
        raise ValueError(
            f"each column plays one part, {twice[0]!r} was given two; name another column."
        )
    taken = sorted(set(PLAYED).intersection((*sizes, *tuned, *recipe)))
    if taken:
        raise ValueError(
            f"the columns {', '.join(PLAYED)} have a fixed meaning, got "
            f"{taken[0]!r} for another; rename it in the table."
        )


def _renamed(contents: Contents, arguments: Mapping[str, str], notes: list[str]) -> pd.DataFrame:
    """The table with columns under the names that were asked for, each by an argument."""
    table, have = contents.table, contents.have
    for name, option in arguments.items():
        column = find_column(name, have, contents.where)
        if column is not None:
            table = table.rename(columns={column: name})
        elif (numbers := _in_names(contents, name)) is not None:
            table = table.assign(**{name: numbers})
            notes.append(note(ELSEWHERE, name, "names of the runs"))
        elif name != "seed":
            raise missing_column(name, have, contents.where, option=option)
    for name in OPTIONAL_NUMBERS:
        with suppress(DataError):  # columns nobody asked for
            column = None if name in table else find_column(name, have, contents.where)
            if column is not None:
                table = table.assign(**{name: read_numbers(table[column], name)})
    return table


def _in_names(contents: Contents, column: str) -> pd.Series | None:
    """What the names of the runs say of a column; None unless all do."""
    if contents.names is None:
        return None
    numbers = contents.table[contents.names].map(lambda name: number_in(str(name), column))
    return None if numbers.isna().any() else numbers
