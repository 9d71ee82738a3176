"""The law of sparse models: loss over non-zero parameters, density and data."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from extrap.laws.base import EXPONENT, AnyArray, Array, LossLaw, Range, exp


def dense_worth(
    density: AnyArray | float,
    *,
    ratio: AnyArray | float,
    density_exponent: AnyArray | float,
    params_exponent: AnyArray | float,
) -> AnyArray:
    """Parameters of the dense model of equal loss, over the non-zero ones of the sparse one.

    `((ρ d^bS + 1) / (ρ + 1))^(−1/bN)` with `ρ = aS / cS`.

    Args:
        density: d = 1 − S, the share of parameters that are not zero, in (0, 1].
        ratio: ρ, of the density term to the constant one in a dense model.
        density_exponent: bS.
        params_exponent: bN.

    References:
        Frantar, Riquelme, Houlsby, Alistarh, Evci (2023), Scaling laws for sparsely-connected
        foundation models, arXiv 2309.08520, section 3 on equivalent dense sizes.

    Example:
        >>> t5 = {"ratio": 16.8 / 45, "density_exponent": 0.722, "params_exponent": 0.245}
        >>> round(float(dense_worth(0.25, **t5)), 2)
        2.16
    """
    term = ratio * np.asarray(density, dtype=float) ** density_exponent
    return np.asarray(((term + 1) / (ratio + 1)) ** (-1 / np.asarray(params_exponent)))


@final
class Sparsity(LossLaw):
    """Law of sparse models `L = E + (cS + aS (d/d0)^bS) (N/N0)^(−bN) + aD (D/D0)^(−bD)`.

    Columns: non-zero parameters N, density d = 1 − S, and maybe tokens D. At equal N a sparse
    model is better than a dense one, so the loss rises with the density. Theirs writes the data
    term as (aD / D)^bD. Where all runs see the same data leave D out: its term is in E.

    References:
        Frantar, Riquelme, Houlsby, Alistarh, Evci (2023), Scaling laws for sparsely-connected
        foundation models, arXiv 2309.08520, the joint law.
    """

    key: ClassVar[str] = "sparsity"
    formula: ClassVar[str] = "L = E + (cS + aS · (d/d0)^bS) · (N/N0)^-bN [+ aD · (D/D0)^-bD]"
    reference: ClassVar[str] = "Frantar et al. 2023, arXiv 2309.08520"
    n_columns: ClassVar[tuple[int, ...]] = (2, 3)
    always_falls: ClassVar[bool] = False

    def coefficients(self, n_columns: int) -> tuple[str, ...]:
        """`E`, the floor, and the heights of the terms at the reference size and density."""
        return ("E", "cS", "aS", "aD")[: n_columns + 1]

    def shape(self, n_columns: int) -> tuple[str, ...]:
        """Exponents of density, non-zero parameters and data."""
        return ("bS", "bN", "bD")[:n_columns]

    def ranges(self, z: Array) -> tuple[Range, ...]:
        """The usual exponents."""
        return (EXPONENT,) * z.shape[1]

    def unit_free(self, n_columns: int) -> tuple[str, ...]:
        """The floor and the exponents."""
        return ("E", *self.shape(n_columns))

    def exponents(self, n_columns: int) -> tuple[str, ...]:
        """One per column."""
        return ("bN", "bS", "bD")[:n_columns]

    def basis(self, shape: AnyArray, z: Array) -> AnyArray:
        """Columns `1`, the power of N, that times the power of d, and that of D."""
        log_z = np.log(z)
        size = exp(-shape[..., None, 1] * log_z[:, 0])
        columns = [np.ones_like(size), size, size * exp(shape[..., None, 0] * log_z[:, 1])]
        if z.shape[1] == 3:
            columns.append(exp(-shape[..., None, 2] * log_z[:, 2]))
        return np.stack(columns, axis=-1)
