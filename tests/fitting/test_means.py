from __future__ import annotations

import pytest

from extrap.fitting import holm


def test_holm_multiplies_the_smallest_and_keeps_the_order() -> None:
    assert holm([0.02, 0.01, 0.9]) == pytest.approx([0.04, 0.03, 0.9])
    assert holm([0.02]) == [0.02]
    assert holm([]) == []
