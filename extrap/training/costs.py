"""What a run costs: one convention, named."""

from __future__ import annotations


def flops_6nd(n_params: int, n_tokens: int) -> float:
    """Training compute C ≈ 6 N D: 2 operations a parameter and token forward, 4 backward.

    N counts parameters without embeddings, D the tokens predicted.

    References:
        Kaplan et al. 2020, "Scaling laws for neural language models", arXiv 2001.08361, Sec. 2.1.
    """
    return 6.0 * n_params * n_tokens
