"""The README is true: its code runs, its tree is the tree, its commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import extrap
from extrap.cli import main

ROOT = Path(__file__).parents[1]
SAME_RATE = 1e-3
"""The table rounds the rate that the larger runs were trained at."""
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
    assert (loss, rate) == ("1.82 [1.76, 1.89]", "0.0024 ('optimum-law-bends: lr',)")
    assert "0.01151: 'mistuned'" in causes
    assert "0.002413: None" in causes


def test_measured_figures_are_those_of_the_shipped_runs() -> None:
    sweep = extrap.read_runs(ROOT / "examples/sweep.csv", size="width", tune="lr")
    big = extrap.read_runs(ROOT / "examples/big.csv", size="width", tune="lr", stage="check")
    made = extrap.forecast(sweep)
    verdicts = extrap.check(made, big)
    law = made.tuned_laws["lr"]
    assert law is not None
    claims = [f"{law.values[1]:.3f} ± {law.covariance[1][1] ** 0.5:.3f}"]
    for width in (512, 1024):
        lower, upper = made.at(width=width).loss_pi
        assert lower is not None
        assert upper is not None
        claims.append(f"± {100 * ((upper / lower) ** 0.5 - 1):.1f} % at {width}")
        rate = made.at(width=width).tuned["lr"].value
        here = [v for v in verdicts if v.size["width"] == width]
        tuned = [v for v in here if v.tuned["lr"] == pytest.approx(rate, rel=SAME_RATE)]
        assert [v.on_law for v in tuned] == [True, True]
        assert all(v.loss in v.predicted_pi for v in tuned)
        off = [100 * (v.deviation or 0.0) for v in tuned]
        claims.append(f"{off[0]:.2f}, {off[1]:.2f} % at {width}")
        seen = sum(v.loss or 0.0 for v in tuned) / 2
        claims.append(f"{100 * (1 - seen / (made.last_value() or 0.0)):.1f} % ")
    fixed = [v for v in verdicts if v.tuned["lr"] == 0.01151]
    assert [v.cause for v in fixed] == ["mistuned"] * 4
    claims += [f"+{100 * (v.deviation or 0.0):.1f}" for v in (fixed[0], fixed[-1])]
    for claim in claims:
        assert re.sub(r"(?<!\d)0\.", ".", claim).replace("-", "−") in README, claim


def test_shell_examples_on_the_shipped_tables_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("extrap ")]
    commands = [command for command in commands if command[1] != "watch"]
    assert [command[1] for command in commands] == [
        "forecast",
        "check",
        "backtest",
        "report",
        "compare",
        "allocate",
        "critical-batch",
    ]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert [main(command[1:]) for command in commands] == [0, 1, 0, 0, 0, 0, 0]
    assert (tmp_path / "reports" / "mine.html").is_file()


def test_comparison_prints_what_it_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    (line,) = [
        line for block in blocks("sh") for line in block.splitlines() if " compare " in line
    ]
    shown = README.split(line)[1].split("```")[2].strip().splitlines()
    assert main(shlex.split(line)[1:]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [text.strip() for text in shown if text.strip() not in map(str.strip, printed)] == []


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


def test_monitor_example_runs_in_a_loop(watched, draw_curve, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    extrap.save_forecast(watched, "forecast.json")
    code, _ = blocks("py")
    losses = draw_curve(4096, -3.0, np.random.default_rng(0))
    steps = np.linspace(0, 20_000, len(losses) + 1)[1:]
    names = {"extrap": extrap, "train": lambda: zip(steps, losses, strict=True)}
    exec(compile(code, "README.md", "exec"), names)
    assert "octaves too low" in capsys.readouterr().out
    lines = [f"{step:g},{loss:.5g}" for step, loss in zip(steps, losses, strict=True)]
    Path("train.csv").write_text("\n".join(["step,loss", *lines]) + "\n")
    (line,) = [line for block in blocks("sh") for line in block.splitlines() if " watch " in line]
    assert main(shlex.split(line, comments=True)[1:]) == 1
    assert "octaves too low" in capsys.readouterr().out


def test_meter_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    data = [[torch.randn(32, 5) for _ in range(2)] for _ in range(300)]
    _, code = blocks("py")
    exec(
        code,
        {
            "extrap": extrap,
            "model": model,
            "data": data,
            "optimizer": torch.optim.SGD(model.parameters(), lr=1e-3),
            "loss": lambda m, b: (m(b[:, :4]) - b[:, 4:]).square().mean(),
        },
    )
    assert "noise scale" in capsys.readouterr().out
