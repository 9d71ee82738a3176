"""The loss that a training script tells: in lines that it prints, or in a file that it writes.

In one line per loss stands as `loss=1.23`, `loss: 1.23`, `loss 1.23` or `"loss": 1.23`; `nan` and
`inf` are losses of a diverged run. The last line with one counts. A line that also has a `step` is
a point of the curve. A `loss` after another word, such as `aux loss`, is another one, and so is
one after `best` or `from`; a number with a comma in it or a percent sign is none. A file holds
records, of a JSON object, a list of them, lines of JSON or rows of a CSV; the last record with a
loss counts, and may have numbers of parameters, tokens and FLOPs.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from extrap.errors import ExtrapError
from extrap.files import as_written
from extrap.records.command import is_pattern
from extrap.training.own.answers import COSTS, MOST_POINTS

LOSSES = ("val_loss", "validation_loss", "eval_loss", "test_loss", "loss")
"""What a loss may be called, the first that is there counts."""
STEPS = ("step", "global_step", "iter", "iteration")
MOST_BYTES = 1 << 26
"""A larger result file is refused: it is no record of losses."""
NUMBER = r"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?))"
AFTER = r"(?!\w|\.\w|,\d|\s?%|\s\d{3},\d|\s*(?:->|→)|\s+of\b)"
"""What does not follow a number: it would be a part of one, or one of several."""
COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
WORD = re.compile(r"(?<![=:\w])(?<![=:]\s)([^\W\d_]+)[\s\"']+$")
"""The word right before a name; not a value such as `nan`."""
MOST_WORD = 40
MOST_SHOWN = 500
"""Characters of a line that are shown as the one that was read."""
BARE = "loss"
PLAIN = ("final", "last", "current", "and", "with", "info", "debug")
"""Words that may stand before a bare `loss`; any other one makes it another loss."""
EARLIER = (
    "best",
    "lowest",
    "minimum",
    "min",
    "from",
    "previous",
    "prev",
    "old",
    "initial",
    "than",
)
"""Words before a name that make it no loss of now."""


class PrintedLoss:
    """Hears the lines of a script and keeps its losses.

    Args:
        loss: What the loss is called, a regular expression with one group, or nothing.

    Attributes:
        refused: The words before the last loss that was passed over for them, with it.
    """

    def __init__(self, loss: str = "") -> None:
        names = (loss,) if loss else LOSSES
        # a line is searched for a name only where the words of the name are: that is quick
        self._patterns = (
            [("", (), re.compile(loss))]
            if is_pattern(loss)
            else [
                (name, tuple(name.lower().split("_")), _named(name, NUMBER + AFTER))
                for name in names
            ]
        )
        self._step = _named("|".join(STEPS), r"(\d+)(?![\w%]|[.,]\d)", is_choice=True)
        self.refused = ""
        self._last: dict[int, float] = {}
        self._lines: dict[int, str] = {}
        self._curves: dict[int, list[tuple[int, float]]] = {}

    def hear(self, line: str) -> None:
        """Take a line in."""
        line = COLOUR.sub("", line) if "\x1b" in line else line
        lower, first = line.lower(), min(self._last, default=len(self._patterns))
        for place, (name, words, pattern) in enumerate(self._patterns[: first + 1]):
            if not all(word in lower for word in words):
                continue
            found = next((f for f in pattern.finditer(line) if self._is_meant(name, f)), None)
            loss = None if found is None else _number(found[1])
            if loss is None:
                continue
            self._last[place], self._lines[place] = loss, line
            if step := self._step.search(line):
                curve = self._curves.setdefault(place, [])
                curve.append((int(step[1]), loss))
                if len(curve) > 2 * MOST_POINTS:
                    del curve[1:-1:2]

    def _is_meant(self, name: str, found: re.Match[str]) -> bool:
        """Whether a name stands for the loss of now, as far as the word before it tells."""
        before = WORD.search(found.string, max(0, found.start() - MOST_WORD), found.start())
        word = before[1].lower() if before and name else ""
        is_other = word in EARLIER or (name == BARE and word not in ("", *PLAIN))
        if before and is_other:
            self.refused = found.string[before.start() : found.end()]
        return not is_other

    def summary(self) -> str:
        """Which line the loss was read from, in words; nothing if no loss was printed."""
        if not self._last:
            return ""
        place = min(self._last)
        name, line = self._patterns[place][0] or "a match of the pattern", self._lines[place]
        shown = line if len(line) <= MOST_SHOWN else f"{line[:MOST_SHOWN]}…"
        n_points = len(self._curves.get(place, []))
        return (
            f"loss {self._last[place]:g} is from the last line with {name}, "
            f"{as_written(shown)!r}; points in its curve: {n_points}"
        )

    def answer(self) -> dict[str, Any] | None:
        """The last loss and the curve; None if no loss was printed."""
        if not self._last:
            return None
        place = min(self._last)
        return {"loss": self._last[place], "curve": self._curves.get(place, [])}


def read_result(path: Path, loss: str = "") -> tuple[dict[str, Any], str]:
    """The last loss in a file, its curve, and what else its record says of the run.

    Args:
        path: The file.
        loss: What the loss is called, or nothing.

    Returns:
        The answer, and in words what it was read from.

    Raises:
        ExtrapError: There is no such file, it cannot be read, or no record has a loss.
    """
    if not path.is_file():
        raise ExtrapError(f"a training command must write its result, {path} does not exist.")
    if (n_bytes := path.stat().st_size) > MOST_BYTES:
        raise ExtrapError(
            f"a result file must not exceed {MOST_BYTES >> 20} MiB, {path} has "
            f"{n_bytes >> 20}; write its losses only."
        )
    try:
        records = list(_records(path))
    except (ValueError, RecursionError, csv.Error, OSError) as error:
        raise ExtrapError(f"the result {path} cannot be read: {str(error)[:200]}.") from error
    names = (loss,) if loss else LOSSES
    name = next((n for n in names if any(n in record for record in records)), None)
    with_loss = [record for record in records if name in record]
    if name is None or not with_loss:
        keys = sorted({str(key) for record in records for key in record})
        raise ExtrapError(
            f"a result needs a record with {' or '.join(names)}, {path} has "
            f"{', '.join(keys[:20]) or 'none at all'}; name it with loss=…."
        )
    curve = [
        (int(record[key]), _reported_number(record[name], path))
        for record in with_loss
        for key in STEPS[:2]
        if isinstance(record.get(key), int | float) and math.isfinite(record[key])
    ]
    costs = {key: with_loss[-1][key] for key in COSTS if key in with_loss[-1]}
    if not isinstance(costs.get("cost"), int | float) or costs["cost"] <= 0:
        costs.pop("cost", None)  # scripts call other things so
    final = _reported_number(with_loss[-1][name], path)
    words = (
        f"loss {final:g} is {name} of the last record that has it in {path.name}; points "
        f"in its curve: {len(curve)}"
    )
    return {"loss": final, "curve": curve, **costs}, words


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    """The records of a file; those of a table have numbers where there are any."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".csv":
        for row in csv.DictReader(text.splitlines()):
            numbers = {key: _number(value or "") for key, value in row.items() if key is not None}
            yield {key: value for key, value in numbers.items() if value is not None}
        return
    if path.suffix == ".jsonl":
        whole: Any = [json.loads(line) for line in _whole_lines(text)]
    else:
        whole = json.loads(text)
    yield from (r for r in (whole if isinstance(whole, list) else [whole]) if isinstance(r, dict))


def _whole_lines(text: str) -> list[str]:
    """Lines without empty ones, and without the half of one that a stopped run left at the end."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[:-1] if lines and not text.endswith("\n") and not _is_json(lines[-1]) else lines


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _reported_number(value: object, path: Path) -> float:
    """A loss in a record; null is how JSON writes NaN."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ExtrapError(f"a loss must be a number, {path} has {str(value)[:40]!r}.")
    number = _number(str(value))
    if number is None:
        raise ExtrapError(f"a loss must be a number, {path} has {str(value)[:40]!r}.")
    return number


def _named(name: str, number: str, *, is_choice: bool = False) -> re.Pattern[str]:
    """A name and its number; in the name an underscore stands for a space, `/` or `-` too."""
    inner = f"(?:{name})" if is_choice else "[ _/-]".join(map(re.escape, name.split("_")))
    return re.compile(rf"(?<![\w/.-]){inner}[\"']?(?:\s*[:=]\s*|\s+){number}", re.IGNORECASE)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None
