"""Documents, texts, tables, exit codes and refusals are what the golden files say.

`make contract` writes them anew, so that a change shows as a diff to read.
"""

import pytest

from .cases import CASES
from .comparing import report
from .workplace import FOLDER


@pytest.mark.parametrize("name", CASES)
def test_result_is_the_golden_one(name: str) -> None:
    golden = (FOLDER / "golden" / name).read_text(encoding="utf-8")
    case = CASES[name]
    assert report(case.text(), golden, kind=case.kind, rel=case.rel) == []


def test_every_golden_file_has_a_case() -> None:
    assert {path.name for path in (FOLDER / "golden").iterdir()} == set(CASES)
