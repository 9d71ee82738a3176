"""Study files: the `STUDY`, or another kind of study, that a Python file defines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeVar

from extrap.files import import_source
from extrap.function_sources import describe_source
from extrap.records import (
    OWN,
    AllocationStudy,
    BatchStudy,
    CascadeStudy,
    Command,
    ComparisonStudy,
    KnobStudy,
    Lever,
    LeverStudy,
    RecipeGroup,
    StudySpec,
    Train,
    override,
)
from extrap.records.own_training import StudyFunction

__all__ = [
    "KINDS",
    "OwnTraining",
    "allocation_of",
    "batches_of",
    "cascade_of",
    "check_baseline",
    "comparison_of",
    "kind_of",
    "knobs_of",
    "levers_of",
    "load_allocation",
    "load_baseline",
    "load_batches",
    "load_cascade",
    "load_comparison",
    "load_knobs",
    "load_levers",
    "load_study",
    "load_training",
    "override_both",
]

Kind = TypeVar("Kind")
KINDS = (
    "COMPARISON",
    "LEVERS",
    "BATCHES",
    "ALLOCATION",
    "CASCADE",
    "KNOBS",
    "STUDY",
)
"""What a study file may define; the first that it does decides. `KNOBS` come with a `STUDY`."""
COMPARISON_FIELDS = ("name", "question", "groups", "price", "flops_per_second")
"""Fields of a comparison that are set as they stand; others are those of all of its recipes."""
OWN_FIELDS = ("name", "question", "targets", "target_seeds")
"""Fields of a study that are not its baseline's as well."""


def kind_of(path: str | Path) -> str:
    """Which kind of study a file holds: the first of `KINDS` that it defines, else `STUDY`.

    Raises:
        ValueError: There is no such file, or it cannot be imported.
    """
    module = _module(Path(path))
    return next((kind for kind in KINDS if getattr(module, kind, None) is not None), KINDS[-1])


def load_study(path: str | Path) -> StudySpec:
    """The `STUDY` that a study file defines.

    Raises:
        ValueError: There is no such file, or it defines no `STUDY` of type `StudySpec`.
    """
    module = _module(Path(path))
    study = getattr(module, "STUDY", None)
    if not isinstance(study, StudySpec):
        raise ValueError(f"{path} defines no STUDY; a study file ends with STUDY = StudySpec(…).")
    if study.workload.name == OWN and _own(module, path, "TRAIN", "COMMAND") is None:
        hint = "; its training function must be named TRAIN" if hasattr(module, "train") else ""
        raise ValueError(
            f"{path} does not say how its study is trained{hint}; write TRAIN = train, "
            "COMMAND = Command([…]) or workload=Workload(name=…)."
        )
    return study


class OwnTraining(NamedTuple):
    """How the studies of a file are trained; None for ours."""

    train: Train | None = None
    baseline: Train | None = None


def load_training(path: str | Path) -> OwnTraining:
    """The `TRAIN` or `COMMAND` of a study file, and those of its baseline.

    A baseline is trained as its study is unless there is a `TRAIN_BASELINE` or
    `COMMAND_BASELINE`.

    Raises:
        ValueError: There is no such file, there are both, or one is neither function nor command.
    """
    module = _module(Path(path))
    train = _own(module, path, "TRAIN", "COMMAND")
    baseline = _own(module, path, "TRAIN_BASELINE", "COMMAND_BASELINE")
    if baseline is not None and train is None:
        raise ValueError(
            f"a baseline is trained in the same way as its study, {path} defines a "
            "training for the baseline only; define TRAIN or COMMAND too."
        )
    return OwnTraining(train, baseline or train)


def _own(module: ModuleType, path: str | Path, function: str, command: str) -> Train | None:
    """The training that a study file defines by one of two names, if it does."""
    given, words = getattr(module, function, None), getattr(module, command, None)
    if given is not None and words is not None:
        raise ValueError(
            f"a study has one training, {path} defines {function} and {command}; remove one."
        )
    if isinstance(given, Command):
        return given
    if words is not None:
        return words if isinstance(words, Command) else Command(words)
    if given is None:
        return None
    if not callable(given):
        raise ValueError(
            f"{function} must be a function train(size, tuned, seed), got "
            f"{type(given).__name__} in {path}; write {function} = train."
        )
    name = getattr(given, "__qualname__", type(given).__qualname__)
    source = describe_source(given, known_as=function, study=path)
    return StudyFunction(function=given, name=name, source=source)


def load_baseline(path: str | Path) -> StudySpec | None:
    """The `BASELINE` of a study file: a second sweep, with which the study is compared.

    Raises:
        ValueError: As `load_study`, or the `BASELINE` is no `StudySpec`, has other size or tuned
            columns than the `STUDY`, another level, or the same name.
    """
    study, baseline = load_study(path), getattr(_module(Path(path)), "BASELINE", None)
    if baseline is None:
        return None
    if not isinstance(baseline, StudySpec):
        raise ValueError(
            f"the BASELINE of {path} must be a StudySpec, got {type(baseline).__name__}; "
            "derive it with dataclasses.replace(STUDY, name=…)."
        )
    check_baseline(study, baseline)
    return baseline


