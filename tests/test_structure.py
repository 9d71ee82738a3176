"""Layers and importers: what each part of the package may import, read from its source.

Imports inside functions and under `TYPE_CHECKING` count like any other. Every rule is a function
from the package's modules to sentences that name what breaks it.
"""

import ast
import re
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

from extrap.analyses import FOLDERS

ROOT = Path(__file__).parents[1]

LEVELS = (
    "errors installing on_first_use registry",
    "expressions files records study_folders",
    "laws noise reading reporting workloads",
    "fitting training",
    "forecasting",
    "checking",
    "integrations study",
    "commands",
    "analyses",
    "cli __main__",
)
LEVEL_OF = {"": len(LEVELS)} | {
    part: i for i, parts in enumerate(LEVELS) for part in parts.split()
}
"""Part → its level; the part without a name is extrap/__init__.py, the public surface."""
VERDICTS = {"forecasting", "checking", "analyses"}
STATISTICS = {"reading", "laws", "fitting", *VERDICTS, "reporting"}
TRAINING = {"workloads", "training"}

IMPORTERS = {
    "accelerate": "integrations.huggingface",
    "cattrs": "records.codec",
    "click": "cli commands analyses.*command",
    "cloudpickle": "records.own_training study.calls study_folders",
    "distributed": "study.clusters",
    "google": "reading.trackers.tensorboard",  # protobuf
    "jinja2": "reporting",
    "lightning": "integrations.lightning",
    "matplotlib": "reporting.drawing analyses.sweep.plots",
    "mlflow": "reading.trackers.mlflow",
    "numpy": " ".join(LEVELS),
    "optuna": "study reading.optuna reading.storages",
    "pandas": " ".join(LEVELS).replace(" noise", ""),
    "psutil": "training",
    "pyarrow": "reading",
    "pytorch_lightning": "integrations.lightning",
    "ray": "study.clusters",
    "rich": "cli commands",
    "scipy": "laws noise fitting forecasting checking analyses",
    "seaborn": "reporting.drawing",
    "sklearn": "fitting analyses.selection workloads",
    "sqlalchemy": "study reading.optuna reading.storages",  # addresses, errors of its storages
    "statsmodels": "analyses.allocation analyses.batch_size checking fitting.regression",
    "tensorboard": "reading.trackers.tensorboard",
    "threadpoolctl": "fitting.one_thread",
    "torch": "workloads training integrations",
    "tqdm": "study.progress",
    "transformers": "integrations.huggingface",
    "wandb": "reading.trackers.wandb",
    "yaml": "reading.settings",
}
"""Library → the parts, or single modules, that may import it; `*` stands for any text."""
LAZY = {
    ("records.results", "reporting.flags"),
    ("records.results", "reporting.text"),
    ("forecasting.backtesting", "reporting.text"),
    ("forecasting.sweep_forecast", "analyses.sweep.plots"),
    ("forecasting.sweep_forecast", "analyses.sweep.answer"),
    ("analyses.best_values.value_law", "analyses.best_values.page"),
    ("registry", "analyses"),
}
"""Imports that go up, on first use: notebooks print results as commands do, `plot` draws a
forecast, `to_dict` has the answer and what flags mean, and the registry asks the analyses what
they add."""


@dataclass(frozen=True)
class Module:
    """One source file; `name` is relative to the package, as in `laws.power`."""

    name: str
    is_package: bool
    tree: ast.Module

    @property
    def part(self):
        return self.name.partition(".")[0]

    @cached_property
    def nodes(self):
        """All nodes of the tree."""
        return tuple(ast.walk(self.tree))


def read_modules(sources):
    """The modules of a mapping from paths below the package to their texts."""
    modules = []
    for path, text in sorted(sources.items()):
        parts = Path(path).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules.append(Module(name, is_package, ast.parse(text)))
    return modules


@cache
def package():
    """The modules of extrap itself."""
    folder = ROOT / "extrap"
    paths = folder.rglob("*.py")
    return read_modules({p.relative_to(folder): p.read_text(encoding="utf-8") for p in paths})


def imported_names(module):
    """Yield (module, name) for every import; the name is empty in `import module`."""
    package = f"extrap.{module.name}".rstrip(".").split(".")
    if not module.is_package:
        package = package[:-1]
    for node in module.nodes:
        match node:
            case ast.Import(names=names):
                yield from ((alias.name, "") for alias in names)
            case ast.ImportFrom(module=base, names=names, level=level):
                above = package[: len(package) - level + 1] if level else []
                target = ".".join([*above, *([base] if base else [])])
                yield from ((target, alias.name) for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(target)), *_],
            ):
                yield (target, "")


