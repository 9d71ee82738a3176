"""What a training function is made of: it and all that it speaks of, hashed.

Of its own file these are the definitions that it speaks of, of the folder of its study file whole
modules that these import, however deep. Two versions that differ in comments, docstrings or layout
alone are the same. Installed libraries and data are not looked at.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from extrap.records import TrainFunction
from extrap.records.own_training import StudyFunction
from extrap.study_folders import beside, imported, syntax_tree

SHORT = 60
"""A definition no longer than this is told as it stands; of others a hash."""
DIGITS = 12


def describe_source(
    function: Callable[..., Any], *, known_as: str, study: str | Path | None = None
) -> dict[str, str]:
    """Name → text or hash of every definition and module that a function rests on.

    Args:
        function: The function; of another kind of callable its class.
        known_as: The name it has in the study file, for one that has no name of its own.
        study: The study file, where the statement that gives it this name counts too, unless it
            only names the function: `TRAIN = partial(fit, k=2)` does, `TRAIN = fit` does not.

    Returns:
        The function and, however deep, the functions, classes and constants of its file that it
        speaks of, with all statements that give them their values; and the modules beside the
        study file that these import. Empty where there is no source to read, as of a compiled
        function.
    """
    inner = inspect.unwrap(function)
    inner = getattr(inner, "func", inner)  # of a partial
    inner = inner if hasattr(inner, "__qualname__") else type(inner)
    try:
        file = inspect.getsourcefile(inner)
    except TypeError:
        return {}
    first = str(inner.__qualname__).partition(".")[0]
    starts = [] if study is None else [(Path(study), known_as, known_as)]
    starts += [] if file is None else [(Path(file), first, known_as)]
    files = [place for place, _, _ in starts]
    parts: dict[str, str] = {}
    modules: list[Path] = []
    for place, start, otherwise in starts:
        tree = syntax_tree(place)
        defined = _definitions(tree)
        start = start if start in defined else otherwise
        names = _reachable(start, defined)
        nodes = _imports(tree, {start, *_spoken_of(s for name in names for s in defined[name])})
        modules += [m for m in imported(files[0].parent, place, nodes) if m not in files]
        if start in names and all(map(_is_alias, defined[start])):
            names.remove(start)
        parts |= {name: _as_text(defined[name]) for name in sorted(names)}
    for module in dict.fromkeys([*modules, *beside(files[0].parent, modules).values()]):
        if module not in files and (tree := syntax_tree(module)).body:
            name = module.relative_to(files[0].parent).as_posix()
            parts[name] = _as_text(tree.body[ast.get_docstring(tree) is not None :])
    return parts


def study_function(function: TrainFunction, *, known_as: str, study: str | Path) -> StudyFunction:
    """A training function of a study file, with what tells it from an earlier version.

    Args:
        function: `train(size, tuned, seed)`.
        known_as: The name it has in the study file.
        study: The study file.
    """
    file = Path(study).resolve()
    return StudyFunction(
        function=function,
        name=getattr(function, "__qualname__", type(function).__qualname__),
        source=describe_source(function, known_as=known_as, study=file),
        folder=file.parent,
        beside={n: f.read_bytes() for n, f in beside(file.parent, [file]).items()},
    )


def _imports(tree: ast.Module, names: Container[str]) -> list[ast.AST]:
    """The statements of a file that import what has one of these names, or all of a module."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(a.name == "*" or (a.asname or a.name).split(".")[0] in names for a in node.names)
    ]


def _spoken_of(statements: Iterable[ast.stmt]) -> set[str]:
    """The names in some statements."""
    return {n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)}


def _is_alias(statement: ast.stmt) -> bool:
    """Whether a statement gives what has a name already another one."""
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name)


def _definitions(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Name → the statements of a file that give it its value; imports are left out."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in dict.fromkeys(_bound(statement)):
            found.setdefault(name, []).append(statement)
    return found


def _bound(node: ast.AST) -> list[str]:
    """The names that a statement binds or changes, within `if`, `for`, `with` and the like too."""
    match node:
        case (
            ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name)
        ):
            return [name]
        case ast.Lambda():
            return []
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            return [name, *_bound(value)]
        case ast.Assign(targets=targets):
            places: list[ast.expr] = targets
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            places = [target]
        case ast.For(target=target) | ast.AsyncFor(target=target):
            places = [target]
        case ast.withitem(optional_vars=ast.expr() as target):
            places = [target]
        case _:
            places = []
    names = [n.id for place in places for n in ast.walk(place) if isinstance(n, ast.Name)]
    return names + [name for child in ast.iter_child_nodes(node) for name in _bound(child)]


def _reachable(start: str, defined: Mapping[str, list[ast.stmt]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in defined and name not in seen:
            seen.add(name)
            waiting += _spoken_of(defined[name])
    return seen


def _as_text(statements: list[ast.stmt]) -> str:
    """Statements without comments and docstrings, or the hash of that."""
    text = "; ".join(ast.unparse(_without_docstrings(statement)) for statement in statements)
    if len(text) <= SHORT and "\n" not in text:
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _without_docstrings(statement: ast.stmt) -> ast.stmt:
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            body = node.body
            if ast.get_docstring(node, clean=False) is not None:
                node.body = body[1:] or [ast.Pass()]
    return statement
