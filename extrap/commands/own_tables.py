"""Commands on one's own tables: compare, allocate, critical-batch, knobs, cascade, select."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from extrap.commands.analysis import DEVIATES, FINE, UNDECIDED, Printed, analysis
from extrap.commands.inputs import opened, read_table, renamings
from extrap.commands.option_table import READING, parse_size
from extrap.commands.printing import say

if TYPE_CHECKING:
    from extrap.analyses.comparison import Comparison
    from extrap.analyses.sensitivity import Sensitivity
    from extrap.records import Runs


@analysis(
    "compare SOURCES...",
    f"size tune loss seed {READING} level fix price flops_per_second output details",
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
    --gate | Exit code: 0 if a recipe survives, 4 if none does and one is undecided, 1 otherwise.
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
    gate: bool,
    **options: Any,
) -> Printed:
    """Say whether a change of recipe survives at a larger size.

    SOURCES are tables of runs (CSV, Parquet or JSONL), the plain recipe first, or one table whose
    column --by names the recipe of each run; three sizes with one seed are enough. Each recipe
    stands at its own best values, and runs are paired by seed and size. A verdict is survives,
    hurts, fades, no difference or undecided.

    Example: extrap compare base.csv variant.csv --at 1e21 --gate
    """
    from extrap.analyses.comparison import compare
    from extrap.analyses.comparison.arm_checks import read_arms

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
        arms = read_arms(read_table(sources[0], options, conditions=(by,), may_mix=True), by)
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
    if output is not None and Path(output).resolve() in {Path(s).resolve() for s in sources}:
        raise click.UsageError(f"--output {output} is one of the tables; name another file.")
    target = None if at is None else _target(at, next(iter(arms.values())))
    arms = {first: arms[first], **arms}
    found = compare(
        arms,
        at=target,
        reference=reference or "",
        min_gain=min_gain,
        speed=speed or "",
        cost=cost or "",
        **keywords,
    )
    return Printed(
        found,
        code=gate_code(found) if gate else FINE,
        notes=[] if output is None else [_comparison_page(found, arms, output)],
    )


def gate_code(found: Comparison) -> int:
    """Exit code 0 if a recipe survives, 4 if none does and one is undecided, 1 otherwise."""
    return {"survives": FINE, "undecided": UNDECIDED}.get(found.verdict, DEVIATES)


def _comparison_page(found: Comparison, arms: Mapping[str, Runs], path: str) -> str:
    """Write the page; the line that says where."""
    from extrap.reporting.comparisons_page import own_comparison_page
    from extrap.reporting.html import write_page
    from extrap.reporting.study_page import About

    rows = {f"runs of {name}": runs.source for name, runs in arms.items()}
    hashes = {f"data hash of {name} (SHA-256)": runs.data_hash() for name, runs in arms.items()}
    question = "Does the change survive at the target?"
    about = About(" against ".join(reversed(found.arms)), question, {**rows, **hashes})
    return f"wrote {write_page(own_comparison_page(found, about), path)}"


def _target(text: str, runs: Runs) -> dict[str, float]:
    frame = runs.to_frame()
    return parse_size(text, runs.sizes, largest={c: float(frame[c].max()) for c in runs.sizes})


def _arms_of_files(
    sources: Sequence[str], names: str | None, options: dict[str, Any]
) -> dict[str, Runs]:
    from extrap.reading.reader import known_of, unused_of

    if len(sources) < 2:
        raise click.UsageError(
            f"compare needs two tables or more, got {len(sources)}; or name the column that says "
            "the recipe: --by recipe."
        )
    given = [Path(source).stem for source in sources]
    if names is not None:
        given = [name.strip() for name in names.split(",")]
    if len(given) != len(sources) or not all(given) or len(set(given)) != len(given):
        raise click.UsageError(
            f"each of {len(sources)} tables needs a name of its own, got {', '.join(given)}; give "
            "--names plain,…"
        )
    arms: dict[str, Runs] = {}
    known: dict[str, Any] = {}
    unused, texts = set(renamings(options)), renamings(options)
    for name, source in zip(given, sources, strict=True):
        is_last = len(arms) == len(sources) - 1
        known["elsewhere"] = tuple(t for t in texts if not (is_last and t in unused))
        arms[name] = read_table(source, options, may_mix=True, **known)
        unused &= unused_of(arms[name])
        known = known_of(arms[name])
    return arms


@analysis(
    "allocate SOURCE",
    f"loss {READING} level details",
    """
    --flops FLOAT | Compute budget, in FLOPs. [required]
    --params COLUMN | Column of parameters; default by name.
    --tokens COLUMN | Column of tokens; default by name.
    --compute COLUMN | Column of training FLOPs; default flops if present, else 6 N D.
    --fix NAME=NUMBER | Fix a parameter of the Chinchilla law, which answers where isoFLOP profiles
        cannot: E, c1 (params) or c2 (tokens) (repeatable).
    --unique-tokens FLOAT | Available tokens; also split when they are repeated.
    --inference-tokens FLOAT | Tokens to serve; also find the cheapest model of the same loss.
    """,
)
def allocate_command(source: str, **options: Any) -> Printed:
    """Split a compute budget between parameters and tokens.

    SOURCE is what extrap forecast reads, with one row per run: its parameters, tokens and final
    loss.

    Example: extrap allocate runs.csv --flops 1e21
    """
    from extrap.analyses.budget import allocate

    return Printed(_announced(allocate(opened(source), **options)))


def _announced(found: Any) -> Any:
    """A result, of which the standard error says which columns were taken for what."""
    from extrap.records.runs import USING

    for note in found.notes:
        if note.startswith(USING):
            say(note, err=True)
    return found


@analysis(
    "critical-batch SOURCE",
    "where ignore rename let level details",
    """
    --batch COLUMN | Column of batch sizes. [default: batch_size]
    --steps COLUMN | Column of steps. [default: steps]
    --by COLUMN | Column that defines groups, e.g. params (repeatable).
    --seed COLUMN | Seed column. [default: seed]
    --overhead FLOAT | Share of examples above linear scaling that is accepted. [default: 0.2]
    --from from_batch FLOAT | Batch size from which linear scaling is counted; default: the largest
        of the groups' smallest batch sizes that reached the target.
    --at SIZE | Group to forecast: 7e9, or params=7e9,target=2.5 (repeatable).
    """,
)
def critical_batch_command(source: str, *, at: Sequence[str], **options: Any) -> Printed:
    """Estimate critical batch sizes from steps to a target.

    SOURCE is what extrap forecast reads, with one row per batch size, each with its own tuned
    learning rate. Further rows of one batch size are replicates. Rows without steps, or with the
    status censored, did not reach the target; their steps or their column budget are lower bounds.
    Any other setting that varies within a group is an error: name it with --by or --ignore.

    Example: extrap critical-batch steps.csv --by width --by target
    """
    from extrap.analyses.batch_size import critical_batch
    from extrap.records.codec import document
    from extrap.reporting.batches_page import critical_blocks

    if at and not options["by"]:
        raise click.UsageError("--at asks for a size of a --by column; name one: --by params.")
    limits = _announced(critical_batch(opened(source), **options))
    columns = limits.laws["b_crit"].columns if limits.laws else limits.by
    forecasts = [limits.at(**parse_size(text, columns)) for text in at]
    more = {"forecasts": forecasts} if forecasts else {}
    return Printed(
        limits,
        critical_blocks(limits, forecasts),
        document=lambda: document(limits, **more),
    )


@analysis(
    "knobs TABLE",
    f"loss seed {READING} level output",
    """
    --at target SIZE | Target size: 1024, 8x (8 times the largest) or width=1024. [default: 8x]
    --knob named NAME[=VALUE] | Setting to rank and its fixed value, default: the most frequent one
        (repeatable). [required]
    --size COLUMN | Size column. [required]
    """,
)
def knobs_command(
    table: str,
    *,
    target: str,
    named: Sequence[str],
    size: str,
    level: float,
    output: str | None,
    **options: Any,
) -> Printed:
    """Rank fixed values by what they will cost at a larger size.

    TABLE is a table of your own runs in which one value at a time is moved, for example halved and
    doubled, at two sizes or more and with the same seeds.

    Example: extrap knobs runs.csv --size width --knob warmup --knob beta2=0.99 --at 4096
    """
    from extrap.analyses.sensitivity import sensitivity
    from extrap.reading.columns import missing_column
    from extrap.reading.mixtures import refuse_mixtures

    if table.endswith(".py"):
        raise click.UsageError(
            f"knobs takes a table of runs, got the study file {table}; to move the values of a "
            "study, define COMPARISON with extrap.records.moves(STUDY)."
        )
    knobs = _parse_knobs(named)
    runs = read_table(table, options, size=size, tune=(), may_mix=True)
    at = _target(target, runs)
    if set(at) != {size}:
        raise click.UsageError(f"--at names the size column {size}, got {target!r}.")
    have = list(map(str, runs.to_frame().columns))
    for name in knobs:
        if name not in have:
            raise missing_column(name, have, runs.source or table, option="named")
    refuse_mixtures(runs, ignored=[*knobs, *options["ignore"]], part="named")
    found = sensitivity(runs, knobs, target=at[size], level=level)
    return Printed(found, notes=[] if output is None else [_sensitivity_page(found, runs, output)])


def _sensitivity_page(found: Sensitivity, runs: Runs, path: str) -> str:
    """Write the page; the line that says where."""
    from extrap.reporting.html import write_page
    from extrap.reporting.sensitivity_page import sensitivity_page
    from extrap.reporting.study_page import About

    provenance = {"source of the runs": runs.source, "data hash (SHA-256)": runs.data_hash()}
    question = "Which fixed value should be tuned before scaling up?"
    about = About(f"Sensitivity of {runs.source}", question, provenance)
    return f"wrote {write_page(sensitivity_page(found, about), path)}"


def _parse_knobs(texts: Sequence[str]) -> dict[str, float | str | None]:
    """`warmup`, `beta2=0.999`, `precision=fp32` as knob → fixed value, None for the commonest."""
    knobs: dict[str, float | str | None] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not name or (equals and not value) or name in knobs:
            raise click.UsageError(f"--knob is NAME or NAME=VALUE, each name once; got {text!r}.")
        try:
            knobs[name] = float(value) if equals else None
        except ValueError:
            knobs[name] = value
    return knobs


@analysis(
    "cascade SOURCE",
    "level",
    """
    --cost-small FLOAT | Cost of one input by the small model. [default: 1]
    --cost-large FLOAT | Cost of one input by the large one. [required]
    --cost-filter FLOAT | Cost of one input by the rule. [default: 0]
    --quality FLOAT | Share of correct answers, or mean loss, to reach; default: that of the large
        model.
    --group COLUMN | Column that groups dependent inputs; default group, if present.
    --validation FLOAT | Share of the inputs that choose the threshold; the others test it.
        [default: 0.5]
    --seed INTEGER | Seed of that split. [default: 0]
    """,
)
def cascade_command(source: str, **options: Any) -> Printed:
    """Choose when a small model may answer for a large one.

    SOURCE is a CSV, Parquet or JSONL file, or - for CSV on the standard input, with one row per
    input. Columns: confidence_small, and correct_small and correct_large (0 or 1) or loss_small
    and loss_large. A column filtered marks inputs that a rule answers, with correct_filter or
    loss_filter. Inputs count as independent, except those of one group.

    Example: extrap cascade inputs.csv --cost-small 1 --cost-large 20
    """
    from extrap.analyses.cascade import cascade

    return Printed(cascade(opened(source), **options))


@analysis(
    "select EMBEDDING",
    "",
    """
    --keep FLOAT | Fraction or number of examples to keep. [required]
    --which hard|easy|random | Keep the examples farthest from the prototypes, the nearest, or
        random ones. [default: hard]
    --label COLUMN | Column of the classes to balance.
    --seed INTEGER | Seed of k-means and random choices. [default: 0]
    -o --output FILE | CSV file to write: row, difficulty and kept, one line per example.
    """,
)
def select_command(
    embedding: str, *, keep: float, which: str, label: str | None, seed: int, output: str | None
) -> Printed:
    """Keep the hardest or the easiest training examples.

    EMBEDDING is an .npy array with one row per example and one column per feature, or a CSV or
    Parquet table of features. Without -o the kept rows are printed, one per line, counted from 0.
    In theory hard examples are better if data are plentiful, and easy ones if data are scarce. In
    our study on text, neither was better than random examples.

    Example: extrap select embedding.npy --keep 0.2 -o kept.csv
    """
    import pandas as pd

    from extrap.analyses.selection import select
    from extrap.files import write_csv
    from extrap.reading import read_embedding
    from extrap.records.numbers import format_quantity
    from extrap.reporting.blocks import Paragraph

    features, labels = read_embedding(embedding, label=label)
    chosen = select(features, keep=keep, which=which, labels=labels, seed=seed)
    n = len(chosen.difficulty)
    document = {
        "n_examples": n,
        "n_kept": len(chosen),
        "which": chosen.which,
        "threshold": chosen.threshold,
        "n_balanced": chosen.n_balanced,
        "rows": chosen.rows.tolist(),
    }
    text = "\n".join(map(str, chosen.rows))
    if output:
        kept = chosen.is_kept.astype(int)
        table = pd.DataFrame({"difficulty": chosen.difficulty, "kept": kept})
        write_csv(table, output, index_label="row")
        if chosen.threshold is not None:
            side = "or more" if which == "hard" else "or less"
            which += f", difficulty {format_quantity(chosen.threshold, digits=4)} {side}"
        text = f"kept {len(chosen)} of {n} ({which}) in {output}"
    return Printed(chosen, [Paragraph(text)], document=lambda: document)
