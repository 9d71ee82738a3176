"""Do the outputs of layers move as far at every width? The numbers are in `extrap.training`."""

from extrap.registry import Analysis

ANALYSIS = Analysis(
    package=__name__,
    blocks={"CoordinateCheck": "page.coordinate_blocks"},
    commands={"Run studies": "command.coord_check_command"},
)