def load_knobs(path: str | Path) -> KnobStudy | None:
    """The `KNOBS` of a study file: which of the study's fixed values to move.

    Raises:
        ValueError: As `load_study`, or the `KNOBS` is no `KnobStudy`, or one of another study.
    """
    study, knobs = load_study(path), getattr(_module(Path(path)), "KNOBS", None)
    if load_training(path).train is not None:
        raise ValueError(
            "a sensitivity study varies fields of the recipe, which the training function "
            f"or command in {path} does not use; tune the values it takes."
        )
    if knobs is None:
        return None
    if not isinstance(knobs, KnobStudy):
        raise ValueError(
            f"the KNOBS of {path} must be a KnobStudy, got {type(knobs).__name__}; write "
            "KnobStudy(name=…, study=STUDY)."
        )
    if knobs.study != study:
        raise ValueError(
            f"the KNOBS of {path} must use its STUDY, got another study, "
            f"{knobs.study.name!r}; write KnobStudy(name=…, study=STUDY)."
        )
    return knobs


def knobs_of(path: str | Path, *, assignments: Iterable[str] = ()) -> KnobStudy:
    """The `KNOBS` of a study file with fields of its study replaced; without one, every knob.

    Raises:
        ValueError: As `load_knobs`, or an assignment fits no field.
    """
    study = override(load_study(path), assignments)
    knobs = load_knobs(path)
    if knobs is None:
        return KnobStudy(name=f"{study.name}-knobs", study=study)
    return replace(knobs, study=study)


def load_levers(path: str | Path) -> LeverStudy | None:
    """The `LEVERS` of a study file, which needs no `STUDY`: treatments beside the plain training.

    Raises:
        ValueError: There is no such file, or the `LEVERS` is no `LeverStudy`.
    """
    example = "LeverStudy(name=…, question=…, levers=(Lever(…),))"
    return _defined(path, "LEVERS", LeverStudy, example)


def levers_of(path: str | Path, *, assignments: Iterable[str] = ()) -> LeverStudy:
    """The `LEVERS` of a study file with fields of all of their arms replaced.

    `judge_seeds` and `level` are the lever study's own.

    Raises:
        ValueError: As `load_levers`, there is none, or an assignment fits no field.
    """
    levers = _required(path, "LEVERS", LeverStudy, load_levers(path))
    for assignment in assignments:
        key, _, text = assignment.partition("=")
        if key.strip() == "judge_seeds":
            seeds = tuple(int(part) for part in text.split(",") if part.strip())
            levers = replace(levers, judge_seeds=seeds)
        elif key.strip() == "level":
            levers = replace(levers, level=float(text))
        else:
            own = tuple(_with(lever, assignment) for lever in levers.levers)
            levers = replace(levers, levers=own)
    return levers


def load_batches(path: str | Path) -> BatchStudy | None:
    """The `BATCHES` of a study file, which needs no `STUDY`: steps to targets against batch size.

    Raises:
        ValueError: There is no such file, or the `BATCHES` is no `BatchStudy`.
    """
    example = "BatchStudy(name=…, question=…, tasks=(BatchTask(…),))"
    return _defined(path, "BATCHES", BatchStudy, example)


def batches_of(path: str | Path, *, assignments: Iterable[str] = ()) -> BatchStudy:
    """The `BATCHES` of a study file with fields replaced, such as `tasks.0.study.seeds=0`.

    Raises:
        ValueError: As `load_batches`, there is none, or an assignment fits no field.
    """
    batches = _required(path, "BATCHES", BatchStudy, load_batches(path))
    return override(batches, assignments)


def load_comparison(path: str | Path) -> ComparisonStudy | None:
    """The `COMPARISON` of a study file, which needs no `STUDY`: recipes over size, side by side.

    Raises:
        ValueError: There is no such file, or the `COMPARISON` is no `ComparisonStudy`.
    """
    example = "ComparisonStudy(name=…, question=…, groups=(RecipeGroup(…),))"
    return _defined(path, "COMPARISON", ComparisonStudy, example)


def comparison_of(path: str | Path, *, assignments: Iterable[str] = ()) -> ComparisonStudy:
    """The `COMPARISON` of a study file with fields of all of its recipes replaced.

    Name, question, price and speed are the comparison's own, and `groups.0.target.width=256`
    walks into a group.

    Raises:
        ValueError: As `load_comparison`, there is none, or an assignment fits no field.
    """
    comparison = _required(path, "COMPARISON", ComparisonStudy, load_comparison(path))
    shared = []
    for assignment in assignments:
        field = assignment.partition("=")[0].split(".")[0].strip()
        if field in COMPARISON_FIELDS:
            comparison = override(comparison, [assignment])
        else:
            shared.append(assignment)
    groups = tuple(_with_all(group, shared) for group in comparison.groups)
    return replace(comparison, groups=groups)


