"""`extrap compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from extrap.commands.analysis import EXIT_DEVIATES, EXIT_FINE, EXIT_UNDECIDED, Printed, analysis
from extrap.commands.inputs import parse_runs_size, read_table, renamings_and_formulas
from extrap.commands.option_table import READING_OPTIONS

if TYPE_CHECKING:
    from extrap.analyses.comparison import Comparison
    from extrap.records import Runs


@analysis(
    "compare SOURCES...",
    f"size tune loss seed {READING_OPTIONS} level fix price flops_per_second output details",
    """
    --at SIZE | Target size: 4096, or params=1e9,tokens=2e10.
    --names TEXT | Names of the recipes, separated by commas; default: file names.
    --by COLUMN | Column that names the recipe of each run, for a single file.
    --plain NAME | Name of the plain recipe; default: the first.
    --reference NAME | Recipe with a gap to the plain one; the others close a share of the gap.
    --min-gain FLOAT | Least gain that matters, as a share of the loss; default 0.002, and any gain
        above 0 survives.
    --speed COLUMN | Speed of a run, such as tokens a second; default by name.
    --cost COLUMN | What a step, a token or a run costs, instead of a speed.
    --status statuses WORD=DECISION... | What a word in a log of experiments means: keep, discard,
        crash or repeat (repeatable).
    --next next_file FILE | Write the next runs as a table, one row per run.
    --gate | Exit code: 0 if a recipe survives, is better at the only size and --at names it, or
        is a confirmed change of a log; 4 if one may; 1 otherwise.
    """,
)
def compare_command(
    sources: Sequence[str],
    *,
    at: str | None,
    names: str | None,
    by: str | None,
    plain: str | None,
    reference: str | None,
    min_gain: float | None,
    speed: str | None,
    cost: str | None,
    statuses: dict[str, str],
    next_file: str | None,
    gate: bool,
    **options: Any,
) -> Printed:
    """Say whether a change of recipe survives at a larger size.

    SOURCES are tables of runs (CSV, Parquet or JSONL), the plain recipe first, or one table whose
    column --by names the recipe of each run; two sizes with one seed are enough. Each recipe
    stands at its own best values, and runs are paired by seed and size. A verdict is survives,
    hurts, fades, no difference or undecided; with one size better here or worse here.

    A single log of experiments (one row each, its metric, and whether the change was kept) gets
    its candidates, what fresh runs confirm of them, and what to run next.

    Example: extrap compare base.csv variant.csv --at 1e21 --gate
    """
    from extrap.analyses.comparison import compare
    from extrap.reading.recipes import read_recipes

    _keep_sources(sources, {"--output": options["output"], "--next": next_file})
    if len(sources) == 1 and by is None:
        from extrap.analyses.comparison.experiments_command import judged_log, read_log

        log = read_log(sources[0], statuses, options)
        if log is not None:
            return judged_log(log, at, min_gain, next_file, gate=gate, **options)
    if statuses:
        raise click.UsageError("--status is for a log of experiments; leave it out.")
    if options["size"] and not options["tune"]:
        options["tune"] = ("none",)  # who names the sizes names what is tuned as well
    if by is None:
        arms = _arms_of_files(sources, names, options)
    elif names is not None or len(sources) != 1:
        raise click.UsageError(
            "--by splits a single table by the names in its column; leave one table, and --names "
            "out."
        )
    else:
        arms = read_recipes(
            read_table(sources[0], options, conditions=(by,), may_mix=True, may_be_one_size=True),
            by,
        )
    if plain is not None and plain not in arms:
        raise click.UsageError(
            f"--plain names one of the recipes {', '.join(arms)}, got {plain!r}."
        )
    first = next(iter(arms)) if plain is None else plain
    if reference is not None and reference not in {*arms} - {first}:
        raise click.UsageError(
            f"--reference names a recipe other than the plain one, of {', '.join(arms)}, got "
            f"{reference!r}."
        )
    keywords = {name: options[name] for name in ("level", "fix", "price", "flops_per_second")}
    output = options["output"]
    target = None if at is None else parse_runs_size(at, next(iter(arms.values())))
    arms = {first: arms[first], **arms}
    comparison = compare(
        arms,
        at=target,
        reference=reference or "",
        min_gain=min_gain,
        speed=speed or "",
        cost=cost or "",
        **keywords,
    )
    notes = [] if output is None else [_comparison_page(comparison, arms, output)]
    if next_file is not None:
        from extrap.analyses.comparison.cells import comparison_cells, write_cells

        notes.append(write_cells(comparison_cells(comparison, arms), next_file))
    code = gate_code(comparison, is_named=at is not None) if gate else EXIT_FINE
    return Printed(comparison, code=code, notes=notes)


def _keep_sources(sources: Sequence[str], written: Mapping[str, str | None]) -> None:
    """Refuse to write over a table."""
    paths = {Path(source).resolve() for source in sources}
    for flag, path in written.items():
        if path is not None and Path(path).resolve() in paths:
            raise click.UsageError(f"{flag} {path} is one of the tables; name another file.")


def gate_code(comparison: Comparison, *, is_named: bool) -> int:
    """Exit code 0 if a recipe survives, 4 if one may, 1 otherwise.

    Args:
        comparison: The comparison.
        is_named: Whether the target was named: a recipe that is better at that very size passes.
    """
    codes = {
        "survives": EXIT_FINE,
        "better here": EXIT_FINE if is_named else EXIT_UNDECIDED,
        "undecided": EXIT_UNDECIDED,
    }
    return codes.get(comparison.verdict, EXIT_DEVIATES)


def _comparison_page(comparison: Comparison, arms: Mapping[str, Runs], path: str) -> str:
    """Write the page; the line that says where."""
    from extrap.analyses.comparison.page import own_comparison_page
    from extrap.reporting.html import write_page
    from extrap.reporting.study_page import About

    rows = {f"runs of {name}": runs.source for name, runs in arms.items()}
    hashes = {f"data hash of {name} (SHA-256)": runs.data_hash() for name, runs in arms.items()}
    question = "Does the change survive at the target?"
    if all(contrast.is_of_one_size for contrast in comparison.contrasts):
        question = "Is the change better at this size?"
    about = About(" against ".join(reversed(comparison.arms)), question, {**rows, **hashes})
    return f"wrote {write_page(own_comparison_page(comparison, about), path)}"


def _arms_of_files(
    sources: Sequence[str], names: str | None, options: dict[str, Any]
) -> dict[str, Runs]:
    from extrap.reading.reader import request_fields_of, skipped_optional

    if len(sources) < 2:
        raise click.UsageError(
            f"compare needs two tables or more, got {len(sources)}; or name the column that says "
            "the recipe: --by recipe."
        )
    labels = [Path(source).stem for source in sources]
    if names is not None:
        labels = [name.strip() for name in names.split(",")]
    if len(labels) != len(sources) or not all(labels) or len(set(labels)) != len(labels):
        raise click.UsageError(
            f"each of {len(sources)} tables needs a name of its own, got {', '.join(labels)}; "
            "give --names plain,…"
        )
    arms: dict[str, Runs] = {}
    request_fields: dict[str, Any] = {}
    texts = renamings_and_formulas(options)
    unused = set(texts)
    for name, source in zip(labels, sources, strict=True):
        is_last = len(arms) == len(sources) - 1
        request_fields["optional"] = tuple(t for t in texts if not (is_last and t in unused))
        arms[name] = read_table(
            source, options, may_mix=True, may_be_one_size=True, **request_fields
        )
        unused &= skipped_optional(arms[name])
        request_fields = request_fields_of(arms[name])
    return arms
