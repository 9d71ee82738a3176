"""The README is true: its code runs, its tree is the tree, its commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from extrap.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_python_example_runs_and_says_what_its_last_comment_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    (code,) = blocks("python")
    assert len([line for line in code.splitlines() if line and line[0] not in "#"]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    loss, rate, causes = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"1\.\d\d \[1\.\d+, 1\.\d+\]", loss)
    assert re.fullmatch(r"0\.00\d+ \(\)", rate)
    assert "'mistuned'" in causes


def test_shell_examples_on_the_shipped_tables_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("extrap ")]
    assert [command[1] for command in commands] == ["forecast", "check", "report"]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert [main(command[1:]) for command in commands] == [0, 1, 0]
    assert (tmp_path / "reports" / "mine.html").is_file()


def test_file_tree_names_what_is_there() -> None:
    tree = README.split("## Where everything lives")[1].split("```")[1].strip()
    for line in tree.splitlines():
        name = line.split()[0]
        folder = ROOT / "extrap" if line.startswith("  ") else ROOT
        assert (folder / name).exists(), name


def test_targets_and_pictures_that_it_mentions_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([a-z-]+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert (ROOT / picture).is_file(), picture
