"""An analysis is one folder and one line: docs/tutorials/own_analysis.md in a copy of extrap."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from .pages import ROOT, blocks_of, matches

PAGE = ROOT / "docs/tutorials/own_analysis.md"
MOST_LINES = 60


def blocks():
    return blocks_of(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package, without the analysis, and a function that runs its commands."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "extrap", folder / "extrap", ignore=shutil.ignore_patterns("*.pyc"))
    (folder / "examples").symlink_to(ROOT / "examples")

    def run(line):
        words = line.split()[1:]
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        return subprocess.run(
            [sys.executable, "-m", "extrap", *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )

    return folder, run


def test_it_is_short():
    code = [b.text for b in blocks() if b.name.startswith("extrap/")]
    lines = [line for text in code for line in text.splitlines() if line.strip()]
    assert len(code) == 6
    assert len(lines) <= MOST_LINES


def test_without_the_line_nothing_knows_it_and_with_it_everything_does(copy):
    folder, run = copy
    for block in blocks():
        if block.name:
            path = folder / block.name
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    before = run("extrap seed-spread examples/sweep.csv")
    assert (before.returncode, "no command" in before.stderr) == (2, True)
    listing = folder / "extrap/analyses/__init__.py"
    text, n = re.subn(r"\n\)\n", '\n    "seed_spread",\n)\n', listing.read_text(encoding="utf-8"))
    assert n == 1
    listing.write_text(text, encoding="utf-8")
    assert "seed-spread" in run("extrap --help").stdout
    printed = ""
    for block in blocks():
        if block.language == "sh":
            (line,) = block.text.splitlines()
            done = run(line)
            assert done.returncode == 0, done.stderr
            printed = done.stdout
        elif block.language == "text":
            assert matches(block.text, printed), printed
    assert "seed spread" in (folder / "reports/index.html").read_text(encoding="utf-8")
    once = folder / "once.csv"
    once.write_text("width,lr,loss,seed\n8,.1,2,0\n8,.1,2.1,1\n16,.1,1.9,0\n")
    flagged = run("extrap seed-spread once.csv")
    assert "[not-repeated (16)]" in flagged.stdout, flagged.stdout + flagged.stderr
    printed = json.loads(run("extrap seed-spread once.csv --json").stdout)
    assert (printed["flags"], printed["flag_meanings"]["not-repeated"]["action"]) == (
        ["not-repeated: 16"],
        "Add seeds.",
    )


def test_the_program_of_the_examples_prints_json():
    words = [sys.executable, "examples/own/analysis.py", "examples/sweep.csv", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, check=True)
    printed = json.loads(done.stdout)
    spread = max(printed["by_size"].values())
    assert (printed["kind"], round(spread, 3)) == ("seed-spread", 0.017)
