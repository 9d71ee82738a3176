"""What the page of a study says it found is what its table says, number by number."""

import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap import forecast
from extrap.analyses.comparison.treatments import treatments
from extrap.records import Interval, Measure
from extrap.study import open_study, report
from tests.test_studies import STUDIES

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"[−-]?(?:\d[\d,]*)?\.?\d+")


def one_line(text):
    """Prose on one line, with one kind of minus."""
    return " ".join(text.replace("−", "-").split())


def short(value, digits=1):
    """`-.4` for −.43: as prose writes a number below one."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}")


def share(measure, digits=1, sign=1):
    """`5.8 % (5.2 to 6.3 %)`."""
    value, low, high = (100 * sign * v for v in (measure.value, *measure.ci))
    low, high = sorted((low, high))
    numbers = [short(v, digits) for v in (value, low, high)]
    return "{} % ({} to {} %)".format(*numbers)


@pytest.fixture
def committed(tmp_path):
    """The outcome of a shipped study from its committed table, and its docstring's `Found:`."""

    def read(name):
        path = ROOT / "studies" / f"{name}.py"
        outcome = report(open_study(path), table=path.with_suffix(".csv"), reports=tmp_path)
        paragraphs = path.read_text(encoding="utf-8").split('"""')[1].split("\n\n")
        return outcome, one_line(
            " ".join(p for p in paragraphs if "Found" in p).split("Found", 1)[1]
        )

    return read


def assert_all_is_measured(prose, phrases, design=()):
    """Every phrase stands in the prose, and no number stands there besides.

    Args:
        prose: What is said.
        phrases: What was measured, as it is to be said.
        design: Numbers of the design, such as widths.
    """
    for phrase in phrases:
        assert one_line(phrase) in prose
        prose = prose.replace(one_line(phrase), " ", 1)
    beside = {float(n.replace(",", "")) for n in NUMBER.findall(prose)}
    assert beside <= set(map(float, design))


def test_every_study_ships_its_table_or_is_registered():
    """The runs of the default study lie in `examples/`; a study in a folder has tables there."""
    text = (ROOT / "studies" / "registered.md").read_text(encoding="utf-8")
    registered = text[text.index("| registered") : text.index("## ")]
    for path in STUDIES:
        pattern = "*.csv" if path.stem == "study" else f"{path.stem}.*csv"
        has_table = path.stem == "metz" or any(path.parent.glob(pattern))
        assert has_table or f"`{path.name}`" in registered, path


def test_gate(committed):
    """Each recipe was measured at both larger widths, and the forecast of one did not hold."""
    outcome, prose = committed("gate")
    checked = treatments(outcome.result)
    phrases = [share(t.decisive.difference, sign=-1) for t in checked]
    assert_all_is_measured(prose, phrases, design=(256, 512))
    verdicts = {t.contrast.treated: t.verdict for t in checked}
    assert verdicts == {"muon": "survives", "one layer": "fades"}
    assert [t.label for t in checked if not t.holds] == ["muon (At width 512)"]
    assert "the second just outside its forecast" in prose


def exponent(law, name="b"):
    """`(-.41 ± .02)`, with its standard error."""
    i = law.names.index(name)
    return f"({short(law.values[i], 2)} ± {short(math.sqrt(law.covariance[i][i]), 2)})"


def test_mup(committed):
    outcome, prose = committed("mup")
    (finding,), (checked,) = outcome.result, treatments(outcome.result)
    made = {arm: forecast(runs) for arm, runs in finding.runs.items()}
    rates = [made["muP"].optima[i].tuned["lr"].value for i in (0, -1)]
    phrases = [
        *(f"width^{exponent(each.tuned_laws['lr'])}" for each in made.values()),
        *(short(rate, 4) for rate in rates),
        share(checked.decisive.difference, sign=-1),
        share(checked.contrast.at_target.difference, sign=-1),
    ]
    assert_all_is_measured(prose, phrases, design=(16, 256, 512))
    assert (checked.verdict, checked.holds) == ("survives", True)


def test_own_model(committed):
    outcome, prose = committed("own_model")
    made, verdicts = outcome.result.forecast, outcome.result.verdicts
    first, last, point = made.optima[0], made.optima[-1], made.at(96)
    tuned, fixed = (v for v in verdicts if v.seed == 0)
    assert (tuned.on_law, fixed.cause) == (True, "mistuned")
    interval = " to ".join(short(side, 3) for side in point.loss_pi)
    phrases = [
        *(short(value, 3) for value in (first.tuned["lr"].value, last.tuned["lr"].value)),
        *(short(loss, 3) for loss in (last.loss, tuned.mean_loss)),
        f"{short(point.loss, 3)} ({interval})",
        f"{100 * (fixed.mean_loss / point.loss - 1):.0f} % above",
    ]
    assert_all_is_measured(prose, phrases, design=(8, 48, 96))


