"""docs/stability.md promises what the package has: exit codes, statuses and stages, errors."""

import re
from pathlib import Path

import extrap
from extrap import errors
from extrap.commands import analysis
from extrap.records.runs import STAGES, STATUSES

PROMISED = (Path(__file__).parents[1] / "docs" / "stability.md").read_text("utf-8")
CODES = ("FINE", "DEVIATES", "BAD_USAGE", "UNEXPECTED", "UNDECIDED", "INTERRUPTED")


def words(after):
    """What is named in code within the brackets that follow a name."""
    inside = re.search(rf"`{after}` \(([^)]*)\)", PROMISED)[1]
    return tuple(re.findall(r"`(\w+)`", inside))


def test_every_exit_code_is_promised():
    promised = [int(code) for code in re.findall(r"^\| (\d+) \|", PROMISED, re.MULTILINE)]
    assert promised == [getattr(analysis, f"EXIT_{name}") for name in CODES]


def test_statuses_and_stages_are_those_of_runs():
    assert words("status") == STATUSES
    assert words("stage") == STAGES


def test_errors_that_are_promised_are_public_and_can_be_caught_as_one():
    promised = set(re.findall(r"`(\w+Error)`", PROMISED)) - {"ValueError", "TypeError"}
    assert promised == {"ExtrapError", "DataError", "FitError", "StudyError"} & set(extrap.__all__)
    assert all(issubclass(getattr(errors, name), extrap.ExtrapError) for name in promised)
