"""The training function of a study file, with the hashes of the files that it rests on."""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extrap.records.study import TrainFunction
from extrap.study_folders import beside, by_value, enter, is_installed, receive

FINGERPRINT_DIGITS = 12
"""Hexadecimal digits of the SHA-256 hash of a file in a fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyFunction:
    """A training function whose source is part of its study's fingerprint.

    Attributes:
        function: The function.
        name: Its name.
        source: File → hash of its content: the study file without its study, the modules beside
            it that are imported, and the file of the function. Any edit counts, of a comment too;
            installed libraries do not.
        folder: The folder of the study file.
        beside: Modules there that it may import: path relative to the folder → source.
    """

    function: TrainFunction
    name: str
    source: Mapping[str, str] = field(default_factory=dict)
    folder: Path
    beside: Mapping[str, bytes] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        """As bytes by value, with the modules beside the study file as source."""
        enter(self.folder)
        function = by_value(self.function)
        return _restored, (function, self.name, self.source, self.folder, self.beside)

    def __call__(self, size: Mapping[str, float], tuned: Mapping[str, float], seed: int) -> Any:
        """What the function returns."""
        enter(self.folder)
        return self.function(size, tuned, seed)


def _restored(
    function: bytes,
    name: str,
    source: Mapping[str, str],
    folder: Path,
    beside: Mapping[str, bytes],
) -> StudyFunction:
    """A function on a worker, whose modules beside it are those of the driver."""
    import cloudpickle  # noqa: TID251

    receive(folder, beside)
    try:
        loaded = cloudpickle.loads(function)
    except Exception as error:
        error.folder = folder  # type: ignore[attr-defined]  # for who says what is missing
        raise
    return StudyFunction(function=loaded, name=name, source=source, folder=folder, beside=beside)


def study_function(
    function: TrainFunction, *, study: str | Path, names: Collection[str] = ("STUDY",)
) -> StudyFunction:
    """A training function of a study file, with what distinguishes it from an earlier version.

    Args:
        function: `train(size, tuned, seed)`.
        study: The study file.
        names: Names of studies there, which may get further sizes and seeds.
    """
    file = Path(study).resolve()
    inner: Any = inspect.unwrap(function)
    inner = getattr(inner, "func", inner)  # of a partial
    inner = inner if hasattr(inner, "__qualname__") else type(inner)
    defined = file
    with suppress(TypeError):  # a compiled function has no file
        defined = Path(inspect.getsourcefile(inner) or file)
    is_foreign = is_installed(defined)
    modules = beside(file.parent, [file] if is_foreign else [file, defined.resolve()])
    files = {file.name: file, **modules}
    if not (is_foreign or defined.resolve() in files.values()):
        files[inner.__module__] = defined
    return StudyFunction(
        function=function,
        name=getattr(function, "__qualname__", type(function).__qualname__),
        source={name: _hash(path, names if path == file else ()) for name, path in files.items()},
        folder=file.parent,
        beside={name: path.read_bytes() for name, path in modules.items()},
    )


def _hash(path: Path, names: Collection[str]) -> str:
    """Hash of a file without the statements that give these names their values."""
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    for node in ast.parse(content).body if names else ():
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id in names for target in targets):
            last = node.end_lineno or node.lineno
            lines[node.lineno - 1 : last] = [b""] * (last - node.lineno + 1)
    return hashlib.sha256(b"".join(lines)).hexdigest()[:FINGERPRINT_DIGITS]
