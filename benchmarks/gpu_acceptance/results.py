"""The rows of the acceptance, and the file that keeps them."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from extrap.files import write_text

KIND, SCHEMA_VERSION = "extrap-gpu-acceptance", 1
PACKAGES = ("torch", "triton", "numpy", "optuna")


class UsageError(Exception):
    """The command cannot do what it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One row.

    Attributes:
        part: The part it belongs to.
        what: What was measured.
        measured: What was found, in words and numbers.
        pass_at: What was to be found; empty where a figure is only reported.
        passed: Whether it was; None where nothing is judged or measured.
        note: What to know before believing it.
    """

    part: str
    what: str
    measured: str
    pass_at: str = ""
    passed: bool | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """In one word."""
        return {True: "passed", False: "FAILED", None: "reported"}[self.passed]


class Book:
    """`gpu.json`: the rows of all calls on one device.

    Args:
        path: The file; rows that it holds are kept until their part is run again.
        device: `cuda`, `pretended` or `cpu`.
        name: Of the card.
        order: All parts.

    Raises:
        UsageError: The file is another one, or of another device.
    """

    def __init__(self, path: Path, *, device: str, name: str, order: Sequence[str]) -> None:
        self._path, self._order = path, tuple(order)
        is_card = device == "cuda" and bool(name)
        self.device = {"kind": device, "is_card": is_card, "name": name}
        self.rows: list[Result] = []
        self._calls: list[dict[str, Any]] = []
        if path.exists():
            self._read()
        self._calls.append(
            {
                "command": shlex.join([Path(sys.executable).name, "-m", *_module_and_arguments()]),
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "versions": versions(),
                "seconds": {},
                "not_run": [],
            }
        )

    @property
    def seconds(self) -> dict[str, float]:
        """Part → seconds it took, the last time it ran."""
        return {k: v for call in self._calls for k, v in call["seconds"].items()}

    def begin(self, part: str) -> None:
        """Forget the rows of a part, which is run again."""
        self.rows = [row for row in self.rows if row.part != part]

    def add(self, row: Result) -> None:
        """Keep a row, in the file too."""
        self.rows.append(row)
        self.rows.sort(key=lambda row: self._order.index(row.part))
        self.write()

    def end(self, part: str, seconds: float) -> None:
        """Keep how long a part took."""
        self._calls[-1]["seconds"][part] = round(seconds, 1)
        self.write()

    def leave_out(self, part: str, why: str) -> None:
        """Say that a part did not run; rows of an earlier call stay."""
        self._calls[-1]["not_run"].append(part)
        if not any(row.part == part for row in self.rows):
            self.add(Result(part=part, what="the whole part", measured=f"not measured: {why}"))
        self.write()

    def write(self) -> None:
        """Write the file, whole or not at all."""
        judged = [row.passed for row in self.rows if row.passed is not None]
        content = {
            "kind": KIND,
            "schema_version": SCHEMA_VERSION,
            "device": self.device,
            "passed_on_a_card": sum(judged) if self.device["is_card"] else 0,
            "failed": judged.count(False),
            "calls": self._calls,
            "rows": [asdict(row) for row in self.rows],
        }
        write_text(self._path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def _read(self) -> None:
        try:
            content: Mapping[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
            device = content["device"]
            self.rows = [Result(**row) for row in content["rows"]]
            self._calls = list(content["calls"])
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{self._path} is no result of this command ({error}); name another folder "
                "with --out."
            ) from error
        is_empty = all(row.measured.startswith("not measured") for row in self.rows)
        if device != self.device and not is_empty:
            raise UsageError(
                f"{self._path} holds results of {device['name']} ({device['kind']}), this is "
                f"{self.device['name']} ({self.device['kind']}); name another folder with --out."
            )


def versions() -> dict[str, str]:
    """Of Python and of the packages that matter, where they are installed."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _module_and_arguments() -> list[str]:
    return ["benchmarks.gpu_acceptance", *sys.argv[1:]]
