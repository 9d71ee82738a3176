"""Tables that people have, and what they get."""

from pathlib import Path

import pytest

import extrap
from extrap.errors import DataError, OnlyBestValues
from extrap.reading import read_runs

CASES = Path(__file__).parents[3] / "shared" / "cases"


def case(name):
    if not (CASES / name).is_file():
        pytest.skip(f"the table {name} is not here (../shared/cases)")
    return CASES / name


def second(name):
    path = CASES.with_name("cases2") / name
    if not path.exists():
        pytest.skip(f"the input {name} is not here (../shared/cases2)")
    return path


READ = {
    "muon_lr_random.csv": ({}, ("width",), ("muon_lr",), 0.0029, 1.787),
    "config_values.csv": ({}, ("width",), ("lr",), 0.0029, 1.787),
    "lr_as_power.csv": ({}, ("width",), ("lr",), 0.0029, 1.787),
    "optuna_dashboard.csv": ({}, ("width",), ("lr",), 0.0029, 1.787),
    "header_repeated.csv": ({}, ("width",), ("lr",), 0.0029, 1.787),
    "ray_states.csv": ({}, ("width",), ("lr",), 0.0029, 1.787),
    "settings_in_name.csv": ({"size": "width", "tune": "lr"}, ("width",), ("lr",), 0.0029, 1.787),
}
"""File → options, size, tuned, best rate and loss at width 2048."""


@pytest.mark.parametrize("name", READ)
def test_a_table_is_read_and_forecast_near_its_law(name):
    options, sizes, tuned, rate, loss = READ[name]
    runs = read_runs(case(name), **options)
    assert (runs.sizes, runs.tuned) == (sizes, tuned)
    point = extrap.forecast(runs).at(width=2048)
    assert point.loss == pytest.approx(loss, rel=0.02)
    assert point.tuned[tuned[0]].value == pytest.approx(rate, rel=0.2)


def test_sizes_with_letters_and_json_are_read():
    runs = read_runs(case("sizes_15M.csv"))
    assert sorted(set(runs.to_frame()["model_size"])) == [15e6, 40e6, 125e6, 350e6, 1.3e9]
    runs = read_runs(case("results_array.json"))
    assert (runs.sizes, runs.tuned) == (("width",), ("learning_rate",))


def test_unfinished_runs_and_seeds_are_seen():
    runs = read_runs(case("ray_states.csv"))
    assert len(runs.complete()) == len(runs) - 2
    seeds = read_runs(case("optuna_dashboard.csv")).to_frame()["seed"]
    assert seeds.astype(str).str.startswith("row-").sum() == 0


def test_a_rate_that_was_swept_at_one_size_is_said_to_be():
    runs = read_runs(case("one_size_swept.csv"))
    assert (runs.sizes, runs.tuned) == (("params",), ("lr",))
    point = extrap.forecast(runs).at(params=2e8)
    assert point.recommended == {"lr": None}
    assert "lr was swept at params 1.31M only" in point.refusals["lr"].replace("\u00a0", " ")


def test_a_table_of_best_values_gives_their_law():
    """Made by 12.8 / depth², 5 % noise."""
    with pytest.raises(OnlyBestValues, match="the best weight_decay of each depth and no loss"):
        read_runs(case("weight_decay_optima.csv"))
    found = extrap.best_values(case("weight_decay_optima.csv"))
    exponent, there = found.laws["weight_decay"].exponents["depth"], found.at(28)["weight_decay"]
    assert -2 in exponent.ci
    assert exponent.ci.upper - exponent.ci.lower < 0.4
    assert there.value == pytest.approx(12.8 / 28**2, rel=0.05)
    assert 12.8 / 28**2 in there.ci


