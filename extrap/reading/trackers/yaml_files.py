"""Settings in YAML and those that Hydra wrote beside a run; the only importer of `yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from extrap.reading.frames import single_values
from extrap.reading.settings import as_number


def hydra_settings(root: Path, home: Path) -> dict[str, Any]:
    """What Hydra set, by its folder beside a run, or above that in the folder that is read."""
    for folder in (home, *home.parents):
        if (folder / ".hydra").is_dir():
            config = read_yaml(folder / ".hydra/config.yaml")
            overrides = read_yaml(folder / ".hydra/overrides.yaml", list)
            pairs = [str(text).lstrip("+").partition("=") for text in overrides]
            settings = {key: as_number(value.strip("'\"")) for key, _, value in pairs}
            settings = {k: v for k, v in settings.items() if v != "" and not k.startswith("~")}
            return {**single_values(config), **settings}
        if folder == root:
            break
    return {}


def read_yaml(path: Path, kind: type = dict) -> Any:
    """What a file holds, empty where it is missing or would make objects of Python's."""
    if not path.is_file():
        return kind()
    import yaml

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8", errors="replace"))
    except (yaml.YAMLError, ValueError):
        return kind()
    return found if isinstance(found, kind) else kind()
