"""The README is short and true: its example says what it says, its tree is the tree.

That its code runs, and that of `docs/`, is tested in `test_docs.py`.
"""

import re
from pathlib import Path

import pytest

import extrap

ROOT = Path(__file__).parents[1]
SAME_RATE = 1e-3
"""The table rounds the rate that the larger runs were trained at."""
README = (ROOT / "README.md").read_text(encoding="utf-8")
MEASURED = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_python_example_runs_and_says_what_its_last_comment_says(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    loss, rate, causes = capsys.readouterr().out.splitlines()
    assert (loss, rate) == ("1.82 [1.76, 1.89]", "0.0024 ('optimum-law-bends: lr',)")
    assert "0.01151: 'mistuned'" in causes
    assert "0.002413: None" in causes


def test_measured_figures_are_those_of_the_shipped_runs():
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
        assert re.sub(r"(?<!\d)0\.", ".", claim).replace("-", "−") in MEASURED, claim


def test_file_tree_names_what_is_there():
    tree = README.split("## Where everything lives")[1].split("```text")[1].split("```")[0].strip()
    for line in tree.splitlines():
        name = line.split()[0]
        folder = ROOT / "extrap" if line.startswith("  ") else ROOT
        assert (folder / name).exists(), name


def test_targets_and_pictures_that_it_mentions_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([a-z-]+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert (ROOT / picture).is_file(), picture


def test_every_folder_and_every_module_at_the_top_is_in_the_tree():
    tree = README.split("## Where everything lives")[1].split("```text")[1].split("```")[0]
    rooms = [p for p in (ROOT / "extrap").iterdir() if not p.name.startswith(("_", "."))]
    names = [p.name + "/" * p.is_dir() for p in rooms if p.is_dir() or p.suffix == ".py"]
    assert [name for name in sorted(names) if f"  {name}" not in tree] == []
    folders = ("benchmarks", "docs", "examples", "extrap", "reports", "studies", "tests")
    assert [name for name in folders if f"\n{name}/" not in tree] == []