REFUSED = {
    "grouped_chart.csv": ("lines are means over groups of runs", {}),
    "wide.csv": ("one column per value .*melt it to one row per run", {}),
    "markdown.csv": ("is a Markdown table", {}),
    "settings_in_name.csv": ("read them from there", {"size": "width", "tune": ["lr"]}),
    "gate.csv": ("mixes several .recipe base, variant", {"where": {"recipe": "base"}}),
    "three_datasets.csv": ("mixes several .dataset", {"where": {"dataset": "web"}}),
    "millions_and_billions.csv": ("params 70 .* are no counts", {"let": "params = params * 1e6"}),
}
"""File → message, and the first choice."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_is_asked_about(name):
    words, first = REFUSED[name]
    with pytest.raises(DataError, match=words) as caught:
        read_runs(case(name))
    assert [choice.arguments for choice in caught.value.choices[:1]] == ([first] if first else [])


@pytest.mark.parametrize("name", ["three_datasets.csv", "millions_and_billions.csv"])
def test_an_allocation_asks_as_a_forecast_does(name):
    words, first = REFUSED[name]
    with pytest.raises(DataError, match=words) as caught:
        extrap.allocate(case(name), flops=1e21)
    assert caught.value.choices[0].arguments == first


def layout(name):
    path = CASES.parent / "cases2" / name
    if not path.is_file():
        pytest.skip(f"the table {name} is not here (../shared/cases2)")
    return path


LAYOUTS = {
    "plus_minus.csv": 42,
    "words_in_loss.csv": 42,
    "merged_cells.csv": 42,
    "loss_per_seed_columns.csv": 126,
    "mean_std_n.csv": 42,
    "title_rows.csv": 42,
}
"""File → runs. Their law is loss 1.5 + 2 (w/16)^-.4 and rate .02 (w/16)^-.4."""


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_read_with_a_note_and_forecast_near_its_law(name):
    runs = read_runs(layout(name))
    assert (runs.sizes, runs.tuned, len(runs)) == (("width",), ("lr",), LAYOUTS[name])
    assert len(runs.notes) > 1
    point = extrap.forecast(runs).at(width=2048)
    assert 0.98 < point.loss / (1.5 + 2 * 128**-0.4) < 1.02
    assert 0.85 < point.tuned["lr"].value / (0.02 * 128**-0.4) < 1.15


def test_errors_beside_a_loss_are_its_standard_error():
    frame = read_runs(layout("plus_minus.csv")).to_frame()
    assert frame.loc[0, ["loss", "loss_se"]].tolist() == [10.736, 0.012]
    frame = read_runs(layout("mean_std_n.csv")).to_frame()
    assert frame.loc[0, ["seed_sd", "n_seeds"]].tolist() == [0.0119, 3]


def test_words_in_a_loss_say_how_the_run_ended():
    runs = read_runs(layout("words_in_loss.csv"))
    assert runs.to_frame()["status"].value_counts().to_dict() == {
        "complete": 34,
        "diverged": 6,
        "failed": 2,
    }


def test_text_in_one_cell_of_the_loss_is_named(tmp_path):
    path = layout("one_text_cell.csv")
    with pytest.raises(DataError, match=r"Training Loss ↓ must hold .* 'coming soon' in row 14"):
        read_runs(path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "a.csv").write_text("".join(x for x in lines if "coming" not in x), "utf-8")
    assert read_runs(tmp_path / "a.csv").to_frame().loc[0, "loss"] == 6.0741


READ_FOLDERS = {
    "hf_logging_500": ({}, 8192, "lr", 0.00165, 1.59),
    "hydra_multirun": ({}, 2048, "lr", 0.0029, 1.787),
    "conditional_space.csv": (
        {"where": {"optimizer": "adam"}, "tune": "adam_lr"},
        2048,
        "adam_lr",
        0.0029,
        1.787,
    ),
}
"""Case → options, a size, the tuned column, its best value and the loss there."""


@pytest.mark.parametrize("name", READ_FOLDERS)
def test_settings_of_folders_and_branches_are_forecast_near_their_law(name):
    options, size, tuned, rate, loss = READ_FOLDERS[name]
    point = extrap.forecast(second(name), **options).at(size)
    assert point.tuned[tuned].value == pytest.approx(rate, rel=0.15)
    assert point.loss == pytest.approx(loss, rel=0.03)


def test_crashed_runs_without_a_state_are_no_replicates():
    made = extrap.forecast(second("crashed_without_state.csv"))
    assert len(made.runs.complete()) == 28
    assert made.noise.own_sd < 0.002


def test_two_schedules_of_one_recipe_are_no_seeds():
    with pytest.raises(DataError, match="mixes several") as caught:
        extrap.compare(second("mixed_arms.csv"), by="optimizer")
    assert caught.value.choices[0].arguments == {"where": {"schedule": "cosine"}}


def test_a_conditional_space_offers_its_branches():
    with pytest.raises(DataError, match="is given where optimizer = sgd") as caught:
        read_runs(second("conditional_space.csv"))
    first = caught.value.choices[0].arguments
    assert first == {"where": {"optimizer": "adam"}, "tune": ["adam_lr"]}
