"""One kernel in Triton, to see whether it compiles for the card."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["doubled_error"]

BLOCK = 256


@triton.jit
def _double(source, target, n, BLOCK: tl.constexpr):  # noqa: ANN001, ANN202
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + rows, 2 * tl.load(source + rows, mask=rows < n), mask=rows < n)


def doubled_error(place: torch.device, n: int = 1000) -> float:
    """Compile and run it; the largest error."""
    source = torch.arange(n, device=place, dtype=torch.float32)
    target = torch.empty_like(source)
    _double[(triton.cdiv(n, BLOCK),)](source, target, n, BLOCK=BLOCK)
    return float((target - 2 * source).abs().max())
