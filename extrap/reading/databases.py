"""A database as Optuna keeps it, with trials that are made and read quickly and finished once."""

from __future__ import annotations

import json
import threading
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import sqlalchemy
from optuna.distributions import (
    BaseDistribution,
    distribution_to_json,
    json_to_distribution,
)
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.storages._rdb.storage import _create_scoped_session
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.orm import Session

__all__ = ["Database"]

MOST_NAMED = 500
"""Databases take so many numbers in a question, and more."""


class Database(RDBStorage):
    """Optuna's database storage, with some changes; the tables are the same.

    Trials are read as plain rows, without an object for each of their attributes.

    A trial is made in six questions instead of fourteen, on PostgreSQL in three. The study is
    locked meanwhile, so that all who want a trial of it wait for one another, and each question
    is one more that the busy machine of the one before them must find the time for. Many trials
    are made in one transaction, and one is finished with all of its attributes in one.

    On SQLite a trial is finished by one process only, however close another is. Optuna looks
    whether a trial is still running and then writes. Other databases lock the row it looks at;
    SQLite locks nothing before the first write, and a trial that was given to others could be
    completed by its old owner at the same moment, or a complete one be failed.

    Args:
        url: Its address; on a server its tables are there.
        engine_kwargs: How to reach it.
        has_tables: Whether it is taken as it is; by default a server, whose tables were made and
            looked at just now.
    """

    def __init__(
        self, url: str, *, engine_kwargs: dict[str, Any], has_tables: bool | None = None
    ) -> None:
        as_is = not url.startswith("sqlite") if has_tables is None else has_tables
        super().__init__(url, engine_kwargs, as_is, skip_table_creation=as_is)
        self._thread = threading.local()
        if self.engine.dialect.name == "sqlite":
            sqlalchemy.event.listen(self.engine, "begin", self._begin)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """As Optuna has it, while nobody else writes."""
        with self._locked():
            return super().set_trial_state_values(trial_id, state, values)

    def create_new_trials(self, study_id: int, templates: Sequence[FrozenTrial]) -> list[int]:
        """Make trials of one study, all or none; their ids, in order."""
        with self._locked(), _create_scoped_session(self.scoped_session) as session:
            models.StudyModel.find_or_raise_by_id(study_id, session, for_update=True)
            made = [self._get_prepared_new_trial(study_id, each, session) for each in templates]
            return [int(trial.trial_id) for trial in made]

    def finish_trial(
        self, trial_id: int, attributes: Mapping[str, Any], state: TrialState, values: list[float]
    ) -> None:
        """Finish a trial with its attributes and values, or do nothing at all.

        Raises:
            UpdateFinishedTrialError: It is finished already.
        """
        trials, own = _table(models.TrialModel), _table(models.TrialUserAttributeModel)
        this = trials.c.trial_id == trial_id
        is_open = trials.c.state.in_([TrialState.RUNNING, TrialState.WAITING])
        now = datetime.now(UTC).replace(tzinfo=None)
        end = sqlalchemy.update(trials).where(this, is_open)
        with self._locked(), self.engine.begin() as connection:
            # the first that changes the row is the one; the others wait for it, and change none
            if not connection.execute(end.values(state=state, datetime_complete=now)).rowcount:
                if connection.scalar(sqlalchemy.select(trials.c.trial_id).where(this)) is None:
                    raise KeyError(f"there is no trial {trial_id}")
                raise UpdateFinishedTrialError(f"trial {trial_id} is finished already")
            if attributes:
                old = sqlalchemy.delete(own).where(own.c.trial_id == trial_id)
                connection.execute(old.where(own.c.key.in_(list(attributes))))
                rows = [
                    {"trial_id": trial_id, "key": key, "value_json": json.dumps(value)}
                    for key, value in attributes.items()
                ]
                connection.execute(sqlalchemy.insert(own), rows)
            if values:
                connection.execute(
                    sqlalchemy.insert(_table(models.TrialValueModel)),
                    [_stored(trial_id, i, value) for i, value in enumerate(values)],
                )

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
        if self.engine.dialect.name == "postgresql":
            return _make_at_once(session, study_id, template_trial)
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

    def _get_trials(
        self,
        study_id: int,
        states: Container[TrialState] | None,
        included_trial_ids: set[int],
        trial_id_greater_than: int,
    ) -> list[FrozenTrial]:
        """Trials by their number in the database: those above one, and some below."""
        below = [i for i in included_trial_ids if i <= trial_id_greater_than]
        if states is not None or len(below) > MOST_NAMED:
            return super()._get_trials(study_id, states, included_trial_ids, trial_id_greater_than)
        try:
            with self.engine.connect() as connection:
                return _read(connection, study_id, below, trial_id_greater_than)
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise StorageInternalError(f"trials could not be read: {error}") from error

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


