"""The laws of the loss: powers of sizes with and without a floor, and a line in log size."""

from __future__ import annotations

import numpy as np

from extrap.laws.base import EXPONENT_RANGE, AnyArray, Array, LossLaw, Range, exp, log_add_exp

TERM_RATIO_RANGE = Range(1e-6, 1e6, (0.3, 3.0))
"""Ratio of the two terms at the reference size: from both matter to one is absent."""
EXPONENT_OF_TWO = Range(0.005, 3.0, (0.15, 0.5))
OUTER = Range(0.05, 5.0, (0.35, 1.0))


def _product(exponents: AnyArray, z: Array) -> AnyArray:
    """`Π z_i^(−c_i)` as a single column."""
    return exp(-(exponents @ np.log(z).T))[..., None]


def _terms(exponents: AnyArray, z: Array) -> AnyArray:
    """Columns `1, z_1^(−c_1), …`; one exponent serves all size columns."""
    columns = np.empty((*exponents.shape[:-1], len(z), 1 + z.shape[1]), dtype=exponents.dtype)
    columns[..., 0] = 1
    columns[..., 1:] = exp(-exponents[..., None, :] * np.log(z))
    return columns


def _line(shape: AnyArray, z: Array) -> AnyArray:
    """Columns `1, −ln z`."""
    columns = np.column_stack([np.ones(len(z)), -np.log(z[:, 0])])
    return np.broadcast_to(columns, (*shape.shape[:-1], *columns.shape))


def _outer_power(shape: AnyArray, z: Array) -> AnyArray:
    """Columns `1` and the reducible part of the Skaling law."""
    c1, c2, outer, ratio = (shape[..., None, i] for i in range(4))
    log_z = np.log(z)
    log_sum = log_add_exp(-c1 / outer * log_z[:, 0], np.log(ratio) - c2 / outer * log_z[:, 1])
    part = exp(outer * log_sum)
    return np.stack([np.ones_like(part), part], axis=-1)


# Alabdulmohsin, Neyshabur, Zhai (2022), Revisiting neural scaling laws in language and vision.
POWER_LAW = LossLaw(
    key="power",
    formula="L = b · Π (x/x0)^-c",
    reference="Alabdulmohsin et al. 2022, arXiv 2209.06640, M1",
    n_columns=(1, 2, 3, 4),
    coefficient_names=("b",),
    shape_ranges=(("c*", EXPONENT_RANGE),),
    unit_free_names=("c*",),
    exponent_names=("c*",),
    basis=_product,
)
# One size column: the form M2 of Alabdulmohsin et al. Two: Hoffmann et al. (2022), Training
# compute-optimal large language models, with α = c1, β = c2.
POWER_FLOOR = LossLaw(
    key="power_floor",
    formula="L = E + Σ b · (x/x0)^-c",
    reference="Hoffmann et al. 2022, arXiv 2203.15556, Eq. 2",
    n_columns=(1, 2, 3, 4),
    coefficient_names=("E", "b*"),
    shape_ranges=(("c*", EXPONENT_RANGE),),
    unit_free_names=("E", "c*"),
    exponent_names=("c*",),
    basis=_terms,
)
# Also Gadre et al. (2024), arXiv 2403.08540, Eq. 4, in compute and tokens per parameter.
CHINCHILLA_TIED = LossLaw(
    key="chinchilla_tied",
    formula="L = E + Σ b · (x/x0)^-c, one c",
    reference="Hoffmann et al. 2022, arXiv 2203.15556, Eq. 2 with α = β",
    n_columns=(2,),
    coefficient_names=("E", "b*"),
    shape_ranges=(("c", EXPONENT_RANGE),),
    unit_free_names=("E", "c"),
    exponent_names=("c",),
    basis=_terms,
)
# Turns negative at the size exp(a / b), so it cannot be the law. Metz: 7.0 − 0.275 ln h.
LOG_LINEAR = LossLaw(
    key="log_linear",
    formula="L = a − b · ln(x/x0)",
    reference="Metz 2022, On the difficulty of extrapolation with NN scaling",
    n_columns=(1,),
    coefficient_names=("a", "b"),
    shape_ranges=(),
    unit_free_names=("b",),
    exponent_names=("b",),
    basis=_line,
    may_turn_negative=True,
)
# Exponents as seen where one term counts: at k = 1 those of Hoffmann et al.
SKALING = LossLaw(
    key="skaling",
    formula="L = E + s · ((N/N0)^(-c1/k) + r · (D/D0)^(-c2/k))^k",
    reference="Skaling 2026, arXiv 2608.07222",
    n_columns=(2,),
    coefficient_names=("E", "s"),
    shape_ranges=(("c*", EXPONENT_OF_TWO), ("k", OUTER), ("r", TERM_RATIO_RANGE)),
    unit_free_names=("E", "c*", "k"),
    exponent_names=("c*",),
    basis=_outer_power,
)
