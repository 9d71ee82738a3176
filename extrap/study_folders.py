"""Modules beside a study file, importable as when Python runs the file itself.

The folder of the study file comes first on `sys.path`, until a study file of another folder is
opened: its modules then leave `sys.modules`, and come back when a function of the study is called.
A worker of a cluster gets the source of these modules with the function; it writes no file.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

from extrap import registry

STUDY_FILES = "extrap_study_"
"""Beginning of the names of modules that study files are imported as."""
INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
"""Where modules lie that no study file replaces once they are imported."""
MOST_FILES_NAMED = 8
"""Python files, of the nearest names, that an error lists."""
PACKAGE = __name__.partition(".")[0]
"""The package's own name, whose modules are of no study folder."""
_FOLDERS_LOCK = RLock()
_ENTERED: list[tuple[Path, frozenset[str]]] = []
"""The folder whose turn it is, and the modules that were there before."""
_AWAY: dict[Path, dict[str, ModuleType]] = {}
"""Modules of folders whose turn it is not."""
_HIDDEN_MODULES: dict[str, ModuleType] = {}
"""Modules from elsewhere, of the names of those of the folder whose turn it is."""
_SENT: dict[Path, _Sent] = {}
"""On a worker: what the driver sent of its folders."""


class _Sent(MetaPathFinder, SourceLoader):  # type: ignore[misc]  # of its types alone
    """Imports the modules of a folder from their sources.

    Args:
        folder: The folder, on the driver's machine.
        sources: Path relative to it → source.
    """

    def __init__(self, folder: Path, sources: Mapping[str, bytes]) -> None:
        self._folder, self.sources = folder, dict(sources)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module is, if it is one of these."""
        module_path = name.replace(".", "/")
        if {f"{module_path}.py", f"{module_path}/__init__.py"} & set(self.sources):
            return spec_from_file_location(name, self.get_filename(name), loader=self)
        if not any(source.startswith(f"{module_path}/") for source in self.sources):
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(self._folder / module_path)]
        return spec

    def get_filename(self, name: str) -> str:
        """The file of a module on the driver's machine."""
        module_path = name.replace(".", "/")
        package = f"{module_path}/__init__.py"
        return str(self._folder / (package if package in self.sources else f"{module_path}.py"))

    def get_data(self, path: str) -> bytes:
        """The source of a file."""
        return self.sources[Path(path).relative_to(self._folder).as_posix()]


def enter(folder: Path) -> None:
    """Make the modules of a folder those that are imported, unless they are already.

    From then on this process writes no bytecode: it is compared with its source by whole seconds
    and bytes only.
    """
    sys.dont_write_bytecode = True
    with _FOLDERS_LOCK:
        if _ENTERED and _ENTERED[0][0] == folder:
            return
        _leave()
        if (sent := _SENT.get(folder)) is not None:
            names = {Path(name.partition("/")[0]).stem for name in sent.sources}
            sys.meta_path.insert(0, sent)
        else:
            names = {path.stem for path in folder.glob("*.py")}
            names |= {path.parent.name for path in folder.glob("*/__init__.py")}
            sys.path.insert(0, str(folder))
        _HIDDEN_MODULES.update(
            _take(lambda n, m: n in names and not _is_installed(m) and not _is_of(m, folder))
        )
        _ENTERED.append((folder, frozenset(sys.modules)))
        sys.modules.update(_AWAY.pop(folder, {}))


@contextmanager
def loading(folder: Path) -> Iterator[None]:
    """Within the block a study file is loaded: the modules beside it are imported anew."""
    with _FOLDERS_LOCK:
        _leave()
        _AWAY.pop(folder, None)
        _SENT.pop(folder, None)
        enter(folder)
        yield


def receive(folder: Path, sources: Mapping[str, bytes]) -> None:
    """On a worker: make the modules that a driver sent those that are imported."""
    with _FOLDERS_LOCK:
        if folder not in _SENT or _SENT[folder].sources != sources:
            _leave()
            _AWAY.pop(folder, None)
            _SENT[folder] = _Sent(folder, sources)
        enter(folder)


def by_value(thing: Any) -> bytes:
    """An object as bytes for another process: what study files define is in them."""
    import cloudpickle  # noqa: TID251  # whoever gets it runs what it is sent anyway

    with _FOLDERS_LOCK:
        there = cloudpickle.list_registry_pickle_by_value()  # of a call that this one is within
        names = [n for n in list(sys.modules) if n.startswith(STUDY_FILES) and n not in there]
        modules = [sys.modules[name] for name in names]
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
        try:
            return bytes(cloudpickle.dumps(thing))
        finally:
            for module in modules:
                cloudpickle.unregister_pickle_by_value(module)


def beside(folder: Path, starts: Iterable[Path]) -> dict[str, Path]:
    """Modules of a folder that Python files import, however deep: path relative to it → file."""
    modules: dict[str, Path] = {}
    waiting = list(starts)
    while waiting:
        for path in _imported(folder, waiting.pop()):
            if (name := path.relative_to(folder).as_posix()) not in modules:
                modules[name] = path
                waiting.append(path)
    return modules


