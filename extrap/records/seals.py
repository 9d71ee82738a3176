"""The seal of every file that is written before a run: hashes over its content and its time.

A content hash is SHA-256 over JSON with sorted keys and numbers of ten digits: rounding does not
change it. A seal is a checksum, not a signature.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extrap.files import write_text

logger = logging.getLogger(__name__)

DIGITS = 10
"""Significant digits that count for a content hash: what differs beyond them is rounding."""
FIRST_BYTES = 200
"""Of a sealed file, among which it says its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedKind:
    """What a sealed file of one kind holds besides its content.

    Attributes:
        kind: Its `kind`.
        what: What it is called in messages.
        remedy: What to do about a file that is something else; `{name}` is the file's name.
        time: Key of the time.
        attached: Keys that are sealed but do not count for the content hash.
        loose: Keys that are not sealed.
    """

    kind: str
    what: str
    remedy: str = "move {name} elsewhere"
    time: str = "created"
    attached: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A sealed document in its parts."""

    content: Mapping[str, Any]
    created: str
    content_hash: str
    attached: Mapping[str, Any] = field(default_factory=dict)
    loose: Mapping[str, Any] = field(default_factory=dict)

    def document(self, kind: SealedKind) -> dict[str, Any]:
        """The parts as one document, with its seal."""
        return {
            **self.content,
            **self.loose,
            kind.time: self.created,
            "content_hash": self.content_hash,
            **self.attached,
            "seal": _over(self),
        }


def as_sealed(
    content: Mapping[str, Any],
    created: str,
    *,
    attached: Mapping[str, Any] | None = None,
    loose: Mapping[str, Any] | None = None,
) -> Sealed:
    """Plain JSON, sealed at a time; attached parts that are None are left out."""
    known = {key: value for key, value in (attached or {}).items() if value is not None}
    return Sealed(
        content=content,
        created=created,
        content_hash=canonical_hash(content),
        attached=known,
        loose=loose or {},
    )


def is_sealed_file(source: object) -> bool:
    """Whether a path is that of a sealed file; one that ends in `.json` may be a table too."""
    if not (isinstance(source, str | Path) and str(source).lower().endswith(".json")):
        return False
    try:
        with Path(source).open("rb") as file:
            start = file.read(FIRST_BYTES)
    except OSError:
        return True
    return b'"kind"' in start or not start.strip()


def verify(kind: SealedKind, document: Mapping[str, Any]) -> Sealed:
    """The parts of a document.

    Raises:
        ValueError: It was changed after it was sealed, or never was.
    """
    beside = {kind.time, "content_hash", "seal", *kind.attached, *kind.loose}
    try:
        found = as_sealed(
            {key: value for key, value in document.items() if key not in beside},
            document[kind.time],
            attached={key: document.get(key) for key in kind.attached},
            loose={key: document[key] for key in kind.loose if key in document},
        )
        hashes = {"content_hash": found.content_hash, "seal": _over(found)}
        is_whole = all(document[key] == value for key, value in hashes.items())
    except (LookupError, TypeError, ValueError):  # such a thing was never sealed
        is_whole = False
    if not is_whole:
        raise ValueError("it was changed after it was written")
    return found


def _over(found: Sealed) -> str:
    parts = [found.content_hash, found.created, *map(canonical_hash, found.attached.values())]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def canonical_hash(content: Mapping[str, Any]) -> str:
    """SHA-256 over JSON with sorted keys and numbers of ten digits."""
    text = json.dumps(_rounded(content), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def set_aside(path: Path, content_hash: str, *, what: str) -> None:
    """Keep a sealed file that is about to be replaced by another one, as `NAME.HASH.json`."""
    aside = path.with_name(f"{path.stem}.{content_hash[:8]}{path.suffix}")
    path.replace(aside)
    logger.warning("an earlier %s differs; it is kept as %s", what, aside)


def write_document(document: Mapping[str, Any], path: Path) -> None:
    """Write JSON to a file, its folder too."""
    write_text(path, json.dumps(document, indent=1, allow_nan=False) + "\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return f"{value:.{DIGITS}g}"
