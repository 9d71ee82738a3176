"""Laws of one size that bend away from a power law at either end."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from extrap.laws.base import EXPONENT, AnyArray, Array, LossLaw, Range, exp, log_add_exp

NEWTON_STEPS = 30
"""At most, until M4 is solved: about six are needed."""
SOLVED = 1e-9
"""Last step beyond which Newton's next one is below rounding."""


@final
class M3(LossLaw):
    """Power law that levels off `L = b (1/z + g)^c`.

    For a loss that saturates and an exponent that is that of the early, straight part.

    References:
        Alabdulmohsin, Neyshabur, Zhai (2022), Revisiting neural scaling laws in language and
        vision, arXiv 2209.06640, estimator M3.
    """

    key: ClassVar[str] = "m3"
    formula: ClassVar[str] = "L = b · (x0/x + g)^c"
    reference: ClassVar[str] = "Alabdulmohsin et al. 2022, arXiv 2209.06640, M3"
    n_columns: ClassVar[tuple[int, ...]] = (1,)

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """`b`."""
        del n_columns
        return ("b",)

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """`g`, which is the saturation in units of the reference size, and the exponent `c`."""
        del n_columns
        return ("g", "c")

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """`g` from nothing at the largest size to nearly all of the smallest one."""
        inverse = 1 / z.max()
        return (Range(1e-4 * inverse, 1e2 / z.min(), (0.01 * inverse, inverse)), EXPONENT)

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """The exponent."""
        del n_columns
        return ("c",)

    def exponents(self, n_columns: int) -> tuple[str, ...]:
        """The exponent."""
        del n_columns
        return ("c",)

    def basis(self, shape: AnyArray, z: Array) -> AnyArray:
        """`(1/z + g)^c` as a single column."""
        g, c = shape[..., None, 0], shape[..., None, 1]
        return exp(c * np.log(1 / z[:, 0] + g))[..., None]


@final
class M4(LossLaw):
    """Sigmoid between a random guess and a floor `(L − E) / (L0 − L)^a = b z^(−c)`.

    For learning curves that start at the loss `L0` of a random guess. Written as `L = L0 ℓ` with
    `(ℓ − e) / (1 − ℓ)^a = b z^(−c)`, `e = E / L0`; pin `L0` where it is known.

    References:
        Alabdulmohsin, Neyshabur, Zhai (2022), Revisiting neural scaling laws in language and
        vision, arXiv 2209.06640, estimator M4.
    """

    key: ClassVar[str] = "m4"
    formula: ClassVar[str] = "(L/L0 − e) / (1 − L/L0)^a = b · (x/x0)^-c"
    reference: ClassVar[str] = "Alabdulmohsin et al. 2022, arXiv 2209.06640, M4"
    n_columns: ClassVar[tuple[int, ...]] = (1,)

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """`L0`, the loss of a random guess."""
        del n_columns
        return ("L0",)

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """Floor over `L0`, exponent of the upper bend, `b` at the reference size, exponent."""
        del n_columns
        return ("e", "a", "b", "c")

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """The floor from 0 up; an upper bend from sharp to long."""
        del z
        return (
            Range(0.0, 0.999, (0.02, 0.4), is_log=False),
            Range(0.05, 20.0, (0.3, 1.5)),
            Range(1e-6, 1e6, (0.1, 1.0, 10.0)),
            Range(0.005, 10.0, (0.2, 0.8)),
        )

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """All but `b`."""
        del n_columns
        return ("L0", "e", "a", "c")

    def exponents(self, n_columns: int) -> tuple[str, ...]:
        """The exponent of the size."""
        del n_columns
        return ("c",)

    def basis(self, shape: AnyArray, z: Array) -> AnyArray:
        """`ℓ(z)` as a single column.

        With `ℓ = e + (1 − e) σ(t)` the equation reads `a s(t) − s(−t) = ln b − c ln z −
        (1 − a) ln(1 − e)`, s the softplus: monotone and convex or concave in t, so that Newton's
        method finds t from anywhere. Two complex steps from the real root carry its derivative.
        """
        e, a, b, c = (shape[..., None, i] for i in range(4))
        right = np.log(b) - c * np.log(z[:, 0]) - (1 - a) * np.log1p(-e)
        t = np.where(right.real < 0, right.real, right.real / a.real)
        for _ in range(NEWTON_STEPS):
            last, t = t, _newton(t, a.real, right.real)
            if np.all(np.abs(t - last) <= SOLVED * (1 + np.abs(t))):
                break
        t = _newton(t, a.real, right.real)
        for _ in range(2 if np.iscomplexobj(shape) else 0):
            t = _newton(t, a, right)
        return (e + (1 - e) * exp(-_softplus(-t)))[..., None]


def _newton(t: AnyArray, a: AnyArray, right: AnyArray) -> AnyArray:
    below, above = exp(-_softplus(t)), exp(-_softplus(-t))  # 1 − σ(t), σ(t)
    return np.asarray(t - (a * _softplus(t) - _softplus(-t) - right) / (below + a * above))


def _softplus(t: AnyArray) -> AnyArray:
    return log_add_exp(t, np.zeros_like(t))
