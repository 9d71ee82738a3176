"""Named reasons to doubt a result, as data that reads as text."""

from __future__ import annotations

REFUSED, IMPRECISE, FLAT = "refused", "imprecise", "flat"
NEVER_VARIED = "never-varied"
"""Code of a target at a horizon that the sweep never varied."""
OF_COLUMN = (REFUSED, IMPRECISE, FLAT)
"""Codes of flags that concern one column, or the loss, whose name follows a dash."""
WITHOUT_COLUMN = ("flat-only",)
"""Codes that only begin as those do."""


class Flag(str):
    """A reason to doubt a result: its code, and what it concerns.

    As text it is `code`, `code: detail` or, with a column, `code-column: detail`; made of such a
    text it has the same parts, so that files and programs may hold it as text.

    Attributes:
        code: Key of the tables in which flags are explained.
        column: The column that it concerns, or `loss`; empty for most.
        detail: What it concerns, with numbers; may be empty.
    """

    __slots__ = ("code", "column", "detail")
    code: str
    column: str
    detail: str

    def __new__(cls, code: str, detail: str = "", *, column: str = "") -> Flag:
        """Made of its parts, or of its text alone; a flag stays what it is."""
        if isinstance(code, Flag) and not (detail or column):
            return code
        text = f"{code}-{column}" if column else code
        flag = super().__new__(cls, f"{text}: {detail}" if detail else text)
        if detail or column:
            flag.code, flag.column, flag.detail = str(code), column, detail
            return flag
        name, _, flag.detail = flag.partition(": ")
        starts = () if name in WITHOUT_COLUMN else OF_COLUMN
        with_column = [start for start in starts if name.startswith(f"{start}-")]
        flag.code = with_column[0] if with_column else name
        flag.column = name[len(flag.code) + 1 :]
        return flag

    @property
    def name(self) -> str:
        """All but the detail: the code, with the column after a dash."""
        return f"{self.code}-{self.column}" if self.column else self.code


def pinned(name: str, value: float) -> Flag:
    """The flag of a parameter that was fixed by the user."""
    return Flag("pinned", f"{name} = {value:g}")


def pinned_name(flag: Flag) -> str:
    """The parameter that a flag of `pinned` names."""
    return flag.detail.partition(" = ")[0]
