"""What seals a file that is written before a run: a content hash that rounding does not change."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extrap.files import write_text

__all__ = ["canonical_hash", "set_aside", "write_document"]

logger = logging.getLogger(__name__)

DIGITS = 10
"""Significant digits that count for a content hash: what differs beyond them is rounding."""


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
