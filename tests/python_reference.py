"""The page of the Python API: signatures and first lines, from the docstrings.

`make docs` writes it; `tests/test_docs.py` compares it with the source. On the site
`tests/api_pages.py` puts the whole docstring in the place of each entry.
"""

import inspect
import re

import extrap
from extrap.files import write_text

from .pages import ROOT

PATH = ROOT / "docs" / "reference" / "python.md"
SECTIONS = {
    "Forecasts": "read_runs forecast fit save_forecast load_forecast report",
    "Checks": "check best_values backtest Monitor land save_landing judge_landing",
    "Studies": "tune StudySpec Workload Recipe TunedRange Target Command coordinate_check",
    "Plans and costs": "plan cost allocate",
    "More analyses": "compare critical_batch noise_scale NoiseMeter cascade select choose_next "
    "LawRegressor",
    "Charts": "plot_backtest",
    "Records": "Runs Forecast Point Interval Verdict Landing",
    "Errors": "ExtrapError DataError FitError StudyError",
}
"""Heading → the public names below it."""
HEAD = """# Python API

`make docs` makes this page from the docstrings of the names that `import extrap` offers. In the
repository it has their signatures and first lines; the site and `help(extrap.NAME)` have the rest.
The names are kept across versions ([compatibility](../stability.md)).
"""
WITH_METHODS = ["Forecast", "LawRegressor", "Monitor", "NoiseMeter", "Point", "Runs", "Verdict"]
"""Classes whose methods and properties are listed too."""
LONGEST = 24
"""Characters of a default value that is shown."""


def python_page():
    """Markdown: one section per heading, one entry per name, its methods below it."""
    parts = [HEAD]
    for heading, names in SECTIONS.items():
        parts.append(f"## {heading}\n")
        parts += [line for name in names.split() for line in _entry(name)]
        parts.append("")
    return "\n".join(parts)


def _entry(name):
    """The line of a name, and of what is listed below it."""
    item = getattr(extrap, name)
    is_error = inspect.isclass(item) and issubclass(item, Exception)
    yield _line(f"extrap.{name}{'' if is_error else _signature(item)}", item)
    for key, member in inspect.getmembers(item) if name in WITH_METHODS else ():
        function = getattr(member, "fget", member)
        if not key.startswith("_") and getattr(function, "__module__", "").startswith("extrap"):
            how = "" if function is not member else _signature(member)
            yield f"  {_line(f'.{key}{how}', member)}"


def _line(code, item):
    first = re.sub(r"\s+", " ", inspect.getdoc(item).partition("\n\n")[0])
    return f"- `{code}`: {first}"


def _signature(item):
    """Parameters by name with their short defaults, and what a function returns."""
    signature = inspect.signature(item)
    parameters = [
        p.replace(annotation=p.empty, default=p.default if p.default is p.empty else _Shown(p))
        for p in signature.parameters.values()
        if p.name != "self" and not p.name.startswith("_")
    ]
    returned = "" if inspect.isclass(item) else f" -> {signature.return_annotation}"
    return f"{inspect.Signature(parameters)}{returned}"


class _Shown:
    """A default as it is written, `…` where that is long or no literal; quotes as in the code."""

    def __init__(self, parameter):
        self._text = repr(parameter.default).replace("'", '"')

    def __repr__(self):
        is_call = "<" in self._text or "(" in self._text[1:]
        return "…" if is_call or len(self._text) > LONGEST else self._text


if __name__ == "__main__":
    write_text(PATH, python_page())
