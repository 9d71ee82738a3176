"""The sweep's own backtest on the page: words, and a picture where there is one."""

from __future__ import annotations

from dataclasses import dataclass

from extrap.backtesting import backtest
from extrap.errors import ExtrapError
from extrap.forecasting import Forecast
from extrap.reporting.backtests import backtest_sentence, failure_sentences
from extrap.reporting.plates import Plate, backtest_plate
from extrap.reporting.statements import pins_of

__all__ = ["History", "history"]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a backtest says.

    Attributes:
        words: Sentences, or why there is no backtest.
        plate: The picture; None if there is no backtest, or none was asked for.
    """

    words: str
    plate: Plate | None


def history(forecast: Forecast, *, picture: bool = True) -> History:
    """Backtest the sweep of a forecast as the forecast was made."""
    try:
        found = backtest(forecast.runs, band=forecast.band, fix=pins_of(forecast))
    except ExtrapError as error:
        return History(words=f"No backtest: {error}", plate=None)
    words = " ".join([backtest_sentence(found), *failure_sentences(found)])
    return History(words=words, plate=backtest_plate(found) if picture else None)
