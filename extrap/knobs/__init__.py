"""Which fixed value breaks next: how the optimum of every knob drifts, and what it will cost.

At a few small sizes each knob is moved, one at a time, with the same seeds. A parabola in octaves
through the log losses of one seed at one size gives their gradient g and curvature h; what the
seeds have in common cancels. Over x = log2(size), g is a line and h a constant, so that the
optimum u*(x) = −g(x) / h, in octaves from the fixed value, drifts by −g' / h a doubling, and the
fixed value costs ½ g² / h.

What to use when:

* `read_moves` — from a table of runs to the moves of each knob.
* `rank_knobs` — from moves to a ranking, every number with an interval.

Every seed is one replicate of the whole experiment: g at the target, g' and h are linear in its
losses, so Student's t with (seeds − 1) degrees of freedom holds however its noise at different
sizes is correlated, and their ratios get Fieller's intervals.

References:
    Metz 2022, "On the difficulty of extrapolation with NN scaling", asks the question; Fieller
    (1954), Some problems in interval estimation, J. R. Stat. Soc. B 16, the interval of a ratio.
    The statistic is ours.
"""

from __future__ import annotations

from extrap.knobs.moves import Moves, read_moves
from extrap.knobs.ranking import rank_knobs
from extrap.knobs.results import Knob, KnobReport, Offset
from extrap.records import Measure

__all__ = ["Knob", "KnobReport", "Measure", "Moves", "Offset", "rank_knobs", "read_moves"]