def _imported(folder: Path, file: Path) -> Iterator[Path]:
    """Files of a folder that the import statements of a file load, those of packages too."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, ValueError, SyntaxError):  # importing it says so
        return
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            is_inside = node.level and file.is_relative_to(folder)
            above = file.relative_to(folder).parts[: -node.level] if is_inside else ()
            base = ".".join(filter(None, [*above, node.module]))
            names += [base, *(f"{base}.{alias.name}".strip(".") for alias in node.names)]
    for parts in (name.split(".") for name in names if name.partition(".")[0] != PACKAGE):
        for module_path in (folder.joinpath(*parts[: i + 1]) for i in range(len(parts))):
            paths = (module_path.parent / f"{module_path.name}.py", module_path / "__init__.py")
            yield from (path for path in paths if path.is_file())


def require_study_file(path: Path) -> None:
    """Raise a `ValueError` unless a path is that of a Python file."""
    if not path.is_file():
        from difflib import get_close_matches  # of an error alone

        here = path.parent if path.parent.is_dir() else Path()
        names = sorted(p.name for p in here.glob("*.py"))
        nearest = get_close_matches(path.name, names, n=MOST_FILES_NAMED, cutoff=0.0)
        python_files = ", ".join(str(here / name) for name in nearest) or "none"
        raise ValueError(f"study file {path} does not exist; Python files there: {python_files}.")
    if path.suffix != ".py":
        raise ValueError(f"a study file is a Python file that ends in .py, got {path}.")


def name_in(path: Path) -> str:
    """The name of the study in a file, from its text; empty where the text does not say it.

    The record of the study is the first of `registry.kinds`, else that of a kind which the file
    defines, else the only one with a name.
    """
    require_study_file(path)
    try:
        body = ast.parse(path.read_bytes()).body
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"{path} cannot be read: {error}; correct it.") from error
    records: dict[str, ast.Call] = {}
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(targets[0], ast.Name) and isinstance(value, ast.Call):
            records[targets[0].id] = value
    names = {variable: _name_of(variable, records) for variable in records}
    defined_symbols = [
        node.value.value
        for kind in body
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and [getattr(target, "id", "") for target in node.targets] == ["symbol"]
    ]
    for symbol in (*registry.kinds(), *defined_symbols):
        if symbol in records:
            return names[symbol] or _first_text(records[symbol])
    named = list(filter(None, names.values()))
    return named[0] if len(named) == 1 else ""


def _first_text(call: ast.Call) -> str:
    """The first argument of a call, if it is a text."""
    value = getattr(call.args[0], "value", "") if call.args else ""
    return value if isinstance(value, str) else ""


def _name_of(variable: str, records: Mapping[str, ast.Call]) -> str:
    """The text of `name=` in a call, or in that of the record which the call is given first."""
    call = records[variable]
    for keyword in call.keywords:
        if keyword.arg == "name":
            return str(keyword.value.value) if isinstance(keyword.value, ast.Constant) else ""
    first = getattr(call.args[0], "id", "") if call.args else ""
    others = {name: record for name, record in records.items() if name != variable}
    return _name_of(first, others) if first in others else ""


def import_words(error: BaseException, folder: Path) -> str:
    """What loading a training raised, with the file of the folder and its line; one line."""
    message = " ".join(f"{type(error).__name__}: {error}".split())
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(folder) and not is_installed(file):
            # an error of syntax names its file itself
            where = f" ({file.relative_to(folder)}, line {frame.lineno})"
            return message if isinstance(error, SyntaxError) else message + where
    return message


def _leave() -> None:
    """End the turn of a folder."""
    if not _ENTERED:
        return
    folder, before = _ENTERED.pop()
    _AWAY[folder] = _take(lambda name, module: name not in before and _is_of(module, folder))
    if folder in _SENT:
        sys.meta_path.remove(_SENT[folder])
    elif str(folder) in sys.path:
        sys.path.remove(str(folder))
    sys.modules.update(_HIDDEN_MODULES)
    _HIDDEN_MODULES.clear()


def _take(is_taken: Callable[[str, ModuleType], bool]) -> dict[str, ModuleType]:
    """Take modules out of `sys.modules`, packages with their parts."""
    tops = [n for n in sys.modules if "." not in n and not n.startswith(STUDY_FILES)]
    whole = {name for name in tops if is_taken(name, sys.modules[name])}
    names = [name for name in sys.modules if name.partition(".")[0] in whole]
    return {name: sys.modules.pop(name) for name in names}


def _is_of(module: ModuleType, folder: Path) -> bool:
    """Whether a module lies in a folder; a package lies in that above its own."""
    file, places = getattr(module, "__file__", None), list(getattr(module, "__path__", ()))
    path = Path(places[0] if places else file or "/")
    return path.parent == folder


def _is_installed(module: ModuleType) -> bool:
    """Whether a module is Python's, of an installed library, or of ours."""
    file, is_ours = getattr(module, "__file__", None), module.__name__ in ("__main__", PACKAGE)
    return file is None or is_ours or is_installed(file)


def is_installed(file: str | Path) -> bool:
    """Whether a file is Python's or of an installed library."""
    return str(file).startswith(INSTALLED)
