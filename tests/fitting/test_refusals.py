"""Where a loss is refused, by intervals and sizes alone."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import extrap
from extrap.analyses.sweep.answer import answer_rows, forecast_answer
from extrap.fitting.distance import extrapolation_ratio
from extrap.fitting.prediction import LossPrediction
from extrap.fitting.refusals import doubt_loss, half_width, imprecise_loss, rises, widest
from extrap.fitting.run_costs import read_run_cost
from extrap.fitting.transfer_rules import compute_of
from extrap.reading.names import kind_of
from tests.checking.byhand import by_hand, law, of_rate, optimum

CASES = Path(__file__).parents[3] / "shared" / "cases2"
DISTANCES = (1.0, 1.5, 2.0, 4.0, 6.0, 10.0, 30.0, 1e3, 1e6)


def case(name):
    if not (CASES / name).is_file():
        pytest.skip(f"the table {name} is not here (../shared/cases2)")
    return CASES / name


def test_half_width_is_that_of_the_loss_and_of_a_perplexity_that_of_its_logarithm():
    prediction = LossPrediction(log_loss=2.0, curve=((0.01, 6),), run=())
    half = stats.t.ppf(0.95, 6) * 0.1
    assert half_width(prediction) == pytest.approx(half)
    expected = 0.5 * math.log((2 + half) / (2 - half))
    assert half_width(prediction, is_perplexity=True) == pytest.approx(expected)
    hopeless = replace(prediction, curve=((9.0, 6),))
    assert half_width(hopeless, is_perplexity=True) == math.inf


@pytest.mark.parametrize(
    ("first", "last", "is_perplexity", "limit"),
    [
        (4.0, 2.0, False, 0.2),
        (10.0, 1.0, False, math.log(10) / 4),
        (1.0, 3.0, False, 0.2),
        (math.exp(10), math.exp(1), True, math.log(10) / 4),
    ],
)
def test_a_fifth_is_allowed_or_a_quarter_of_the_fall(first, last, is_perplexity, limit):
    assert widest(first, last, is_perplexity=is_perplexity) == pytest.approx(limit)


def is_refused(size, half_of, limit=0.2):
    """Whether a size is refused whose half width is a function of the sizes."""
    box = {c: (1.0, 8.0) for c in size}
    return (
        doubt_loss(
            size, half_widths=lambda sizes: [half_of(**s) for s in sizes], box=box, limit=limit
        )
        is not None
    )


def test_a_size_is_refused_by_its_own_interval_and_beyond_the_first_that_is():
    """Wide from 40 to 60 only: what lies beyond is refused, what lies nearer or inside is not."""

    def half_of(x):
        return 0.25 if 40 <= x <= 60 else 0.1

    refused = [
        x
        for x in (2.0, 8.0, 16.0, 39.0, 41.0, 59.0, 70.0, 1e3, 1e9)
        if is_refused({"x": x}, half_of)
    ]
    assert refused == [41.0, 59.0, 70.0, 1e3, 1e9]
    assert is_refused({"x": 4.0}, lambda x: 0.21)
    assert not is_refused({"x": 4.0}, lambda x: 0.21, limit=0.22)
    (why,) = [
        doubt_loss(
            {"x": 1e3},
            half_widths=lambda s: [half_of(**p) for p in s],
            box={"x": (1, 8)},
            limit=0.2,
        ).why
    ]
    assert why.startswith("nearer to the sweep, at x 45.3, the 90 % interval is ± 25 %")
    own = doubt_loss(
        {"x": 59.0}, half_widths=lambda s: [half_of(**p) for p in s], box={"x": (1, 8)}, limit=0.2
    )
    assert own.why == "its 90 % interval is ± 25 %, more than ± 20 %"


def test_no_size_is_given_whose_columns_are_refused_one_at_a_time():
    """Wide where x alone is far; at large y the model would be sure again."""

    def half_of(x, y):
        return 0.3 if x > 32 and y <= 8 else 0.1

    assert is_refused({"x": 64.0, "y": 2.0}, half_of)
    assert is_refused({"x": 64.0, "y": 64.0}, half_of)
    assert not is_refused({"x": 16.0, "y": 64.0}, half_of)


@pytest.mark.parametrize("seed", range(20))
def test_no_size_is_given_beyond_one_that_is_refused(seed):
    """Half widths that change with every octave, over rays in all directions."""
    rng = np.random.default_rng(seed)
    table = rng.uniform(0.0, 0.22, (40, 40))

    def half_of(x, y):
        return table[int(max(math.log2(x), 0)), int(max(math.log2(y), 0))]

    for inner, step in product(((8.0, 8.0), (8.0, 3.0)), ((1.0, 1.0), (1.0, 0.0), (0.5, 1.0))):
        if inner[1] < 8 and step[1]:
            continue  # the size clipped to the box would change
        ray = [
            {"x": inner[0] * 2 ** (step[0] * k), "y": inner[1] * 2 ** (step[1] * k)}
            for k in range(12)
        ]
        refused = [is_refused(size, half_of) for size in ray]
        assert refused == sorted(refused)


def sizes_of(losses, columns=("params", "tokens"), se=None):
    """Optima of sizes with losses: size → loss."""
    return [
        replace(
            optimum(16.0),
            size=dict(zip(columns, size, strict=True)),
            loss=loss,
            best_loss=loss,
            paired_loss_se=se,
        )
        for size, loss in losses.items()
    ]


FALLS = {(1e8, 1e9): 4.0, (1e8, 4e9): 3.8, (1e9, 1e9): 3.0, (1e9, 4e9): 2.8}


@pytest.mark.parametrize(
    ("largest", "columns"),
    [
        ((3.1, 2.85), ["params"]),
        ((3.3, 2.75), []),  # it falls at one number of tokens
        ((3.02, 2.81), []),  # .5 % in the mean, two errors are .5 % · √4
        ((2.9, 2.7), []),
    ],
)
def test_losses_rise_where_they_do_so_at_every_value_by_more_than_their_error(largest, columns):
    grown = {(4e9, 1e9): largest[0], (4e9, 4e9): largest[1]}
    found = rises(sizes_of(FALLS | grown), compute_of)
    assert [rise.column for rise in found] == columns
    if columns:
        assert str(found[0]) == "the loss rises from 1B to 4B at every number of tokens"


def test_a_known_noise_decides_whether_losses_rise():
    grown = FALLS | {(4e9, 1e9): 3.1, (4e9, 4e9): 2.9}
    assert rises(sizes_of(grown, se=0.03), compute_of)
    assert not rises(sizes_of(grown, se=0.2), compute_of)


@pytest.mark.parametrize(
    ("columns", "by_size"),
    [
        # the loss over the parameters at equal compute
        (("flops", "width"), {(f, w): 3 + abs(w - 2) for f in (1e18, 1e19) for w in (1, 2, 4)}),
        (("params",), {(1e8,): 3.0, (4e8,): 2.8, (1.6e9,): 3.1}),
    ],
)
def test_runs_of_equal_compute_do_not_rise(columns, by_size):
    def compute(size):
        return size.get("flops", 1e18)

    assert rises(sizes_of(by_size, columns), compute) == []
    assert rises(sizes_of(by_size, columns), lambda size: None) != []


@pytest.mark.parametrize("names", [("parameters", "tokens"), ("width", "steps"), ("x", None)])
def test_every_size_beyond_a_rise_is_refused_and_the_others_are_not(names):
    sizes, others = (1e6, 4e6, 16e6, 64e6), (1e9, 2e9, 4e9)
    table = pd.DataFrame(
        [
            (n, d, 2 + (n / 1e6) ** -0.3 + (d / 1e9) ** -0.3 + 0.3 * (n == sizes[-1]))
            for n in sizes
            for d in (others if names[1] else others[:1])
        ],
        columns=[names[0], names[1] or "unused", "loss"],
    )
    columns = [name for name in names if name]
    made = extrap.forecast(table[[*columns, "loss"]], size=columns)
    for times in DISTANCES[1:]:
        point = made.at(**{c: v * times for c, v in made.largest().items()})
        assert point.refusals["loss"].startswith(
            f"the loss rises from {'' if names[0] == 'parameters' else names[0] + ' '}16M to 64M"
        )
    assert made.at(**made.largest()).loss is not None
    if names[1]:
        assert made.at(**{names[0]: 16e6, names[1]: 8e9}).loss is not None


def test_the_case_of_a_worse_largest_size_is_refused_at_every_distance():
    made = extrap.forecast(case("rises_with_size.csv"))
    for times in DISTANCES[1:]:
        point = made.at(**{c: v * times for c, v in made.largest().items()})
        why = "the loss rises from 2.8B to 8.7B at every number of tokens; sizes: "
        assert point.refusals["loss"].startswith(why)


@pytest.mark.parametrize(
    ("params", "tokens"),
    [("parameters", "num_tokens"), ("num_params", "train_tokens"), ("Model Params", "tokens")],
)
def test_names_of_parameters_and_tokens_make_no_difference(params, tokens):
    table = pd.read_csv(case("other_names.csv"))
    points = []
    for names in (("params", "tokens"), (params, tokens)):
        renamed = table.set_axis([*names, "loss"], axis=1)
        made = extrap.forecast(renamed, size=list(names))
        size = {c: 8 * v for c, v in made.largest().items()}
        confidence = forecast_answer(made, answer_rows(made, (), [size])).confidence
        cost = read_run_cost(made.runs)
        points.append((made.point(size), confidence, cost.unit, cost.of(size)))
        assert extrapolation_ratio(size, [made.largest()]) == pytest.approx(64)
    (plain, *rest), (other, *others) = points
    assert plain.loss == other.loss
    assert (plain.flags, plain.extrapolation_ratio, *rest) == (
        other.flags,
        other.extrapolation_ratio,
        *others,
    )


def test_kinds_of_columns_are_those_of_their_names():
    kinds = {
        "params": ("num_params", "parameters", "config.n_params", "non_embedding_params"),
        "tokens": ("tokens", "n_tokens", "train_tokens"),
        "examples": ("n_examples", "seen_examples"),
        "compute": ("flops", "train_flops", "Compute"),
        "width": ("d_model", "hidden_size", "n_embd"),
        "depth": ("num_layers", "n_layer"),
        "ratio": ("tokens_per_param", "tpp", "Tokens/Param"),
        None: ("lr", "x", "loss", "batch_size"),
    }
    for kind, names in kinds.items():
        assert {kind_of(name) for name in names} == {kind}


@pytest.mark.parametrize(
    ("sd", "level"), [(0.005, "high"), (0.015, "medium"), (0.05, "low"), (0.2, "low")]
)
def test_confidence_follows_the_half_width_of_the_loss(sd, level):
    """A law of 6 degrees of freedom: 1.943 standard deviations and a run's noise of .006."""
    fitted = law("power", {"b": 3.0, "c": 0.1}, (3 * sd, 0.0), scatter=0.02, dof=3, scale_dof=6)
    model = replace(by_hand().loss_model, family=((fitted, 1.0),), discrepancy=0.0)
    made = by_hand(loss_model=model, surface=of_rate(scatter=1e-3))
    (row,) = answer_rows(made, (), [{"width": 2048.0}])
    assert forecast_answer(made, [row]).confidence.startswith(f"Confidence: {level}; ")
    assert ("loss" in row.point.imprecise) == (sd == 0.05)
    assert ("loss" in row.point.refusals) == (sd == 0.2)


def test_an_interval_that_holds_the_largest_measured_loss_is_called_so():
    """A fall of 2 % from width 256 to 300 within ± 2.9 %: what is larger may be no better."""
    fitted = law("power", {"b": 3.0, "c": 0.1}, (0.045, 0.0), scatter=0.02, dof=3, scale_dof=6)
    model = replace(by_hand().loss_model, family=((fitted, 1.0),), discrepancy=0.0)
    made = by_hand(loss_model=model)
    assert "holds 2.612, the best loss" in made.at(width=300).imprecise["loss"]
    assert made.at(width=256).imprecise == {}
    assert made.at(width=600).imprecise == {}
    assert imprecise_loss(0.04, held=None) is None
