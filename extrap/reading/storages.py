"""Opening a storage: from its address to something that can be asked.

| address | is |
|---|---|
| `sqlite:///.extrap/NAME.db` | a file on this machine |
| `postgresql://USER:PASSWORD@HOST/NAME` | a server that several machines share |

Anything else that Optuna opens, such as `mysql://`, works too. No message holds a password.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import sqlite3
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import optuna
import sqlalchemy
from optuna.storages import BaseStorage, RDBStorage

from extrap.errors import DataError, ExtrapError, StudyError, argument
from extrap.installing import how_to_install
from extrap.reading.bounds import first_line

SQLITE_TIMEOUT_S = 60
"""Several processes may write to one SQLite file; each waits this long for its turn."""
ENGINES: Mapping[str, Mapping[str, Any]] = {
    "sqlite": {"connect_args": {"timeout": SQLITE_TIMEOUT_S}},
    "postgresql": {
        "connect_args": {
            "connect_timeout": 10,
            "tcp_user_timeout": 60_000,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            # a process that is frozen with a lock in its hands would block all others
            "options": "-c idle_in_transaction_session_timeout=15s -c lock_timeout=30s",
        },
    },
}
"""Kind of database → how to reach it: a server that went away must be noticed."""
REMEDY = "check the address, or move the file away to start anew"
REMEDIES = {
    "is full": "free some space and run it again, what was told before is there",
    "disk I/O": "see that its disk works and has room, and run it again",
    "readonly": "get the right to write, or copy it to where you have it",
}
"""What a database says that stopped in the middle → what to do; its file is to be kept."""
# SQLSTATE classes and codes of troubles that pass: connections, rolled back transactions, a
# server that is stopping or starting, too many connections, locks.
PASSING_STATES = ("08", "40", "57P", "53300", "55P03")
LASTING_WORDS = ("authentication failed", "does not exist", "no password", "no pg_hba.conf")
PASSING_ERRORS = (errno.ESTALE, errno.EAGAIN, errno.EBUSY, errno.EIO, errno.ETIMEDOUT)
DAMAGES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What Optuna and we stumble over in a storage that holds something else than trials."""


class ConnectionLost(ConnectionError):
    """The connection to a database was lost, whether before or after it did what was asked."""


