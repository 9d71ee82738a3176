"""What tests of tuning share: a small study, a function that trains it, and its trials."""

from dataclasses import replace

import optuna
import sqlalchemy
from optuna import get_all_study_names

from extrap.records import Recipe, StudySpec, TunedRange, Workload
from extrap.study import dispatch
from extrap.study.database import open_storage
from extrap.study.executors import LocalExecutor
from extrap.study.trainers import PackedTrainer
from tests.study_workloads import TEACHER
from tests.waiting import wait_until

SPEC = StudySpec(
    name="small",
    question="Does tuning work?",
    workload=Workload(
        name="bytes-mlp",
        options={"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256},
    ),
    sizes={"width": (8, 16)},
    tune={"lr": TunedRange(low=2**-8, high=2**-4, n=3)},
    recipe=Recipe(steps=8, batch_size=8, n_evals=4),
    seeds=(0, 1),
    growth=0,
)
OWN = replace(SPEC, name="own", workload=Workload(name="mine"))
CUT = StudySpec(
    name="cut",
    question="?",
    workload=Workload(name=TEACHER, options={"n_features": 8, "n_examples": 200}),
    sizes={"width": (4, 8)},
    tune={"lr": TunedRange(low=2**-6, high=2**-3, n=4)},
    seeds=(0, 1),
    recipe=Recipe(steps=8, batch_size=8, n_evals=2),
)


def rates(low, high, n):
    return {"lr": TunedRange(low=low, high=high, n=n)}


def spec(name, **fields):
    """Two widths and two rates without a workload, unless fields say otherwise."""
    plain = {"question": "?", "sizes": {"width": (8, 16)}, "tune": rates(0.01, 0.04, 2)}
    return StudySpec(name=name, **{**plain, "seeds": (0,), "growth": 0, **fields})


def excess_curve(size, tuned, seed):
    return 1 + 1 / size["width"] + (tuned["lr"] - 0.02) ** 2 + 0.001 * seed


def trials_of(url):
    """Every trial of a storage."""
    storage = open_storage(url)
    ids = map(storage.get_study_id_from_name, get_all_study_names(storage))
    return [trial for study_id in ids for trial in storage.get_all_trials(study_id)]


def train_here():
    """From now on packs train in a thread of this process, one after the other."""
    dispatch.LocalExecutor = lambda *_, **__: LocalExecutor()


def hit_at_half(width, act):
    """From now on `act` is called when half of the updates of a width are made.

    The training waits there until it is asked to stop, where `act` returns True.

    Returns:
        What undoes it.
    """
    train = PackedTrainer.train

    def hit(self, cells, on_eval, say, **options):
        def heard(step, losses):
            if 2 * step == self.steps(cells[0]) and dict(cells[0].size) == {"width": width}:
                waits = act()
                wait_until(lambda: not waits or options["checkpoints"].is_stop_requested())
            return on_eval(step, losses)

        return train(self, cells, heard, say, **options)

    PackedTrainer.train = hit
    return lambda: setattr(PackedTrainer, "train", train)


def lost_connection():
    cause = sqlalchemy.exc.OperationalError("", None, Exception("server closed the connection"))
    error = optuna.exceptions.StorageInternalError("during the commit")
    error.__cause__ = cause
    return error
