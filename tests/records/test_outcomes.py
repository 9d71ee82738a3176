"""An outcome has one word, mark and color, and no other module writes them."""

from pathlib import Path

import pytest

import extrap
from extrap.records.outcomes import Outcome

PACKAGE = Path(extrap.__file__).parent


@pytest.mark.parametrize(
    ("on_law", "cause", "has_loss", "outcome"),
    [
        (None, "unknown", False, Outcome.UNDECIDED),
        (True, None, True, Outcome.ON_LAW),
        (False, "mistuned", True, Outcome.MISTUNED),
        (False, "mistuned", False, Outcome.DIVERGED),
        (False, "data", True, Outcome.OFF_LAW),
    ],
)
def test_an_outcome_follows_from_a_verdict(on_law, cause, has_loss, outcome):
    assert Outcome.of(on_law=on_law, cause=cause, has_loss=has_loss) is outcome
    assert outcome.is_off == (on_law is False)


def test_the_word_of_an_outcome_is_written_in_one_place():
    texts = {p: p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py")}
    for outcome in Outcome:
        written = {p.name for p, text in texts.items() if f'"{outcome.word}"' in text}
        # undecided is a verdict of comparisons too
        assert written - {"gate.py", "command.py"} == {"outcomes.py"}
