"""The seal of every file that is written before a run: hashes over its fields and its time.

A hash is SHA-256 over JSON with sorted keys and numbers of ten digits: rounding does not change
it. A seal is a checksum, not a signature.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HASHED_DIGITS = 10
"""Significant digits that count for a hash: what differs beyond them is rounding."""
FIRST_BYTES = 200
"""Of a sealed file, among which it says its kind."""
BESIDE_CONTENT = (
    *("created", "curves", "notes", "checks", "surface", "settings"),
    *("content_hash", "seal"),
)
"""Fields of a document that do not count for its content hash; draws of a surface have no more
digits than rounding changes, settings say nothing of the fit."""


def seal(document: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON document with its content hash, and a hash of every field."""
    texts = _texts(document)
    content = _hash_of_content(texts)
    hashes = _hashes({**texts, "content_hash": _canonical(content)})
    return {**document, "content_hash": content, "seal": hashes}


def verify(document: Mapping[str, Any]) -> None:
    """Raise a `ValueError` that names the fields that were changed after a document was sealed."""
    texts = _texts(document)
    written, current = document.get("seal"), _hashes(texts)
    if not isinstance(written, Mapping):
        raise ValueError("seal: missing")
    changed = [key for key in {**written, **current} if written.get(key) != current.get(key)]
    if not changed and document.get("content_hash") != _hash_of_content(texts):
        changed = ["content_hash"]
    if changed:
        raise ValueError(f"{', '.join(changed)}: changed after it was written")


def content_hash(document: Mapping[str, Any]) -> str:
    """The hash of what a document says, whenever it was written."""
    return _hash_of_content(_texts(document))


def _hashes(texts: Mapping[str, str]) -> dict[str, str]:
    return {key: _hash(text) for key, text in texts.items()}


def _hash_of_content(texts: Mapping[str, str]) -> str:
    """Of the JSON object with these fields, less those that do not count."""
    fields = sorted((k, text) for k, text in texts.items() if k not in BESIDE_CONTENT)
    return _hash("{" + ", ".join(f"{json.dumps(key)}: {text}" for key, text in fields) + "}")


def _texts(document: Mapping[str, Any]) -> dict[str, str]:
    return {key: _canonical(value) for key, value in document.items() if key != "seal"}


def _canonical(value: Any) -> str:
    """JSON with sorted keys and numbers of ten digits."""
    return json.dumps(_rounded(value), sort_keys=True, allow_nan=False)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def is_sealed_file(source: object) -> bool:
    """Whether a path is that of a sealed file; one that ends in `.json` may be a table too."""
    start = _start(source)
    return start is not None and (b'"kind"' in start or not start.strip())


def sealed_kind(source: object) -> str:
    """The kind of a sealed file; empty where it says none."""
    match = re.search(rb'"kind":\s*"([^"]*)"', _start(source) or b"")
    return match[1].decode() if match else ""


def _start(source: object) -> bytes | None:
    """The first bytes of a `.json` file, none of one that cannot be read; None of another."""
    if not (isinstance(source, str | Path) and str(source).lower().endswith(".json")):
        return None
    try:
        with Path(source).open("rb") as file:
            return file.read(FIRST_BYTES)
    except OSError:
        return b""


def _rounded(value: Any) -> Any:
    if type(value) in (float, int):  # first, as most are
        return f"{value:.{HASHED_DIGITS}g}"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return f"{value:.{HASHED_DIGITS}g}"
