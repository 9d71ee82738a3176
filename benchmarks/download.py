"""`make data`: the published tables that the benchmarks read, into `data/`.

    python -m benchmarks.download [--mirror ADDRESS] [--only TABLE …] [--folder FOLDER]

`sources.toml` lists the tables. Raw files come from the repositories and are converted; a mirror,
an HTTP address or a folder, holds the converted tables under their names. Either way a table is
kept only if its canonical form has the SHA-256 of `sources.toml`: every figure rests on that. Raw
files have no checksums of their own. Tables that are there already are not fetched again, and a
table is there whole or not at all. Exits with 1 if a table that should have come did not.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from urllib.parse import quote, urlsplit

import pandas as pd

from benchmarks.conversions import CONVERSIONS, csv_of
from benchmarks.rows import DOWNLOADED, table_path
from benchmarks.transfer import DownloadError, download
from extrap.errors import first_line, shown
from extrap.files import as_written, write_bytes

SOURCES = Path(__file__).with_name("sources.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Says where a table comes from.

    Attributes:
        name: Its file.
        what: What it holds.
        repository: Address of the repository that published it.
        commit: Of the repository.
        license: Of the repository, or "none stated".
        paper: That describes it.
        sha256: Of the table's canonical form.
        rows: Number of rows.
        unreadable_lines: Number of lines with too many fields, which are skipped.
        checked: Whether the conversion was compared with the "whole" raw file, a "part", or "no".
        files: Raw files within the repository; `COMMIT:PATH` for one of another commit. Braces
            stand for alternatives, as in a shell.
        conversion: Of the raw files to the table.
        is_shipped: Whether the table is in `benchmarks/`.
    """

    name: str
    what: str
    repository: str
    commit: str
    license: str
    paper: str
    sha256: str
    rows: int
    checked: str
    files: Sequence[str] = ()
    conversion: str = ""
    unreadable_lines: int = 0
    is_shipped: bool = False

    def addresses(self, host: str) -> Iterator[str]:
        """Make the addresses of the raw files."""
        project = urlsplit(self.repository).path.strip("/")
        for pattern in self.files:
            alternatives = [part.split(",") for part in re.split("[{}]", pattern)]
            for parts in product(*alternatives):
                commit, _, path = "".join(parts).rpartition(":")
                yield f"{host}/{project}/{commit or self.commit}/{quote(path)}"


