"""Pages of the documentation as programs: their blocks of code, run in order in one folder.

| block | what is done with it |
|---|---|
| `python` | run, in one namespace a page |
| the same, `yaml` or `csv` with `title="NAME"` | written to the file NAME, and parsed |
| `sh` | lines that begin with `extrap` or `python` are run; exit code 0, or what `# exit 1` says |
| `text` | is what the block before it prints; `…` on a line of its own stands for lines left out |

A comment `<!-- … -->` on the line before a block may change that: `<!-- given: NAME -->` runs what
the tests have under that name first, `<!-- smaller: --set … -->` adds options to `extrap study`
commands, `<!-- only parsed: WHY -->` checks commands and runs nothing, `<!-- no output: WHY -->`
says that a text is none.
"""

import ast
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from extrap.cli import cli, main

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"(?:^<!-- (?P<note>.*?) -->\n)?^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)
EXPECTED = re.compile(r"#.*?\bexit(?: code)? (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block: its language, the name of the file it is, its text, the note before it."""

    language: str
    name: str
    text: str
    note: str
    line: int

    @property
    def directive(self):
        """What the note asks for, and its argument."""
        kind, _, rest = self.note.partition(":")
        return kind.strip(), rest.strip()

    @property
    def commands(self):
        """Lines of a shell block with the exit code that each is to have."""
        found = []
        for line in self.text.replace("\\\n", " ").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                expected = EXPECTED.search(line)
                found.append((line.strip(), int(expected[1]) if expected else 0))
        return tuple(found)


def blocks_of(text):
    """All blocks of a page, in order."""
    found = []
    for match in FENCE.finditer(text):
        language, _, title = match["info"].strip().partition(" ")
        name = title.removeprefix('title="').removesuffix('"')
        line = text.count("\n", 0, match.start("info")) + 1
        about = {"language": language, "name": name, "note": match["note"] or ""}
        found.append(Block(**about, text=match["text"], line=line))
    return found


def parse_command(line):
    """Parse an `extrap …` line as click takes it, and run nothing.

    Raises:
        click.UsageError: There is no such command or option, or an argument is missing.
    """
    words, command = shlex.split(line.partition(" | ")[0], comments=True)[1:], cli
    context = click.Context(cli, info_name="extrap", **cli.context_settings)
    while isinstance(command, click.Group) and words:
        if words[0].startswith("-"):
            words = words[1:]
        else:
            name, command, words = command.resolve_command(context, words)
            context = click.Context(command, info_name=name, parent=context)
    if not isinstance(command, click.Group) and not set(words) & {"-h", "--help"}:
        command.make_context("", list(words), parent=context.parent)


def matches(shown, printed):
    """Whether a text is what was printed, but for the lines that `…` stands for."""
    lines = [line.strip() for line in shown.strip("\n").splitlines()]
    pattern = "".join("(?:.*\n)*" if line == "…" else f"{re.escape(line)}\n" for line in lines)
    whole = "".join(f"{line.strip()}\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch(pattern, whole) is not None


@dataclass(slots=True)
class Page:
    """A page, relative to the root, as it is run in a folder: its namespace, and what it printed.

    `setups` are what `given: NAME` runs first, which may put names into the namespace.
    """

    path: str
    folder: Path
    setups: Mapping[str, Callable[[dict[str, Any]], None]] = field(default_factory=dict)
    namespace: dict[str, Any] = field(default_factory=dict)
    printed: str = ""

    @property
    def text(self):
        """The page as it is written."""
        return (ROOT / self.path).read_text(encoding="utf-8")

    def run(self):
        """Run all blocks; an error names the page and the line."""
        for name in ("examples", "studies"):
            (self.folder / name).symlink_to(ROOT / name)
        for block in blocks_of(self.text):
            where = f"{self.path}:{block.line}"
            self._run_block(block, where)

    def _run_block(self, block, where):
        kind, argument = block.directive
        if kind == "given":
            assert argument in self.setups, f"{where}: nothing is given as {argument!r}"
            self.setups[argument](self.namespace)
        if block.language in ("yaml", "csv") or (block.language == "python" and block.name):
            self._write(block, where)
        elif block.language == "python":
            with redirect_stdout(io.StringIO()) as out:
                code = compile("\n" * block.line + block.text, where, "exec")
                exec(code, self.namespace)
            self.printed = out.getvalue()
        elif block.language == "sh":
            self._run_shell(block, where)
        else:
            assert block.language == "text", f"{where}: no block may be {block.language!r}"
            is_shown = kind == "no output" or matches(block.text, self.printed)
            assert is_shown, f"{where} shows what is not printed; printed was:\n{self.printed}"

    def _write(self, block, where):
        if block.language == "python":
            ast.parse(block.text, where)
        if block.language == "yaml":
            import yaml

            yaml.safe_load(block.text)
        if block.name:
            path = self.folder / block.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")

    def _run_shell(self, block, where):
        kind, argument = block.directive
        printed = []
        for line, expected in block.commands:
            if line.startswith("extrap "):
                parse_command(line)
                if kind == "only parsed":
                    continue
                words = shlex.split(line, comments=True)[1:]
                if kind == "smaller" and words[0] == "study":
                    words += shlex.split(argument)
                with redirect_stdout(io.StringIO()) as out:
                    code = main(words)
                printed.append(out.getvalue())
                assert code == expected, f"{where}: {line!r} ended with {code}\n{printed[-1]}"
            elif re.fullmatch(r"python [\w/]+\.py( .*)?", line):
                printed.append(self._run_program(line, expected))
            elif module := re.match(r"python -m (benchmarks\.\w+)", line):
                assert (ROOT / (module[1].replace(".", "/") + ".py")).is_file(), where
            else:
                check_other(line, where)
        self.printed = "".join(printed)

    def _run_program(self, line, expected):
        words = [sys.executable, *shlex.split(line, comments=True)[1:]]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(words, cwd=self.folder, env=environment, capture_output=True)
        assert done.returncode == expected, done.stderr.decode()
        return done.stdout.decode()


def check_other(line, where):
    """A line that is run by nobody: its targets of make, studies and extras exist."""
    if target := re.match(r"(?:time )?make (\S+)", line):
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        study = target[1].removeprefix("study-")
        is_there = f"\n{target[1]}:" in makefile or (ROOT / "studies" / f"{study}.py").is_file()
        assert study == "NAME" or is_there, f"{where}: {line}"
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in ",".join(re.findall(r"\.\[([a-z,]+)\]", line)).split(","):
        assert f"\n{extra} = [" in project or not extra, f"{where}: {extra}"
