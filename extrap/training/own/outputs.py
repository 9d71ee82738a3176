"""The loss that a training script tells: in a line that it prints, or in a file that it writes.

A line has it as `loss=1.23`, `loss: 1.23`, `loss 1.23` or `"loss": 1.23`; `nan` and `inf` are
losses of a diverged run. The last line with one counts. A line that also has a `step` is a point
of the curve. A file holds records: a JSON object, a list of them, lines of JSON or rows of a CSV;
the last record with a loss counts, and may have numbers of parameters, tokens and FLOPs.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from extrap.errors import ExtrapError
from extrap.records.command import is_pattern
from extrap.training.own.answers import COST_NAMES

LOSS_NAMES = ("val_loss", "validation_loss", "eval_loss", "test_loss", "loss")
"""What a loss may be called, the first that is there counts."""
PRINTED_STEP_NAMES = ("step", "global_step", "iter", "iteration")
"""What a step may be called; in a file only the first two count."""
NUMBER_PATTERN = (
    r"[\"']?(?:\s*[:=]\s*|\s+)"
    r"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?))"
    r"(?!\w|\.\w|,\d|\s?%|\s\d{3},\d|\s*(?:->|→)|\s+of\b)"
)
"""A number after a name; not a part of one, nor one of several."""
BEFORE_BARE = (
    r"(?:^|[^\w\s/.-]|\d\s|\b(?:final|last|current|and|info|debug)|[=:]\s?(?:nan|inf))[\s\"']*"
)
"""What may stand before a `loss` without `val_` or the like: after another word it is another."""
BEFORE_NAMED = r"(?<![\w/.-])(?<!best )(?<!from )"
"""What may stand before any other name of a loss."""
STEP_PATTERN = re.compile(
    rf"(?<![\w/.-])(?:{'|'.join(PRINTED_STEP_NAMES)})[\"']?(?:\s*[:=]\s*|\s+)(\d+)(?![\w%]|[.,]\d)",
    re.I,
)
"""A step in a line, with its number."""
COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""An escape sequence of a terminal."""


def printed_loss(lines: Iterable[str], loss: str = "") -> dict[str, Any] | None:
    """The last loss that a script prints, and its curve; None if there is none.

    `loss` is what it is called, a regular expression with one group, or nothing.
    """
    patterns = [_pattern(name) for name in ((loss,) if loss else LOSS_NAMES)]
    rank, last, curve = len(patterns), math.nan, list[tuple[int, float]]()
    for line in lines:
        text = COLOUR.sub("", line)
        for i, pattern in enumerate(patterns[: rank + 1]):
            if (value := _first_number(pattern, text)) is None:
                continue
            if i < rank:
                rank, curve = i, []
            last = value
            if step := STEP_PATTERN.search(text):
                curve.append((int(step[1]), value))
            break
    return None if rank == len(patterns) else {"loss": last, "curve": curve}


def read_result(path: Path, loss: str = "") -> dict[str, Any]:
    """The last loss in a file, its curve, and what else its record says of the run."""
    try:
        records = list(_records(path))
    except (ValueError, RecursionError, csv.Error, OSError) as error:
        raise ExtrapError(f"the result {path} cannot be read: {str(error)[:200]}.") from error
    names = (loss,) if loss else LOSS_NAMES
    name = next((n for n in names if any(n in record for record in records)), None)
    with_loss = [record for record in records if name in record]
    if name is None:
        keys = sorted({str(key) for record in records for key in record})
        raise ExtrapError(
            f"a result needs a record with {' or '.join(names)}, {path} has "
            f"{', '.join(keys[:20]) or 'none at all'}; name it with loss=…."
        )
    curve = [
        (int(record[key]), _reported_number(record[name], path))
        for record in with_loss
        for key in PRINTED_STEP_NAMES[:2]
        if isinstance(record.get(key), int | float) and math.isfinite(record[key])
    ]
    costs = {key: with_loss[-1][key] for key in COST_NAMES if key in with_loss[-1]}
    if not isinstance(costs.get("cost"), int | float) or costs["cost"] <= 0:
        costs.pop("cost", None)  # scripts call other things so
    return {"loss": _reported_number(with_loss[-1][name], path), "curve": curve, **costs}


def _pattern(name: str) -> re.Pattern[str]:
    """A name and its number; in the name an underscore stands for a space, `/` or `-` too."""
    if is_pattern(name):
        return re.compile(name)
    before = BEFORE_BARE if name == "loss" else BEFORE_NAMED
    return re.compile(
        before + "[ _/-]".join(map(re.escape, name.split("_"))) + NUMBER_PATTERN, re.I
    )


def _first_number(pattern: re.Pattern[str], text: str) -> float | None:
    for match in pattern.finditer(text):
        with suppress(TypeError, ValueError):
            return float(match[1])
    return None


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    """The records of a file; those of a table have numbers where there are any."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".csv":
        for row in csv.DictReader(text.splitlines()):
            record: dict[str, Any] = {}
            for key, value in row.items():
                with suppress(TypeError, ValueError):
                    record[key] = float(value)
            yield record
        return
    if path.suffix == ".jsonl":
        *lines, last = text.splitlines() or [""]
        whole: Any = [json.loads(line) for line in lines if line.strip()]
        with suppress(ValueError):  # the half of a line that a stopped run left
            whole.append(json.loads(last))
    else:
        whole = json.loads(text)
    yield from (r for r in (whole if isinstance(whole, list) else [whole]) if isinstance(r, dict))


def _reported_number(value: object, path: Path) -> float:
    """A loss in a record; null is how JSON writes NaN."""
    if value is None:
        return math.nan
    with suppress(TypeError, ValueError):
        if not isinstance(value, bool):
            return float(value)  # type: ignore[arg-type]
    raise ExtrapError(f"a loss must be a number, {path} has {str(value)[:40]!r}.")