def open_storage(url: str) -> BaseStorage:
    """Open a storage for reading and writing, creating an SQLite file and its folder.

    Args:
        url: Its address.

    Raises:
        StudyError: The URL is empty or unreadable, its driver is missing, or what it points at
            cannot be opened as an Optuna storage.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    parsed = parse_url(url)
    try:
        with storage_faults(url):
            return _open_database(parsed, url)
    except ImportError as error:
        raise no_driver(error, url) from error
    except DAMAGES as error:  # tables of another version of Optuna, a torn file
        raise error if isinstance(error, StudyError) else unusable(error, url) from error


def is_passing(error: BaseException) -> bool:
    """Whether an error of a storage is one that goes away by itself: a connection, a lock."""
    is_database = isinstance(error, sqlalchemy.exc.SQLAlchemyError)  # its cause is the driver's
    cause = error if is_database else error.__cause__ or error
    lost = (sqlalchemy.exc.TimeoutError, sqlalchemy.exc.PendingRollbackError)
    if isinstance(error, ConnectionLost) or isinstance(cause, lost):
        return True
    if isinstance(cause, sqlalchemy.exc.DBAPIError):
        return cause.connection_invalidated or _is_passing_in_a_database(cause)
    if isinstance(cause, OSError):
        return cause.errno in PASSING_ERRORS
    return isinstance(cause, RuntimeError) and "did not possess lock" in str(cause)


def _is_passing_in_a_database(error: sqlalchemy.exc.DBAPIError) -> bool:
    words = str(error.orig).lower()
    if type(error.orig).__module__.startswith("sqlite3"):
        return "locked" in words or "busy" in words
    if not isinstance(error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError):
        return False
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    if state:
        return str(state).startswith(PASSING_STATES)
    return not any(each in words for each in LASTING_WORDS)


def _open_database(parsed: sqlalchemy.URL, url: str) -> BaseStorage:
    kind = parsed.get_backend_name()
    if kind == "sqlite" and is_file(parsed):
        _make_folder(path_of(parsed), safe_url(url))
    inner = RDBStorage(full_address(parsed), engine_kwargs=engine_options(parsed))
    sqlalchemy.event.listen(inner.engine, "handle_error", _tell_lost)
    storage = optuna.storages.get_storage(inner)
    weakref.finalize(storage, inner.engine.dispose)  # servers have few connections
    return storage


def _tell_lost(context: sqlalchemy.engine.ExceptionContext) -> None:
    """Keep Optuna from repeating by itself what was cut off: it may have been committed."""
    if context.is_disconnect and context.sqlalchemy_exception is not None:
        raise ConnectionLost from context.sqlalchemy_exception


def engine_options(parsed: sqlalchemy.URL) -> dict[str, Any]:
    """How to reach a database of its kind."""
    known = ENGINES.get(parsed.get_backend_name(), {})
    engine = {k: dict(v) if isinstance(v, dict) else v for k, v in known.items()}
    if "options" in parsed.query:  # which are the user's own
        engine.get("connect_args", {}).pop("options", None)
    return engine


def full_address(parsed: sqlalchemy.URL) -> str:
    """An address with its password, as Optuna takes it: it fills places in braces."""
    address = _with_driver(parsed).render_as_string(hide_password=False)
    return address.replace("{", "{{").replace("}", "}}")


def _with_driver(parsed: sqlalchemy.URL) -> sqlalchemy.URL:
    """An address with the driver that the extra `postgres` installs, unless it names another."""
    if parsed.drivername == "postgresql" and find_spec("psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    return parsed


@contextmanager
def storage_faults(url: str) -> Iterator[None]:
    """Turn whatever a database cannot do within the block into one clear `StudyError`."""
    try:
        yield
    except (
        sqlalchemy.exc.SQLAlchemyError,
        optuna.exceptions.OptunaError,
        ConnectionLost,
    ) as error:
        raise unusable(error, url) from error
    except json.JSONDecodeError as error:
        raise StudyError(
            f"what a storage holds must be readable, got {safe_url(url)} with a text that is no "
            f"JSON ({error}); restore it from a backup, or take that text out."
        ) from error


@contextmanager
def reading_faults(url: str) -> Iterator[None]:
    """Turn what one stumbles over within the block, in a stranger's storage, into a `StudyError`.

    Only for reading: cells of another kind than Optuna's, attributes of another form than ours.
    """
    try:
        yield
    except (ExtrapError, json.JSONDecodeError):  # which `storage_faults` knows
        raise
    except DAMAGES as error:
        raise unusable(error, url) from error


def unusable(error: Exception, url: str) -> StudyError:
    """The error that says that a storage is none, or broken."""
    reason = _reason(error, url)
    remedy = next((do for words, do in REMEDIES.items() if words in reason), REMEDY)
    return StudyError(
        f"a storage must be an Optuna database that can be read and written, got {safe_url(url)} "
        f"({reason}); {remedy}."
    )


def parse_url(url: str) -> sqlalchemy.URL:
    """The parts of an address.

    Raises:
        StudyError: It is empty or none, or its driver is missing.
    """
    if not url.strip():
        raise StudyError("a storage needs an address, got an empty one; write sqlite:///NAME.db.")
    try:
        parsed = sqlalchemy.make_url(url)
        _check_signs(parsed, url)
        _with_driver(parsed).get_dialect().import_dbapi()
    except ImportError as error:
        raise no_driver(error, url) from error
    except (sqlalchemy.exc.SQLAlchemyError, ValueError):
        # their words may hold part of a password: of an address, a port that is no number
        raise StudyError(
            f"a storage is given by a database address, got {safe_url(url)!r}; write "
            "sqlite:///NAME.db or postgresql://USER@HOST/NAME."
        ) from None
    return parsed


def _check_signs(parsed: sqlalchemy.URL, url: str) -> None:
    """Raise if an @ of a password is not written as %40, which puts the rest into the host."""
    parts = [parsed.host, "" if parsed.drivername.startswith("sqlite") else parsed.database]
    parts += [] if parsed.password is None else [key for key in parsed.query if "@" in key]
    if parsed.password is not None:  # of a question without an answer nothing is parsed
        parts += [part for part in url.partition("?")[2].split("&") if "=" not in part]
    if any("@" in (part or "") for part in parts):
        raise StudyError(
            f"an address has one @, before its host, got {safe_url(url)}; write an @ of a user or "
            "password as %40."
        )


def no_driver(error: ImportError, url: str) -> StudyError:
    """The error that says which driver a storage lacks, and how to install it."""
    is_default = url.partition(":")[0] == "postgresql"  # of which SQLAlchemy asks for an old one
    install = how_to_install("psycopg" if is_default else error.name or "")
    return StudyError(
        f"a storage needs its database driver, got {safe_url(url)} without "
        f"{error.name or 'its driver'}; {install}, or use sqlite:///NAME.db."
    )


def safe_url(url: str) -> str:
    """The address without its password."""
    # first the query, to its end: an @ in there would look like the end of a user's password, and
    # an & that should have been %26 like that of this one
    shown = re.sub(r"([?&;](?:ssl)?(?:password|passwd)=).*", r"\1***", url, flags=re.I | re.S)
    user = "[^:/]*" if url.startswith("sqlite") else "[^:]*"
    return re.sub(rf"(://{user}):.*@", r"\1:***@", shown, flags=re.S)


def _reason(error: Exception, url: str) -> str:
    """The first line of a library's message, without a password."""
    cause = error.__cause__ or error
    first = str(getattr(cause, "orig", None) or cause).strip() or type(cause).__name__
    return without_secrets(first, url=url)


