from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from extrap.cli import cli

ROOT = Path(__file__).parents[2]


def completed(line: str, *, cwd: Path = ROOT) -> list[tuple[str, str]]:
    """What bash is told where the cursor stands at the end of a line: kind and text."""
    words = line.split(" ")
    asked = {
        "_EXTRAP_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "extrap"],
        env={**os.environ, **asked},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [tuple(text.split(",", 1)) for text in done.stdout.splitlines() if text]


def test_commands_and_options_are_completed():
    assert ("plain", "forecast") in completed("extrap fore")
    assert ("plain", "status") in completed("extrap study st")
    assert ("plain", "--size") in completed("extrap forecast x.csv --s")
    assert completed("extrap forecast x.csv --band f") == [("plain", "family")]


def test_columns_of_the_table_are_completed_from_its_first_line():
    line = "extrap forecast examples/sweep.csv --size wi"
    assert completed(line) == [("plain", "width")]
    assert ("plain", "lr") in completed("extrap forecast examples/sweep.csv --size width --tune ")


def test_tables_are_files_and_studies_are_those_of_the_folder():
    assert completed("extrap forecast exam") == [("file", "exam")]
    studies = completed("extrap study run studies/met")
    assert ("plain", "studies/metz.py") in studies
    assert all(text.startswith("studies/met") for _, text in studies)
    assert completed("extrap study run elsewhere/") == [("file", "elsewhere/")]


def test_names_that_a_shell_would_run_are_never_offered(tmp_path: Path):
    hostile = 'width,$(touch x),`id`,a b,"lr",;rm,x\x1b[31m\n1,2,3,4,5,6,7\n'
    (tmp_path / "odd.csv").write_text(hostile, encoding="utf-8")
    assert completed("extrap forecast odd.csv --size ", cwd=tmp_path) == [
        ("plain", "width"),
        ("plain", "lr"),
    ]


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"", b"a" * 200_000], ids=["odd", "empty", "long"]
)
def test_what_is_no_table_completes_to_nothing(tmp_path: Path, content: bytes):
    (tmp_path / "odd.csv").write_bytes(content)
    (tmp_path / "folder.csv").mkdir()
    assert completed("extrap forecast odd.csv --size ", cwd=tmp_path) == []
    assert completed("extrap forecast folder.csv --size ", cwd=tmp_path) == []
    assert completed("extrap forecast none.csv --size ", cwd=tmp_path) == []


def test_completing_imports_no_heavy_library():
    code = (
        "import os, sys\n"
        "os.environ.update(_EXTRAP_COMPLETE='bash_complete', COMP_CWORD='4',\n"
        "                  COMP_WORDS='extrap forecast examples/sweep.csv --size w')\n"
        "from extrap.cli import main\nmain([])\n"
        "print(*sorted({'numpy', 'pandas', 'optuna', 'torch', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["plain,width", ""]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_its_shell_can_read(shell: str, tmp_path: Path):
    found = CliRunner().invoke(cli, ["completion", shell], prog_name="extrap")
    assert found.exit_code == 0
    assert f"_EXTRAP_COMPLETE={shell}_complete" in found.output
    if not shutil.which(shell):
        pytest.skip(f"NOT TESTED that {shell} reads it: {shell} is not installed")
    script = tmp_path / "script"
    script.write_text(found.output, encoding="utf-8")
    subprocess.run([shell, "-n", str(script)], check=True, timeout=30)


def test_another_shell_is_refused():
    found = CliRunner().invoke(cli, ["completion", "tcsh"])
    assert found.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in found.output
