"""A hook of mkdocs: a page of the Python API for each package that lists public names.

mkdocstrings fills the pages from docstrings, and that of `extrap` itself, whose entries are short
in the repository; `make docs` builds the site.
"""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "extrap"
FOLDER = "reference/api"


def packages():
    """Names of the packages whose `__all__` is not empty."""
    return [
        f"extrap.{path.parent.name}"
        for path in sorted(PACKAGE.glob("*/__init__.py"))
        if public_names(path)
    ]


def public_names(path):
    """What `__all__` of a file lists, read without importing it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(name, ast.Name) and name.id == "__all__" for name in targets):
            return ast.literal_eval(node.value)
    return []


def on_page_markdown(markdown, page, config, files):
    """Put the whole docstring in the place of each entry of `tests/python_reference.py`."""
    if page.file.src_uri != "reference/python.md":
        return markdown
    entry = r"^- `extrap\.(\w+).*\n(?:  - .*\n)*"
    return re.sub(entry, r"::: extrap.\1\n\n", markdown, flags=re.MULTILINE)


def on_config(config):
    """List the pages below "Python API"."""
    (reference,) = (entry["Reference"] for entry in config.nav if "Reference" in entry)
    (section,) = (entry["Python API"] for entry in reference if "Python API" in entry)
    section += [{name: f"{FOLDER}/{name}.md"} for name in packages()]
    return config


def on_files(files, config):
    """Add the pages; nothing is written into docs/."""
    from mkdocs.structure.files import File

    for name in packages():
        text = f"# {name}\n\n::: {name}\n    options:\n      filters: public\n"
        text += "      show_root_heading: false\n"
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content=text))
    return files
