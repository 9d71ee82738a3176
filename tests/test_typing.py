"""What a user's type checker makes of the public names."""

import re
import subprocess
import sys

import pytest

SCRIPT = """
import extrap

runs = extrap.read_runs("sweep.csv", size="width", tune="lr")
made = extrap.forecast(runs, level=0.9)
point = made.at(width=4096)
reveal_type(runs)
reveal_type(point.loss_pi.lower)
reveal_type(point.tuned["lr"].value)
reveal_type(extrap.check(made, runs))
reveal_type(extrap.backtest(runs).holdouts[0].deviation)
reveal_type(extrap.report(made, (), path="page.html"))
reveal_type(extrap.allocate)
made.at("width")
extrap.forcast(runs)
"""
REVEALED = [
    "extrap.records.runs.Runs",
    "float | None",
    "float | None",
    "extrap.records.results.Verdicts",
    "float",
    "pathlib.Path",
]


@pytest.mark.slow
def test_a_users_strict_type_checker_sees_the_types_of_the_public_names(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = true\nfollow_untyped_imports = false\n"
        "[mypy-optuna.*,torch.*,transformers.*]\nfollow_imports = skip\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-color-output", "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("script.py:")]
    revealed = re.findall(r'Revealed type is "(.*)"', "\n".join(told))
    assert revealed[: len(REVEALED)] == REVEALED
    assert "Allocation" in revealed[-1]
    assert "Any" not in revealed[: len(REVEALED)]
    errors = [line for line in told if "error:" in line]
    assert [line.split(":")[1] for line in errors] == ["14", "15"], errors