def load_sources(path: Path = SOURCES) -> tuple[str, dict[str, Source]]:
    """Read the host of raw files, and file name → source."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    sources = [Source(name=f"{name}.csv", **entry) for name, entry in content["tables"].items()]
    return content["host"], {source.name: source for source in sources}


def canonical(table: pd.DataFrame) -> bytes:
    """Write a table as CSV in its order, numbers to twelve digits."""
    columns = {
        name: values.map("{:.12g}".format, na_action="ignore")
        if pd.api.types.is_numeric_dtype(values)
        else values
        for name, values in table.items()
    }
    return pd.DataFrame(columns).to_csv(index=False, lineterminator="\n").encode()


def check(source: Source, content: bytes) -> None:
    """Raise unless a file holds the table of a source.

    Raises:
        DownloadError: It is no table, or another one.
    """
    try:
        table = csv_of(content, on_bad_lines="skip")
    except ValueError as error:
        raise DownloadError(f"no table: {first_line(error)}") from error
    checksum = hashlib.sha256(canonical(table)).hexdigest()
    if checksum != source.sha256:
        columns = shown(", ".join(map(str, table.columns)), most=100)
        raise DownloadError(
            f"SHA-256 {checksum} instead of {source.sha256}; "
            f"{len(table)} rows instead of {source.rows}, columns {columns}"
        )
    n_unreadable = sum(map(bool, content.splitlines())) - 1 - len(table)
    if n_unreadable != source.unreadable_lines:
        raise DownloadError(
            f"{n_unreadable} unreadable lines instead of {source.unreadable_lines}"
        )


def differing(data: Path) -> Iterator[str]:
    """Name each table at hand that is another than the one of `sources.toml`, in a line."""
    for source in load_sources()[1].values():
        path = table_path(data, source.name)
        try:
            if path.is_file():
                check(source, path.read_bytes())
        except (DownloadError, OSError) as error:
            yield f"{path} is not the table of sources.toml: {first_line(error)}"


def from_mirror(source: Source, mirror: str) -> bytes:
    """Fetch the converted table from a mirror.

    Raises:
        DownloadError: It does not come.
    """
    if is_address(mirror):
        return download(f"{mirror.rstrip('/')}/{source.name}")
    try:
        return (Path(mirror) / source.name).read_bytes()
    except OSError as error:
        raise DownloadError(f"{Path(mirror) / source.name}: {error.strerror}") from error


def from_repository(source: Source, host: str) -> bytes:
    """Fetch raw files and convert them to the table.

    Raises:
        DownloadError: They do not come, or have another form.
    """
    files = [download(address) for address in source.addresses(host)]
    try:
        table = CONVERSIONS[source.conversion](files)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise DownloadError(f"the raw files have another form ({reason})") from error
    return table.to_csv(index=False, lineterminator="\n").encode()


def is_address(mirror: str) -> bool:
    """Say whether a mirror is at an HTTP address."""
    return mirror.startswith(("http://", "https://"))


def is_there(source: Source, folder: Path) -> bool:
    """Say whether a folder holds the table of a source.

    Raises:
        DownloadError: It holds another of this name.
    """
    path = folder / source.name
    if not path.exists():
        return False
    try:
        check(source, path.read_bytes())
    except OSError as error:
        raise DownloadError(f"{path}: {error.strerror}") from error
    return True


def provide(source: Source, folder: Path, *, host: str, mirror: str = "") -> str:
    """Put a table into a folder unless it is there, and say what was done.

    Raises:
        DownloadError: It should have come and did not.
    """
    if source.is_shipped:
        return "ships with the project"
    has_way = bool(mirror or source.files)
    try:
        if is_there(source, folder):
            return "was here"
    except DownloadError as error:
        if not has_way:
            raise DownloadError(f"the table in {folder} is another: {error}") from error
    if not has_way:
        origin = f"{source.repository} at {source.commit}"
        return f"left out, by address only: {origin}, license {source.license}"
    done = "replaced" if (folder / source.name).exists() else "fetched"
    content = from_mirror(source, mirror) if mirror else from_repository(source, host)
    check(source, content)
    try:
        write_bytes(folder / source.name, content)
    except OSError as error:
        raise DownloadError(f"cannot be written to {folder}: {error.strerror}") from error
    return f"{done}, {source.rows} rows"


def provide_all(sources: Sequence[Source], folder: Path, *, host: str, mirror: str = "") -> bool:
    """Put tables into a folder, with a line for each; say whether all came that should have."""
    failed = 0
    for source in sources:
        try:
            line = provide(source, folder, host=host, mirror=mirror)
        except DownloadError as error:
            failed += 1
            line = f"FAILED: {error}"
        sys.stdout.write(as_written(f"{source.name}: {' '.join(line.split())}") + "\n")
        sys.stdout.flush()
    return not failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    host, sources = load_sources()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mirror", default="", help="address or folder of converted tables")
    parser.add_argument("--only", nargs="+", metavar="TABLE", help="these tables, such as steplaw")
    parser.add_argument("--folder", type=Path, default=DOWNLOADED, help="where they go")
    options = parser.parse_args(arguments)
    names = [f"{name.removesuffix('.csv')}.csv" for name in options.only or sources]
    if unknown := [name for name in names if name not in sources]:
        parser.error(f"--only takes {', '.join(sources)}; got {', '.join(unknown)}")
    if options.mirror and not (is_address(options.mirror) or Path(options.mirror).is_dir()):
        parser.error(f"--mirror takes an http address or a folder, got {options.mirror}")
    try:
        chosen = [sources[name] for name in names]
        has_all = provide_all(chosen, options.folder, host=host, mirror=options.mirror)
    except KeyboardInterrupt:
        sys.stdout.write("\nStopped; the same command goes on.\n")
        return 130
    by_address = [s for s in chosen if not (s.files or s.is_shipped or options.mirror)]
    if not all((options.folder / source.name).exists() for source in by_address):
        sys.stdout.write(
            "Tables by address only come from a --mirror, or are converted by hand and put into "
            f"{options.folder}.\n"
        )
    sys.stdout.write(left_out(options.folder))
    return 0 if has_all else 1


def left_out(folder: Path) -> str:
    """Say what `make backtest` does without."""
    from benchmarks import backtest  # its libraries take longer to import than all else here

    missing = {name: part.missing(folder) for name, part in backtest.parts(folder).items()}
    lines = [f"  {name}: no {', '.join(tables)}\n" for name, tables in missing.items() if tables]
    if not lines:
        return "`make backtest` has all its tables.\n"
    return "`make backtest` leaves out:\n" + "".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
