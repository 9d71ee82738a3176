"""Which recipe each row of a log of experiments ran: a new one, or an earlier one once more.

| a row | ran |
|---|---|
| names an earlier row in `repeat_of`, or has its label in `recipe` or its commit | that recipe |
| is called baseline, control and the like, `again` or not | the first recipe |
| is called current best, or only `again`, `rerun`, `seed 3` | the current base |
| has the description of the first recipe, of a base, or of a change to the current base | it |
| has that of any other, and is marked as a repeat | that recipe |
| any other | a new recipe, built on the current base |

The current base is the latest kept change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from extrap.errors import Choice, DataError, shown

ORDINAL = r"(?:second|third|fourth|fifth|2nd|3rd|\dth|one more|another|new|fresh|different|other)"
"""What stands before `run` or `seed` in the description of a repeat."""
REPEAT_PHRASE = (
    r"(?:again|repeat(?:ed|s|ing)?|reruns?|confirm(?:s|ed|ing|ation)?|(?:sanity |noise )?check|"
    r"fresh|replicat(?:e|es|ed|ion)|reproduc(?:e|ed|tion)|once more|"
    rf"(?:(?:with )?(?:an? )?{ORDINAL} )?(?:run|seed|try|time|attempt|trial)s?(?: ?[=#]? ?\d+)?)"
)
"""What the description of a repeat says beside the name of the recipe, at either end."""
FIRST_RECIPE = re.compile(
    r"(?:the |unchanged |original )?(?:baseline|base|control|reference|vanilla|plain)"
    r"(?: (?:model|recipe|config|code))?(?:[ -]?#?\d\d?)?"
)
"""Descriptions of the first recipe."""
CURRENT_BASE = re.compile(
    r"(?:the )?(?:current|best|new|latest) (?:base|baseline|best|recipe|config|so far)|"
    r"(?:the )?(?:best|current|incumbent|champion)"
)
"""Descriptions of the current base."""
NUMBERED = re.compile(r"(?P<name>.+?) #(?P<number>\d+)")
"""A description that ends in the number of the run."""
NAMED_BY_ROW = re.compile(r".+ \(row \d+\)")
"""What a recipe is called whose description another one had before it."""
SHORTEST_HASH = 6
"""Characters by which a shortened commit is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """What a row of a log says of its recipe.

    Attributes:
        row: Number of the row, from 1.
        description: What was changed.
        commit: Its commit; empty where there is none.
        label: What else it is called, such as its number.
        decision: `keep`, `discard`, `crash`, `repeat` or empty.
        status: The word of the log for that.
        has_loss: Whether the run came to its end.
        base: What the log calls its base; empty where it says nothing.
        repeat_of: What the log says that it repeats; empty where it says nothing.
        recipe: Label that all rows of its recipe have; empty where there is none.
    """

    row: int
    description: str
    commit: str = ""
    label: str = ""
    decision: str = ""
    status: str = ""
    has_loss: bool = True
    base: str = ""
    repeat_of: str = ""
    recipe: str = ""

    @property
    def name(self) -> str:
        """What to call it: its description, else its label or its commit."""
        return self.description or self.recipe or self.commit or f"row {self.row}"


