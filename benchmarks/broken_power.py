"""A power law with a break, to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np

from extrap.fitting.loss_law import fit, predict_log
from extrap.laws import LAWS, LOSS_LAWS
from extrap.laws.base import AnyArray, Array, LossLaw, Range, exp, log_add_exp


class BrokenPower(LossLaw):
    """Broken neural scaling law (BNSL) with one break.

    `L = E + b z^(−c0) (1 + (z/d1)^(1/f1))^(−c1 f1)`: exponent c0 below the size d1, c0 + c1 above
    it, f1 the width of the break in ln z. For a curve whose slope changes inside the data; it
    falls only where c0 + c1 ≥ 0. Its parameters are nearly degenerate, its curve is not.

    References:
        Caballero, Gupta, Rish, Krueger (2022), Broken neural scaling laws, arXiv 2210.14891,
        Eq. 1 with n = 1.
    """

    __slots__ = ()

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """The break lies between the smallest and the largest size."""
        low, high = float(z.min()), float(z.max())
        where = tuple(float(d) for d in np.geomspace(low, high, 5)[1:-1])
        c0, c1, _, f1 = (r for _, r in self.shape_ranges)
        return c0, c1, Range(low, high, where), f1


def _basis(shape: AnyArray, z: Array) -> AnyArray:
    """Columns `1` and the broken power."""
    c0, c1, d1, f1 = (shape[..., None, i] for i in range(4))
    log_z = np.log(z[:, 0])
    beyond = (log_z - np.log(d1)) / f1
    bend = c1 * f1 * log_add_exp(beyond, np.zeros_like(beyond))
    power = exp(-c0 * log_z - bend)
    return np.stack([np.ones_like(power), power], axis=-1)


BROKEN_POWER = BrokenPower(
    key="bnsl",
    formula="L = E + b · (x/x0)^-c0 · (1 + (x/(x0 d1))^(1/f1))^(-c1 f1)",
    reference="Caballero et al. 2022, arXiv 2210.14891, Eq. 1",
    n_columns=(1,),
    coefficient_names=("E", "b"),
    shape_ranges=(
        ("c0", Range(0.0, 5.0, (0.01, 0.3), is_log=False)),
        ("c1", Range(-5.0, 10.0, (-0.2, 0.5, 3.0), is_log=False)),
        ("d1", Range(1.0, 1.0, (1.0,))),
        ("f1", Range(0.01, 5.0, (0.05, 0.5))),
    ),
    unit_free_names=("E", "c0", "c1", "f1"),
    exponent_names=("c0",),
    basis=_basis,
)


@contextmanager
def broken_power_known() -> Iterator[str]:
    """Within the block `extrap.fit` and predictions know the law; its key."""
    law = {BROKEN_POWER.key: BROKEN_POWER}
    with mock.patch.dict(LOSS_LAWS, law), mock.patch.dict(LAWS, law):
        yield BROKEN_POWER.key


def predict_broken(sizes: Array, losses: Array, targets: Array) -> Array:
    """Log losses at targets of the law fitted to (sizes, losses), like the laws of the package."""
    with broken_power_known() as law:
        fitted = fit(law, {"x": sizes}, losses)
        return predict_log(fitted, targets[:, None] / fitted.reference[0])[0]
