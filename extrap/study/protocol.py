"""What a kind of study is: which runs it wants, what they say, and its page.

A kind is a subclass of `Kind` in one file; it is known by the name under which study files define
such a study. The driver (`extrap.study.driver`) trains, seals and reports all kinds alike.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from extrap import registry
from extrap.errors import DataError
from extrap.records import (
    STAGES,
    TOKENS_COLUMN,
    Cell,
    Command,
    Runs,
    StudySpec,
    Train,
    override,
)
from extrap.records.numbers import NBSP, format_quantity, name_size, rounded
from extrap.records.recipe import STEPS_COLUMN
from extrap.records.seals import content_hash

if TYPE_CHECKING:
    import pandas as pd

    from extrap.reporting.blocks import Page
    from extrap.reporting.study_page import About

T = TypeVar("T")
Say = Callable[[str], None]
Wants = Callable[[Runs], Sequence[Cell]]
"""A function of the runs of a stage so far, which returns all cells that are wanted by now."""
FLOPS_COLUMN = "FLOPs"
"""Size column of a dry run whose runs have as many steps as their FLOPs allow."""
HANDED_OUT_DIGITS = 4
"""Significant digits of a tuned value handed to a large run; more would be false precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """A prediction that is written down before a stage trains, so without knowledge of its runs.

    Attributes:
        what: What messages call it, as `forecast`.
        file: Name of its file in the folder of reports.
        document: What it says, plain JSON with `kind` and `schema_version`.
        spec: The sweep under whose name the storage keeps when this was sealed first.
        added: Keys that are added to the file later and are no part of its hash, as `checks`.
    """

    what: str
    file: str
    document: Mapping[str, Any]
    spec: StudySpec
    added: Mapping[str, Any] = field(default_factory=dict)

    @property
    def content_hash(self) -> str:
        """The hash of what it says, whenever it is written."""
        return str(self.document.get("content_hash") or content_hash(self.document))

    def read_matching(self, folder: Path) -> dict[str, Any] | None:
        """The document of an intact file that says the same; None where there is none."""
        from extrap.forecasting.documents import read_if_intact

        written = read_if_intact(folder / self.file, self.document["kind"])
        if written is None or written["content_hash"] != self.content_hash:
            return None
        curves = self.document.get("curves")  # no part of the hash
        return written if curves in (None, written.get("curves")) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The runs of a sweep, or larger runs that are planned from it.

    Attributes:
        spec: Its name in the storage, sizes, tuned values and recipe.
        wants: All cells wanted by now; None where Optuna chooses as many as the grid has.
        max_cells: Cells if the grid grows as far as it may, for the dry run; 0 if it cannot grow.
        name: `"tune"` or `"check"`, as runs have it in their column `stage`.
        roles: Cell → why it is trained: `recommended`, or `contrast` if its values are mistuned
            on purpose; stored with its run.
        seal: What is written down before its first cell is trained.
        notes: Sentences printed before it is trained.
    """

    spec: StudySpec
    wants: Wants | None
    max_cells: int = 0
    name: str = "tune"
    roles: Mapping[Cell, str] = field(default_factory=dict)
    seal: Seal | None = None
    notes: tuple[str, ...] = ()


def sweep(spec: StudySpec) -> Stage:
    """The sweep of a spec: its grid, which may grow, or the values that Optuna chooses."""
    if spec.is_sampled:
        return Stage(spec=spec, wants=None, max_cells=len(spec.grid_cells()))

    def grown(runs: Runs) -> Sequence[Cell]:
        if not len(runs):  # nothing to fit yet: training need not wait for SciPy
            return spec.grid_cells()
        from extrap.study.grids import grow_grid

        return grow_grid(spec, runs)

    return Stage(spec=spec, wants=grown, max_cells=spec.most_cells())


def only(cells: Iterable[Cell]) -> Wants:
    """These cells, whatever the runs so far."""
    distinct = tuple(dict.fromkeys(cells))
    return lambda _: distinct


def read_cells(source: Any, spec: StudySpec) -> tuple[Cell, ...]:
    """The cells of a table, one per row, as `extrap plan` writes it: size, tuned values, seed.

    The table is whatever `extrap.read_runs` takes. Of one with a column `recipe`, as `extrap
    compare --next` writes it, the rows that name the study count.
    """
    from extrap.reading import sources

    names, cells = [*spec.sizes, *spec.tune, "seed"], list[Cell]()
    rows, _ = sources.read_rows(source)
    if "recipe" in rows:
        recipes = rows["recipe"].astype(str)
        if not recipes.eq(spec.name).any():
            raise DataError(
                f"the table of runs has a column recipe, in which no row names the study "
                f"{spec.name!r}, but {', '.join(recipes.unique()[:4])}; write {spec.name} there, "
                "or leave the column out."
            )
        rows = rows[recipes.eq(spec.name)]
    table = sources.read_cells(rows, names, "the table of runs")
    for values in table[names].to_numpy(dtype=float).tolist():
        row = dict(zip(names, values, strict=True))
        if not float(row["seed"]).is_integer() or min(values[:-1]) <= 0:
            raise DataError(
                f"a run has a whole seed, and positive sizes and tuned values, got {row} in the "
                "table of runs; correct that row."
            )
        size, tuned = ({c: row[c] for c in columns} for columns in (spec.sizes, spec.tune))
        cells.append(Cell.of(size, tuned, int(row["seed"])))
    return tuple(cells)


class RunsByStage:
    """Runs of a study by stage, and what was written down before them.

    Args:
        read: Reads the runs of a stage; there may be no larger runs yet.
        reports: Folder of what was written down; None for nothing.

    Attributes:
        files: What was sealed → its file.
    """

    def __init__(
        self, read: Callable[[StudySpec, str], Runs], reports: Path | None = None
    ) -> None:
        self._read, self._reports = read, reports
        self._by_stage: dict[tuple[str, str], Runs] = {}
        self._computed: dict[str, Any] = {}
        self.files: dict[str, Path] = {}

    def of(self, spec: StudySpec, stage: str = "tune") -> Runs:
        """The runs of a stage so far."""
        key = (spec.name, stage)
        if key not in self._by_stage:
            try:
                self._by_stage[key] = self._read(spec, stage)
            except DataError:
                if stage == "tune":
                    raise
                self._by_stage[key] = no_runs(spec)
        return self._by_stage[key]

    def put(self, stage: Stage, runs: Runs) -> None:
        """Set the runs of a stage."""
        self._by_stage[stage.spec.name, stage.name] = runs
        if stage.name == "tune":
            self._computed.clear()

    def register(self, seal: Seal) -> Path:
        """Take up the file of a seal among those of the study, and return its path."""
        assert self._reports is not None
        path, what = self._reports / seal.file, seal.what
        if self.files.get(what, path) != path:
            what = f"{what} {path.stem}"
        self.files[what] = path
        return path

    def sealed(self, seal: Seal) -> dict[str, Any] | None:
        """What was written down of a seal; None if no intact file says the same."""
        return None if self._reports is None else seal.read_matching(self._reports)

    def cached(self, name: str, make: Callable[[], T]) -> T:
        """A result of the sweeps by its name, computed again only when one has other runs."""
        if name not in self._computed:
            self._computed[name] = make()
        return self._computed[name]


class Kind(ABC):
    """One study of one kind.

    Args:
        study: The record that a study file defines.
        train: Your own training function or command, or one for each sweep by its name; by
            default extrap trains.

    Attributes:
        declared: The study as its file has it; `study` lacks the recipe if it trains by itself.
        symbol: Variable by which a study file defines such a study, as `STUDY`.
        record: Type of the record.
        by_symbol: All kinds by their symbols.
        cells: Cells of a table that are trained in addition to the grid; None if the kind takes
            none.
    """

    symbol: ClassVar[str]
    record: ClassVar[type]
    by_symbol: ClassVar[dict[str, type[Kind]]] = {}
    cells: tuple[Cell, ...] | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "symbol" not in vars(cls):
            return
        if registry.kinds().get(cls.symbol, home := cls.__module__) != home:
            raise ValueError(f"{cls.symbol} is a kind of extrap's own; choose another symbol.")
        Kind.by_symbol[cls.symbol] = cls

    def __init__(self, study: Any, train: Train | Mapping[str, Train] | None = None) -> None:
        self.study = self.declared = study
        self._train = train

    @classmethod
    def of_module(
        cls, module: ModuleType, path: str | Path, assignments: Sequence[str] = ()
    ) -> Kind:
        """The study that a file defines, with fields replaced.

        Raises:
            ValueError: The file defines something else by that name, or an assignment fits no
                field.
        """
        return cls(override(cls.defined(module, path), assignments))

    @classmethod
    def defined(cls, module: ModuleType, path: str | Path) -> Any:
        """The record that a file defines."""
        record = getattr(module, cls.symbol, None)
        if isinstance(record, cls.record):
            return record
        name = cls.record.__name__
        article = "an" if name[0] in "AEIOU" else "a"
        actual = "there is none" if record is None else f"got {type(record).__name__}"
        raise ValueError(
            f"the {cls.symbol} of {path} must be {article} {name}, {actual}; write "
            f"{cls.symbol} = {name}(…)."
        )

    @property
    def name(self) -> str:
        """Name of the study and of its report."""
        return str(self.study.name)

    @property
    def question(self) -> str:
        """The question that the study answers."""
        return str(self.study.question)

    def training_of(self, spec: StudySpec) -> Train | None:
        """Who trains a sweep; None for extrap's own training."""
        return self._train.get(spec.name) if isinstance(self._train, Mapping) else self._train

    @abstractmethod
    def specs(self) -> tuple[StudySpec, ...]:
        """All sweeps, each by a name of its own in the storage."""

    @abstractmethod
    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """What is wanted: stages that may train side by side, then those that follow from them.

        The next ones are asked for when every cell of those before has a result.
        """

    @abstractmethod
    def analyse(self, runs: RunsByStage) -> Any:
        """The result of the study, from its runs.

        Raises:
            DataError: The runs do not suffice.
        """

    def first_stages(self) -> Sequence[Stage]:
        """The stages that train first; a dry run counts their cells."""
        return next(iter(self.stages(RunsByStage(lambda spec, _: no_runs(spec)))), ())

    def follows(self) -> Sequence[str]:
        """For a dry run, one line for each stage that depends on the results so far."""
        return ()

    @abstractmethod
    def page(self, result: Any, runs: RunsByStage, about: About) -> Page:
        """The page; what is printed at the end are its blocks outside the closed parts."""

    def seals(self, result: Any, runs: RunsByStage) -> Sequence[Seal]:
        """Files that commands read, written or completed with the report."""
        del result, runs
        return ()

    def tables(self, result: Any, runs: RunsByStage) -> Mapping[str, pd.DataFrame]:
        """Ending of the file's name → table written beside the page; `arm` is a run's sweep."""
        import pandas as pd

        del result
        frames = []
        for spec, stage in product(self.specs(), STAGES):
            if len(stage_runs := runs.of(spec, stage)):
                frame = stage_runs.to_frame().dropna(axis="columns", how="all")
                frame["loss"] = frame.get("loss", float("nan"))
                frame.insert(0, "arm", spec.name)
                frames.append(frame)
        return {"runs": pd.concat(frames, ignore_index=True)}

    def provenance(self, result: Any, runs: RunsByStage, source: str) -> dict[str, str]:
        """Where the runs come from, how they were made, what was sealed; rows of the page."""
        from extrap.errors import without_password

        rows = {"runs from": without_password(source)}
        rows |= {f"sweep {spec.name}": sweep_words(spec) for spec in self.specs()}
        for seal in self.seals(result, runs):
            if (sealed := runs.sealed(seal)) is not None:
                created = sealed["created"]
                rows[f"{seal.what} sealed"] = f"{created}, content hash {sealed['content_hash']}"
                rows["first larger run started"] = self._first_start(runs, created)
        return rows

    def _first_start(self, runs: RunsByStage, sealed_at: str) -> str:
        """When the first larger run began, and whether that was before a seal."""
        frames = [runs.of(spec, "check").to_frame() for spec in self.specs()]
        starts = [frame["started_at"].dropna() for frame in frames if "started_at" in frame]
        first = min((str(start) for column in starts for start in column), default="")
        is_before_seal = bool(first) and first < sealed_at
        return f"{first}, before this was sealed" if is_before_seal else first

    def closing(self, result: Any) -> list[str]:
        """What is printed below the first screen of the page."""
        del result
        return []


