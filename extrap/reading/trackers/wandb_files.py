"""Runs that W&B wrote to disk: `run-ID.wandb`, offline or not; a door to `wandb`.

The file is a log of LevelDB's format (blocks of 32 KiB, records in fragments) of W&B's records.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from extrap.errors import DataError
from extrap.reading.bounds import MOST_BYTES, require_file
from extrap.reading.found import Found
from extrap.reading.trackers.stitching import stitched
from extrap.reading.trackers.tracked import Points, TrackedRun, number_of, settings_of, table_of

MARK = b":W&B"
HEADER = 7
BLOCK = 2**15
FULL, FIRST, _, LAST = 1, 2, 3, 4
"""Kinds of fragments."""


def read(folder: Path, files: list[Path], *, study: str | None = None) -> Found:
    """The runs of files `run-ID.wandb`; those of one ID are parts of one run."""
    del study
    runs, notes = stitched([_read_run(path) for path in files])
    return table_of(runs, where=str(folder), notes=notes)


def _read_run(path: Path) -> TrackedRun:
    from google.protobuf.message import DecodeError
    from wandb.proto import wandb_internal_pb2

    require_file(path, "run of W&B", most=MOST_BYTES)
    config: dict[str, Any] = {}
    summary: dict[str, float] = {}
    history: dict[str, list[tuple[float, float]]] = {}
    identity = name = path.stem.removeprefix("run-")
    started, status = 0.0, "running"
    for record in _records(path):
        message = wandb_internal_pb2.Record()
        try:
            message.ParseFromString(record)
        except DecodeError as error:
            raise DataError(
                f"{path} holds a record that is none of W&B's; leave the file out."
            ) from error
        match message.WhichOneof("record_type"):
            case "run":
                run = message.run
                identity, name = run.run_id or identity, run.display_name or run.run_id or name
                started = run.start_time.seconds + run.start_time.nanos / 1e9
                config |= _items(run.config.update)
            case "config":
                config |= _items(message.config.update)
            case "summary":
                summary |= _numbers(_items(message.summary.update))
            case "history":
                values = _items(message.history.item)
                step = number_of(values.get("_step", message.history.step.num)) or 0.0
                for key, value in _numbers(values).items():
                    history.setdefault(key, []).append((step, value))
            case "exit":
                status = "crashed" if message.exit.exit_code else "finished"
    measured: dict[str, Points] = {k: v for k, v in history.items() if not k.startswith("_")}
    return TrackedRun(
        name=name,
        settings={k: v for k, v in settings_of(config).items() if not k.startswith("_")},
        history=measured,
        summary={k: v for k, v in summary.items() if not k.startswith("_")},
        status=status,
        identity=identity,
        started=started,
    )


def _items(items: Any) -> dict[str, Any]:
    """Keys and values of a list of items, nested keys with dots."""
    found = {}
    for item in items:
        key = ".".join(item.nested_key) or item.key
        try:
            found[key] = json.loads(item.value_json)
        except (ValueError, RecursionError):
            continue
    return found


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    numbers = ((key, number_of(value)) for key, value in values.items())
    return {key: number for key, number in numbers if number is not None}


def _records(path: Path) -> Iterator[bytes]:
    """The records of a file up to its end, or to where a writer was killed."""
    content = path.read_bytes()
    if not content.startswith(MARK):
        raise DataError(f"{path} is no run of W&B; leave the file out.")
    at, whole = HEADER, b""
    while at + HEADER <= len(content):
        left = BLOCK - at % BLOCK
        if left < HEADER:
            at += left
            continue
        checksum, length, kind = struct.unpack_from("<IHB", content, at)
        body = content[at + HEADER : at + HEADER + length]
        if len(body) < length or kind == 0 or not _is_sound(checksum, kind, body):
            return
        at += HEADER + length
        whole = body if kind in (FULL, FIRST) else whole + body
        if kind in (FULL, LAST):
            yield whole


def _is_sound(checksum: int, kind: int, body: bytes) -> bool:
    """Whether a fragment is as it was written, by CRC-32 of its kind and body."""
    return zlib.crc32(bytes([kind]) + body) & 0xFFFFFFFF == checksum
