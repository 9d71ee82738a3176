"""What the engines know of the analyses: each folder of `extrap.analyses` says what it adds.

`reporting`, `study` and `commands` name no question: they ask here for the blocks of a result and
the kind of a study file. `cli` asks for the commands; it knows that `extrap TABLE` is a forecast,
and which commands need `--at`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

HEADINGS = ("Forecast", "Check", "Run studies", "Reports", "More analyses")
"""Headings of the help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What one folder adds. Its objects are written `module.name` and imported on first use.

    Attributes:
        package: Name of the folder's package.
        blocks: Class of a result → the function that makes its blocks.
        kinds: Symbol of a study file → the module with its `Kind`.
        commands: One of `HEADINGS` → commands, separated by blanks.
        pages: Kind of a page → what the index calls it.
        sealed: Kind of a sealed document → the function that judges a later log by it.
        meanings: The table of what its flags mean; empty without flags.

    Raises:
        ValueError: The help has no such heading.
    """

    package: str
    blocks: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)
    sealed: Mapping[str, str] = field(default_factory=dict)
    meanings: str = ""

    def __post_init__(self) -> None:
        if unknown := set(self.commands) - set(HEADINGS):
            raise ValueError(
                f"commands stand under one of {', '.join(HEADINGS)}; {self.package} has "
                f"{', '.join(unknown)}."
            )

    def fetch(self, path: str) -> Any:
        """An object of the folder, by `module.name`."""
        module, _, name = path.rpartition(".")
        return getattr(import_module(f"{self.package}.{module}"), name)


@cache
def analyses() -> tuple[Analysis, ...]:
    """All analyses, in the order in which `extrap.analyses` lists their folders."""
    package = import_module("extrap.analyses")
    names = (f"{package.__name__}.{folder}" for folder in package.FOLDERS)
    return tuple(import_module(name).ANALYSIS for name in names)


def blocks_maker(result: object) -> Callable[[Any], list[Any]]:
    """The function that makes the blocks of a result.

    Raises:
        KeyError: No analysis says what is shown of such an object.
    """
    name = type(result).__name__
    for analysis in analyses():
        if name in analysis.blocks:
            maker: Callable[[Any], list[Any]] = analysis.fetch(analysis.blocks[name])
            return maker
    raise KeyError(name)


@cache
def kinds() -> Mapping[str, str]:
    """Symbol that a study file may define → module of its kind; the first one there decides."""
    return {
        symbol: f"{analysis.package}.{module}"
        for analysis in analyses()
        for symbol, module in analysis.kinds.items()
    }


def commands(heading: str) -> Iterator[Any]:
    """The commands under a heading of the help."""
    for analysis in analyses():
        for path in analysis.commands.get(heading, "").split():
            yield analysis.fetch(path)


def page_name(kind: str) -> str:
    """What the index calls a kind of page; one that no analysis names has its own name."""
    return next((a.pages[kind] for a in analyses() if kind in a.pages), kind)


def judge_of(kind: str) -> Callable[..., Any] | None:
    """What judges a log by a sealed document of a kind; None where that is a forecast."""
    for analysis in analyses():
        if kind in analysis.sealed:
            judge: Callable[..., Any] = analysis.fetch(analysis.sealed[kind])
            return judge
    return None


def meanings() -> dict[str, Mapping[str, tuple[str, str, str]]]:
    """Folder → what its flags mean, of those that have any."""
    return {a.package.rpartition(".")[2]: a.fetch(a.meanings) for a in analyses() if a.meanings}


def meanings_for(result: object) -> dict[str, tuple[str, str, str]]:
    """What the flags in a result mean: its own table decides, then the last of the others.

    That is the table of forecasts, whose laws other results hold.
    """
    name = type(result).__name__
    own_last = sorted(filter(lambda a: a.meanings, analyses()), key=lambda a: name in a.blocks)
    return {flag: m for a in own_last for flag, m in a.fetch(a.meanings).items()}


def home_of(name: str) -> str:
    """The analysis that defines a public name, as a package below `extrap`.

    Raises:
        KeyError: None has it.
    """
    for analysis in analyses():
        if name in getattr(import_module(analysis.package), "__all__", ()):
            return analysis.package.removeprefix("extrap.")
    raise KeyError(name)
