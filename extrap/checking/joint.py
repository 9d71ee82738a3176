"""All runs judged together: those of one size share the law's error.

A single run can deviate because the law is off at its size or because the run is. Several runs of
one size tell the two apart: what they have in common is the law's, and a run is held against the
law as its peers correct it. A run whose tuned values are off teaches as well, less the cost that
the valley expects of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extrap.checking.cases import Case
from extrap.laws.base import Array

__all__ = ["Judgement", "judge_jointly"]

MODEL_ERROR = 0.5
"""Standard deviation of the cost of mistuning about what the valley expects, as a share of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the numbers say of one run.

    Attributes:
        p_value: Two-sided, before correction for several runs; None without a loss.
        p_adjusted: After it (Holm 1979).
        common: Log deviation the runs of its size share, as the others tell it; 0 without peers.
        n_peers: Runs of its size that told it.
        deviates: Significant, and more than the tolerance.
        law_deviates: Whether what its size shares is significant, and more than the tolerance.
    """

    p_value: float | None
    p_adjusted: float | None
    common: float
    n_peers: int
    deviates: bool
    law_deviates: bool


def judge_jointly(cases: Sequence[Case], *, alpha: float, tolerance: float) -> list[Judgement]:
    """Test every run, and what the runs of each size share, at a joint level.

    A run i with log deviation d_i from the law and expected cost of mistuning e_i says r_i =
    d_i − e_i of the law's error c at its size; c ~ N(0, V) beforehand. Run i is held against the
    law moved by the posterior mean of c given its peers, with its posterior variance in place of
    V; peers are runs of the sweep's recipe without a spike whose r_i is not itself significant.
    Runs and what their sizes share are two families of tests, each at half of alpha.

    Args:
        cases: The runs.
        alpha: Probability of any false alarm among all of them.
        tolerance: Relative deviation that is no alarm, however significant.

    Returns:
        One judgement a case, in order.

    References:
        Ours: the posterior of a normal mean with known variances. Holm (1979), A simple
        sequentially rejective multiple test procedure.
    """
    by_size: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for i, case in enumerate(cases):
        if case.log_deviation is not None:
            by_size[tuple(case.size.values())].append(i)
    groups = [_judge_size([cases[i] for i in members], alpha) for members in by_size.values()]
    p_values = [p for group in groups for p in group.p_values]
    shared = [g.common_p for g in groups if g.common_p is not None]
    families = 2 if shared else 1  # runs, and what sizes share: each has half of alpha
    of_runs, of_sizes = (iter(holm(p, families)) for p in (p_values, shared))
    found = [
        Judgement(
            p_value=None,
            p_adjusted=None,
            common=0.0,
            n_peers=0,
            deviates=False,
            law_deviates=False,
        )
    ] * len(cases)
    for group, members in zip(groups, by_size.values(), strict=True):
        size_p = 1.0 if group.common_p is None else next(of_sizes)
        law_deviates = size_p <= alpha and abs(math.expm1(group.common)) > tolerance
        for j, i in enumerate(members):
            p, known = next(of_runs), cases[i].log_deviation
            assert known is not None
            own = math.expm1(known - group.of_peers[j])
            found[i] = Judgement(
                p_value=float(group.p_values[j]),
                p_adjusted=p,
                common=float(group.of_peers[j]),
                n_peers=int(group.n_peers[j]),
                deviates=(p <= alpha and abs(own) > tolerance)
                or (law_deviates and abs(math.expm1(known)) > tolerance),
                law_deviates=law_deviates,
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _OfSize:
    """The tests of one size: arrays have shape (n_runs,)."""

    p_values: Array
    of_peers: Array
    n_peers: Array
    common: float
    common_p: float | None


def _judge_size(cases: Sequence[Case], alpha: float) -> _OfSize:
    prediction = cases[0].prediction
    of_curve = sum(variance for variance, _ in prediction.curve)
    of_run = sum(variance for variance, _ in prediction.run)
    off = np.array([case.log_deviation for case in cases], dtype=float)
    excess = np.array([case.excess or 0.0 for case in cases])
    plain = np.array([case.is_plain for case in cases])
    outlying = alpha / (2 * len(cases))
    rest, noise = off - excess, of_run + (MODEL_ERROR * excess) ** 2
    run_share = noise / of_run if of_run else np.ones(len(cases))
    at = prediction.log_loss
    tells = plain & (prediction.p_values(at + rest, run_share=run_share) > outlying)
    weight = np.where(tells, 1.0 / np.maximum(noise, 1e-300), 0.0)
    others, heard = weight.sum() - weight, float(weight @ rest) - weight * rest
    left = 1.0 / (1.0 + of_curve * others)  # share of the law's variance that peers leave
    of_peers = of_curve * left * heard
    common_p = None
    common = float(weight @ rest / weight.sum()) if tells.any() else 0.0
    if tells.sum() > 1 and of_run:
        mean_share = 1.0 / (weight.sum() * of_run)
        common_p = float(prediction.p_values(np.array([at + common]), run_share=mean_share)[0])
    return _OfSize(
        p_values=prediction.p_values(at + off - of_peers, curve_share=left),
        of_peers=of_peers,
        n_peers=tells.sum() - tells,
        common=common,
        common_p=common_p,
    )


def holm(p_values: Sequence[float], families: int = 1) -> list[float]:
    """Adjusted p-values of Holm's step-down procedure; rejected are those at most alpha.

    Args:
        p_values: One a hypothesis of this family.
        families: Families that share alpha equally.

    References:
        Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)) if len(p) else p
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(families * steps, 1.0)
    return [float(value) for value in adjusted]
