"""Other methods, the splits that packages get, and the forecasts of packages that are shipped."""

import json

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks import peer_packages, peers
from benchmarks.rows import DATA
from benchmarks.scores import Table
from extrap.fitting.regression import predict_power


@pytest.mark.parametrize("n_columns", [1, 2])
def test_variable_projection_finds_an_exact_law(n_columns):
    rng = np.random.default_rng(0)
    sizes = 10 ** rng.uniform([7, 9], [9, 11], (30, 2))[:, :n_columns]
    exponents, amplitudes = np.array([0.34, 0.28])[:n_columns], np.array([406.4, 410.7])

    def loss(at):
        return 1.69 + (amplitudes[:n_columns] * at**-exponents).sum(axis=1)

    law = peers.vpnls(sizes, loss(sizes))
    assert law.exponents == pytest.approx(exponents, rel=0.02)
    assert law.coefficients[0] == pytest.approx(1.69, rel=0.01)
    far = 10 * sizes.max(axis=0)[None]
    assert law.losses(far) == pytest.approx(loss(far), rel=1e-3)


def test_trivial_methods_forecast_what_they_say():
    fitted = pd.DataFrame(
        {"params": [1.0, 4.0, 4.0], "tokens": [1.0, 1.0, 64.0], "loss": [4.0, 3.0, 2.0]}
    )
    truth = pd.DataFrame({"params": [16.0, 16.0], "tokens": [2.0, 100.0], "loss": [2.5, 1.5]})
    table = Table("t", "g", ("params", "tokens"), fitted, truth)
    assert peers.last_value(table).log == pytest.approx(np.log([3.0, 2.0]))
    sizes = np.array([1.0, 2.0, 4.0, 8.0])
    fitted = pd.DataFrame({"params": sizes, "loss": 5 * sizes**-0.5})
    table = Table("t", "g", ("params",), fitted, pd.DataFrame({"params": [32.0], "loss": [1.0]}))
    assert peers.straight_line(table).log == pytest.approx(np.log([5 * 32**-0.5]))


def test_straight_line_is_that_of_the_package_and_refuses_too_few_runs():
    rng = np.random.default_rng(0)
    sizes = 10 ** rng.uniform(6, 9, (7, 2))
    runs = pd.DataFrame({"params": sizes[:, 0], "tokens": sizes[:, 1]})
    runs["loss"] = 9 * sizes[:, 0] ** -0.1 * sizes[:, 1] ** -0.05 * np.exp(rng.normal(0, 0.01, 7))
    table = Table("t", "g", ("params", "tokens"), runs[:5], runs[5:])
    made = peers.straight_line(table)
    columns = {name: runs[name][:5].tolist() for name in ("params", "tokens")}
    for i, at in enumerate(runs[["params", "tokens"]][5:].to_dict("records")):
        line = predict_power(columns, runs["loss"][:5], None, at=at, level=0.9)
        assert [made.log[i], made.low[i], made.high[i]] == pytest.approx(
            np.log([line.value, *line.ci])
        )
    with pytest.raises(extrap.DataError, match="needs more runs than 3"):
        peers.straight_line(table._replace(fitted=runs[:3]))


def split_of(losses=(3.0, 2.5), ahead=2.0):
    fitted = pd.DataFrame({"compute": [1.0, 2.0], "loss": losses})
    truth = pd.DataFrame({"compute": [4.0], "loss": [ahead]})
    return peers.Split(peers.COMPUTE, Table("t", "g", ("compute",), fitted, truth))


def test_summary_of_a_peer_is_that_of_its_larger_runs():
    truth = pd.DataFrame({"params": [2.0, 4.0], "loss": [np.e, np.e]})
    split = peers.Split(peers.COMPUTE, Table("t", "g", ("params",), truth, truth))
    made = peers.Forecasts(np.array([1.1, 0.7]), np.array([0.9, 0.6]), np.array([1.2, 0.8]))
    row = peers.summary(split, "m", made, 0.5)
    assert row["error"] == pytest.approx(0.2)
    assert row["bias"] == pytest.approx(-0.1)
    assert row["held"] == 0.5
    assert row["score"] == pytest.approx((0.3 + 0.2 + 20 * 0.2) / 2)  # Gneiting, Raftery Eq. 43
    assert np.isnan(peers.summary(split, "m", peers.Forecasts(made.log), 0.5)["score"])
    open_end = peers.Forecasts(made.log, np.array([0.9, -np.inf]), np.array([1.2, 0.8]))
    row = peers.summary(split, "m", open_end, 0.5)
    assert (row["score"], row["width"], row["held"]) == (np.inf, np.inf, 0.5)
    missing = peers.Forecasts(made.log, np.array([0.9, np.nan]), np.array([1.2, 0.8]))
    assert np.isnan(peers.summary(split, "m", missing, 0.5)["score"])


