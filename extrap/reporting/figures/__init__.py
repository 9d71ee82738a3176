"""Pictures: for each an information function (plain numbers) and a draw function (ink)."""

from __future__ import annotations

from extrap.reporting.figures.batch_rates import (
    BatchRates,
    batch_rates_info,
    draw_rate_rules,
    draw_rates_by_size,
)
from extrap.reporting.figures.batches import (
    BatchFront,
    BatchSteps,
    batch_steps_info,
    draw_batch_front,
    draw_batch_steps,
    forecast_front_info,
    measured_front_info,
)
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
from extrap.reporting.figures.noise import (
    NoiseCourses,
    NoisePairs,
    draw_noise_by_loss,
    draw_noise_course,
    draw_noise_pairs,
    noise_courses_info,
    noise_pairs_info,
)
from extrap.reporting.figures.sparsity import (
    SparseLosses,
    draw_sparse_losses,
    sparse_losses_info,
)

__all__ = [
    "BatchFront",
    "BatchRates",
    "BatchSteps",
    "CascadeCosts",
    "CascadeCurves",
    "Drawing",
    "KnobPaths",
    "KnobRanks",
    "LeverEffects",
    "NoiseCourses",
    "NoisePairs",
    "RecipeLosses",
    "RecipeWorth",
    "SizeDifferences",
    "SparseLosses",
    "batch_rates_info",
    "batch_steps_info",
    "cascade_costs_info",
    "cascade_curves_info",
    "draw_at_stake",
    "draw_batch_front",
    "draw_batch_steps",
    "draw_cascade_costs",
    "draw_cascade_curves",
    "draw_drift",
    "draw_knob_paths",
    "draw_lever_effects",
    "draw_noise_by_loss",
    "draw_noise_course",
    "draw_noise_pairs",
    "draw_rate_rules",
    "draw_rates_by_size",
    "draw_recipe_losses",
    "draw_recipe_worth",
    "draw_size_differences",
    "draw_sparse_losses",
    "draw_svg",
    "forecast_front_info",
    "knob_paths_info",
    "knob_ranks_info",
    "lever_effects_info",
    "measured_front_info",
    "noise_courses_info",
    "noise_pairs_info",
    "recipe_losses_info",
    "recipe_worth_info",
    "size_differences_info",
    "sparse_losses_info",
    "style_sheet",
]
