"""Study files: the study of any kind that a Python file defines, and the kinds there are."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

from extrap import registry
from extrap.files import import_source
from extrap.study.protocol import Kind
from extrap.study_folders import STUDY_FILES, import_words, loading, require_study_file


def open_study(
    path: str | Path, *, assignments: Sequence[str] = (), symbol: str | None = None
) -> Kind:
    """The study that a file defines; the file is imported once.

    It may import modules from its own folder, which comes first on `sys.path` from now on.

    Args:
        path: The file.
        assignments: `KEY=VALUE`, as of `extrap study run --set`.
        symbol: The kind, if it is known.

    Raises:
        ValueError: There is no such file, it cannot be imported or defines no study, or an
            assignment fits no field.
    """
    path = Path(path)
    module = file_module(path)
    kinds = registry.kinds()
    other_kinds = {name: kind.record for name, kind in Kind.by_symbol.items() if name not in kinds}
    names = [
        n for n, record in other_kinds.items() if isinstance(getattr(module, n, None), record)
    ]
    names += [n for n in kinds if getattr(module, n, None) is not None]
    if not (symbol or names):
        raise ValueError(
            f"a study file defines one of {', '.join(kinds)}, {path} defines none of them; write "
            "STUDY = StudySpec(…) or another of these."
        )
    return kind_of(symbol or names[0]).of_module(module, path, assignments)


def kind_of(symbol: str) -> type[Kind]:
    """The kind that study files know by a symbol."""
    if symbol not in Kind.by_symbol and (home := registry.kinds().get(symbol)):
        import_module(home)
    return Kind.by_symbol[symbol]


def file_module(path: str | Path) -> ModuleType:
    """A study file, or a file with models, as a module.

    Raises:
        ValueError: There is no such file, or it cannot be imported.
    """
    path = Path(path)
    require_study_file(path)
    folder = path.resolve().parent
    try:
        with loading(folder):
            return import_source(path, f"{STUDY_FILES}{path.stem}")
    except (Exception, SystemExit) as error:  # a script may exit on import
        raise ValueError(
            f"{path} cannot be imported: {import_words(error, folder)}; correct it, or install "
            "what it needs."
        ) from error
