"""Floors, wings and doors: what each room may import, read from the source of the package.

Imports inside functions and under `TYPE_CHECKING` count like any other. Every rule is a function
from the package's modules to sentences that name what breaks it; each has a tiny package below
that breaks it on purpose.
"""

import ast
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

LEVELS = (
    "errors installing",
    "expressions files records reading study_folders",
    "laws noise workloads",
    "fitting training",
    "forecasting checking backtesting documents monitoring analyses",
    "reporting integrations",
    "study",
    "commands cli __main__",
)
FLOORS = {"": 7} | {room: floor for floor, rooms in enumerate(LEVELS) for room in rooms.split()}
"""Room → its floor; the room without a name is extrap/__init__.py, the public surface."""
VERDICTS = set(LEVELS[4].split())
STATISTICS = {"reading", "laws", "fitting", *VERDICTS, "reporting"}
TRAINING = {"workloads", "training"}
STORAGES = ("reading.optuna", "reading.storages")

# Library → the rooms, or single modules, that may import it. None: any room.
DOORS = {
    "accelerate": ("integrations.huggingface",),
    "cattrs": ("records.codec",),
    "click": ("cli", "commands"),
    "cloudpickle": ("records.own_training", "study.calls", "study_folders"),
    "distributed": ("study.clusters",),
    "google": ("reading.trackers.tensorboard",),  # protobuf
    "jinja2": ("reporting",),
    "lightning": ("integrations.lightning",),
    "matplotlib": ("reporting",),
    "mlflow": ("reading.trackers.mlflow",),
    "numpy": None,
    "optuna": ("study", *STORAGES),
    "pandas": tuple(set(FLOORS) - {"noise"}),
    "psutil": ("training",),
    "pyarrow": ("reading",),
    "pytorch_lightning": ("integrations.lightning",),
    "ray": ("study.clusters",),
    "rich": ("cli", "commands"),
    "scipy": ("laws", "noise", "fitting", *VERDICTS),
    "sklearn": ("fitting", "analyses.selection", "workloads"),
    "sqlalchemy": ("study", *STORAGES),  # addresses and errors of its storages
    "statsmodels": ("fitting",),
    "tensorboard": ("reading.trackers.tensorboard",),
    "torch": ("workloads", "training", "integrations"),
    "tqdm": ("study.progress",),
    "transformers": ("integrations.huggingface",),
    "wandb": ("reading.trackers.wandb",),
    "yaml": ("reading.trackers.folders",),
}
LAZY = {("records.results", "reporting.text")}
"""The imports that go up, on first use: a notebook shows a result as its command prints it."""
CATCH_ALLS = {"utils", "util", "helpers", "helper", "common", "misc"}


@dataclass(frozen=True)
class Module:
    """One source file; `name` is relative to the package, as in `laws.power`."""

    name: str
    is_package: bool
    text: str
    tree: ast.Module

    @property
    def room(self):
        return self.name.partition(".")[0]

    @cached_property
    def nodes(self):
        """All nodes of the tree."""
        return tuple(ast.walk(self.tree))


def read_modules(root):
    modules = []
    for path in sorted((root / "extrap").rglob("*.py")):
        parts = path.relative_to(root / "extrap").with_suffix("").parts
        is_package = parts[-1] == "__init__"
        text = path.read_text(encoding="utf-8")
        name = ".".join(parts[:-1] if is_package else parts)
        modules.append(Module(name, is_package, text, ast.parse(text)))
    return modules


@cache
def package():
    """The modules of extrap itself."""
    return read_modules(ROOT)


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


def libraries(module):
    """Third-party libraries a module imports, by their first name."""
    names = {target.partition(".")[0] for target, _ in imported_names(module)}
    return names - {"extrap", "__future__"} - set(sys.stdlib_module_names)


def inner_imports(module, known):
    """Modules of the package that a module imports, relative to the package."""
    found = set()
    for target, name in imported_names(module):
        if target.partition(".")[0] != "extrap" or (target, name) == ("extrap", "__version__"):
            continue
        inner = target.removeprefix("extrap").removeprefix(".")
        longer = f"{inner}.{name}".strip(".")
        found.add(longer if name and longer in known else inner)
    return found


def import_graph(modules):
    known = {module.name for module in modules} | {module.room for module in modules}
    return {
        module.name: {to for to in inner_imports(module, known) if (module.name, to) not in LAZY}
        for module in modules
    }


