"""The line through optima, and the envelope that is one source of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from extrap import DataError
from extrap.planning import ChinchillaLaw, envelope_optima, optimal_split, read_points
from extrap.planning.lines import Optima, extend

LOG_FLOPS = np.log(1e18 * 4.0 ** np.arange(8))


def optima(scatter, se, *, is_known: bool = True, n: int = 8) -> Optima:
    at = LOG_FLOPS[:n]
    return Optima(
        log_flops=at,
        log_params=0.5 * at - 1 + np.asarray(scatter)[:n],
        log_params_se=np.broadcast_to(se, (n,)),
        is_known=is_known,
        loss=2 + 3 * np.exp(-0.1 * (at - at[0])),
        how="made up",
    )


def test_an_exact_line_is_found_and_extended() -> None:
    found = extend(optima(np.zeros(8), 0.01), 1e24, level=0.95)
    assert found.exponent.value == pytest.approx(0.5)
    assert found.params.value == pytest.approx(np.exp(0.5 * np.log(1e24) - 1))
    assert 6 * found.params.value * found.tokens.value == pytest.approx(1e24)
    assert found.loss.value == pytest.approx(2 + 3 * (1e24 / 1e18) ** -0.1, rel=1e-3)


def test_known_errors_count_where_optima_scatter_less() -> None:
    widths = [
        np.ptp(extend(optima(np.zeros(8), se), 1e24, level=0.95).exponent.ci) for se in (0.1, 0.2)
    ]
    assert widths[1] == pytest.approx(2 * widths[0])


def test_scatter_beyond_the_errors_is_added_to_all_of_them() -> None:
    """One optimum that claims a hundredth of the others' error no longer decides the line."""
    scatter = 0.3 * np.array([1, -1, 1, -1, -1, 1, -1, 1.0])
    se = np.full(8, 0.05)
    se[0] = 0.0005
    found = extend(optima(scatter, se), 1e24, level=0.95)
    plain = extend(optima(scatter, 1.0, is_known=False), 1e24, level=0.95)
    assert found.exponent.value == pytest.approx(plain.exponent.value, abs=0.002)
    assert found.exponent.ci == pytest.approx(plain.exponent.ci, abs=0.01)


def test_too_few_optima_are_refused() -> None:
    with pytest.raises(DataError, match="needs three budgets"):
        extend(optima(np.zeros(2), 0.1, n=2), 1e24, level=0.95)


def test_intervals_of_lines_hold_the_truth() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        drawn = optima(0.1 * rng.normal(size=8), 0.1)
        held += 0.5 in extend(drawn, 1e24, level=0.9).exponent.ci
    assert 0.87 <= held / 400 <= 0.97


def test_envelope_keeps_the_best_run_of_a_class_that_no_cheaper_run_beats() -> None:
    law = ChinchillaLaw(E=1.8, A=480.0, B=2000.0, alpha=0.34, beta=0.37)
    rows = []
    for flops in 1e18 * 4.0 ** np.arange(6):
        for off in (0.2, 1.0, 5.0):
            params = float(optimal_split(law, flops).params) * off
            tokens = flops / 6 / params
            rows.append((params, tokens, float(law.loss(params, tokens))))
    table = pd.DataFrame(rows, columns=["params", "tokens", "loss"])
    table.loc[13, "loss"] = 5.0  # a run gone wrong: its class has another best one, still beaten
    points = read_points(table, params="params", tokens="tokens", loss="loss")
    found = envelope_optima(points)
    assert len(found.log_flops) in (5, 6)
    assert np.all(np.diff(found.loss) < 0)
    best = [float(optimal_split(law, c).params) for c in np.exp(found.log_flops[:4])]
    assert np.exp(found.log_params[:4]) == pytest.approx(best)
    with pytest.raises(DataError, match="needs 5 runs that no cheaper run beats"):
        envelope_optima(read_points(table[:6], params="params", tokens="tokens", loss="loss"))
