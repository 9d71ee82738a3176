"""Every analysis takes runs in every form they come in, and gives the same answer."""

from functools import cache

import optuna
import pandas as pd
import pytest

import extrap
from benchmarks.sweeps import make_table
from extrap.analyses.allocation import law

optuna.logging.set_verbosity(optuna.logging.WARNING)
WIDTHS = (16, 32, 64, 128, 256)
BIG = {"width": 1024.0}


def study_of(table, name, *, storage=None, attribute=None):
    """One study per size, or one study of all, as Optuna users have them."""
    made = optuna.create_study(study_name=name, storage=storage)
    if attribute:
        made.set_user_attr(attribute, int(table["width"].iloc[0]))
    is_free = attribute or (name and "=" in name)
    for row in table.to_dict("records"):
        attributes = {"seed": int(row["seed"])} | ({} if is_free else {"width": row["width"]})
        made.add_trial(
            optuna.trial.create_trial(
                params={"lr": row["lr"]},
                distributions={"lr": optuna.distributions.FloatDistribution(1e-4, 1, log=True)},
                user_attrs=attributes,
                value=row["loss"],
            )
        )
    return made


@cache
def of_sweep():
    return extrap.forecast(SWEEP)


def by_width(table):
    return [part for _, part in table.groupby("width")]


SWEEP = make_table(widths=WIDTHS, rates=[2.0**-k for k in range(4, 10)], seeds=2)
LARGER = make_table(widths=[1024], rates=[2.0**-9], seeds=2, seed=1)
NAMES = ("tiny", "small", "middle", "big", "huge")
FORMS = {
    "path": lambda folder: folder / "sweep.csv",
    "text of a path": lambda folder: str(folder / "sweep.csv"),
    "paths": lambda folder: [folder / f"{width}.csv" for width in WIDTHS],
    "frame": lambda _: SWEEP,
    "frames": lambda _: by_width(SWEEP),
    "Runs": lambda _: extrap.read_runs(SWEEP),
    "several Runs": lambda _: [
        extrap.read_runs(part, size="width", tune="lr") for part in by_width(SWEEP)
    ],
    "a study": lambda _: study_of(SWEEP, None),
    "a stored study": lambda folder: study_of(SWEEP, "w", storage=f"sqlite:///{folder}/s.db"),
    "studies by name": lambda _: [
        study_of(part, f"mine/width={width}")
        for width, part in zip(WIDTHS, by_width(SWEEP), strict=True)
    ],
    "studies by attribute": lambda _: [
        study_of(part, name, attribute="width")
        for name, part in zip(NAMES, by_width(SWEEP), strict=True)
    ],
    "studies without names": lambda _: [
        study_of(part, None, attribute="width") for part in by_width(SWEEP)
    ],
}
ANALYSES = {
    "forecast": lambda runs: extrap.forecast(runs).at(1024),
    "backtest": lambda runs: extrap.backtest(runs, min_sizes=4).holdouts,
    "check": lambda runs: sorted(
        (verdict.size["width"], verdict.loss, verdict.on_law)
        for verdict in extrap.check(of_sweep(), runs)
    ),
    "compare": lambda runs: extrap.compare({"plain": runs, "treated": SWEEP}),
    "plan": lambda runs: extrap.plan(runs, at=BIG, cost="width**2").options,
    "cost": lambda runs: extrap.cost(runs, at=BIG, flops=1e15).chosen,
    "critical batch": lambda runs: (
        extrap.critical_batch(
            runs, batch="width", steps="loss", by="lr", let="more = 2 * width"
        ).groups
    ),
}


@cache
def of_runs(analysis):
    return ANALYSES[analysis](extrap.read_runs(SWEEP))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("inputs")
    SWEEP.to_csv(made / "sweep.csv", index=False)
    for width, part in zip(WIDTHS, by_width(SWEEP), strict=True):
        part.to_csv(made / f"{width}.csv", index=False)
    return made


@pytest.mark.parametrize("form", FORMS)
def test_runs_are_the_same_in_every_form(folder, form):
    source = FORMS[form](folder)
    assert extrap.read_runs(source).data_hash() == extrap.read_runs(SWEEP).data_hash()
    part = extrap.read_runs(source, where={"width": [16, 64]}, conditions=())
    assert sorted(set(part.to_frame()["width"])) == [16, 64]


@pytest.mark.parametrize("form", ["path", "frames", "studies by name"])
@pytest.mark.parametrize("analysis", ANALYSES)
def test_analyses_take_every_form(folder, analysis, form):
    assert ANALYSES[analysis](FORMS[form](folder)) == of_runs(analysis)


def test_an_allocation_takes_keywords_and_lists(monkeypatch):
    monkeypatch.setattr(law, "N_REPLICATES", 60)
    table = pd.read_csv("examples/splits.csv").query("params < 5e8")
    named = table.rename(columns={"loss": "val_loss"})
    extra = pd.concat([named.assign(run="keep"), named.assign(run="drop", val_loss=9.0)])
    found = extrap.allocate(extra, flops=1e21, where={"run": "keep"})
    assert found.params == extrap.allocate([table[:20], table[20:]], flops=1e21).params


def test_a_sealed_forecast_and_runs_make_plans_costs_checks_and_pages(tmp_path):
    made, sealed = of_sweep(), tmp_path / "f.json"
    extrap.save_forecast(made, sealed)
    verdicts = extrap.check(made, LARGER)
    assert [verdict.size for verdict in verdicts] == [BIG, BIG]
    assert [v.on_law for v in extrap.check(sealed, LARGER)] == [v.on_law for v in verdicts]
    named = LARGER.rename(columns={"lr": "config.lr", "loss": "eval"})
    assert [v.loss for v in extrap.check(made, named, loss="eval")] == [v.loss for v in verdicts]
    chosen = extrap.cost(made, at=BIG, flops=1e15).chosen
    assert extrap.cost(sealed, at=BIG, flops=1e15).chosen == chosen
    page = extrap.report(SWEEP, path=tmp_path / "page.html", where={"seed": [0, 1]}, title="T")
    assert "<title>T</title>" in page.read_text(encoding="utf-8")
    assert extrap.cost(made, at=1024, flops=1e15).chosen == chosen
    assert repr(extrap.cost(made, at=1024)).startswith("At width 1024, ")
    assert extrap.plan(made, at=1024, cost="width").at == BIG


def test_studies_of_one_sweep_need_sizes():
    parts = by_width(SWEEP)
    twice = [study_of(part, "mine", attribute="width") for part in parts]
    truth = of_sweep().at(1024).loss
    assert extrap.forecast(twice).at(1024).loss == pytest.approx(truth)
    own = [
        study_of(part, name, attribute="mydim") for name, part in zip(NAMES, parts, strict=True)
    ]
    with pytest.raises(extrap.DataError, match="could be the size, mydim"):
        extrap.forecast(own)
    assert extrap.forecast(own, size="mydim").at(1024).loss == pytest.approx(truth)
    larger = study_of(LARGER, "mine/check/width=1024")
    sweep = [study_of(part, f"mine/width={w}") for w, part in zip(WIDTHS, parts, strict=True)]
    assert len(extrap.check(extrap.forecast([*sweep, larger]), [*sweep, larger])) == len(LARGER)
