"""A command of the user's own that trains one run: its words, and where it tells the loss."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import PurePath
from typing import Annotated

from extrap.records.fields import Rule, fewest, fit_fields, require

RUN_DIR = "run_dir"
"""The placeholder of a folder that each run has to itself."""
SEED_PLACEHOLDER = "seed"
"""The placeholder of the seed of a run."""
RESULT_FORMATS = (".json", ".jsonl", ".csv")
"""Endings of a file that a loss can be read from."""
EXACT_WHOLES_BELOW = 2**53
"""Floats below this hold whole numbers exactly."""


def is_pattern(loss: str) -> bool:
    """Whether what names a loss is a regular expression."""
    return "(" in loss


def _is_word(word: str) -> bool:
    """Whether a word is an argument of a program, with no more than plain names in its braces."""
    try:
        parts = list(string.Formatter().parse(word))
    except ValueError:
        return False
    are_plain = all(
        name is None or (name.isidentifier() and not conversion and "{" not in (form or ""))
        for _, name, form, conversion in parts
    )
    return word != "" and "\0" not in word and are_plain


def _is_loss(loss: str) -> bool:
    try:
        return not is_pattern(loss) or re.compile(loss).groups == 1
    except re.error:
        return False


def _is_result(result: str) -> bool:
    path = PurePath(result)
    is_below = not path.is_absolute() and ".." not in path.parts
    return result == "" or (is_below and path.suffix in RESULT_FORMATS)


Seconds = Annotated[float, Rule("be above 0 seconds", lambda seconds: seconds > 0)]
Word = Annotated[str, Rule("have plain names in its braces, as in {lr} or {lr:.3g}", _is_word)]
LOSS_RULE = Rule("be a name or a regular expression with one group", _is_loss, "write 'val_loss'")
RESULT_RULE = Rule(f"end in {', '.join(RESULT_FORMATS)} and lie in {{run_dir}}", _is_result)


@dataclass(frozen=True, slots=True)
class Command:
    """A program that trains one run; its words are passed as they are, without a shell.

    A word may hold placeholders in braces: a size column, a value of the study's path, a tuned
    column, `{seed}`, and `{run_dir}`, a folder for this run, which is kept when the run is stopped
    and resumed. `{lr:.3g}` formats a number as Python does; `{{` and `}}` are braces.

    Attributes:
        args: The words. `python` as the first is the Python that extrap runs in.
        loss: Name of the loss, such as `val_loss`, or a regular expression with one group.
            By default `val_loss`, `validation_loss`, `eval_loss`, `test_loss` or `loss`, the
            first that is there; with `loss` alone, not `train loss` or `aux loss`. An underscore
            stands for a space, `/` or `-` as well.
        result: A file that the program writes in `{run_dir}`, `.json`, `.jsonl` or `.csv`; its
            last record with a loss counts. Without one, the last line with a loss that the
            program prints.
        timeout_s: A run that takes longer is stopped and failed; seconds.
        grace_s: Seconds from the request to end, SIGTERM, until a run is killed, SIGKILL.

    Example:
        >>> command = Command(["python", "train.py", "--lr", "{lr}", "--seed={seed}"])
        >>> command.filled({"lr": 0.01, "seed": 3})
        ('python', 'train.py', '--lr', '0.01', '--seed=3')
    """

    args: Annotated[Sequence[Word], fewest(1, "write ['python', 'train.py', '--lr', '{lr}']")]
    _: KW_ONLY
    loss: Annotated[str, LOSS_RULE] = ""
    result: Annotated[str, RESULT_RULE] = ""
    timeout_s: Seconds = math.inf
    grace_s: Seconds = 20.0

    def __post_init__(self) -> None:
        fit_fields(self)
        is_name = not (self.result and is_pattern(self.loss))
        require(is_name, "the loss in a file must be a name", self.loss, "write 'val_loss'")
        has_place = not self.result or RUN_DIR in self.placeholders()
        rule = "a command with a result file must contain its folder"
        require(has_place, rule, self.args, "add '--out', '{run_dir}'")

    def placeholders(self) -> tuple[str, ...]:
        """The names in braces, each once, in the order they come."""
        parts = (part for word in self.args for part in string.Formatter().parse(word))
        return tuple(dict.fromkeys(name for _, name, _, _ in parts if name is not None))

    def filled(self, values: Mapping[str, float | str]) -> tuple[str, ...]:
        """The words of one run.

        Args:
            values: Placeholder → number or text; whole numbers are written without a point.

        Raises:
            ValueError: A placeholder has no value, or its format does not go with it.
        """
        by_placeholder = {name: _whole(value) for name, value in values.items()}
        try:
            return tuple(word.format_map(by_placeholder) for word in self.args)
        except KeyError as error:
            raise ValueError(f"the command's {{{error.args[0]}}} has no value.") from None
        except ValueError as error:
            raise ValueError(f"a word of the command cannot be filled in: {error}.") from None


def _whole(value: float | str) -> float | int | str:
    if isinstance(value, str):
        return value
    return int(value) if float(value).is_integer() and abs(value) < EXACT_WHOLES_BELOW else value
