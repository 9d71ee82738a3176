"""Does every layer compute and move alike at every width? What trains is in `extrap.training`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use
from extrap.registry import Analysis

if TYPE_CHECKING:
    from extrap.analyses.coordinates.check import CoordinateCheck, coordinate_check

__all__ = ["ANALYSIS", "CoordinateCheck", "coordinate_check"]

ANALYSIS = Analysis(
    package=__name__,
    blocks={"CoordinateCheck": "page.coordinate_blocks"},
    commands={"Run studies": "command.coord_check_command"},
)

__getattr__ = on_first_use(__name__, {"check": "CoordinateCheck coordinate_check"})
