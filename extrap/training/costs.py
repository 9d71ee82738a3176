"""What a run costs: one convention, named."""

from __future__ import annotations

from collections.abc import Mapping

from extrap.workloads import LoadedWorkload


def flops_6nd(n_params: int, n_tokens: int) -> float:
    """Training compute C ≈ 6 N D: 2 operations a parameter and token forward, 4 backward.

    N counts parameters without embeddings, D the tokens predicted.

    References:
        Kaplan et al. 2020, "Scaling laws for neural language models", arXiv 2001.08361, Sec. 2.1.
    """
    return 6.0 * n_params * n_tokens


def run_flops(workload: LoadedWorkload, size: Mapping[str, float], n_tokens: int) -> float:
    """Training compute of a run, FLOPs: what the workload counts, else 6 N D.

    Args:
        workload: Of the run; it may define `flops(size, n_tokens)`.
        size: Of the model.
        n_tokens: Predicted tokens that it sees.
    """
    own = getattr(workload, "flops", None)
    return own(size, n_tokens) if own else flops_6nd(workload.n_params(size), n_tokens)
