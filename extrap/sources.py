"""What a training function is made of: it and all that it speaks of in its own file, hashed.

Two versions that differ in comments, docstrings or layout alone are the same. What comes from
other files, such as imported modules and data, is not looked at.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["describe_source"]

SHORT = 60
"""A definition no longer than this is told as it stands; of others a hash."""
DIGITS = 12


def describe_source(function: Callable[..., Any], *, known_as: str) -> dict[str, str]:
    """Name → text or hash of every definition that a function rests on, in its own file.

    Args:
        function: The function; of another kind of callable its class.
        known_as: The name it has in the study file, for one that has no name of its own.

    Returns:
        The function and, however deep, the functions, classes and constants of its file that it
        speaks of. Empty where there is no source to read, as of a compiled function.
    """
    inner = inspect.unwrap(function)
    inner = getattr(inner, "func", inner)  # of a partial
    inner = inner if hasattr(inner, "__qualname__") else type(inner)
    try:
        file = inspect.getsourcefile(inner)
        if file is None:
            return {}
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError, SyntaxError):
        return {}
    defined = _definitions(tree)
    first = str(inner.__qualname__).partition(".")[0]
    start = first if first in defined else known_as
    return {name: _told(defined[name]) for name in sorted(_reachable(start, defined))}


def _definitions(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Name → the statements of a file that give it its value; imports are left out."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        names: list[str] = []
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names = [name]
            case ast.AsyncFunctionDef(name=name):
                names = [name]
            case ast.Assign(targets=targets):
                names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
                names = [name]
        for name in names:
            found.setdefault(name, []).append(statement)
    return found


def _reachable(start: str, defined: Mapping[str, list[ast.stmt]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in defined and name not in seen:
            seen.add(name)
            waiting += [
                node.id
                for statement in defined[name]
                for node in ast.walk(statement)
                if isinstance(node, ast.Name)
            ]
    return seen


def _told(statements: list[ast.stmt]) -> str:
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
