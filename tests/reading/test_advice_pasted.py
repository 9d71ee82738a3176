"""Commands that errors propose: each is run as it is pasted, and answers or asks."""

import io
import itertools
import math
import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click
import pandas as pd
import pytest

import extrap.cli
from extrap.errors import DataError, ExtrapError

from .messy import isoflop, sweep, two
from .test_cases import CASES

MOST_CHOICES, MOST_LEVELS = 4, 3
WITHIN = re.compile(r"write (--\S+ (?:'[^']*'|[^\s;.]+))")
"""Options that a message proposes in its text."""
SHARED = (CASES, CASES.with_name("cases2"))


class Terminal:
    """Runs commands in this process and keeps what they raise."""

    def __init__(self, monkeypatch):
        self.error = None
        self.answers = {}
        run = extrap.cli.cli.main

        def main(**given):
            try:
                return run(**given)
            except Exception as error:
                self.error = error
                raise

        monkeypatch.setattr(extrap.cli.cli, "main", main)

    def answer(self, command):
        """The exit code, the message and the commands that it proposes."""
        if command not in self.answers:
            self.error, out, err = None, io.StringIO(), io.StringIO()
            with redirect_stdout(out), redirect_stderr(err):
                code = extrap.cli.main(list(command))
            lines = err.getvalue().splitlines()
            proposed = [tuple(shlex.split(c, comments=True)[1:]) for c in lines if c[:2] == "  "]
            message = next((line for line in lines if line.startswith("extrap: ")), "")
            inline = [shlex.split(words) for words in WITHIN.findall(message)]
            proposed += [(*command, *words) for words in inline]
            self.answers[command] = code, message, proposed, self.error
        return self.answers[command]


def faults(terminal, command, path=()):
    """What is wrong with the commands that are proposed from a command on, one line each."""
    code, message, proposed, error = terminal.answer(command)
    line = f"{shlex.join(command)} → {code}: {message}"
    if code in (0, 1):
        return []
    if isinstance(error, click.ClickException) or not isinstance(error, ExtrapError):
        return [f"no question: {line}"] if path else []
    earlier = [terminal.answer(ancestor) for ancestor in path]
    if message in [answer[1] for answer in earlier]:
        return [f"the same question again: {line}"]
    if proposed and {*proposed} <= {*path, command}:
        return [f"proposes only what led to it: {line}"]
    if repeated := [c for c in proposed if len({*pairs(c)}) < len(pairs(c))]:
        return [f"an option twice: {shlex.join(repeated[0])}"]
    if len(path) == MOST_LEVELS:
        return []
    children = proposed[:MOST_CHOICES]
    return [fault for child in children for fault in faults(terminal, child, (*path, command))]


def pairs(command):
    """The options of a command with their values."""
    return [(a, b) for a, b in itertools.pairwise(command) if a.startswith("--")]


def renamed(**names):
    return sweep(seeds=(0,)).rename(columns=names)


def larger(**cells):
    """One run at four times the largest width, on the law, under the names of the cells."""
    values = {"width": 2048, "lr": 0.0025, "seed": 0, "loss": 2.0}
    return pd.DataFrame([{cells.get(c, c): v for c, v in values.items() if cells.get(c, c)}])


def perplexities():
    table = larger(loss="val_ppl")
    return table.assign(val_ppl=math.exp(1.98))


def logarithms():
    table = isoflop()
    logs = {f"log10_{n}": table[c].map(math.log10) for n, c in zip("ND", table, strict=False)}
    return pd.DataFrame({**logs, "loss": table["loss"]})


