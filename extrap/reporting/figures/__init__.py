"""Figures of pages that are not yet made of blocks."""

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
from extrap.reporting.figures.selection import (
    ChoiceLosses,
    ChoiceMap,
    choice_losses_info,
    choice_map_info,
    draw_choice_losses,
    draw_choice_map,
)
from extrap.reporting.figures.sparsity import SparseLosses, draw_sparse_losses, sparse_losses_info

__all__ = [
    "Beside",
    "ChoiceLosses",
    "ChoiceMap",
    "Drawing",
    "IsoflopProfiles",
    "RecipeLosses",
    "RecipeWorth",
    "SizeDifferences",
    "SparseLosses",
    "SplitCourse",
    "choice_losses_info",
    "choice_map_info",
    "draw_beside",
    "draw_choice_losses",
    "draw_choice_map",
    "draw_isoflop_profiles",
    "draw_recipe_losses",
    "draw_recipe_worth",
    "draw_size_differences",
    "draw_sparse_losses",
    "draw_split_course",
    "draw_svg",
    "isoflop_profiles_info",
    "recipe_losses_info",
    "recipe_worth_info",
    "size_differences_info",
    "sparse_losses_info",
    "split_course_info",
    "style_sheet",
]