def _with_all(group: RecipeGroup, assignments: list[str]) -> RecipeGroup:
    """A group with fields of all of its recipes replaced."""
    arms = {name: override(spec, assignments) for name, spec in group.arms.items()}
    return replace(group, arms=arms)


def load_allocation(path: str | Path) -> AllocationStudy | None:
    """The `ALLOCATION` of a study file, which needs no `STUDY`: a budget split and checked.

    Raises:
        ValueError: There is no such file, or the `ALLOCATION` is no `AllocationStudy`.
    """
    example = "AllocationStudy(name=…, question=…, study=StudySpec(…), budgets=(…))"
    return _defined(path, "ALLOCATION", AllocationStudy, example)


def allocation_of(path: str | Path, *, assignments: Iterable[str] = ()) -> AllocationStudy:
    """The `ALLOCATION` of a study file with fields replaced, such as `study.seeds=0`.

    Raises:
        ValueError: As `load_allocation`, there is none, or an assignment fits no field.
    """
    allocation = _required(path, "ALLOCATION", AllocationStudy, load_allocation(path))
    return override(allocation, assignments)


def load_cascade(path: str | Path) -> CascadeStudy | None:
    """The `CASCADE` of a study file, which needs no `STUDY`: small models before a large one.

    Raises:
        ValueError: There is no such file, or the `CASCADE` is no `CascadeStudy`.
    """
    example = "CascadeStudy(name=…, question=…, smalls=(SizedModel(…),), large=SizedModel(…))"
    return _defined(path, "CASCADE", CascadeStudy, example)


def cascade_of(path: str | Path, *, assignments: Iterable[str] = ()) -> CascadeStudy:
    """The `CASCADE` of a study file with fields replaced, such as `recipe.steps=100`.

    Raises:
        ValueError: As `load_cascade`, there is none, or an assignment fits no field.
    """
    cascade = _required(path, "CASCADE", CascadeStudy, load_cascade(path))
    return override(cascade, assignments)


def _defined(path: str | Path, name: str, kind: type[Kind], example: str) -> Kind | None:
    """What a study file defines by a name, None without; of another type it is an error."""
    found = getattr(_module(Path(path)), name, None)
    if found is None or isinstance(found, kind):
        return found
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    raise ValueError(
        f"the {name} of {path} must be {article} {kind.__name__}, got "
        f"{type(found).__name__}; write {example}."
    )


def _required(path: str | Path, name: str, kind: type[Kind], found: Kind | None) -> Kind:
    """The same where there has to be one."""
    if found is None:
        raise ValueError(f"{path} defines no {name}; write {name} = {kind.__name__}(…).")
    return found


def _with(lever: Lever, assignment: str) -> Lever:
    """A lever with a field of all of its arms replaced."""
    reference = lever.reference
    return replace(
        lever,
        plain=override(lever.plain, [assignment]),
        treated=override(lever.treated, [assignment]),
        reference=None if reference is None else override(reference, [assignment]),
    )


def override_both(
    spec: StudySpec, baseline: StudySpec | None, assignments: Iterable[str]
) -> tuple[StudySpec, StudySpec | None]:
    """A study and its baseline with the same fields replaced, as by `extrap.records.override`.

    Name, question and targets are the study's own.
    """
    assignments = list(assignments)
    shared = [
        a for a in assignments if a.partition("=")[0].split(".")[0].strip() not in OWN_FIELDS
    ]
    return override(spec, assignments), baseline and override(baseline, shared)


def check_baseline(spec: StudySpec, baseline: StudySpec) -> None:
    """Raise a ValueError unless a study can be compared with a baseline."""
    for what, ours, theirs in (
        ("size columns", list(spec.sizes), list(baseline.sizes)),
        ("tuned columns", list(spec.tune), list(baseline.tune)),
        ("level", spec.level, baseline.level),
    ):
        if ours != theirs:
            raise ValueError(
                f"a baseline must have the {what} of its study, {ours}; got {theirs}: "
                "derive it from the study with dataclasses.replace."
            )
    if baseline.name == spec.name:
        raise ValueError(
            f"a baseline needs a name other than its study's, got {spec.name!r} for both; "
            f"name it {spec.name + '-baseline'!r}."
        )


def _module(path: Path) -> ModuleType:
    """The study file as a module."""
    if not path.is_file():
        here = path.parent if path.parent.is_dir() else Path()
        known = ", ".join(sorted(str(p) for p in here.glob("*.py"))[:8]) or "none"
        raise ValueError(f"study file {path} does not exist; study files there: {known}.")
    if path.suffix != ".py":
        raise ValueError(f"a study file is a Python file that ends in .py, got {path}.")
    try:
        return import_source(path, f"extrap_study_{path.stem}")
    except (Exception, SystemExit) as error:  # a script may exit on import
        raise ValueError(f"{path} cannot be imported: {type(error).__name__}: {error}.") from error