class Recipes:
    """The recipes of a log, in order of their first rows.

    Attributes:
        names: What each is called; one that was tried again on another base has its row as well.
        bases: The recipe that each was built on; -1 for the first.
        of_rows: Row → its recipe.
        chain: Recipes that became the base, one after the other.
        repeats: Row → first row of the same recipe.
        changes: Rows with which a kept change became the base.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.bases: list[int] = []
        self.of_rows: dict[int, int] = {}
        self.chain: list[int] = []
        self.repeats: dict[int, int] = {}
        self.changes: list[int] = []
        self._keys: dict[str, list[int]] = {}
        self._labels: dict[str, int] = {}
        self._first_rows: list[int] = []

    def add(self, row: LogRow, recipe: int | None, base: int) -> None:
        """Count a row as one of a recipe; None: a new one."""
        if recipe is None:
            recipe = len(self.names)
            is_again = row.name in self.names
            self.names.append(f"{row.name} (row {row.row})" if is_again else row.name)
            self.bases.append(base)
            self._first_rows.append(row.row)
        else:
            self.repeats[row.row] = self._first_rows[recipe]
        self.of_rows[row.row] = recipe
        if key := plain_description(row.description):
            self._keys[key] = [*dict.fromkeys([*self._keys.get(key, []), recipe])]
        for label in (row.commit, row.label, row.recipe, row.description, f"row {row.row}"):
            self.call(label, recipe)
        if not self.chain:
            self.chain.append(recipe)
        elif row.decision == "keep" and row.has_loss and recipe not in self.chain:
            self.chain.append(recipe)
            self.changes.append(row.row)

    def call(self, label: str, recipe: int) -> None:
        """Give a recipe a further name, unless another one has it."""
        if label:
            self._labels.setdefault(label.lower(), recipe)

    def called(self, label: str) -> int | None:
        """The recipe of exactly that name, of which empty is none."""
        return self._labels.get(label.lower())

    def labeled(self, label: str) -> int | None:
        """The recipe of a commit, whole or shortened, of a label, a description or a row."""
        label = label.strip().lower()
        if label in self._labels:
            return self._labels[label]
        is_hash = re.fullmatch(rf"[0-9a-f]{{{SHORTEST_HASH},40}}", label)
        longer = [commit for commit in self._labels if is_hash and _is_same_hash(commit, label)]
        if longer:
            return self._labels[longer[0]]
        return self.described(label, self.chain[-1], is_repeat=True)

    def described(
        self, description: str, base: int, *, is_repeat: bool, is_base_stated: bool = False
    ) -> int | None:
        """The recipe that a description names; None where it is a new one.

        Args:
            description: The description.
            base: What the row is built on.
            is_repeat: Whether the row is known to repeat an earlier one.
            is_base_stated: Whether the log says what it is built on.
        """
        of_row = NAMED_BY_ROW.fullmatch(description.strip().lower())
        if of_row and description in self.names:
            return self.names.index(description)
        key = plain_description(description)
        if FIRST_RECIPE.fullmatch(key):
            return 0
        if (description.strip() and not key) or CURRENT_BASE.fullmatch(key):
            return base
        recipes = self._keys.get(key, []) or self._numbered(key)
        bases = (0, base) if is_base_stated else (0, *self.chain)
        repeated = [r for r in recipes if is_repeat or r in bases or self.bases[r] == base]
        if repeated:
            return max(repeated, key=lambda recipe: (self.bases[recipe] == base, recipe))
        is_commit = key != plain_text(description) and key not in self._keys  # `rerun of 1a2b3c4`
        return self._labels.get(key) if is_commit else None

    def notes(self) -> list[str]:
        """Which rows repeat which, and where a kept change became the base."""
        repeats: dict[int, list[int]] = {}
        for row, first in self.repeats.items():
            repeats.setdefault(first, []).append(row)
        notes = [
            f"row(s) {', '.join(map(str, rows))} repeat row {first} "
            f"({self.names[self.of_rows[first]]})"
            for first, rows in sorted(repeats.items())
        ]
        changes = [(row, self.names[self.of_rows[row]]) for row in self.changes]
        return notes + [f"from row {row} on the base is {name}" for row, name in changes]

    def _numbered(self, key: str) -> list[int]:
        """The recipes of `name` or `name #1`, where the description is `name #2`."""
        match = NUMBERED.fullmatch(key)
        if match is None or match["number"] in ("0", "1"):
            return []
        return self._keys.get(match["name"], []) or self._keys.get(f"{match['name']} #1", [])


def _is_same_hash(one: str, other: str) -> bool:
    length = min(len(one), len(other))
    return length >= SHORTEST_HASH and one[:length] == other[:length]


def plain_text(description: str) -> str:
    """A description in lower case, without signs between its words; `(2)` is `#2`."""
    text = re.sub(r"\((\d+)\)", r"#\1", description.lower())
    text = re.sub(r"\bre-(?=run|peat)", "re", text)
    text = re.sub(r"[_(),;:\[\]\"'`–—|]+|\.(?=\s|$)|(?<=\s)-+(?=\s)", " ", text)
    return " ".join(text.split())


def plain_description(description: str) -> str:
    """A description without the words that say that it is a repeat.

    Example:
        >>> plain_description("Rerun of rotary base 50k (seed 3)"), plain_description("again")
        ('rotary base 50k', '')
    """
    text, before = plain_text(description), None
    while text != before:
        before = text
        text = re.sub(rf"(?:^| ){REPEAT_PHRASE}(?: #?\d\d?)?$", "", text)
        text = re.sub(rf"^{REPEAT_PHRASE}(?: (?:of|for|the|with|on))*(?: |$)", "", text)
        text = re.sub(r" (?:second|third|2nd|3rd)$", "", text)
    return text


def recipes_of(rows: Sequence[LogRow], where: str) -> Recipes:
    """The recipe of each row; the first that has a loss is that of the first recipe.

    Args:
        rows: The rows, the oldest first; one at least has a loss.
        where: What to call the log.

    Raises:
        DataError: A row is marked as a repeat, or names a base, of which no earlier row tells.
    """
    recipes = Recipes()
    first = next(row for row in rows if row.has_loss)
    recipes.add(first, None, -1)
    if first.base:  # the state before the log, which its first run measures
        recipes.call(first.base, 0)
    has_commits = commits_tell_recipes(rows)
    for row in rows:
        if row is first:
            continue
        base = recipes.chain[-1]
        if row.base:
            base = _labeled(recipes, row, row.base, "is built on", where)
        recipes.add(row, _recipe_of(recipes, row, base, where, has_commits=has_commits), base)
    return recipes


def _recipe_of(
    recipes: Recipes, row: LogRow, base: int, where: str, *, has_commits: bool
) -> int | None:
    if row.repeat_of:
        return _labeled(recipes, row, row.repeat_of, "repeats", where)
    if row.recipe:
        return recipes.called(row.recipe)
    if has_commits and (recipe := recipes.called(row.commit)) is not None:
        return recipe
    is_repeat = row.decision == "repeat"
    recipe = recipes.described(
        row.description, base, is_repeat=is_repeat, is_base_stated=bool(row.base)
    )
    if recipe is None and is_repeat and FIRST_RECIPE.fullmatch(row.status):
        return 0
    if recipe is None and is_repeat:
        raise DataError(
            f"a repeat names what it repeats, row {row.row} of {where} is marked as one and "
            f"{shown(row.name)} names no earlier row; write the commit or the description of that "
            "row in a column repeat_of, or take such rows for changes:",
            [Choice({"statuses": {row.status: "discard"}})],
        )
    return recipe


def _labeled(recipes: Recipes, row: LogRow, label: str, verb: str, where: str) -> int:
    recipe = recipes.labeled(label)
    if recipe is None:
        raise DataError(
            f"a base or a repeated run is an earlier row, row {row.row} of {where} {verb} "
            f"{shown(label)}, which none is called; write the commit or the description of one, "
            "or empty the cell."
        )
    return recipe


def commits_tell_recipes(rows: Sequence[LogRow]) -> bool:
    """Whether rows of one commit are of one recipe: they share their descriptions, mostly.

    Otherwise the commit is that of the base, and the change was not committed.
    """
    seen: dict[str, set[str]] = {}
    n_alike = n_different = 0
    for row in rows:
        key = plain_description(row.description)
        if row.commit in seen and row.commit:
            is_alike = not key or key in seen[row.commit] or row.decision == "repeat"
            n_alike, n_different = n_alike + is_alike, n_different + (not is_alike)
        seen.setdefault(row.commit, set()).add(key)
    return len(seen) > 1 and n_alike >= n_different