def test_hash_is_of_all_runs_of_a_split():
    hashes = {split_of(*own).hash for own in (((3.0, 2.5),), ((3.0, 2.6),), ((3.0, 2.5), 2.1))}
    assert len(hashes) == 3
    assert split_of().hash == split_of((3.0, 2.5 + 1e-13)).hash  # another order of sums


def record_of(split, **changes):
    record = {"set": split.set, "split": split.name, "hash": split.hash, "method": "m"}
    return record | {"log": [0.7], "seconds": 1.0} | changes


@pytest.fixture
def one_split(monkeypatch):
    monkeypatch.setattr(peers, "loss_splits", lambda _: iter([split_of()]))
    return split_of()


def test_forecasts_of_other_splits_are_refused(one_split):
    (row,) = peers.peer_table(DATA, [record_of(one_split)]).to_dict("records")
    assert row["hash"] == one_split.hash
    assert row["error"] == pytest.approx(0.7 - np.log(2.0))
    with pytest.raises(ValueError, match="1 records are of splits that are not made now"):
        peers.peer_table(DATA, [record_of(one_split, hash="0")])


def test_failures_are_counted_and_too_many_are_an_error(one_split, capsys):
    failed = {**record_of(one_split, method="n"), "error": "ValueError: no"}
    records = [*[record_of(one_split, method="n")] * 19, failed]
    assert peers.peer_table(DATA, records)["error"].isna().sum() == 1
    assert capsys.readouterr().out == "n: 1 of 20 forecasts failed\n"
    with pytest.raises(ValueError, match="n failed too often, such as by: ValueError: no"):
        peers.peer_table(DATA, records[1:])


def test_rows_of_other_splits_are_left_out_in_a_line(one_split, tmp_path, capsys):
    path = tmp_path / "peers.csv"
    rows = [record_of(one_split, error=0.1), record_of(one_split, error=0.2, hash="0")]
    absent = record_of(one_split, error=0.3, set="of another table")
    pd.DataFrame([*rows, absent]).to_csv(path, index=False)
    assert peers.current_peers(DATA, path)["error"].tolist() == [0.1]
    assert capsys.readouterr().out.startswith("peers.csv: 1 of 2 rows are of other splits")


def test_a_stopped_command_goes_on_after_its_last_whole_record(tmp_path):
    path, split = tmp_path / "forecasts.jsonl", record_of(split_of())
    lines = [json.dumps(record) for record in (split, split | {"hash": "0"}, split)]
    path.write_text("\n".join([*lines[:2], lines[2][:40]]), encoding="utf-8")
    done = peer_packages.keep_records(path, [split])
    assert done == {("m", split["set"], split["split"], split["hash"])}
    assert path.read_text(encoding="utf-8") == lines[0] + "\n"
    assert not peer_packages.keep_records(tmp_path / "new.jsonl", [split])


def test_a_missing_package_is_said_at_once(monkeypatch):
    monkeypatch.setattr(peer_packages, "MODULES", ("json", "no_such_package"))
    with pytest.raises(SystemExit, match="no_such_package is missing"):
        peer_packages.require_packages()


def test_shipped_forecasts_of_packages_are_of_the_splits_that_are_made_now():
    shipped = pd.read_csv(peers.SHIPPED, comment="#")
    assert shipped["error"].notna().all()
    assert peers.SHIPPED.stat().st_size < 300_000
    if not (DATA / "steplaw.csv").is_file():
        pytest.skip("the published tables are not there")
    splits = list(peers.loss_splits())
    for method, own in shipped.groupby("method"):
        taken = [s for s in splits if method != "chinchilla" or len(s.table.sizes) == 2]
        names = {(s.set, s.name, s.hash) for s in taken}
        assert set(own[["set", "split", "hash"]].itertuples(index=False, name=None)) == names
