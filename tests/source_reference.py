"""The page of all modules in reading order, made from their docstrings.

`make docs` writes it; `tests/test_docs.py` compares it with the source.
"""

import ast
from collections import Counter
from graphlib import TopologicalSorter

from extrap.files import write_text

from .pages import ROOT
from .test_structure import LEVELS, STACK, import_graph, importers_of, package

MOST_NAMES = 30
"""Importers of a library that are named one by one."""
PATH = ROOT / "docs" / "reference" / "source.md"
HEAD = """# Source tree

`make docs` makes this page from the first line of every module. In reading order: a module comes
after those that it imports, and imports only modules of its own level or of a level above it on
this page (`tests/test_structure.py`). `studies/` has study files, `examples/` tables and scripts,
`benchmarks/` what the measurements run, `tests/` the published numbers and golden outputs as well.
"""


def source_page():
    """Markdown: one section per level, one line per module."""
    modules = {module.name: module for module in package()}
    graph = import_graph(package())
    known = {name: sorted(graph[name] & modules.keys() - {name}) for name in sorted(modules)}
    order = list(TopologicalSorter(known).static_order())
    parts = [HEAD]
    for level in LEVELS:
        sections = level.split()
        names = ", ".join(f"`{each}`" for each in sections)
        parts.append(f"## {names}\n")
        for each in sections:
            parts += [_line(modules[name]) for name in order if modules[name].part == each]
        parts.append("")
    return "\n".join([*parts, _line(modules[""]), "", *_libraries()])


def _libraries():
    """Which modules import each library that the package stands on."""
    yield "## Libraries\n"
    for library in STACK:
        names = importers_of(library, package())
        if len(names) > MOST_NAMES:
            counts = Counter(name.partition(".")[0] for name in names)
            listed = ", ".join(f"`{part}` ({n})" for part, n in counts.items())
            yield f"- {library}: {len(names)} modules of {listed}"
        else:
            yield f"- {library}: {', '.join(f'`{name}`' for name in names)}"
    yield ""


def _line(module):
    path = module.name.replace(".", "/") + ("/__init__.py" if module.is_package else ".py")
    first = (ast.get_docstring(module.tree) or "").partition("\n\n")[0].replace("\n", " ")
    return f"- `{path.strip('/')}`: {first}"


if __name__ == "__main__":
    write_text(PATH, source_page())