def find_cycle(graph):
    """Return the nodes of a cycle; none in a graph without one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def imports_that_go_up(modules):
    found = [f"{m.room} has no floor" for m in modules if m.room not in FLOORS]
    for name, targets in import_graph(modules).items():
        floor = FLOORS.get(name.partition(".")[0], 0)
        for target in sorted(targets):
            if FLOORS.get(target.partition(".")[0], 0) > floor:
                found.append(f"{name} imports upwards: {target or 'extrap itself'}")
    return found


def circles(modules):
    graph = import_graph(modules)
    rooms: dict[str, set[str]] = {}
    for name, targets in graph.items():
        room = name.partition(".")[0]
        others = {target.partition(".")[0] for target in targets} - {room}
        rooms.setdefault(room, set()).update(others)
    return [
        f"{kind} import in a circle: {cycle}"
        for kind, cycle in (("modules", find_cycle(graph)), ("rooms", find_cycle(rooms)))
        if cycle
    ]


def wings_that_touch(modules):
    found = []
    for name, targets in import_graph(modules).items():
        room = name.partition(".")[0]
        for target in sorted(targets):
            pair = {room, target.partition(".")[0]}
            touches = pair & STATISTICS and pair & TRAINING
            if touches:
                found.append(f"{name} imports {target} of the other wing")
    return found


def wrong_doors(modules):
    found = []
    for module in modules:
        for library in sorted(libraries(module)):
            doors = DOORS.get(library, ())
            inside = doors is None or any(
                f"{module.name}.".startswith(f"{door}.") for door in doors if door
            )
            if not inside:
                found.append(f"{module.name or '__init__'} imports {library}")
    return found


def catch_all_names(modules):
    return [
        f"{module.name} says nothing about its content"
        for module in modules
        if set(module.name.strip("_").split(".")) & CATCH_ALLS
    ]


def undeclared(modules):
    """A package lists its public names; a module does not state its own again."""
    found = []
    for module in modules:
        named = (getattr(n, "targets", [getattr(n, "target", n)]) for n in module.tree.body)
        assigned = {target.id for each in named for target in each if isinstance(target, ast.Name)}
        if module.is_package != ("__all__" in assigned):
            found.append(
                f"{module.name or '__init__'}: __all__ belongs into packages, and there only"
            )
    return found


def calls_of(modules, kind, is_bad, *, but=""):
    """Where the modules, but for one, have nodes of a kind that are bad."""
    return [
        f"{module.name} line {node.lineno}: {ast.unparse(node)}"
        for module in modules
        for node in module.nodes
        if module.name != but and isinstance(node, kind) and is_bad(node)
    ]


def bare_echoes(modules):
    """Text is printed by one door, which spells hidden characters out."""
    echoes = {"echo", "secho", "echo_via_pager"}
    return calls_of(modules, ast.Attribute, lambda n: n.attr in echoes, but="commands.printing")


def bare_writes(modules):
    """Files are written by one room, whole or not at all; a hash may be made of CSV text."""

    def writes(call):
        name = getattr(call.func, "attr", "")
        return name in {"write_text", "write_bytes"} or (name == "to_csv" and bool(call.args))

    return calls_of(modules, ast.Call, writes, but="files")


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

    return calls_of(modules, ast.Call, is_danger)


def unfinished(modules):
    return calls_of(modules, ast.Name, lambda n: n.id == "NotImplementedError")


LINES = Path(__file__).with_name("breaches.txt").read_text(encoding="utf-8").splitlines()[1:]
BREACHES = [
    (globals()[rule], path, code.replace("\\n", "\n"))
    for rule, path, code in (line.split(" | ", 2) for line in LINES)
]
RULES = list(dict.fromkeys(rule for rule, _, _ in BREACHES))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_package_has_no(rule):
    modules = package()
    assert "errors" in {module.name for module in modules}
    assert rule(modules) == []


@pytest.mark.parametrize(("rule", "path", "code"), BREACHES)
def test_rule_catches(tmp_path, rule, path, code):
    sound = '"""A room."""\n'
    rooms = {
        "__init__.py": "",
        "errors.py": "",
        "cli.py": "import click\nimport rich.console\nprint(1)\n",
        "study/driver.py": "import extrap.training.packs, extrap.fitting.weighted\n",
        "commands/arguments.py": "import click\n",
        "noise.py": "import numpy\n",
        "monitoring.py": "from extrap.reading import logs\n",
        "integrations/lightning.py": "import lightning\n",
        "forecasting.py": "from scipy import stats\nfrom extrap import __version__\n",
        "records/__init__.py": "from extrap.records import runs, study\n",
        "records/runs.py": "import pandas\n",
        "records/study.py": "from .runs import Runs\n",
        "reading/__init__.py": "",
        "reading/optuna.py": "import optuna\n",
        "reading/logs.py": "from extrap.reading import tables\n",
        "reading/tables.py": "from extrap.records.runs import Runs\n",
        "laws/power.py": "",
        "fitting/weighted.py": "import statsmodels.api\nfrom extrap.laws import power\n",
        "training/loop.py": "import torch\nimport extrap.noise\n",
        "reporting/page.py": "import jinja2\n",
        "reporting/drawing.py": "import matplotlib\n",
    }
    for name, body in rooms.items():
        file = tmp_path / "extrap" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        names = "__all__ = []\n" if file.name == "__init__.py" else ""
        file.write_text(sound + names + body, encoding="utf-8")
    modules = read_modules(tmp_path)
    assert [breach for each in RULES for breach in each(modules)] == []

    file = tmp_path / "extrap" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(sound + rooms.get(path, "") + code + "\n", encoding="utf-8")
    assert rule(read_modules(tmp_path)) != []
