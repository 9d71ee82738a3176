"""The cells of a stage wait, are out, done or given up, whatever becomes of packs and storages."""

import pytest

from extrap.records import RunResult
from extrap.study.database import ConnectionLost, open_storage
from extrap.study.ledger import TRIES, Ledger, Part
from extrap.study.packs import Trained
from extrap.study.protocol import sweep
from extrap.study.trainers import trainer_of
from extrap.study.trials import Trials
from tests.study.trials import OWN, excess_curve, trials_of

N = len(OWN.grid_cells())


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/study.db"


@pytest.fixture
def ledger(url):
    trials = Trials(open_storage(url), OWN, stage="tune", fingerprint={})
    return Ledger(sweep(OWN), trials, trainer_of(OWN, excess_curve), excess_curve, print)


def trained(*cells):
    results = [
        RunResult(
            cell=c, status="complete", loss=excess_curve(dict(c.size), dict(c.tuned), c.seed)
        )
        for c in cells
    ]
    return Trained(results=tuple(results))


def all_parts(ledger):
    found = []
    while (part := ledger.next_part(1)) is not None:
        found.append(part)
    return found


def test_every_cell_is_handed_out_once_and_again_when_it_is_put_back(ledger):
    parts = all_parts(ledger)
    assert [cell for part in parts for cell in part.cells] == list(OWN.grid_cells())
    assert not ledger.is_done()
    ledger.put_back(Part(tuple(OWN.grid_cells()[:3]), n_lost=2), halved=True)
    assert all_parts(ledger) == [Part(OWN.grid_cells()[:2]), Part(OWN.grid_cells()[2:3])]
    ledger.put_back(Part(OWN.grid_cells()[:1], n_lost=2))
    assert all_parts(ledger) == [Part(OWN.grid_cells()[:1], n_lost=2)]


def test_a_result_that_cannot_be_written_stays_until_it_can(ledger, url, monkeypatch):
    cells, forgotten = [part.cells[0] for part in all_parts(ledger)], []
    for cell in cells:
        ledger.record(trained(cell), then=lambda cell=cell: forgotten.append(cell))
    add, is_away = Trials.add, [True]

    def flaky(self, *given):
        if is_away[0]:
            raise ConnectionLost
        return add(self, *given)

    monkeypatch.setattr(Trials, "add", flaky)
    with pytest.raises(ConnectionLost):
        ledger.write()
    assert (ledger.has_results(), ledger.is_done(), all_parts(ledger)) == (True, False, [])
    assert (forgotten, trials_of(url)) == ([], [])
    is_away[0] = False
    ledger.write()
    assert (ledger.is_done(), forgotten, len(trials_of(url))) == (True, cells, N)
    ledger.write()
    assert len(trials_of(url)) == N


def test_a_cell_that_fails_too_often_is_given_up_and_the_others_are_not(ledger, url):
    cells = tuple(part.cells[0] for part in all_parts(ledger))
    assert not ledger.fail(cells[:2], ValueError("of two"))
    assert all_parts(ledger) == [Part(cells[:1]), Part(cells[1:2])]
    for i in range(TRIES):
        is_last = i == TRIES - 1
        assert ledger.fail(cells[:1], ValueError("alone")) is is_last
        assert all_parts(ledger) == ([] if is_last else [Part(cells[:1])])
    assert str(ledger.given_up[cells[0]]) == "alone"
    for cell in cells[1:]:
        ledger.record(trained(cell))
    ledger.write()
    assert ledger.is_done()
    assert len(trials_of(url)) == N  # the failed one among them
