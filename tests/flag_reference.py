"""The tables of all flags in docs/limits.md, made from what the analyses say that flags mean.

`make docs` writes them; `tests/test_docs.py` compares them with the analyses.
"""

import re

from extrap.files import write_text
from extrap.records.flags import OF_COLUMN
from extrap.registry import HEADINGS, analyses

from .pages import ROOT

PATH = ROOT / "docs" / "limits.md"
HEAD = """### Flags of {commands}

| Flag | Means | Why it matters | Action |
|---|---|---|---|
"""
BEGIN, END = "<!-- flags: made by make docs -->\n", "<!-- end of flags -->\n"


def flags_page():
    """The page as it is written, with new tables between its markers, those of forecasts first."""
    before, after = PATH.read_text(encoding="utf-8").split(BEGIN)
    _, after = after.split(END)
    with_flags = [analysis for analysis in analyses() if analysis.meanings]
    with_flags.sort(key=lambda analysis: "Forecast" not in analysis.commands)
    tables = "\n".join(map(flag_table, with_flags))
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"


def flag_table(analysis):
    """Heading and rows of the flags of one analysis."""
    paths = " ".join(analysis.commands.get(heading, "") for heading in HEADINGS).split()
    commands = ", ".join(f"`{analysis.fetch(path).name}`" for path in paths)
    rows = (
        f"| `{code}{'-NAME' * (code in OF_COLUMN)}` | {' | '.join(map(with_code, parts))} |\n"
        for code, parts in analysis.fetch(analysis.meanings).items()
    )
    return HEAD.format(commands=commands) + "".join(rows)


def with_code(text):
    """A text whose options are in backticks."""
    return re.sub(r"--[a-z][a-z-]*( [^ )]+(?=\)))?", r"`\g<0>`", text)


if __name__ == "__main__":
    write_text(PATH, flags_page())
