"""JSON on the standard output."""

from __future__ import annotations

import json
from typing import Any

import click

__all__ = ["print_json"]


def print_json(document: dict[str, Any]) -> None:
    """Print a document; a number that is not finite is an error of ours."""
    click.echo(json.dumps(document, allow_nan=False, indent=1))
