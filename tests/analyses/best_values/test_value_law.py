"""The law of a best value alone, against least squares by SciPy."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import extrap
from extrap.cli import main
from extrap.errors import DataError

TABLE = pd.DataFrame({"depth": [16, 8, 12, 20], "weight_decay": [0.05, 0.2, 0.09, 0.03]})


def test_the_law_is_the_line_of_least_squares_and_its_intervals_are_student_s():
    found = extrap.best_values(TABLE, level=0.9)
    x, y = np.log(TABLE["depth"]), np.log(TABLE["weight_decay"])
    line, t = stats.linregress(x, y), stats.t.ppf(0.95, 2)
    slope, half = line.slope, t * line.stderr
    assert found.sizes == (8, 12, 16, 20)
    assert found.values == (0.2, 0.09, 0.05, 0.03)
    assert found.exponent.value == pytest.approx(slope)
    assert tuple(found.exponent.ci) == pytest.approx((slope - half, slope + half))
    rest = y - line.intercept - slope * x
    scatter = math.sqrt((rest**2).sum() / 2)
    here, off = found.at(40), math.log(40) - x.mean()
    mean, se = (
        line.intercept + slope * math.log(40),
        scatter * math.hypot(0.5, off / math.sqrt(((x - x.mean()) ** 2).sum())),
    )
    assert here.value == pytest.approx(math.exp(mean))
    assert np.log(list(here.ci)) == pytest.approx([mean - t * se, mean + t * se])
    half = t * math.hypot(se, scatter)
    assert np.log(list(here.pi)) == pytest.approx([mean - half, mean + half])


def test_intervals_hold_as_often_as_they_say():
    rng, held = np.random.default_rng(0), []
    for _ in range(400):
        n = int(rng.integers(4, 9))
        x = 8 * 1.5 ** np.arange(n)
        value = 3 * x**-1.3 * np.exp(rng.uniform(0.03, 0.2) * rng.normal(size=n))
        found = extrap.best_values(pd.DataFrame({"width": x, "lr": value}), level=0.9)
        held.append((-1.3 in found.exponent.ci, 3 * (4 * x[-1]) ** -1.3 in found.at(4 * x[-1]).ci))
    assert np.mean(held, axis=0) == pytest.approx([0.9, 0.9], abs=0.045)


def test_values_on_a_line_of_a_grid_are_known_no_better_than_its_steps():
    """Four halvings over four doublings: the exponent is not −1 to the last digit."""
    exact = TABLE.assign(depth=[8, 16, 32, 64], weight_decay=[0.2, 0.1, 0.05, 0.025])
    found = extrap.best_values(exact, level=0.9)
    rounding = stats.norm.ppf(0.95) * math.log(2) / math.sqrt(12)
    off = np.log(exact["depth"]) - np.log(exact["depth"]).mean()
    half = rounding / math.sqrt((off**2).sum())
    assert found.spacing == 2
    assert tuple(found.exponent.ci) == pytest.approx((-1 - half, -1 + half))
    ends = found.at(found.sizes[0]).ci
    assert math.log(ends.upper / ends.lower) == pytest.approx(2 * rounding * math.sqrt(0.7))


@pytest.mark.parametrize(
    ("values", "spacing"),
    [
        ([0.4, 0.1, 0.05, 0.025], 2),
        ([1e-2, 3e-3, 1e-3, 3e-4], None),
        ([0.1, 0.1, 0.1, 0.1], 2),
        ([0.1, 0.1, 0.05, 0.05], None),
        ([0.2, 0.2 / 2**0.5, 0.1, 0.05], 1.414),
    ],
)
def test_the_spacing_of_values_is_what_their_ratios_have_in_common(values, spacing):
    found = extrap.best_values(TABLE.assign(depth=[8, 16, 32, 64], weight_decay=values))
    assert found.spacing == spacing
    stated = TABLE.assign(depth=[8, 16, 32, 64], weight_decay=values, spacing=[2, 2, 4, 2])
    assert extrap.best_values(stated).spacing == 4
    with pytest.raises(DataError, match=r"spacing is the factor between .* got 1\.$"):
        extrap.best_values(stated.assign(spacing=1))


def test_intervals_of_values_read_off_a_grid_hold():
    rng, held = np.random.default_rng(2), []
    for _ in range(300):
        n, step = int(rng.integers(3, 9)), rng.choice([0.5, 1.0])
        octaves = np.arange(n) * rng.uniform(-1, 0) + rng.uniform()
        slope = octaves[1] - octaves[0]
        read = np.round((octaves + rng.choice([0, 0.1, 0.3]) * rng.normal(size=n)) / step) * step
        table = pd.DataFrame(
            {"width": 16 * 2.0 ** np.arange(n), "lr": 2.0**read, "spacing": 2**step}
        )
        found = extrap.best_values(table, level=0.9)
        target = 2.0 ** (octaves[-1] + 2 * slope)
        held.append((slope in found.exponent.ci, target in found.at(4 * found.sizes[-1]).ci))
    assert np.all(np.mean(held, axis=0) > 0.87)
    assert np.all(np.mean(held, axis=0) < 0.97)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (TABLE.head(2), {}, "needs 3 sizes, got 2"),
        (TABLE.assign(lr=0.1), {}, "has several; choose: tune="),
        (
            TABLE.assign(weight_decay=[0.0, 0.2, 0.1, 0.1]),
            {},
            "weight_decay must be positive and finite, got 0",
        ),
        (TABLE.assign(weight_decay=[np.inf, 0.2, 0.1, 0.1]), {}, "positive and finite, got inf"),
        (TABLE.assign(depth=[8, 8.1, 8.2, 8.3]), {}, "depth spans 1.04"),
        (pd.concat([TABLE, TABLE.head(1)]), {}, "several of one depth"),
        (TABLE.assign(loss=1.0), {}, "the table has losses"),
        (TABLE.assign(note="x"), {}, "no column 'loss'"),
    ],
)
def test_a_table_that_is_none_of_best_values_is_refused(table, options, message):
    with pytest.raises(DataError, match=message):
        extrap.best_values(table, **options)


def test_of_several_columns_one_is_named():
    found = extrap.best_values(TABLE.assign(lr=0.1), tune="weight_decay")
    assert found.tuned == "weight_decay"
    odd = TABLE.rename(columns={"depth": "L", "weight_decay": "how_much"})
    assert extrap.best_values(odd, size="L", tune="how_much").size == "L"


def test_the_command_answers_prints_and_refuses_a_seal(tmp_path, capsys):
    path = tmp_path / "best.csv"
    TABLE.to_csv(path, index=False)
    assert main(["forecast", str(path), "--at", "28", "--at", "3x"]) == 0
    assert "at depth 60: " in capsys.readouterr().out
    assert main(["forecast", str(path), "--at", "28", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "extrap-best-values"
    (point,) = found["points"]
    assert point["weight_decay"]["value"] == pytest.approx(extrap.best_values(path).at(28).value)
    for refused in (["forecast", "--save", "f.json"], ["forecast", "--fix", "E=1"], ["report"]):
        assert main([refused[0], str(path), *refused[1:]]) == 2


def test_a_level_and_a_size_out_of_range_are_refused():
    with pytest.raises(ValueError, match="level"):
        extrap.best_values(TABLE, level=1.5)
    steep = TABLE.assign(weight_decay=[1e-100, 1e100, 1e20, 1e-300])
    with pytest.raises(ValueError, match="leaves the range of numbers at depth 1e\\+06"):
        extrap.best_values(steep).at(1e6)


def test_a_size_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="depth must be positive and finite, got 0"):
        extrap.best_values(TABLE).at(0)
