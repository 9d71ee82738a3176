"""How numbers are written: a value never shows more digits than its uncertainty allows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from extrap.records import Interval

NBSP = "\u00a0"
SUFFIXES = ((1e12, "T"), (1e9, "B"), (1e6, "M"))


def format_value(value: float | None, error: float | None = None) -> str:
    """A value with its standard error, `1.749 ± 0.013`: two digits of the error decide.

    Args:
        value: The value; None or a non-finite number is written `unknown`.
        error: Its standard error, same unit; without a positive one four significant digits stand.
    """
    if value is None or not math.isfinite(value):
        return "unknown"
    if error is None or not math.isfinite(error) or error <= 0:
        return _plain(value, _decimals(value, digits=4))
    largest = max(abs(value), error)
    decimals = _decimals(error, digits=2)
    if 1e-4 <= largest < 1e6:
        return f"{_plain(value, decimals)} ± {_plain(error, decimals)}"
    power = math.floor(math.log10(largest))
    value, error, decimals = value / 10**power, error / 10**power, max(decimals + power, 0)
    return f"({_plain(value, decimals)} ± {_plain(error, decimals)})e{power}".replace("e-", "e−")


def format_interval(interval: Interval) -> str:
    """An interval in words; an open side is said, not drawn."""
    lower, upper = interval
    if lower is None and upper is None:
        return "unknown"
    if lower is None:
        return f"at most {format_value(upper)}"
    if upper is None:
        return f"at least {format_value(lower)}"
    decimals = _interval_decimals(interval)
    return f"{_plain(lower, decimals)} to {_plain(upper, decimals)}"


def format_estimate(value: float | None, interval: Interval) -> str:
    """A value with its interval, `1.749 (1.671 to 1.830)`, both to the same digit.

    In a very wide interval the value keeps two digits.
    """
    if value is None:
        return format_interval(interval)
    if None in tuple(interval):
        decimals = _decimals(value, digits=4)
    else:
        decimals = max(_interval_decimals(interval), _decimals(value, digits=2))
    return f"{_plain(value, decimals)} ({format_interval(interval)})"


def stacked(value: float | None, interval: Interval) -> str:
    """A value above its interval."""
    return below(format_estimate(value, interval))


def below(text: str) -> str:
    """A value with an interval in brackets, the interval on a line below."""
    return text.replace(" (", "\n").removesuffix(")")


def dashed(value: Any, write: Callable[[Any], str] = format_value) -> str:
    """A value in words; a dash where there is none."""
    return "–" if value is None else write(value)


def counted(n: int, what: str) -> str:
    """A number of things: `1 run`, `2 runs`."""
    return f"{n} {what}{'s' * (n != 1)}"


def format_level(level: float) -> str:
    """The level of an interval: `95 %`."""
    return f"{100 * level:g}{NBSP}%"


def format_octaves(octaves: float) -> str:
    """A distance in octaves: `+0.50`."""
    return f"{octaves:+.2f}".replace("-", "−")


def format_quantity(value: float | None) -> str:
    """A size or a tuned value, exact enough to recognise: `1024`, `1.3B`, `0.00261`, `2.6e−5`."""
    if value is None or not math.isfinite(value):
        return "not known"
    for factor, suffix in SUFFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.3g}{suffix}" if value < 1e15 else f"{value:.3g}"
    if value == round(value):
        return f"{value:.0f}"
    if abs(value) < 1e-4:
        mantissa, power = f"{value:.2e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e−{abs(int(power))}"
    if abs(value) >= 1000:
        return f"{round(value, _decimals(value, digits=4)):.0f}"
    text = f"{value:.{max(_decimals(value, digits=3), 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_scientific(value: float, *, digits: int = 3) -> str:
    """A number of any magnitude, such as FLOPs: `3.78e15`, `42`."""
    return re.sub(r"e\+?(-?)0*", r"e\1", f"{value:.{digits}g}").replace("-", "−")


def format_percent(fraction: float | None, *, signed: bool = True) -> str:
    """A relative difference, `+1.2 %`; whole percents from ten on."""
    if fraction is None or not math.isfinite(fraction):
        return "unknown"
    percent = 100 * fraction
    text = f"{abs(percent):.{0 if abs(percent) >= 9.95 else 1}f}{NBSP}%"
    if not signed:
        return text
    return f"{'−' if percent < 0 else '+'}{text}"


def format_cost(log_excess: float) -> str:
    """A log excess as a percentage of the loss, two digits; whole percents from ten on."""
    percent = 100 * math.expm1(log_excess)
    if abs(percent) >= 9.95:
        return f"{percent:.0f}{NBSP}%".replace("-", "−")
    text = _plain(percent, _decimals(percent, digits=2)) if abs(percent) >= 0.0095 else "0"
    return f"{text}{NBSP}%"


def format_cost_interval(log_excess: Interval) -> str:
    """An interval of log excesses as percentages of the loss."""
    low, high = (format_cost(side or 0.0) for side in log_excess)
    return f"{low} to {high}"


def format_p_value(p_value: float | None) -> str:
    """A p-value with as many digits as anybody acts on."""
    if p_value is None:
        return "–"
    return f"<{NBSP}0.001" if p_value < 0.001 else f"{p_value:.{2 if p_value > 0.095 else 3}f}"


def name_size(size: Mapping[str, float]) -> str:
    """A size in words: `width 1024`."""
    return ", ".join(f"{column}{NBSP}{format_quantity(value)}" for column, value in size.items())


def name_tuned(tuned: Mapping[str, float | None]) -> str:
    """Tuned values in words: `lr = 0.0026`; empty when nothing is tuned."""
    return ", ".join(f"{n}{NBSP}={NBSP}{format_quantity(v)}" for n, v in tuned.items())


def compared(deviation: float) -> str:
    """A relative difference in words: `1.2 % below`."""
    if abs(deviation) < 0.0005:
        return "equal to"
    size = format_percent(deviation, signed=False)
    return f"{size} {'above' if deviation > 0 else 'below'}"


def _plain(value: float, decimals: int) -> str:
    return f"{round(value, decimals):.{max(decimals, 0)}f}".replace("-", "−")


def _decimals(scale: float, *, digits: int) -> int:
    """Decimals that show so many significant digits of a number."""
    if scale == 0 or not math.isfinite(scale):
        return digits - 1
    rounded = float(f"{abs(scale):.{digits - 1}e}")  # 0.0996 counts as 0.10
    return digits - 1 - math.floor(math.log10(rounded))


def _interval_decimals(interval: Interval) -> int:
    lower, upper = interval
    if lower is None or upper is None or lower == upper:
        return _decimals(lower or upper or 0.0, digits=4)
    return _decimals(upper - lower, digits=3)
