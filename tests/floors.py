"""`python -m tests.floors`: constraints that install the oldest version of each library we allow.

torch is the one of constraints.txt: older ones come with gigabytes of CUDA.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def floors(extra="train"):
    """`name==version` of every library that the core and an extra need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"][extra]]
    found = dict(re.fullmatch(r"([\w-]+)>=([\d.]+).*", each).groups() for each in needed)
    found["torch"] = re.search(r"^torch==(\S+)", (ROOT / "constraints.txt").read_text(), re.M)[1]
    return [f"{name}=={version}" for name, version in sorted(found.items())]


if __name__ == "__main__":
    sys.stdout.write("\n".join(floors()) + "\n")
