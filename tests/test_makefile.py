"""Two `make` at once set the environment up one after the other, and only once."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = """#!/bin/sh
echo begin >> "$PWD/log"
sleep 0.5
mkdir -p .venv/bin
printf '#!/bin/sh\\n
case "$*" in
    *+cpu) echo cpu >> log; exit $NO_CPU_BUILD;;
    *uv) echo pip-uv >> log;;
    *) echo pip >> log;;
esac
' > .venv/bin/pip
printf '#!/bin/sh\\necho uv >> log\\n' > .venv/bin/uv
printf '#!/bin/sh\\necho study >> log\\n' > .venv/bin/extrap
chmod +x .venv/bin/*
echo end >> "$PWD/log"
"""


@pytest.fixture
def project(tmp_path):
    """A copy of the Makefile, and a Python that only says what it was asked to do."""
    if not (shutil.which("make") and shutil.which("flock")):
        pytest.skip("NOT TESTED that make waits: make and flock are needed")
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / "python"
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    return tmp_path


def start(project, *more, no_cpu_build=1):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.Popen(
        ["make", "report", f"PYTHON={project / 'python'}", "NVIDIA=driver", *more],
        cwd=project,
        env=kept | {"NO_CPU_BUILD": str(no_cpu_build)},
        stdout=subprocess.DEVNULL,
    )


def test_two_at_once_set_up_once(project):
    ends = [make.wait(600) for make in [start(project) for _ in range(3)]]
    assert ends == [0, 0, 0]
    log = (project / "log").read_text().split()
    assert log[:3] == ["begin", "end", "pip"]
    assert sorted(log[3:]) == ["study"] * 3


@pytest.mark.parametrize("choice", ["TORCH=cpu", "NVIDIA="])
@pytest.mark.parametrize(("no_cpu_build", "by_uv"), [(0, []), (1, ["pip-uv", "uv"])])
def test_a_cpu_build_of_torch_comes_first_from_pip_or_else_by_uv(
    project, no_cpu_build, by_uv, choice
):
    (project / "python").rename(project / "works")
    assert start(project, choice).wait(600) != 0  # no Python: it is made again
    assert not (project / ".venv" / "installed").exists()
    (project / "works").rename(project / "python")
    assert start(project, choice, no_cpu_build=no_cpu_build).wait(600) == 0
    log = (project / "log").read_text().split()
    assert log == ["begin", "end", "cpu", *by_uv, "pip", "study"]
    assert start(project, "TORCH=gpu").wait(600) != 0
