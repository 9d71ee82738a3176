"""`extrap.forecast`: what a sweep says of larger sizes.

`sweep_laws` fits noise, optima, surface and loss; `sweep_forecast` keeps them as a `Forecast`,
whose `at` gives values, loss and intervals at a size, which `asked_sizes` reads.
"""

from extrap.forecasting.asked_sizes import AnySizes
from extrap.forecasting.sweep_forecast import Forecast, forecast

__all__ = ["AnySizes", "Forecast", "forecast"]