MAKE = sqlalchemy.text("""
WITH made AS (
  INSERT INTO trials (number, study_id, state, datetime_start)
  SELECT count(*), :study, CAST('RUNNING' AS trialstate), CAST(:start AS timestamp)
  FROM trials WHERE study_id = :study RETURNING trial_id, number
), params AS (
  INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json)
  SELECT trial_id, name, value, kind FROM made, unnest(CAST(:names AS varchar[]),
    CAST(:values AS double precision[]), CAST(:kinds AS text[]))
    WITH ORDINALITY AS given (name, value, kind, place) ORDER BY place
), attributes AS (
  INSERT INTO trial_user_attributes (trial_id, key, value_json)
  SELECT trial_id, key, value FROM made, unnest(CAST(:keys AS varchar[]),
    CAST(:contents AS text[])) WITH ORDINALITY AS given (key, value, place) ORDER BY place
)
SELECT trial_id, number FROM made
""")
"""A trial with its parameters and attributes in one statement; the study is locked already."""


def _make_at_once(session: Session, study_id: int, template: FrozenTrial) -> models.TrialModel:
    trial = models.TrialModel(
        study_id=study_id, state=template.state, datetime_start=template.datetime_start
    )
    kinds = template.distributions
    row = session.execute(
        MAKE,
        {
            "study": study_id,
            "start": trial._datetime_start_utc,
            "names": list(template.params),
            "values": [kinds[k].to_internal_repr(v) for k, v in template.params.items()],
            "kinds": [distribution_to_json(kinds[name]) for name in template.params],
            "keys": list(template.user_attrs),
            "contents": [json.dumps(value) for value in template.user_attrs.values()],
        },
    ).one()
    trial.trial_id, trial.number = row.trial_id, row.number
    return trial


def _read(
    connection: sqlalchemy.Connection, study_id: int, below: Sequence[int], above: int
) -> list[FrozenTrial]:
    """Trials of a study whose number in the database is among some or above one."""
    trials = _table(models.TrialModel)
    wanted = sqlalchemy.and_(
        trials.c.study_id == study_id,
        sqlalchemy.or_(trials.c.trial_id > above, trials.c.trial_id.in_(below)),
    )
    rows = connection.execute(sqlalchemy.select(trials).where(wanted)).mappings().all()
    if not rows and not connection.scalar(
        sqlalchemy.select(_table(models.StudyModel).c.study_id).where(
            _table(models.StudyModel).c.study_id == study_id
        )
    ):
        raise KeyError(f"there is no study {study_id}")

    def parts(model: type) -> dict[int, list[Any]]:
        table = _table(model)
        query = sqlalchemy.select(table).join(trials, trials.c.trial_id == table.c.trial_id)
        found: dict[int, list[Any]] = {}
        key = next(iter(table.primary_key.columns))
        for row in connection.execute(query.where(wanted).order_by(key)) if rows else ():
            found.setdefault(row.trial_id, []).append(row)
        return found

    values, params = parts(models.TrialValueModel), parts(models.TrialParamModel)
    user, system = parts(models.TrialUserAttributeModel), parts(models.TrialSystemAttributeModel)
    steps = parts(models.TrialIntermediateValueModel)
    made = []
    for row in sorted(rows, key=lambda row: row["trial_id"]):
        trial_id = row["trial_id"]
        found = {each.param_name: each for each in params.get(trial_id, ())}
        kinds = {name: _distribution(each.distribution_json) for name, each in found.items()}
        told = sorted(values.get(trial_id, ()), key=lambda each: each.objective)
        made.append(
            FrozenTrial(
                number=row["number"],
                state=row["state"],
                value=None,
                values=[
                    models.TrialValueModel.stored_repr_to_value(each.value, each.value_type)
                    for each in told
                ]
                or None,
                datetime_start=_local(row["datetime_start"]),
                datetime_complete=_local(row["datetime_complete"]),
                params={
                    name: kinds[name].to_external_repr(each.param_value)
                    for name, each in found.items()
                },
                distributions=kinds,
                user_attrs={e.key: json.loads(e.value_json) for e in user.get(trial_id, ())},
                system_attrs={e.key: json.loads(e.value_json) for e in system.get(trial_id, ())},
                intermediate_values={
                    each.step: _intermediate(each) for each in steps.get(trial_id, ())
                },
                trial_id=trial_id,
            )
        )
    return made


def _table(model: type) -> sqlalchemy.Table:
    table = model.__table__  # type: ignore[attr-defined]
    assert isinstance(table, sqlalchemy.Table)
    return table


@lru_cache(maxsize=1024)
def _distribution(text: str) -> BaseDistribution:
    return json_to_distribution(text)


def _intermediate(row: Any) -> float:
    return models.TrialIntermediateValueModel.stored_repr_to_intermediate_value(
        row.intermediate_value, row.intermediate_value_type
    )


def _stored(trial_id: int, objective: int, value: float) -> dict[str, Any]:
    number, kind = models.TrialValueModel.value_to_stored_repr(value)
    return {
        "trial_id": trial_id,
        "objective": objective,
        "value": number,
        "value_type": kind,
    }


def _local(moment: datetime | None) -> datetime | None:
    """Optuna keeps times in UTC, and gives them in local time."""
    if moment is None:
        return None
    return moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)


def _is_plain(trial: FrozenTrial) -> bool:
    """Whether a trial to be made has parameters and attributes and nothing else."""
    others = (trial.values, trial.system_attrs, trial.intermediate_values)
    return not any(others) and trial.state == TrialState.RUNNING
