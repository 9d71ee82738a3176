"""Storages of Optuna: their addresses, and how they are opened for reading.

| address | is | is read |
|---|---|---|
| `sqlite:///.extrap/NAME.db` | a file on this machine | from a copy |
| `postgresql://USER:PASSWORD@HOST/NAME` | a server | in transactions that may not write |

Anything else that SQLAlchemy opens, such as `mysql://`, works too. What is there stays as it is:
an SQLite file that is opened where it is would leave a journal, a lock or a rolled back
transaction behind. No message holds a password.
"""

from __future__ import annotations

import json
import re
import weakref
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import optuna
import sqlalchemy
from optuna.exceptions import OptunaError
from optuna.storages import BaseStorage, RDBStorage
from optuna.storages._rdb import models
from optuna.storages._rdb.storage import _create_scoped_session
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from extrap.errors import (
    IN_QUERY,
    DataError,
    ExtrapError,
    StudyError,
    first_line,
    without_password,
)
from extrap.installing import how_to_install
from extrap.reading.copies import TIMEOUT_S, copy_database

POSTGRESQL = {
    "connect_timeout": 10,
    "tcp_user_timeout": 60_000,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    # a process that is frozen while it holds a lock would block all others
    "options": "-c idle_in_transaction_session_timeout=15s -c lock_timeout=30s",
}
"""How a server is reached: that it went away must be noticed."""
TABLE_OF_TRIAL_PART: Mapping[str, Any] = {
    "values": models.TrialValueModel,
    "params": models.TrialParamModel,
    "user_attributes": models.TrialUserAttributeModel,
    "system_attributes": models.TrialSystemAttributeModel,
    "intermediate_values": models.TrialIntermediateValueModel,
}
"""Parts of a trial → Optuna's tables of them."""
WRITE_REMEDIES = {
    "full": "free some space there, then run the same command to resume",
    "readonly": "make the file and its folder writable, then run the same command to resume",
}
"""What SQLite says of a storage that is sound but cannot be written → what to do."""


class Database(RDBStorage):
    """Optuna's storage, which reads plain rows: an object for each takes several times as long."""

    def _get_trials(
        self,
        study_id: int,
        states: Container[TrialState] | None,
        included_trial_ids: set[int],
        trial_id_greater_than: int,
    ) -> list[FrozenTrial]:
        if states is not None or included_trial_ids:
            return super()._get_trials(study_id, states, included_trial_ids, trial_id_greater_than)
        trials = models.TrialModel.__table__
        of_study = (trials.c.study_id == study_id, trials.c.trial_id > trial_id_greater_than)
        parts: dict[str, dict[int, list[Any]]] = {}
        with _create_scoped_session(self.scoped_session) as session:
            models.StudyModel.find_or_raise_by_id(study_id, session)
            query = sqlalchemy.select(trials).where(*of_study).order_by(trials.c.trial_id)
            trial_rows = session.execute(query).all()
            for name, model in TABLE_OF_TRIAL_PART.items():
                table, by_trial = model.__table__, parts.setdefault(name, defaultdict(list))
                query = sqlalchemy.select(table).join(trials).where(*of_study)
                for row in session.execute(query) if trial_rows else ():
                    by_trial[row.trial_id].append(row)
        return [
            self._build_frozen_trial_from_trial_model(_row_as_model(trial, parts))
            for trial in trial_rows
        ]


def _row_as_model(trial: Any, parts: Mapping[str, Mapping[int, list[Any]]]) -> Any:
    return SimpleNamespace(
        **trial._mapping, **{n: by_trial[trial.trial_id] for n, by_trial in parts.items()}
    )


def open_to_read(url: str) -> BaseStorage:
    """Open a storage that is not to be changed, a file as it is at this moment.

    Raises:
        DataError: There is no such file, or it holds no studies of Optuna.
        StudyError: It cannot be opened, or another version of Optuna wrote it.
    """
    storage = open_if_there(url)
    if storage is None:
        path = file_of(parse_url(url))
        if path is not None and not path.is_file():
            raise DataError(f"there is no storage {str(path)!r}; check the path, or tune first.")
        raise DataError(f"{without_password(url)} holds no Optuna studies; check the address.")
    return storage


