"""Pictures: for each an information function (plain numbers) and a draw function (ink)."""

from __future__ import annotations

from extrap.reporting.figures.allocations import (
    IsoflopProfiles,
    SplitCourse,
    draw_isoflop_profiles,
    draw_split_course,
    isoflop_profiles_info,
    split_course_info,
)
from extrap.reporting.figures.beside import Beside, draw_beside
from extrap.reporting.figures.canvas import Drawing, draw_svg, style_sheet
from extrap.reporting.figures.cascades import (
    CascadeCosts,
    CascadeCurves,
    cascade_costs_info,
    cascade_curves_info,
    draw_cascade_costs,
    draw_cascade_curves,
)
from extrap.reporting.figures.comparisons import (
    RecipeLosses,
    RecipeWorth,
    SizeDifferences,
    draw_recipe_losses,
    draw_recipe_worth,
    draw_size_differences,
    recipe_losses_info,
    recipe_worth_info,
    size_differences_info,
)
from extrap.reporting.figures.knobs import (
    KnobPaths,
    KnobRanks,
    draw_at_stake,
    draw_drift,
    draw_knob_paths,
    knob_paths_info,
    knob_ranks_info,
)
from extrap.reporting.figures.levers import (
    LeverEffects,
    draw_lever_effects,
    lever_effects_info,
)
from extrap.reporting.figures.sparsity import (
    SparseLosses,
    draw_sparse_losses,
    sparse_losses_info,
)

__all__ = [
    "Beside",
    "CascadeCosts",
    "CascadeCurves",
    "Drawing",
    "IsoflopProfiles",
    "KnobPaths",
    "KnobRanks",
    "LeverEffects",
    "RecipeLosses",
    "RecipeWorth",
    "SizeDifferences",
    "SparseLosses",
    "SplitCourse",
    "cascade_costs_info",
    "cascade_curves_info",
    "draw_at_stake",
    "draw_beside",
    "draw_cascade_costs",
    "draw_cascade_curves",
    "draw_drift",
    "draw_isoflop_profiles",
    "draw_knob_paths",
    "draw_lever_effects",
    "draw_recipe_losses",
    "draw_recipe_worth",
    "draw_size_differences",
    "draw_sparse_losses",
    "draw_split_course",
    "draw_svg",
    "isoflop_profiles_info",
    "knob_paths_info",
    "knob_ranks_info",
    "lever_effects_info",
    "recipe_losses_info",
    "recipe_worth_info",
    "size_differences_info",
    "sparse_losses_info",
    "split_course_info",
    "style_sheet",
]
