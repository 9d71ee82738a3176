"""All cases: the name of a golden file, how its content is computed, and how near it must be."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

from .cells import cells_of
from .commands import CLEAN, CSV, EXITS, JSON, PAGES, TEXT, left, once, run
from .comparing import CLOSED, OPTIMISED, normal, written
from .workplace import ROOT

HANDED_OUT = 2e-3
"""Forecast rates are rounded to four digits before they are trained."""
STUDIES = [ROOT / "studies" / f"{name}.py" for name in ("allocation", "batch_size", "metz", "mup")]


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is computed, the kind of its file, and the relative tolerance of its numbers."""

    compute: Callable[[], Any]
    kind: str = "json"
    rel: float = OPTIMISED

    def text(self) -> str:
        """The content of the golden file."""
        return written(self.compute()) if self.kind == "json" else normal(self.compute())


def document(arguments: str) -> dict[str, Any]:
    """What a command prints with --json, its exit code, and the lines on its standard error."""
    said = run(f"{arguments} --json")
    return {**said, "out": parsed(said["out"])}


def parsed(out: str) -> Any:
    """A document, or one a line."""
    try:
        return json.loads(out)
    except ValueError:
        return [json.loads(line) for line in out.splitlines()]


def text(arguments: str) -> str:
    said = once(arguments)
    return f"{said['out']}{said['err']}exit code {said['code']}\n"


def exits() -> dict[str, Any]:
    said = {name: run(argv) for name, argv in EXITS.items()}
    for name, error in {"unexpected": RuntimeError("odd"), "stopped": KeyboardInterrupt()}.items():
        with mock.patch("extrap.forecasting.forecast", side_effect=error):
            said[name] = run(f"forecast {CLEAN}")
    return {name: [found["code"], found["err"]] for name, found in said.items()}


CASES = {
    **{f"json-{name}.json": Case(compute=lambda a=a: document(a)) for name, a in JSON.items()},
    **{f"{n}.txt": Case(compute=lambda a=a: text(a), kind="txt") for n, a in TEXT.items()},
    **{f"{n}.txt": Case(compute=lambda f=f: left(*f), kind="txt") for n, f in PAGES.items()},
    **{
        f"{name}.csv": Case(compute=lambda f=f: left(*f), kind="csv", rel=CLOSED)
        for name, f in CSV.items()
    },
    **{
        f"cells-{path.stem}.json": Case(compute=lambda p=path: cells_of(p), rel=HANDED_OUT)
        for path in STUDIES
    },
    "exits.json": Case(compute=exits),
}
