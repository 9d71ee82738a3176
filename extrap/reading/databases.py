"""A database as Optuna keeps it, with trials that are made quickly and finished once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy
from optuna.distributions import distribution_to_json
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.orm import Session

__all__ = ["Database"]


class Database(RDBStorage):
    """Optuna's database storage, with two changes.

    A trial is made in six questions instead of fourteen. The study is locked meanwhile, so that
    all who want a trial of it wait for one another: the lock is what a claim costs.

    On SQLite a trial is finished by one process only, however close another is. Optuna looks
    whether a trial is still running and then writes. Other databases lock the row it looks at;
    SQLite locks nothing before the first write, and a trial that was given to others could be
    completed by its old owner at the same moment, or a complete one be failed.
    """

    def __init__(self, url: str, *, engine_kwargs: dict[str, Any]) -> None:
        super().__init__(url, engine_kwargs=engine_kwargs)
        self._thread = threading.local()
        if self.engine.dialect.name == "sqlite":
            sqlalchemy.event.listen(self.engine, "begin", self._begin)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """As Optuna has it, while nobody else writes."""
        with self._locked():
            return super().set_trial_state_values(trial_id, state, values)

    def _create_new_trial(
        self, study_id: int, template_trial: FrozenTrial | None = None
    ) -> FrozenTrial:
        with self._locked():
            return super()._create_new_trial(study_id, template_trial)

    def _get_prepared_new_trial(
        self, study_id: int, template_trial: FrozenTrial | None, session: Session
    ) -> models.TrialModel:
        """The rows of a new trial, while its study is locked."""
        if template_trial is None or not _is_plain(template_trial):
            return super()._get_prepared_new_trial(study_id, template_trial, session)
        of_study = models.TrialModel.study_id == study_id
        n_before = sqlalchemy.select(sqlalchemy.func.count(models.TrialModel.trial_id))
        trial = models.TrialModel(
            study_id=study_id,
            number=session.scalar(n_before.where(of_study)),
            state=template_trial.state,
            datetime_start=template_trial.datetime_start,
        )
        trial.params = [
            models.TrialParamModel(
                param_name=name,
                param_value=template_trial.distributions[name].to_internal_repr(value),
                distribution_json=distribution_to_json(template_trial.distributions[name]),
            )
            for name, value in template_trial.params.items()
        ]
        trial.user_attributes = [
            models.TrialUserAttributeModel(key=key, value_json=json.dumps(value))
            for key, value in template_trial.user_attrs.items()
        ]
        session.add(trial)
        session.flush()
        return trial

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Within the block transactions of SQLite lock before they look."""
        self._thread.locks = True
        try:
            yield
        finally:
            self._thread.locks = False

    def _begin(self, connection: sqlalchemy.Connection) -> None:
        if getattr(self._thread, "locks", False):
            connection.exec_driver_sql("BEGIN IMMEDIATE")


def _is_plain(trial: FrozenTrial) -> bool:
    """Whether a trial to be made has parameters and attributes and nothing else."""
    others = (trial.values, trial.system_attrs, trial.intermediate_values)
    return not any(others) and trial.state == TrialState.RUNNING
