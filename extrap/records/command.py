"""A command of the user's own that trains one run: its words, and where it tells the loss."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import PurePath

RUN_DIR = "run_dir"
"""The placeholder of a folder that each run has to itself."""
SEED = "seed"
RESULT_FORMATS = (".json", ".jsonl", ".csv")
WHOLE = 2**53
"""Floats below this hold whole numbers exactly."""


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
        >>> command.words({"lr": 0.01, "seed": 3})
        ('python', 'train.py', '--lr', '0.01', '--seed=3')
    """

    args: Sequence[str]
    _: KW_ONLY
    loss: str = ""
    result: str = ""
    timeout_s: float = math.inf
    grace_s: float = 20.0

    def __post_init__(self) -> None:
        if isinstance(self.args, str) or not self.args or not all(map(_is_word, self.args)):
            raise ValueError(
                "a command must be a list of words, each a separate argument, got "
                f"{self.args!r}; write ['python', 'train.py', '--lr', '{{lr}}']."
            )
        object.__setattr__(self, "args", tuple(self.args))
        for word in self.args:
            _placeholders(word)
        self._check_loss()
        self._check_result()
        for name in ("timeout_s", "grace_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0 seconds, got {getattr(self, name)}.")

    def placeholders(self) -> tuple[str, ...]:
        """The names in braces, each once, in the order they come."""
        return tuple(dict.fromkeys(name for word in self.args for name in _placeholders(word)))

    def words(self, values: Mapping[str, float | str]) -> tuple[str, ...]:
        """The words of one run.

        Args:
            values: Placeholder → number or text; whole numbers are written without a point.

        Raises:
            ValueError: A placeholder has no value, or its format does not go with it.
        """
        known = {name: _whole(value) for name, value in values.items()}
        try:
            return tuple(word.format_map(known) for word in self.args)
        except KeyError as error:
            raise ValueError(f"the command's {{{error.args[0]}}} has no value.") from None
        except ValueError as error:
            raise ValueError(f"a word of the command cannot be filled in: {error}.") from None

    def check_names(
        self, *, sizes: Iterable[str], path: Iterable[str], tuned: Iterable[str]
    ) -> None:
        """Raise unless the placeholders are those of a study.

        Args:
            sizes: Its size columns.
            path: Names that its path defines; any of them tells a run its size.
            tuned: Its tuned columns.

        Raises:
            ValueError: A placeholder is unknown, or the size or a tuned value is missing.
        """
        sizes, path, tuned = list(sizes), list(path), list(tuned)
        given = self.placeholders()
        known = [*sizes, *path, *tuned, SEED, RUN_DIR]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ValueError(
                f"the placeholders of a command are {', '.join(f'{{{n}}}' for n in known)}; got "
                f"{', '.join(f'{{{n}}}' for n in unknown)}: rename it, or name the column in the "
                "study."
            )
        missing = [name for name in tuned if name not in given]
        missing += [] if path and set(path) & set(given) else [n for n in sizes if n not in given]
        if missing:
            raise ValueError(
                "a command must contain its size and tuned values, this one lacks "
                f"{', '.join(f'{{{n}}}' for n in missing)}; add a word such as "
                f"'--{missing[0]}={{{missing[0]}}}'."
            )

    def check_seeds(self, seeds: Sequence[int], target_seeds: Sequence[int]) -> None:
        """Raise if several seeds would train the same run.

        Args:
            seeds: Those of the study's sweep.
            target_seeds: Those of its targets.

        Raises:
            ValueError: There are several seeds, and the command lacks `{seed}`.
        """
        if SEED not in self.placeholders() and max(len(seeds), len(target_seeds)) > 1:
            raise ValueError(
                "a command without its seed trains the same run for each seed, got seeds "
                f"{seeds} for the sweep and {target_seeds} for targets; add a word such "
                "as '--seed={seed}', or set seeds=(0,) and target_seeds=(0,)."
            )

    def _check_loss(self) -> None:
        if not is_pattern(self.loss):
            return
        try:
            n_groups = re.compile(self.loss).groups
        except re.error as error:
            raise ValueError(
                f"loss must be a name or a regular expression, got {self.loss!r}: {error}."
            ) from None
        if n_groups != 1 or self.result:
            raise ValueError(
                "loss must be a name, or for printed lines a regular expression with one "
                f"group, got {self.loss!r}{' for a file' if self.result else ''}; write "
                "'val_loss' or r'final: ([0-9.]+)'."
            )

    def _check_result(self) -> None:
        if not self.result:
            return
        place = PurePath(self.result)
        if place.suffix not in RESULT_FORMATS or place.is_absolute() or ".." in place.parts:
            raise ValueError(
                "result must be a file in {run_dir} that ends in "
                f"{', '.join(RESULT_FORMATS)}, got {self.result!r}; write "
                "result='metrics.jsonl'."
            )
        if RUN_DIR not in self.placeholders():
            raise ValueError(
                "a command with a result file must contain the folder to write it to, got "
                f"{self.args}; add '--out', '{{run_dir}}'."
            )


def is_pattern(loss: str) -> bool:
    """Whether what names a loss is a regular expression."""
    return "(" in loss


def _is_word(word: object) -> bool:
    return isinstance(word, str) and word != "" and "\0" not in word


def _placeholders(word: str) -> list[str]:
    """The names in braces of a word; anything but a plain name is refused."""
    try:
        parts = list(string.Formatter().parse(word))
    except ValueError as error:
        raise ValueError(
            f"a word of a command may contain names in braces, got {word!r}: {error}; write a "
            "literal brace twice."
        ) from None
    names = [name for _, name, _, _ in parts if name is not None]
    for _, name, form, conversion in parts:
        is_plain = name is None or name.isidentifier()
        if not is_plain or conversion or "{" in (form or ""):
            raise ValueError(
                "a placeholder must be a name in braces, such as {lr} or {lr:.3g}, got "
                f"{word!r}; write a literal brace twice."
            )
    return names


def _whole(value: float | str) -> float | int | str:
    if isinstance(value, str):
        return value
    return int(value) if float(value).is_integer() and abs(value) < WHOLE else value