def plan_text(study: Kind) -> str:
    """The dry run of a study: its first stages, one line each, then what follows from them."""
    lines, total = [], 0
    for stage in study.first_stages():
        spec, train = stage.spec, study.training_of(stage.spec)
        spec.require_whole()
        n_runs = len(spec.grid_cells() if stage.wants is None else stage.wants(no_runs(spec)))
        more = max(0, stage.max_cells - n_runs)
        grown = f" (up to {more} more, depending on the losses)" if more else ""
        sizes = _listed(spec.sizes)
        if spec.path:
            sizes = "; ".join(size_words(spec.size_values(size)) for size in spec.size_points())
        tuned = [
            f"{name} {format_quantity(r.low, digits=4)} to {format_quantity(r.high, digits=4)}"
            for name, r in spec.tune.items()
        ]
        is_fixed = {*spec.sizes, *spec.tune}.isdisjoint(
            (TOKENS_COLUMN, STEPS_COLUMN, FLOPS_COLUMN, "batch_size")
        )
        length = f" of {spec.recipe.n_updates} steps ({spec.recipe.n_examples} examples)"
        is_ours = train is None and is_fixed and not spec.path
        lines.append(
            f"sweep {spec.name}: {n_runs} runs{grown}{length if is_ours else ''} at {sizes}; "
            f"{', '.join(tuned) or 'nothing'} tuned, sampler {spec.sampler_name}; "
            f"{_training_words(spec, train)}"
        )
        total += n_runs
    sums = [f"{total} runs"] if len(lines) > 1 else []
    return "\n".join([*lines, *sums, *(f"then {line}" for line in study.follows())])


