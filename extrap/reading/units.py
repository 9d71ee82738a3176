"""Whether columns that must agree do: C ≈ 6 N D, and tokens = steps × batch × length.

A law fitted to a column in millions is right in those units and wrong at the size it is asked
for. Nothing here rescales a table: a disagreement becomes a note that names its likely cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FLOPS = ("flops", "compute")
PARAMETERS = (
    "n_params",
    "params",
    "n_params_total",
    "active_params",
    "non_embedding_params",
    "params_no_emb",
    "params_no_embed",
    "param_count",
)
TOKENS = ("n_tokens", "tokens")
STEPS = ("steps", "n_steps")
BATCH_IN_TOKENS = ("batch_size_tokens", "batch_tokens", "tokens_per_batch")
BATCH = ("batch_size", "batch_size_seqs")
LENGTH = ("sequence_length", "seq_length", "seq_len", "context_length")
EPOCHS = ("epochs",)
NAMES = (*FLOPS, *PARAMETERS, *TOKENS, *STEPS, *BATCH_IN_TOKENS, *BATCH, *LENGTH, *EPOCHS)

FLOPS_TOLERANCE = 2.0
"""C and 6 N D may differ by this factor: attention, embeddings and recomputation move C."""
FLOPS_FAR = 30.0
"""… and a second count of the parameters, or a single row, by this one."""
TOKENS_TOLERANCE = 1.1
"""Steps × batch × length is an identity; a rounded batch or a run cut short moves it this much."""
POWERS = {
    3: "thousands",
    6: "millions",
    9: "billions",
    12: "trillions",
    15: "millions and billions, one each",
    18: "billions both",
}
PETAFLOP_S_DAY = 1e15 * 24 * 3600
LOG_10 = math.log(10)

Logs = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Claim:
    """One equality of columns.

    Attributes:
        left: Its left side in words.
        right: Its right side in words.
        log_ratio: ln(left / right), one a row; NaN where a row lacks a column.
        causes: ln of a ratio → what would explain it.
        otherwise: What may explain any other ratio.
    """

    left: str
    right: str
    log_ratio: NDArray[np.float64]
    causes: Sequence[tuple[float, str]]
    otherwise: Callable[[float], str]

    @property
    def middle(self) -> float:
        """Median of the log ratio, NaN if no row has every column."""
        known = self.log_ratio[np.isfinite(self.log_ratio)]
        return float(np.median(known)) if len(known) else math.nan


def check_units(frame: pd.DataFrame) -> tuple[str, ...]:
    """Compare columns that determine each other, and say where they disagree.

    Compute with 6 × parameters × tokens, noted where the median ratio leaves [1/2, 2], and
    steps × batch × sequence length with tokens, noted beyond 10 %. Where the median agrees and
    single rows are far off, units are mixed within the table, and the first such row is named.

    Args:
        frame: One row a run. Columns are known by their names, in lower or upper case; any may be
            missing, and cells that are not positive numbers are passed over (negative ones noted).

    Returns:
        One sentence a disagreement, with the ratio and its likely cause.

    References:
        Kaplan et al. 2020, "Scaling laws for neural language models", arXiv 2001.08361, Sec. 2.1:
        C ≈ 6 N D, parameters without embeddings.
    """
    values = _numbers(frame)
    logs = {name: _log_of_positive(column) for name, column in values.items()}
    compute = [claim for claim in _compute_claims(logs) if not math.isnan(claim.middle)]
    tokens = [claim for claim in _token_claims(logs) if not math.isnan(claim.middle)]
    negative = (_negative_note(name, column) for name, column in values.items())
    return (
        *(note for note in negative if note),
        *_doubts(compute, tolerance=FLOPS_TOLERANCE, far=FLOPS_FAR),
        *_doubts(tokens, tolerance=TOKENS_TOLERANCE, far=TOKENS_TOLERANCE),
    )


def _numbers(frame: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Name in lower case → the column as floats, NaN where a cell is no number."""
    values: dict[str, NDArray[np.float64]] = {}
    for column in frame.columns:
        name = str(column).strip().lower()
        if name not in NAMES or name in values:
            continue
        cells = frame[column]
        if not pd.api.types.is_float_dtype(cells.dtype):
            cells = cells.astype(str)  # text, decimals, missing values of every kind
        numbers = pd.to_numeric(cells, errors="coerce")
        values[name] = numbers.to_numpy(dtype=float, na_value=np.nan)
    return values


def _log_of_positive(values: NDArray[np.float64]) -> NDArray[np.float64]:
    usable = np.isfinite(values) & (values > 0)
    return np.asarray(np.where(usable, np.log(np.where(usable, values, 1.0)), np.nan))


def _negative_note(name: str, values: NDArray[np.float64]) -> str:
    """A count below zero is what an integer of 64 bits makes of too large a product."""
    rows = np.flatnonzero(values < 0)
    if not len(rows):
        return ""
    return (
        f"{name} is negative in {len(rows)} of {len(values)} runs (row {rows[0] + 1}), likely an "
        "integer overflow; those were not compared"
    )


def _found(logs: Logs, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in logs]


def _typical(logs: Logs, names: Sequence[str]) -> float | None:
    """Median logarithm of the first of these columns."""
    for name in _found(logs, names):
        known = logs[name][np.isfinite(logs[name])]
        if len(known):
            return float(np.median(known))
    return None


