"""Opening a storage: from its address to something that can be asked.

| address | is |
|---|---|
| `sqlite:///.extrap/NAME.db` | a file on this machine |
| `postgresql://USER:PASSWORD@HOST/NAME` | a server that several machines share |
| `grpc://HOST:PORT` | Optuna's proxy in front of one, `extrap study serve` |
| `journal:////SHARED/FOLDER/NAME.log` | a file on a shared disk, where there is no server |

Anything else that Optuna opens, such as `mysql://`, works too. No message holds a password.
"""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import optuna
import sqlalchemy
from optuna.storages import BaseStorage, GrpcStorageProxy, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

from extrap.errors import DataError, ExtrapError, StudyError, argument
from extrap.installing import how_to_install
from extrap.reading.bounds import first_line
from extrap.reading.databases import Database
from extrap.reading.patience import PATIENCE_S, PatientStorage

__all__ = [
    "DAMAGES",
    "OURS",
    "engine_options",
    "full_address",
    "is_file",
    "no_driver",
    "open_storage",
    "parse_url",
    "path_of",
    "reading_faults",
    "require_path",
    "require_storage",
    "require_tables",
    "safe_url",
    "serve_storage",
    "storage_faults",
    "unusable",
    "without_secrets",
]

SQLITE_TIMEOUT_S = 60
"""Several processes may write to one SQLite file; each waits this long for its turn."""
GRPC_PORT = 13000
GRPC_TIMEOUT_S = 10.0
ENGINES: Mapping[str, Mapping[str, Any]] = {
    "sqlite": {"connect_args": {"timeout": SQLITE_TIMEOUT_S}},
    "postgresql": {
        "connect_args": {
            "connect_timeout": 10,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            # a worker that is frozen with a lock in its hands would block all others
            "options": "-c idle_in_transaction_session_timeout=15s -c lock_timeout=30s",
        },
    },
}
"""Kind of database → how to reach it: a server that went away must be noticed."""
TRIES = 20
RACED = ("already exists", "duplicate key", "UNIQUE constraint", "deadlock", "database is locked")
"""What workers hear that open an empty database at once: Optuna looks before it makes a table."""
REMEDY = "check the address, or move the file away to start anew"
REMEDIES = {
    "is full": "free some space and run it again, what was told before is there",
    "disk I/O": "see that its disk works and has room, and run it again",
    "readonly": "get the right to write, or copy it to where you have it",
}
"""What a database says that stopped in the middle → what to do; its file is to be kept."""
JSON_REMEDY = "extrap study repair finds and mends it"
JSON_REMEDIES = {
    "grpc": "extrap study repair finds and mends it, asked of the database behind the proxy",
    "journal": "restore it from a backup, or take the line out",
}
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
OURS = ("grpc", "journal")
"""Kinds of address that SQLAlchemy does not know."""
FILES = ("sqlite", "journal")
"""Kinds of address that name a file."""


class WholeLines(JournalFileBackend):
    """A journal whose writers may be killed in the middle of a line: the next one removes it."""

    def __init__(self, path: str) -> None:
        # symbolic links are made by one process only on every version of NFS
        super().__init__(path, lock_obj=JournalFileSymlinkLock(path))
        self._path = path
        self._lock_free = self._lock

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Add lines, after what a killed process left of its own is gone."""
        if self._is_torn():
            self._lock_free.acquire()
            try:
                self._cut()
            finally:
                with suppress(RuntimeError):
                    self._lock_free.release()
        super().append_logs(logs)

    def _is_torn(self) -> bool:
        with Path(self._path).open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"

    def _cut(self) -> None:
        """Cut the file behind its last whole line; nobody else writes now."""
        if not self._is_torn():  # it was being written, and is whole by now
            return
        content = Path(self._path).read_bytes()
        os.truncate(self._path, content.rfind(b"\n") + 1)


def open_storage(url: str, *, patience_s: float = PATIENCE_S) -> PatientStorage:
    """Open a storage for reading and writing, creating an SQLite file or journal and its folder.

    Args:
        url: Its address.
        patience_s: How long, once it is open, a lost connection is waited for.

    Raises:
        StudyError: The URL is empty or unreadable, its driver is missing, or what it points at
            cannot be opened as an Optuna storage.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    parsed = parse_url(url)
    kind = parsed.get_backend_name()
    try:
        with storage_faults(url):
            if kind == "grpc":
                inner = _open_proxy(parsed, url)
            elif kind == "journal":
                inner = _open_journal(parsed, url)
            else:
                inner = _open_database(parsed, url)
    except ImportError as error:
        raise no_driver(error, url) from error
    except DAMAGES as error:  # tables of another version of Optuna, a torn file
        raise error if isinstance(error, StudyError) else unusable(error, url) from error
    storage = PatientStorage(  # type: ignore[abstract]  # its methods are added by a decorator
        inner, safe_url(url), patience_s=patience_s, hide=partial(without_secrets, url=url)
    )
    weakref.finalize(storage, _closer(inner))  # servers have few connections
    return storage