def open_if_there(url: str) -> BaseStorage | None:
    """As `open_to_read`; None where there are no studies.

    Raises:
        StudyError: As `open_to_read`.
    """
    parsed = parse_url(url)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with storage_faults(url, Exception), ExitStack() as stack:
        options = engine_options(parsed)
        if parsed.get_backend_name() == "sqlite":
            path = file_of(parsed)
            if path is None or not path.is_file():
                return None
            folder = stack.enter_context(TemporaryDirectory(prefix="extrap-"))
            copy_database(path, Path(folder) / "copy.db")
            parsed = sqlalchemy.make_url(f"sqlite:///{folder}/copy.db")
        else:
            options["execution_options"] = {"postgresql_readonly": True}
        looking = sqlalchemy.create_engine(parsed, poolclass=sqlalchemy.NullPool, **options)
        if not sqlalchemy.inspect(looking).has_table("studies"):
            return None
        database = Database(address_of(parsed), options, True, skip_table_creation=True)
        stack.callback(database.engine.dispose)
        database._version_manager.check_table_schema_compatibility()
        storage = optuna.storages.get_storage(database)
        weakref.finalize(storage, stack.pop_all().close)
        return storage


def parse_url(url: str) -> sqlalchemy.URL:
    """The parts of an address, with the driver that the extra `postgres` installs.

    Raises:
        StudyError: It is empty or none, or its driver is missing.
    """
    shown = without_password(url)
    if not url.strip():
        raise StudyError("a storage needs an address, got an empty one; write sqlite:///NAME.db.")
    # of two, SQLAlchemy would take what is behind the first one for the host
    if not url.startswith("sqlite") and re.split(IN_QUERY, url)[0].count("@") > 1:
        raise StudyError(
            f"an address has one @, before its host, got {shown}; write any other one as %40."
        )
    try:
        parsed = sqlalchemy.make_url(url)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        parsed.get_dialect().import_dbapi()
    except ImportError as error:
        raise StudyError(
            f"a storage needs its database driver, got {shown} without {error.name}; "
            f"{how_to_install(error.name or '')}, or use sqlite:///NAME.db."
        ) from error
    except (SQLAlchemyError, ValueError):
        # their words may hold part of a password: of an address, a port that is no number
        raise StudyError(
            f"a storage is given by a database address, got {shown!r}; write "
            "sqlite:///NAME.db or postgresql://USER@HOST/NAME."
        ) from None
    return parsed


def file_of(parsed: sqlalchemy.URL) -> Path | None:
    """The file that an address names; None of a server, and of what is in memory."""
    is_sqlite = parsed.get_backend_name() == "sqlite"
    is_file = is_sqlite and parsed.database and parsed.database != ":memory:"
    return Path(str(parsed.database)) if is_file else None


def address_of(parsed: sqlalchemy.URL) -> str:
    """An address with its password, as Optuna takes it: it fills places in braces."""
    address = parsed.render_as_string(hide_password=False)
    return address.replace("{", "{{").replace("}", "}}")


def engine_options(parsed: sqlalchemy.URL) -> dict[str, Any]:
    """How a database of its kind is reached, as SQLAlchemy takes it."""
    if parsed.get_backend_name() == "sqlite":
        return {"connect_args": {"timeout": TIMEOUT_S}}
    if parsed.get_backend_name() == "postgresql":  # options in an address are the user's own
        return {"connect_args": {k: v for k, v in POSTGRESQL.items() if k not in parsed.query}}
    return {}


@contextmanager
def storage_faults(url: str, *others: type[Exception]) -> Iterator[None]:
    """Turn whatever a storage cannot do within the block into one clear `StudyError`.

    `others` are further errors to turn: any, where the block only reads what may be a stranger's.
    """
    storage_errors = (SQLAlchemyError, OptunaError, json.JSONDecodeError)
    faults: tuple[type[Exception], ...] = (*storage_errors, *others)
    try:
        yield
    except ExtrapError:
        raise
    except faults as error:
        reason = reason_of(error, url)
        remedies = [remedy for phrase, remedy in WRITE_REMEDIES.items() if phrase in reason]
        rule = "a storage must be a database that can be written"
        if not remedies:
            rule = "a storage must be an Optuna database"
            remedies = ["check the address, or move the file away to start anew"]
        raise StudyError(
            f"{rule}, got {without_password(url)} ({reason}); {remedies[0]}."
        ) from error


def reason_of(error: BaseException, url: str) -> str:
    """The first line of what a database or its driver says, without a password."""
    cause = error.__cause__ or error
    return first_line(getattr(cause, "orig", None) or cause, url=url)
