"""Zhang et al. 2024, How does critical batch size scale in pre-training?, arXiv 2410.21676.

Their steps to a target loss at nine batch sizes of 512 tokens, for five models trained on
Chinchilla-optimal tokens. Critical batch size there is the batch at which steps exceed linear
scaling from 256 by 20 %; their law of it is 93.20 N^.47, N in millions. We fit the hyperbola to
their own `steps_to_target_paper_fit`; their law is by plain least squares, ours weighs groups by
their errors, which moves its value at the fitted sizes by under 1 %.
"""

import pytest

from benchmarks.rows import DATA, table_path
from extrap import critical_batch

TABLE = table_path(DATA, "zhang_cbs.csv")
AT_OVERHEAD = {85e6: 745, 151e6: 955, 302e6: 1394, 604e6: 1889, 1.2e9: 2533}


@pytest.fixture(scope="module")
def found():
    if not TABLE.is_file():
        pytest.skip(f"the published steps are not here ({TABLE.name}: make data)")
    return critical_batch(
        TABLE,
        batch="batch_size_seqs",
        steps="steps_to_target_paper_fit",
        by="params",
        from_batch=256,
    )


def test_batch_at_twenty_percent_overhead(found):
    assert len(found.groups) == 5
    for params, published in AT_OVERHEAD.items():
        group = found.group(params=params)
        assert group.b_overhead.value == pytest.approx(published, rel=0.01)
        assert published in group.b_overhead.ci


def test_law_of_the_batch_at_overhead(found):
    law = found.laws["b_overhead"]
    for params in AT_OVERHEAD:
        published = 93.20 * (params / 1e6) ** 0.47
        assert law.at(params=params).value == pytest.approx(published, rel=0.03)
        assert published in law.at(params=params).ci
    exponent = law.exponents["params"]
    assert exponent.value == pytest.approx(0.47, rel=0.03)
    assert 0.47 in exponent.ci
    assert law.at(params=1e6).value == pytest.approx(93.20, rel=0.03)


def test_critical_batches_of_the_hyperbola_are_pinned(found):
    values = [group.b_crit.value for group in found.groups]
    assert values == pytest.approx([2191, 3240, 5433, 7907, 11131], rel=1e-3)
    assert found.laws["b_crit"].exponents["params"].value == pytest.approx(0.62, abs=0.01)