def test_mup_transfer(committed):
    """The rate that is kept costs six times as much under the standard rule."""
    outcome, prose = committed("mup_transfer")
    point = outcome.result.forecast.at(512)
    kept, tuned = (v for v in outcome.result.verdicts if v.seed == 0)
    (predicted,) = point.kept_smallest
    penalty, low, high = np.expm1([predicted.penalty, *predicted.penalty_pi])
    interval = " to ".join(f"{side:.3f}" for side in point.loss_pi)
    big = pd.read_csv(ROOT / "examples" / "big.csv").query("width == 512")
    log_means = np.log(big["loss"]).groupby(big["lr"].round(6)).mean()
    phrases = [
        short(tuned.tuned["lr"], 4),
        f"{tuned.mean_loss:.3f}",
        f"{point.loss:.3f} ({interval})",
        short(kept.tuned["lr"], 4),
        f"{100 * (kept.mean_loss / tuned.mean_loss - 1):.1f} % higher",
        share(Measure(value=penalty, ci=Interval(low, high))),
        f"{100 * math.expm1(log_means.iloc[-1] - log_means.min()):.1f} % at width 512",
    ]
    assert_all_is_measured(prose, phrases, design=(16,))


def test_batch_norm(committed):
    outcome, prose = committed("batch_norm")
    normed, ghosts = treatments(outcome.result)
    gains = [[-row.difference.value for row in t.contrast.by_size] for t in (normed, ghosts)]
    n_significant = sum(row.difference.ci.upper < 0 for row in ghosts.contrast.by_size)
    spans = [f"{100 * min(g):.0f} to {100 * max(g):.0f} %" for g in gains]
    phrases = [
        f"{spans[0]} lower",
        f"by {spans[1]}, significantly at {n_significant} of 7",
        *(share(t.decisive.difference, sign=-1) for t in (normed, ghosts)),
        *(share(t.contrast.at_target.difference, sign=-1) for t in (normed, ghosts)),
    ]
    assert_all_is_measured(prose, phrases, design=(64, 1797))
    assert [t.verdict for t in (normed, ghosts)] == ["survives", "undecided"]


def test_knobs(committed):
    outcome, prose = committed("knobs")
    changes = {t.contrast.treated: t for t in treatments(outcome.result)}
    verdicts = Counter(t.verdict for t in changes.values())
    assert verdicts == {"survives": 1, "hurts": 1, "undecided": 8}
    assert [changes[f"depth ×{times}"].verdict for times in "½2"] == ["survives", "hurts"]

    def at_144(change, sign):
        return share(changes[change].contrast.by_size[-1].difference, sign=sign)

    def forecast_of(change, sign):
        return share(changes[change].contrast.at_target.difference, sign=sign)

    small = [abs(t.decisive.difference.value) for c, t in changes.items() if c[:2] in ("wa", "we")]
    phrases = [
        f"{at_144('depth ×½', -1)} at width 144, and {forecast_of('depth ×½', -1)}",
        f"{at_144('depth ×2', 1)}, {forecast_of('depth ×2', 1)}",
        f"twice gains {at_144('init_scale ×2', -1)}",
        f"half costs {at_144('init_scale ×½', 1)}",
        f"costs {at_144('1 − beta1 ×½', 1)}",
        f"at most {100 * max(small):.1f} %",
    ]
    assert_all_is_measured(prose, phrases, design=(1, 2, 4, 8, 10, 144, 1024))


def test_transformer(committed):
    outcome, prose = committed("transformer")
    made = outcome.result.forecast
    point = made.at(width=96, tokens=524_288)
    interval = " to ".join(f"{side:.3f}" for side in point.loss_pi)
    tuned = next(v for v in outcome.result.verdicts if v.on_law)
    kept = next(v for v in outcome.result.verdicts if not v.on_law)
    exponents = [
        f"{column}^{exponent(law, name)}"
        for law in made.tuned_laws.values()
        for column, name in (("width", "b1"), ("tokens", "b2"))
    ]
    phrases = [
        *exponents,
        f"{short(tuned.tuned['lr'], 4)} and batches of {tuned.tuned['batch_size']:.0f}",
        f"end at {tuned.mean_loss:.3f}",
        f"{point.loss:.3f} ({interval})",
        f"{100 * (kept.mean_loss / tuned.mean_loss - 1):.1f} % higher",
    ]
    assert_all_is_measured(prose, phrases, design=(96, 524_288))
