"""`cascade`: at which confidence a small model may answer before a large one, and what that saves.

From saved predictions of two models to a threshold, its cost and its quality.
"""

from __future__ import annotations

from extrap.cascading.choice import cascade
from extrap.cascading.results import Cascade, CascadePoint

__all__ = ["Cascade", "CascadePoint", "cascade"]
