"""All runs judged together: those of one size share the law's error.

A single run can deviate because the law is off at its size or because the run is. Several runs of
one size tell the two apart: what they have in common is the law's, and a run is held against the
law as its peers correct it. A run whose tuned values are off teaches as well, less the cost that
the valley expects of them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from extrap.checking.cases import Case
from extrap.fitting import LossPrediction, holm
from extrap.laws.base import Array

__all__ = ["Judgement", "judge_jointly"]

SHARED_ERROR, OWN_ERROR = 0.5, 0.25
"""Standard deviations of the cost of mistuning about what the valley expects, as shares of it: the
valley may be off for all runs of a size alike, and for each of them by itself."""
TINY = 1e-300
"""Guard of a division: a variance that is not known to be above 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the numbers say of one run.

    Attributes:
        p_value: Two-sided, before correction for several runs; None without a loss.
        p_adjusted: After it (Holm 1979).
        common: Log deviation the runs of its size share, as the others tell it; 0 without peers.
        n_peers: Runs of its size that told it.
        p_of_size: Adjusted p-value of what its size shares; None where fewer than two runs tell.
        own_deviates: Whether it is off the law as its peers correct it, significantly and by more
            than the tolerance. One that is better than its peers, and itself on the law, is not.
        law_deviates: The same of what its size shares.
    """

    p_value: float | None
    p_adjusted: float | None
    common: float
    n_peers: int
    p_of_size: float | None
    own_deviates: bool
    law_deviates: bool

    @property
    def deviates(self) -> bool:
        """Whether its loss is an alarm, for either reason."""
        return self.own_deviates or self.law_deviates


def judge_jointly(cases: Sequence[Case], *, alpha: float, tolerance: float) -> list[Judgement]:
    """Test every run, and what the runs of each size share, at a joint level.

    A run i with log deviation d_i from the law and expected cost of mistuning e_i says r_i =
    d_i − e_i = c + γ e_i + ε_i of the law's error c ~ N(0, V) at its size and of the valley's γ ~
    N(0, ½²). Run i is held against the law moved by the posterior mean of c given its peers, with
    its posterior variance in place of V. Peers are runs of the sweep's recipe, without a spike,
    whose r_i is not itself significant; those of one seed share their noise and count as one.
    Runs, and what their sizes share, are two families of tests, each at half of alpha.

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
    silent = Judgement(
        p_value=None,
        p_adjusted=None,
        common=0.0,
        n_peers=0,
        p_of_size=None,
        own_deviates=False,
        law_deviates=False,
    )
    found = [silent] * len(cases)
    for group, members in zip(groups, by_size.values(), strict=True):
        p_of_size = None if group.common_p is None else next(of_sizes)
        shared_off = abs(math.expm1(group.common)) > tolerance
        law_deviates = p_of_size is not None and p_of_size <= alpha and shared_off
        for j, i in enumerate(members):
            p, known = next(of_runs), cases[i].log_deviation
            assert known is not None
            own, raw = math.expm1(known - group.of_peers[j]), math.expm1(known)
            is_off = abs(own) > tolerance and (own > 0 or abs(raw) > tolerance)
            found[i] = Judgement(
                p_value=float(group.p_values[j]),
                p_adjusted=p,
                common=float(group.of_peers[j]),
                n_peers=int(group.n_peers[j]),
                p_of_size=p_of_size,
                own_deviates=p <= alpha and is_off,
                law_deviates=law_deviates and abs(raw) > tolerance,
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
    of_curve = max(sum(variance for variance, _ in prediction.curve), TINY)
    of_run = max(sum(variance for variance, _ in prediction.run), TINY)
    off = np.array([case.log_deviation for case in cases], dtype=float)
    cost = np.array([case.excess or 0.0 for case in cases])
    plain = np.array([case.is_plain for case in cases])
    rest, noise = off - cost, of_run + (OWN_ERROR * cost) ** 2
    at, outlying = prediction.log_loss, alpha / (2 * len(cases))
    alone = (noise + (SHARED_ERROR * cost) ** 2) / of_run
    tells = plain & (prediction.p_values(at + rest, run_share=alone) > outlying)
    seeds = [case.row.get("seed") for case in cases]
    alike = Counter(seed for seed, told in zip(seeds, tells, strict=True) if told)
    weight = np.where(tells, 1.0 / (noise * np.array([alike[seed] or 1 for seed in seeds])), 0.0)
    precision, right = _normal_equations(weight, cost, rest)
    left = precision.sum(axis=0) - precision
    left[:, 0, 0] += 1 / of_curve
    left[:, 1, 1] += 1 / SHARED_ERROR**2
    inverse = np.linalg.inv(left)
    of_peers = np.einsum("nij,nj->ni", inverse, right.sum(axis=0) - right)[:, 0]
    common, common_p = 0.0, None
    if tells.sum() > 1:
        common, common_p = _shared(prediction, precision.sum(axis=0), right.sum(axis=0), of_run)
    share = np.minimum(inverse[:, 0, 0] / of_curve, 1.0)
    return _OfSize(
        p_values=prediction.p_values(at + off - of_peers, curve_share=share),
        of_peers=of_peers,
        n_peers=tells.sum() - tells,
        common=common,
        common_p=common_p,
    )


def _normal_equations(weight: Array, cost: Array, rest: Array) -> tuple[Array, Array]:
    """What each run says of c and γ: precisions (n, 2, 2) and right sides (n, 2)."""
    row = np.stack([np.ones_like(cost), cost], axis=1)
    precision = weight[:, None, None] * row[:, :, None] * row[:, None, :]
    return precision, (weight * rest)[:, None] * row


def _shared(
    prediction: LossPrediction, precision: Array, right: Array, of_run: float
) -> tuple[float, float]:
    """The runs' own estimate of what they share, and its p-value under the law."""
    told = precision + np.diag([TINY, 1 / SHARED_ERROR**2])
    inverse = np.linalg.inv(told)
    common = float((inverse @ right)[0])
    mean_share = float(inverse[0, 0]) / of_run
    p = prediction.p_values(np.array([prediction.log_loss + common]), run_share=mean_share)
    return common, float(p[0])