def _closer(storage: BaseStorage) -> Callable[[], None]:
    """What closes the connections of a storage."""
    if isinstance(storage, GrpcStorageProxy):
        return storage.close
    engine = getattr(getattr(storage, "_backend", None), "engine", None)
    return (lambda: None) if engine is None else engine.dispose


def _open_database(parsed: sqlalchemy.URL, url: str) -> BaseStorage:
    kind = parsed.get_backend_name()
    if kind == "sqlite" and is_file(parsed):
        _make_folder(path_of(parsed), safe_url(url))
    engine, address = engine_options(parsed), full_address(parsed)
    _make_tables(address, engine)
    return optuna.storages.get_storage(Database(address, engine_kwargs=engine))


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


def _make_tables(address: str, engine: Mapping[str, Any]) -> None:
    """Open a database until nobody else makes its tables at the same moment."""
    options = {"connect_args": engine["connect_args"]} if "connect_args" in engine else {}
    for is_last in [False] * TRIES + [True]:
        try:
            # a pool would keep the connections of a storage that could not be made
            RDBStorage(address, engine_kwargs={**options, "poolclass": sqlalchemy.NullPool})
            return
        except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            if is_last or not any(words in str(error.__cause__ or error) for words in RACED):
                raise
            time.sleep(random.uniform(0.1, 1.0))


def _with_driver(parsed: sqlalchemy.URL) -> sqlalchemy.URL:
    """An address with the driver that the extra `postgres` installs, unless it names another."""
    if parsed.drivername == "postgresql" and find_spec("psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    return parsed


def _open_journal(parsed: sqlalchemy.URL, url: str) -> BaseStorage:
    if not parsed.database:
        raise StudyError(
            f"a journal is a file, got {safe_url(url)}; write journal:///FOLDER/NAME.log, with "
            "four slashes for a path from the root."
        )
    _make_folder(path_of(parsed), safe_url(url))
    try:
        return JournalStorage(WholeLines(str(path_of(parsed))))
    except OSError as error:
        raise StudyError(
            f"a journal must be a file that can be written, got {safe_url(url)} "
            f"({error.strerror}); choose another {argument('storage')}."
        ) from error


def _open_proxy(parsed: sqlalchemy.URL, url: str) -> BaseStorage:
    if not parsed.host:
        raise StudyError(f"a proxy has a host, got {safe_url(url)}; write grpc://HOST:PORT.")
    if not find_spec("grpc"):
        raise ImportError("No module named 'grpc'", name="grpc")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        proxy = GrpcStorageProxy(host=parsed.host, port=parsed.port or GRPC_PORT)
    try:
        proxy.wait_server_ready(timeout=GRPC_TIMEOUT_S)
    except ConnectionError as error:
        proxy.close()
        raise StudyError(
            f"a proxy must answer, got nothing from {safe_url(url)} for {GRPC_TIMEOUT_S:.0f} s; "
            "check the address, and that extrap study serve runs there."
        ) from error
    return proxy


def serve_storage(url: str, *, host: str, port: int) -> None:
    """Serve a database to workers by Optuna's gRPC proxy, until interrupted.

    Raises:
        StudyError: It cannot be opened, is no database, or the port is taken.
    """
    if parse_url(url).get_backend_name() in OURS:
        raise StudyError(
            f"a proxy stands in front of a database, got {safe_url(url)}; write "
            "--storage postgresql://USER@HOST/NAME."
        )
    if not find_spec("grpc"):
        raise no_driver(ImportError("No module named 'grpc'", name="grpc"), url)
    storage = open_storage(url)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        try:
            optuna.storages.run_grpc_proxy_server(storage, host=host, port=port)
        except RuntimeError as error:
            raise StudyError(
                f"a proxy needs a free port, got {host}:{port} ({error}); choose another "
                f"{argument('port')}."
            ) from error


def require_storage(url: str) -> None:
    """Raise a `DataError` if the file of a storage is not there; nothing is created."""
    parsed = parse_url(url)
    require_path(parsed, url)
    kind = parsed.get_backend_name()
    if kind == "sqlite" and is_file(parsed):
        require_tables(path_of(parsed))
    elif kind == "journal" and not path_of(parsed).is_file():
        raise DataError(f"there is no storage {str(path_of(parsed))!r}; check the path.")


@contextmanager
def storage_faults(url: str) -> Iterator[None]:
    """Turn whatever a database cannot do within the block into one clear `StudyError`."""
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError) as error:
        raise unusable(error, url) from error
    except json.JSONDecodeError as error:
        remedy = JSON_REMEDIES.get(url.partition(":")[0], JSON_REMEDY)
        raise StudyError(
            f"what a storage holds must be readable, got {safe_url(url)} with a text that is no "
            f"JSON ({error}); {remedy}."
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
        if parsed.drivername not in OURS:
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
    parts = [parsed.host, "" if parsed.drivername.startswith(FILES) else parsed.database]
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
    user = "[^:/]*" if url.startswith(FILES) else "[^:]*"
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