TABLES = {
    "sweep": lambda: sweep(seeds=(0,)),
    "symbols": lambda: isoflop().rename(columns={"n_params": "N", "n_tokens": "D", "flops": "C"}),
    "logarithms": logarithms,
    "rate": lambda: renamed(lr="knob", width="h"),
    "warm_ups": lambda: two("warmup_steps", (100, 500)),
    "schedules": lambda: two("schedule", ("cosine", "wsd"), seeds=((0,), (0,))),
    "no_loss": lambda: renamed(loss="quality"),
    "scores": lambda: renamed(loss="score").assign(score=lambda t: 1 / t["score"]),
    "millions": lambda: isoflop().assign(n_params=lambda t: t["n_params"] / 1e6),
    "steps": lambda: isoflop()[["n_params", "n_tokens", "loss"]].assign(tokens=7),
    "random": lambda: renamed().assign(beta=lambda t: 0.1 + 0.01 * (7 * t.index % 24)),
    "data": lambda: pd.concat(
        [isoflop().assign(dataset=d, loss=lambda t: t["loss"]) for d in "ab"]
    ),
    "n_embd": lambda: larger(width="n_embd"),
    "depth": lambda: larger(width="depth"),
    "upper_case": lambda: larger(width="Width", lr="Learning Rate", loss="Loss"),
    "val_loss": lambda: larger(loss="final val loss", seed=""),
    "perplexity": perplexities,
    "bits": lambda: larger(loss="val_bpb"),
    "two_losses": lambda: larger(loss="val_loss").assign(test_loss=2.1),
    "no_rate": lambda: larger(lr="", seed=""),
}
"""Name → a table of a kind that users have."""
QUICK = [
    *("forecast warm_ups.csv", "forecast sweep.csv --size depth --tune lr", "forecast steps.csv"),
    *("check sweep.csv n_embd.csv", "check sweep.csv perplexity.csv", "forecast no_loss.csv"),
    *("forecast random.csv --size width --tune lr", "forecast random.csv --at 512"),
]
COMMANDS = [
    *(f"forecast {name}.csv" for name in list(TABLES)[:12]),
    *(f"check sweep.csv {name}.csv" for name in list(TABLES)[12:]),
    *("allocate symbols.csv --flops 1e21", "allocate data.csv --flops 1e21"),
    *("allocate logarithms.csv --flops 1e21", "allocate millions.csv --flops 1e21"),
    *("forecast sweep.csv --size widht", "forecast sweep.csv --maximise accuracy"),
    *("forecast sweep.csv --loss val_loss", "forecast sweep.csv --tune rate --size width"),
    *("check sweep.csv n_embd.csv --size n_embd", "check sweep.csv n_embd.csv --size width"),
    *("check sweep.csv perplexity.csv --loss val_ppl", "compare warm_ups.csv --by schedule"),
    *("compare sweep.csv n_embd.csv", "compare schedules.csv --by schedule"),
    *("critical-batch sweep.csv", "plan warm_ups.csv --at 2x"),
    "knobs sweep.csv --size n --knob lr",
]


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, make in TABLES.items():
        make().to_csv(f"{name}.csv", index=False)


@pytest.mark.parametrize(
    "command",
    [*QUICK, *(pytest.param(c, marks=pytest.mark.slow) for c in COMMANDS if c not in QUICK)],
)
def test_what_is_proposed_works(command, tables, monkeypatch):
    assert faults(Terminal(monkeypatch), tuple(shlex.split(command))) == []


def shared_commands():
    """Commands on every table and folder that is here."""
    places = [p for folder in SHARED if folder.is_dir() for p in sorted(folder.iterdir())]
    places = [str(p) for p in places if p.suffix != ".md"]
    sweep_w = str(SHARED[1] / "sweep_w.csv")
    for place in places:
        name = Path(place).stem
        yield ("forecast", place)
        if name.startswith("check_"):
            yield ("check", sweep_w, place)
        elif not name.startswith(("own_", "watch_")):
            yield ("allocate", place, "--flops", "1e22")
        if name in ("mixed_arms", "gate"):
            yield ("compare", place, "--by", "recipe" if name == "gate" else "optimizer")


@pytest.mark.slow
def test_what_is_proposed_of_the_cases_works(monkeypatch):
    commands = list(shared_commands())
    if not commands:
        pytest.skip("the tables are not here (../shared/cases, ../shared/cases2)")
    monkeypatch.setattr(sys.modules[__name__], "MOST_CHOICES", 2)  # there are many tables
    terminal = Terminal(monkeypatch)
    assert [fault for command in commands for fault in faults(terminal, command)] == []


@pytest.mark.parametrize(
    ("name", "formula"), [("perplexity", "loss = log(val_ppl)"), ("upper_case", "")]
)
def test_larger_runs_are_judged_under_other_names(name, formula, tables, monkeypatch):
    terminal, command = Terminal(monkeypatch), ("check", "sweep.csv", f"{name}.csv")
    if formula:
        code, message, proposed, error = terminal.answer(command)
        assert (code, proposed[0]) == (2, (*command, "--let", formula))
        assert "is a perplexity" in message
        assert isinstance(error, DataError)
        command = proposed[0]
    assert terminal.answer(command)[0] == 0


@pytest.mark.parametrize(
    ("command", "other"),
    [
        ("forecast t.csv --loss loss", "flops"),
        ("forecast t.csv --loss val_nll", "val_ppl"),
        ("critical-batch t.csv", "tokens"),
        ("forecast t.csv --size depth --loss quality", "epochs"),
    ],
)
def test_a_column_of_another_quantity_is_not_proposed(command, other, tables, monkeypatch):
    table = sweep(seeds=(0,)).drop(columns=["width", "loss"])
    table = table.assign(**{other: 3.0 + table.index, "quality": 2.0, "batch_size": 8})
    table.to_csv("t.csv", index=False)
    code, message, proposed, _ = Terminal(monkeypatch).answer(tuple(command.split()))
    assert code == 2
    assert "has no column" in message
    assert not any(other in words for words in proposed)


@pytest.mark.parametrize(
    "options", [("--rename", "nembd=width"), ("--let", "q = absent + 1")], ids=["rename", "let"]
)
def test_a_renaming_that_no_table_needs_is_refused(options, tables, monkeypatch):
    answer = Terminal(monkeypatch).answer(("check", "sweep.csv", "n_embd.csv", *options))
    assert answer[0] == 2
    assert "has no column" in answer[1]