def _compute_claims(logs: Logs) -> Iterator[_Claim]:
    """C = 6 N D, for every count of the parameters."""
    for flops in _found(logs, FLOPS)[:1]:
        for tokens in _found(logs, TOKENS)[:1]:
            for params in _found(logs, PARAMETERS):
                yield _Claim(
                    left=flops,
                    right=f"6 × {params} × {tokens}",
                    log_ratio=logs[flops] - math.log(6) - logs[params] - logs[tokens],
                    causes=_compute_causes(logs, flops, params, tokens),
                    otherwise=_other_compute,
                )


def _compute_causes(logs: Logs, flops: str, params: str, tokens: str) -> list[tuple[float, str]]:
    causes = [
        (-math.log(6), f"{flops} counted as {params} × {tokens}"),
        (-math.log(3), f"{flops} of the forward pass alone, 2 × {params} × {tokens}"),
        (-math.log(PETAFLOP_S_DAY), f"{flops} in petaflop/s-days"),
        *((-k * LOG_10, f"{flops} in units of 1e{k}") for k in POWERS),
        *((k * LOG_10, f"{params} or {tokens} in {many}") for k, many in POWERS.items()),
    ]
    length = _typical(logs, LENGTH)
    return causes if length is None else [(length, f"{tokens} in sequences"), *causes]


def _other_compute(ratio: float) -> str:
    if ratio > FLOPS_FAR:
        return f"tokens in sequences or steps of about {ratio:.2g}"
    if ratio > 1:
        return "embeddings, attention or epochs that count in the one only"
    if ratio > 1 / FLOPS_FAR:
        return "parameters that a token does not use, as in a mixture of experts"
    return "another unit"


def _token_claims(logs: Logs) -> Iterator[_Claim]:
    """Steps × batch × length = tokens, for a batch in tokens and for one in sequences."""
    for steps in _found(logs, STEPS)[:1]:
        for tokens in _found(logs, TOKENS)[:1]:
            for batch in _found(logs, BATCH_IN_TOKENS)[:1]:
                yield _token_claim(logs, (steps, batch), tokens)
            for batch in _found(logs, BATCH)[:1]:
                for length in _found(logs, LENGTH)[:1]:
                    yield _token_claim(logs, (steps, batch, length), tokens)


def _token_claim(logs: Logs, factors: tuple[str, ...], tokens: str) -> _Claim:
    batch = factors[1]
    causes = [
        *((k * LOG_10, f"{tokens} in {many}") for k, many in POWERS.items()),
        *((-k * LOG_10, f"{factors[0]} or {batch} in {many}") for k, many in POWERS.items()),
    ]
    length = _typical(logs, LENGTH)
    if length is not None:
        of_batch = {2: (-length, "sequences"), 3: (length, "tokens")}[len(factors)]
        causes.insert(0, (of_batch[0], f"{batch} in {of_batch[1]}"))
    epochs = _typical(logs, EPOCHS)
    if epochs:
        causes.insert(0, (epochs, f"{tokens} counted once, not at every epoch"))
    return _Claim(
        left=" × ".join(factors),
        right=tokens,
        log_ratio=np.asarray(sum(logs[name] for name in factors) - logs[tokens]),
        causes=causes,
        otherwise=_other_tokens,
    )


def _other_tokens(ratio: float) -> str:
    if ratio < 1 / FLOPS_FAR:
        return f"a batch in sequences of about {1 / ratio:.2g}"
    if ratio < 1:
        return "a batch of one device, or before accumulation"
    return "steps of micro-batches, tokens counted at one epoch only, or a run cut short"


def _doubts(claims: Sequence[_Claim], *, tolerance: float, far: float) -> Iterator[str]:
    """Notes on the claims; where all of them fail, the first stands for the others.

    Args:
        claims: Versions of one equality, such as for two counts of the parameters.
        tolerance: Factor by which the median of one of them may be off.
        far: Factor by which the others, and single rows, may be.
    """
    held = [claim for claim in claims if abs(claim.middle) <= math.log(tolerance)]
    if not held:
        yield from (_median_note(claim, tolerance) for claim in claims[:1])
        return
    for claim in claims:
        if abs(claim.middle) > math.log(far):
            yield _median_note(claim, tolerance)
    yield from (note for note in (_rows_note(held[0], far),) if note)


def _median_note(claim: _Claim, tolerance: float) -> str:
    ratio = math.exp(claim.middle)
    distance, cause = min((abs(claim.middle - at), text) for at, text in claim.causes)
    likely = cause if distance <= math.log(tolerance) else claim.otherwise(ratio)
    n_rows = int(np.isfinite(claim.log_ratio).sum())
    return (
        f"{claim.left} should be {claim.right}, it is {ratio:.3g} times that (median of {n_rows} "
        f"runs), likely {likely}; nothing was rescaled"
    )


def _rows_note(claim: _Claim, far: float) -> str:
    """Where the median holds and single rows do not; empty if all do."""
    off = np.flatnonzero(np.abs(claim.log_ratio) > math.log(far))
    if not len(off):
        return ""
    n_rows = int(np.isfinite(claim.log_ratio).sum())
    return (
        f"{claim.left} should be {claim.right}, {len(off)} of {n_rows} runs differ (row "
        f"{off[0] + 1}: {math.exp(claim.log_ratio[off[0]]):.3g} times that), likely mixed "
        "units, an integer overflow, or runs cut short; nothing was rescaled"
    )
