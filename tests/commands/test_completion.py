import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from extrap.cli import cli, main

ROOT = Path(__file__).parents[2]
SWEEP = "examples/sweep.csv"


@pytest.fixture
def completed(monkeypatch, capsys):
    """What bash is told where the cursor stands at the end of a line: kind and text."""

    def completed(line):
        monkeypatch.setenv("_EXTRAP_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        assert main([]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return [tuple(text.split(",", 1)) for text in captured.out.splitlines() if text]

    monkeypatch.chdir(ROOT)
    return completed


def test_commands_options_columns_and_files_are_completed(completed):
    assert ("plain", "forecast") in completed("extrap fore")
    assert ("plain", "status") in completed("extrap study st")
    read = f"extrap forecast {SWEEP}"
    assert ("plain", "--size") in completed(f"{read} --s")
    assert completed(f"{read} --band f") == [("plain", "family")]
    assert completed(f"{read} --size wi") == [("plain", "width")]
    assert ("plain", "lr") in completed(f"{read} --size width --tune ")
    assert completed("extrap forecast exam") == [("file", "exam")]
    studies = completed("extrap study run studies/met")
    assert ("plain", "studies/metz.py") in studies
    assert all(text.startswith("studies/met") for _, text in studies)
    assert completed("extrap study run away/") == [("file", "away/")]


def columns_of(table):
    return f"extrap forecast {table}.csv --size "


def test_names_that_a_shell_would_run_are_never_offered(completed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hostile = 'width,$(touch x),`id`,a b,"lr",;rm,x\x1b[31m\n1,2,3,4,5,6,7\n'
    (tmp_path / "odd.csv").write_text(hostile, encoding="utf-8")
    assert completed(columns_of("odd")) == [("plain", "width"), ("plain", "lr")]
    (tmp_path / "folder.csv").mkdir()
    assert completed(columns_of("folder")) == completed(columns_of("none")) == []
    for content in (b"\xff\xfe\x00", b"", b"a" * 200_000):
        (tmp_path / "odd.csv").write_bytes(content)
        assert completed(columns_of("odd")) == []


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
def test_the_script_is_one_that_its_shell_can_read(shell, tmp_path):
    found = CliRunner().invoke(cli, ["completion", shell], prog_name="extrap")
    assert found.exit_code == 0
    assert f"_EXTRAP_COMPLETE={shell}_complete" in found.output
    if not shutil.which(shell):
        pytest.skip(f"NOT TESTED that {shell} reads it: {shell} is not installed")
    script = tmp_path / "script"
    script.write_text(found.output, encoding="utf-8")
    subprocess.run([shell, "-n", str(script)], check=True)


def test_another_shell_is_refused():
    assert CliRunner().invoke(cli, ["completion", "tcsh"]).exit_code == 2