def inner_imports(module, known):
    """Modules of the package that a module imports, relative to the package."""
    for target, name in imported_names(module):
        if target.partition(".")[0] == "extrap" and (target, name) != ("extrap", "__version__"):
            inner = target.removeprefix("extrap").removeprefix(".")
            longer = f"{inner}.{name}".strip(".")
            yield longer if name and longer in known else inner


def import_graph(modules):
    """Module → the modules that it imports."""
    known = {name for module in modules for name in (module.name, module.part)}
    return {
        module.name: {to for to in inner_imports(module, known) if (module.name, to) not in LAZY}
        for module in modules
    }


def cycle_in(graph):
    """Return the nodes of a cycle; none in a graph without one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def imports_between_parts(modules):
    """Yield a module, the part it is in, what it imports of the package, and the part of that."""
    for name, targets in import_graph(modules).items():
        for target in sorted(targets):
            yield name, name.partition(".")[0], target, target.partition(".")[0]


def imports_that_go_up(modules):
    unknown = {module.part for module in modules} - set(LEVEL_OF)
    return [f"{part} has no level" for part in unknown] + [
        f"{name} imports upwards: {target or 'extrap itself'}"
        for name, part, target, other in imports_between_parts(modules)
        if LEVEL_OF.get(other, 0) > LEVEL_OF.get(part, 0)
    ]


def import_cycles(modules):
    parts: dict[str, set[str]] = {}
    for _, part, _, other in imports_between_parts(modules):
        parts.setdefault(part, set()).update({other} - {part})
    return [cycle for graph in (import_graph(modules), parts) if (cycle := cycle_in(graph))]


def statistics_with_training(modules):
    return [
        f"{name} imports {target}"
        for name, part, target, other in imports_between_parts(modules)
        if {part, other} & STATISTICS
        and {part, other} & TRAINING
        and not name.endswith(".study")  # the kind of a study trains
        and not name.startswith("analyses.coordinates.")  # asks about a training
    ]


def analyses_with_others(modules):
    """A question needs no other but the main one, which answers for tables of best values too."""
    free = {"", "sweep"}
    return [
        f"{name} imports {target}"
        for name, part, target, other in imports_between_parts(modules)
        if part == other == "analyses"
        and (folder := name.split(".")[1:2]) != (imported := target.split(".")[1:2])
        and not free & {"".join(imported)}
        and (folder, imported) != (["sweep"], ["best_values"])
    ]


def wrong_importers(modules):
    ours = {"extrap", "__future__", *sys.stdlib_module_names}
    return [
        f"{module.name or '__init__'} imports {library}"
        for module in modules
        for library in {target.partition(".")[0] for target, _ in imported_names(module)} - ours
        if not any(
            fnmatch(f"{module.name}.", f"{place}.*")
            for place in IMPORTERS.get(library, "").split()
        )
    ]


def nodes_of(modules, kind, is_bad, *, but=""):
    """Where the modules, but for one, have nodes of a kind that are bad."""
    return [
        f"{module.name} line {node.lineno}: {ast.unparse(node)}"
        for module in modules
        for node in module.nodes
        if module.name != but and isinstance(node, kind) and is_bad(node)
    ]


def bare_echoes(modules):
    """Text is printed by one module, which spells hidden characters out."""
    echoes = {"echo", "secho", "echo_via_pager"}
    return nodes_of(modules, ast.Attribute, lambda n: n.attr in echoes, but="commands.printing")


def bare_writes(modules):
    """Files are written by one module, whole or not at all; a hash may be made of CSV text."""

    def writes(call):
        name = getattr(call.func, "attr", "")
        return name in {"write_text", "write_bytes"} or (name == "to_csv" and bool(call.args))

    return nodes_of(modules, ast.Call, writes, but="files")


def dangers(modules):
    """Calls that would run what a file says, or promise to."""

    def is_danger(call):
        name = ast.unparse(call.func)
        given = {k.arg: ast.unparse(k.value) for k in call.keywords}
        last = name.rpartition(".")[2]
        return (
            (last == "load" and "torch" in name and given.get("weights_only") != "True")
            or (name in {"np.load", "numpy.load"} and "allow_pickle" not in given)
            or given.get("allow_pickle") == "True"
            or given.get("shell", "False") != "False"
            or last in {"full_load", "unsafe_load", "to_pickle", "read_pickle"}
            or name in {"eval", "exec", "compile", "os.system", "os.popen", "yaml.load"}
            or name in {"marshal.loads", "marshal.load"}
        )

    return nodes_of(modules, ast.Call, is_danger)


BREACHES = {
    imports_that_go_up: {"laws/power.py": "def f():\n    from extrap import forecast"},
    import_cycles: {"errors.py": "import extrap.files", "files.py": "from .errors import E"},
    statistics_with_training: {"training/loop.py": "import extrap.fitting"},
    analyses_with_others: {
        "analyses/cascade/page.py": "import extrap.analyses.comparison.spec",
        "analyses/comparison/spec.py": "",
    },
    wrong_importers: {"noise.py": "import importlib\nimportlib.import_module('torch.nn')"},
    bare_echoes: {"cli.py": "import click\nf = click.secho"},
    bare_writes: {"records/runs.py": "frame.to_csv(path)"},
    dangers: {"training/loop.py": "torch.load('x', weights_only=False)"},
}
"""Rule → code that breaks it."""


@pytest.mark.parametrize("rule", BREACHES, ids=lambda rule: rule.__name__)
def test_package_has_no(rule):
    modules = package()
    assert "errors" in {module.name for module in modules}
    assert rule(modules) == []


@pytest.mark.parametrize("rule", BREACHES, ids=lambda rule: rule.__name__)
def test_rule_catches(rule):
    assert rule(read_modules(BREACHES[rule])) != []


STACK = {
    "numpy": "analyses checking fitting forecasting laws noise reading records reporting training",
    "optuna": "reading.optuna study.database study.samplers study.trials",
    "torch": "training.loop training.optimizers workloads.workload",
    "sklearn": "analyses.selection fitting.regressor",
    "statsmodels": "analyses.batch_size.batch_laws analyses.batch_size.noise_course "
    "analyses.allocation.profiles checking fitting.regression",
    "seaborn": "reporting.drawing",
}
"""The libraries that the package stands on → where they do their work."""


def importers_of(library, modules):
    """The modules that import a library, in order."""
    return sorted(
        module.name
        for module in modules
        if library in {target.partition(".")[0] for target, _ in imported_names(module)}
    )


@pytest.mark.parametrize("library", STACK)
def test_each_library_that_the_package_stands_on_does_its_work(library):
    importers = [f"{name}." for name in importers_of(library, package())]
    for place in STACK[library].split():
        assert any(name.startswith(f"{place}.") for name in importers), place


def test_every_folder_of_an_analysis_is_listed():
    folders = {path.parent.name for path in (ROOT / "extrap/analyses").glob("*/__init__.py")}
    assert folders == set(FOLDERS)


@pytest.mark.parametrize("part", ["reporting", "analyses", "study"])
def test_what_a_package_lists_is_there(part):
    """Names in the bullets of its docstring are its modules or names."""
    names = {module.name for module in package()}
    init = next(module for module in package() if module.name == part)
    listed = re.findall(r"^\* ((?:`\w+`(?:, )?)+)", ast.get_docstring(init.tree) or "", re.M)
    public = set(getattr(import_module(f"extrap.{part}"), "__all__", ()))
    told = {name for cell in listed for name in re.findall(r"`(\w+)`", cell)}
    assert told
    assert {n for n in told if f"{part}.{n}" not in names} <= public


EMPTY_WORDS = set(
    [
        "found",
        "each",
        "known",
        "given",
        "asked",
        "at",
        "own",
        "place",
        "words",
        "rest",
        "kept",
        "made",
        "wanted",
    ]
)
"""Names that do not say what they hold."""
PROMISED = {"at", "kept"}
"""`.at` and `at=` of public classes, and a key of sealed files: docs/stability.md."""
OF_EVERY_KIND = {"ANALYSIS", "GRAVE", "LIMITS", "MEANINGS", "T"}
"""Constants that every module of a kind has under one name."""


def names_bound(tree):
    """The names of all variables, parameters, fields, functions and classes."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name


def constants(tree):
    """The names of a module's constants."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(name, ast.Name) and name.id.strip("_").isupper():
                    yield name.id.strip("_")


def parsed_package():
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "extrap").rglob("*.py"))
    }


def test_names_say_what_they_hold():
    empty = [
        (path, name)
        for path, tree in parsed_package().items()
        for name in names_bound(tree)
        if name.strip("_") in EMPTY_WORDS - PROMISED
    ]
    assert empty == []


def test_no_two_modules_have_a_constant_of_one_name():
    modules = {}
    for path, tree in parsed_package().items():
        for name in dict.fromkeys(constants(tree)):
            modules.setdefault(name, []).append(path)
    several = {name for name, paths in modules.items() if len(paths) > 1}
    assert several - OF_EVERY_KIND == set()