def no_runs(spec: StudySpec) -> Runs:
    """The runs of a stage before it began."""
    import pandas as pd

    sizes, tuned, conditions = tuple(spec.sizes), tuple(spec.tune), tuple(spec.conditions())
    columns = [*sizes, *tuned, *conditions, "loss", "seed", "status", "stage"]
    frame = pd.DataFrame(columns=columns).astype({"loss": float})
    return Runs.from_frame(
        frame, sizes=sizes, tuned=tuned, conditions=conditions, source=spec.name
    )


def as_handed_out(name: str, value: float) -> float:
    """A tuned value as a run gets it: a batch has whole examples."""
    return max(1.0, round(value)) if name == "batch_size" else rounded(value, HANDED_OUT_DIGITS)


def size_words(size: Mapping[str, float]) -> str:
    """`width 64, depth 2`."""
    return name_size(size).replace(NBSP, " ")


def sweep_words(spec: StudySpec) -> str:
    """Sizes, seeds, workload and recipe of a sweep."""
    seeds = ", ".join(map(str, spec.seeds))
    options = {k: v for k, v in spec.workload.options.items() if isinstance(v, str)}
    texts = {k: v for k, v in options.items() if "/" not in v}  # no places of data
    fixed = ", ".join(f"{k} {v}" for k, v in {**spec.conditions(), **texts}.items())
    return f"{_listed(spec.sizes)}; seeds {seeds}; {fixed}"


def _listed(sizes: Mapping[str, Sequence[float]]) -> str:
    """`width 16, 32; depth 2`."""
    return "; ".join(
        f"{c} {', '.join(map(format_quantity, values))}" for c, values in sizes.items()
    )


def _training_words(spec: StudySpec, train: Train | None) -> str:
    if train is None:
        options = dict(spec.workload.options)
        return f"workload {spec.workload.name} {options or ''}".rstrip()
    if isinstance(train, Command):
        return f"trained by {shlex.join(train.args)}"
    name = getattr(train, "name", getattr(train, "__name__", "train"))
    return f"trained by the function {name}"