def without_secrets(words: str, *, url: str) -> str:
    """The first line of what a library says of an address, without any part of its password.

    Args:
        words: What it says.
        url: The address. Whatever is between the first `:` behind its user and its last `@` may
            be of a password, in whichever parts a library took it.
    """
    first = (words.splitlines() or [""])[0]
    for secret in sorted(_secrets(url), key=len, reverse=True):
        for written in (secret, quote(secret, safe=""), unquote(secret)):
            first = first.replace(written, "***")
    return first_line(first)  # cut last: a password cut in two would not be found


def _secrets(url: str) -> set[str]:
    found: set[str] = set()
    with suppress(sqlalchemy.exc.SQLAlchemyError, ValueError):
        parsed = sqlalchemy.make_url(url)
        found |= {str(v) for k, v in parsed.query.items() if "passw" in k.lower()}
        if parsed.password is None:
            return found - {""}
        found.add(str(parsed.password))
    user = re.match(r"[^:]*://[^:/]*:(.*)@", url, flags=re.S)
    if user:
        found |= {user[1], *user[1].split("@")}
    return found - {""}


def require_path(parsed: sqlalchemy.URL, url: str) -> None:
    """Raise if SQLite is given a `file:` address, which may create what is to be there already."""
    if parsed.get_backend_name() == "sqlite" and str(parsed.database).startswith("file:"):
        raise StudyError(
            f"a storage that is there is given by its path, got {safe_url(url)}; write "
            "sqlite:///FOLDER/NAME.db, without file: and what is behind the question mark."
        )


def path_of(parsed: sqlalchemy.URL) -> Path:
    """The file that an address names."""
    return Path(str(parsed.database))


def storage_id(url: str) -> str:
    """A short name of a storage, from its address without its password."""
    parsed = parse_url(url)
    place = str(path_of(parsed).absolute()) if is_on_disk(parsed) else safe_url(url)
    return hashlib.sha256(place.encode()).hexdigest()[:16]


def is_on_disk(parsed: sqlalchemy.URL) -> bool:
    """Whether a storage is a file."""
    return parsed.get_backend_name() == "sqlite" and is_file(parsed)


def is_file(parsed: sqlalchemy.URL) -> bool:
    """Whether an address of SQLite is one of a file."""
    database = parsed.database
    return bool(database) and database != ":memory:" and not str(database).startswith("file:")


def _make_folder(path: Path, shown: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StudyError(
            f"a storage needs a folder it may write to, got {shown} ({error.strerror}); "
            f"choose another {argument('storage')}."
        ) from error


def require_tables(path: Path, *, shown: Path | None = None) -> None:
    """Look before Optuna does: it would create the file, or its tables in anyone's database.

    Args:
        path: An SQLite file.
        shown: The file that messages name, if that is another one.

    Raises:
        DataError: There is no such file, or it holds other tables.
        StudyError: It is no SQLite file.
    """
    if not path.is_file():
        raise DataError(f"there is no storage {str(path)!r}; check the path, or tune first.")
    named = str(shown or path)
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
        try:
            found = connection.execute("SELECT type, name FROM sqlite_master").fetchall()
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        raise StudyError(
            f"a storage must be an SQLite file, got {named!r} ({error}); restore it from a "
            "backup, or move it away and tune anew."
        ) from error
    if odd := [name for kind, name in found if kind not in ("table", "index")]:
        raise DataError(
            f"a storage of Optuna has tables only, got {odd[0]!r} in {named!r}, which would "
            "run what its author wrote; export its runs on the machine they come from."
        )
    if ("table", "studies") not in found:
        raise DataError(
            f"a storage must be an Optuna database, got {named!r}, which holds other tables; "
            "check the path."
        )
