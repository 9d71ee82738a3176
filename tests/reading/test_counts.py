"""Parameters, tokens and compute: by their names, units, logarithms, ratios and symbols."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.sweeps import simulate
from extrap.analyses.allocation import law
from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.names import from_logarithm, header_unit, kind_of

CASES = Path(__file__).parents[3] / "shared" / "cases2"
PARAMS, TOKENS = (3e7, 1e8, 3e8, 1e9, 3e9), (1e9, 3e9, 1e10, 3e10, 1e11)
BUDGET = 1e22


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """A bootstrap of few replicates: no interval is tested here."""
    monkeypatch.setattr(law, "N_REPLICATES", 60)


def case(name):
    if not (CASES / name).is_file():
        pytest.skip(f"the table {name} is not here (../shared/cases2)")
    return CASES / name


def loss_of(params, tokens):
    return 1.69 + 406 * params**-0.34 + 411 * tokens**-0.28


def grid():
    """Runs over parameters and tokens."""
    return simulate(loss_of, noise=1e-3, params=PARAMS, tokens=TOKENS)


def profiles(size="params"):
    """Runs of several sizes at each compute."""
    widths = (96, 128, 192, 256, 384, 512, 768, 1024, 1536)
    table = simulate(
        lambda flops, width: loss_of(96 * width**2.0, flops / (6 * 96 * width**2.0)),
        flops=(1e17, 3e17, 1e18, 3e18, 1e19),
        width=widths,
    )
    params = 96 * table["width"] ** 2.0
    return table if size == "width" else table.assign(params=params).drop(columns="width")


@cache
def split_of_grid():
    return extrap.allocate(grid(), flops=BUDGET)


@cache
def split_of_profiles():
    return extrap.allocate(profiles(), flops=1e21)


def question(source, **options):
    with pytest.raises(DataError) as caught:
        extrap.allocate(source, flops=BUDGET, **options)
    return caught.value


@pytest.mark.parametrize(
    ("params", "tokens", "units"),
    [
        ("Params (M)", "Tokens (B)", (1e6, 1e9)),
        ("N [1e6]", "D [1e9]", (1e6, 1e9)),
        ("parameters in millions", "training tokens in billions", (1e6, 1e9)),
        ("n_params_b", "train_tokens_T", (1e9, 1e12)),
        ("#Params, M", "tokens", (1e6, 1.0)),
        ("Model size (millions)", "Data (billion tokens)", (1e6, 1e9)),
        ("Params/1e6", "Tokens/1e9", (1e6, 1e9)),
        ("Params (×10⁶)", "Tokens (×10⁹)", (1e6, 1e9)),
        ("N", "D", (1.0, 1.0)),
        ("non-embedding params", "tokens_seen", (1.0, 1.0)),
    ],
)
def test_counts_are_known_by_name_and_unit_and_said(params, tokens, units):
    table, plain = grid(), split_of_grid()
    table = table.assign(params=table["params"] / units[0], tokens=table["tokens"] / units[1])
    table = table.rename(columns={"params": params, "tokens": tokens})
    for named in ({}, {"params": params, "tokens": tokens}):
        found = extrap.allocate(table, flops=BUDGET, **named)
        assert found.params.value == pytest.approx(plain.params.value, rel=1e-6)
        assert found.loss.value == pytest.approx(plain.loss.value, rel=1e-6)
        said = str(found).splitlines()[0]
        if not named or units != (1.0, 1.0):
            assert said.startswith("Using params = ")
        for column, unit in zip((params, tokens), units, strict=True):
            assert unit == 1 or f"is {column} times {unit:.0e}" in said


def test_numbers_that_are_counts_already_are_asked_for():
    table = grid().rename(columns={"params": "Params (M)"})
    (choice,) = question(table).choices
    found = extrap.allocate(table, flops=BUDGET, rename={"Params (M)": "Params"})
    assert choice.arguments == {"rename": "Params (M)=Params"}
    assert found.params.value == pytest.approx(5e9, rel=0.1)


@pytest.mark.parametrize(
    "ratio", ["tpp", "Tokens/Param", "tok_ratio", "tokens per parameter", "D/N"]
)
def test_a_ratio_is_turned_into_tokens_and_never_taken_for_them(ratio):
    table = grid()
    table[ratio] = table["tokens"] / table["params"]
    both = extrap.forecast(table)
    assert both.runs.sizes == ("params", "tokens")
    alone = extrap.allocate(table.drop(columns="tokens"), flops=BUDGET)
    assert alone.params.value == pytest.approx(5e9, rel=0.1)
    assert f"tokens = params × {ratio}" in alone.notes[0]


def test_a_ratio_beside_the_symbol_of_parameters_is_turned_into_tokens():
    table = grid().assign(ratio=lambda t: t["tokens"] / t["params"]).drop(columns="tokens")
    plain = split_of_grid().params.value
    for params, ratio in (("N", "D/N"), ("size", "D/N ratio")):
        renamed = table.rename(columns={"params": params, "ratio": ratio})
        found = extrap.allocate(renamed, flops=BUDGET, params=params)
        assert found.params.value == pytest.approx(plain, rel=1e-3)
    assert extrap.allocate(table.rename(columns={"params": "N", "ratio": "D/N"}), flops=BUDGET)
    assert {"params": "size"} in [choice.arguments for choice in question(renamed).choices]


def test_a_ratio_to_another_number_of_tokens_is_asked_for():
    table = grid().assign(chinchilla_ratio=lambda t: t["tokens"] / t["params"] / 20)
    assert "tokens" in str(question(table.drop(columns="tokens")))


def test_columns_that_end_in_tokens_are_offered_with_their_unit_read():
    table = grid().rename(columns={"tokens": "Text tokens (B)"})
    table["Text tokens (B)"] /= 1e9
    (choice,) = question(table).choices
    found = extrap.allocate(table, flops=BUDGET, tokens="Text tokens (B)")
    assert found == extrap.allocate(table, flops=BUDGET, **choice.arguments)
    assert found.params.value == pytest.approx(5e9, rel=0.1)


def test_text_in_a_count_of_an_allocation_is_named():
    table = grid().astype({"tokens": object})
    table.loc[4, "tokens"] = "100B (est.)"
    assert "tokens must hold numbers, got '100B (est.)' in row 5" in str(question(table))


@pytest.mark.parametrize("prefix", ["log10_", "ln_", "log_", "lg "])
def test_logarithms_are_offered_as_the_formulas_of_all_of_them(prefix):
    log = np.log if prefix in ("ln_", "log_") else np.log10
    table = pd.DataFrame(
        {
            f"{prefix}N": log(grid()["params"]),
            f"{prefix}D": log(grid()["tokens"]),
            "loss": grid()["loss"],
        }
    )
    (choice,) = question(table).choices
    found = extrap.allocate(table, flops=BUDGET, **choice.arguments)
    assert found.params.value == pytest.approx(5e9, rel=0.1)
    with pytest.raises(DataError, match="logarithm") as caught:
        extrap.forecast(table)
    assert [each.arguments for each in caught.value.choices] == [choice.arguments]


def test_a_logarithm_of_compute_beside_the_parameters_is_no_replicate():
    table = grid().assign(lg_flops=lambda t: np.log10(6 * t["params"] * t["tokens"]))
    with pytest.raises(DataError, match="differ in a logarithm"):
        extrap.forecast(table.drop(columns="tokens"))


@pytest.mark.parametrize("width", ["d_model", "hidden_size", "dim"])
def test_a_width_is_no_count_of_parameters(width):
    table = grid().assign(layers=8, **{width: lambda t: (t["params"] / 96) ** 0.5})
    table = table.drop(columns="params")
    error = question(table)
    assert f"{width} is no count of parameters" in str(error)
    (choice,) = error.choices
    found = extrap.allocate(table, flops=BUDGET, **choice.arguments)
    assert found.params.value == pytest.approx(5e9, rel=0.1)
    assert extrap.allocate(table, flops=BUDGET, params=width, tokens="tokens")  # as asked


def test_compute_is_the_size_where_one_value_of_it_holds_several_models():
    made = extrap.forecast(profiles("width"))
    assert (made.runs.sizes, made.runs.tuned) == (("flops",), ("width",))
    best = np.geomspace(500, 10_000, 2000)
    losses = loss_of(96 * best**2, 1e20 / (6 * 96 * best**2))
    width = best[np.argmin(losses)]
    assert made.at(1e20).tuned["width"].value == pytest.approx(width, rel=0.1)


@pytest.mark.parametrize(
    ("compute", "unit"),
    [
        ("Budget (FLOPs)", 1),
        ("Compute [1e18 FLOPs]", 1e18),
        ("EFLOPs", 1e18),
        ("total_flos", 1),
        ("Compute (PF-days)", 8.64e19),
    ],
)
def test_compute_is_known_by_its_unit(compute, unit):
    table = profiles()
    plain = split_of_profiles().params.value
    table = table.assign(flops=table["flops"] / unit).rename(columns={"flops": compute})
    made = extrap.forecast(table)
    assert made.runs.tuned == ("params",)
    assert made.largest() == pytest.approx({made.runs.sizes[0]: 1e19})
    assert extrap.allocate(table, flops=1e21).params.value == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize("speed", ["tflops", "gpu_tflops", "model_flops", "perf/flops", "PFLOPS"])
def test_flops_of_a_speed_are_no_compute(speed):
    table = profiles().drop(columns="flops").drop_duplicates("params")
    rates = [table.assign(lr=rate, loss=table["loss"] + rate) for rate in (0.1, 0.2, 0.4)]
    table = pd.concat(rates, ignore_index=True)
    runs = read_runs(table.assign(**{speed: 40 + 7 * np.sin(table.index)}))
    assert (runs.sizes, runs.tuned) == (("params",), ("lr",))


def test_sizes_follow_from_compute_and_the_tokens_per_parameter():
    table = grid().assign(
        flops=lambda t: 6 * t["params"] * t["tokens"], tpp=lambda t: t["tokens"] / t["params"]
    )
    runs = extrap.forecast(table[["flops", "tpp", "loss"]]).runs
    assert runs.sizes == ("params", "tokens")
    assert runs.to_frame()["params"].to_numpy() == pytest.approx(grid()["params"].to_numpy())


def test_the_symbols_of_sizes_and_compute_are_those_of_papers():
    table = profiles().rename(columns={"flops": "C", "params": "N", "loss": "L"})
    made = extrap.forecast(table)
    assert (made.runs.sizes, made.runs.tuned) == (("C",), ("N",))
    found = extrap.allocate(table, flops=1e21)
    assert found.params.value == pytest.approx(split_of_profiles().params.value)


def test_tokens_follow_from_compute_where_an_allocation_asks_for_them():
    found = split_of_profiles()
    direct = extrap.allocate(
        profiles().assign(tokens=lambda t: t["flops"] / (6 * t["params"])), flops=1e21
    )
    assert found.params == direct.params
    assert "tokens = flops / (6 × params)" in found.notes[0]


def test_runs_of_one_size_and_several_amounts_of_compute_are_never_pooled():
    rng = np.random.default_rng(1)
    near = profiles().assign(flops=lambda t: t["flops"] * np.exp(0.03 * rng.normal(size=len(t))))
    with pytest.raises(DataError, match="differ in flops") as caught:
        extrap.forecast(near)
    first, *_ = caught.value.choices
    assert extrap.forecast(near, **first.arguments).runs.sizes == ("params", "tokens")


def test_compute_that_follows_from_the_size_is_no_axis():
    axes = {"width": (16, 32, 64, 128), "lr": (0.01, 0.02, 0.04), "seed": (0, 1)}
    table = simulate(lambda width: 3 * width**-0.1, optimum=lambda width: 0.02, cost=0.02, **axes)
    runs = read_runs(table.assign(flops=lambda t: 6e3 * t["width"] ** 2.0))
    assert (runs.sizes, runs.tuned) == (("width",), ("lr",))


def test_estimators_that_agree_to_two_hundredths_do_not_disagree():
    found = split_of_profiles()
    exponents = [each.exponent.value for each in found.estimators.values()]
    assert len(exponents) == 2
    assert abs(exponents[0] - exponents[1]) < 0.02
    assert not any(warning.startswith("estimators-disagree") for warning in found.warnings)


def test_names_say_what_a_column_counts():
    assert kind_of("muon_lr") is kind_of("batch_size_tokens") is kind_of("log_params") is None
    assert header_unit("loss (B)") is header_unit("lr_m") is header_unit("batch_size_k") is None
    assert from_logarithm("log_lr") == ("lr", "lr = exp(log_lr)")
    assert from_logarithm("logging_steps") is from_logarithm("log_interval") is None


@pytest.mark.parametrize(
    ("name", "flops", "params", "loss"),
    [
        ("unit_in_header.csv", 1e22, 5.15e9, 2.14),
        ("tokens_per_parameter.csv", 1e22, 5.15e9, 2.14),
        ("symbols_N_D.csv", 1e22, 5.15e9, 2.13),
        ("isoflop_budgets.json", 1e23, 91.75e9, 3.2735),
    ],
)
def test_public_layouts_are_split_near_their_law(name, flops, params, loss):
    found = extrap.allocate(case(name), flops=flops)
    assert found.params.value == pytest.approx(params, rel=0.08)
    assert found.loss.value == pytest.approx(loss, rel=0.005)


def test_public_layouts_are_forecast_near_their_law():
    made = extrap.forecast(case("flops_width_loss.csv"))
    assert made.at(1e20).tuned["width"].value == pytest.approx(2590, rel=0.05)
    made = extrap.forecast(case("symbols_N_D.csv"))
    assert made.at(N=1e10, D=2e11).loss == pytest.approx(2.13, rel=0.01)
    assert "Using size = N (params) and D (tokens)" in str(made)
