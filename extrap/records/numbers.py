"""How numbers are written: a value never shows more digits than its uncertainty allows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from extrap.files import as_written
from extrap.records.intervals import NOWHERE, Interval

NBSP = "\u00a0"
MOST_DIGITS = 6
"""Of the sides of an interval, however narrow it is."""
ROUNDING_ERROR = 1e-12
"""Standard error over a value up to which it is that of arithmetic alone."""
MOST_TEXT = 1000
"""Characters of a text that may come from a file."""
SUFFIXES = ((1e12, "T"), (1e9, "B"), (1e6, "M"))
"""Power of ten → its letter, the largest first."""


def over(first: str, *lines: str) -> str:
    """A cell of a table above others: what follows a line break is set smaller."""
    return "\n".join([first, *filter(None, lines)])


def format_value(value: float | None, error: float | None = None) -> str:
    """A value with its standard error, `1.749 ± 0.013`: two digits of the error decide.

    Args:
        value: The value; None or a non-finite number is written `unknown`.
        error: Its standard error, same unit; without a positive one, beyond rounding, four
            significant digits stand.
    """
    if value is None or not math.isfinite(value):
        return "unknown"
    if error is None or not math.isfinite(error) or error <= ROUNDING_ERROR * abs(value):
        return _plain(value, _decimals(value, digits=4))
    largest = max(abs(value), error)
    decimals, power = _decimals(error, digits=2), 0
    if not 1e-4 <= largest < 1e6:
        power = math.floor(math.log10(largest))
        decimals = max(decimals + power, 0)
    sides = (_plain(number / 10**power, decimals) for number in (value, error))
    text = " ± ".join(sides)
    return f"({text})e{power}".replace("e-", "e−") if power else text


def format_interval(interval: Interval, write: Callable[[float], str] | None = None) -> str:
    """An interval in words; an open side is said, not drawn.

    Args:
        interval: The interval.
        write: How its sides are written; left out, its width decides their digits.
    """
    lower, upper = interval
    if lower is None and upper is None:
        return "unknown"
    if write is None:
        decimals = _interval_decimals(interval)
        is_closed = lower is not None and upper is not None
        write = (lambda side: _plain(side, decimals)) if is_closed else format_value
    ends = ["" if side is None else write(side) for side in interval]
    template = "{} to {}" if all(ends) else "at least {}" if ends[0] else "at most {}"
    return template.format(*filter(None, ends))


def format_estimate(value: float | None, interval: Interval, level: float | None = None) -> str:
    """A value with its interval, `1.749 (1.671 to 1.830)`, both to the same digit.

    In a very wide interval the value keeps two digits. A level stands before the interval,
    `1.749 (95 %: 1.671 to 1.830)`.
    """
    return beside(stacked(value, interval), level)


def stacked(
    value: float | None, interval: Interval, write: Callable[[float], str] | None = None
) -> str:
    """A value above its interval, both to the same digit or as `write` writes them."""
    if value is None:
        return format_interval(interval, write)
    if write is not None:
        return over(write(value), *(interval != NOWHERE) * [format_interval(interval, write)])
    if None in tuple(interval):
        decimals = _decimals(value, digits=4)
    else:
        decimals = max(_interval_decimals(interval), _decimals(value, digits=2))
    return over(_plain(value, decimals), format_interval(interval))


def beside(cell: str, level: float | None = None) -> str:
    """A cell on one line, what stands below its value in brackets, after the level if given."""
    value, line, below = cell.partition("\n")
    head = "" if level is None else f"{format_level(level)}: "
    return f"{value} ({head}{below.replace(chr(10), '; ')})" if line else value


def counted(n: int, what: str) -> str:
    """A number of things: `1 run`, `2 runs`."""
    return f"{n} {what}{'s' * (n != 1)}"


def format_level(level: float) -> str:
    """The level of an interval, or another share in whole percents: `95 %`."""
    return f"{100 * level:g}{NBSP}%"


def format_decimals(value: float | None, decimals: int, *, signed: bool = False) -> str:
    """A number with so many decimals; `unknown` where it is not known."""
    if value is None or not math.isfinite(value):
        return "unknown"
    return f"{value:{'+' * signed}.{decimals}f}".replace("-", "−")


def format_factor(factor: float) -> str:
    """A ratio: `2.67×`."""
    return f"{format_quantity(factor, digits=3)}×"


def rounded(value: float, digits: int) -> float:
    """A number rounded to so many significant digits."""
    return float(f"{value:.{digits}g}")


def format_quantity(value: float | None, *, digits: int | None = None) -> str:
    """A size or a tuned value, exact enough to recognise: `1024`, `1.3B`, `0.00261`, `2.6e−5`.

    Args:
        value: The number; None or a non-finite number is written `not known`.
        digits: Significant digits, such as 2 for a ratio; left out, whole numbers below a million
            stand as they are and others have three digits, or four from a thousand on.
    """
    if value is None or not math.isfinite(value):
        return "not known"
    shown = value if digits is None else rounded(value, digits)
    return _recognisable(shown, digits or 3).replace("-", "−")


def format_given(value: float) -> str:
    """A number that somebody chose, as they wrote it: `0.125`, `2`, `3.215`."""
    return format_quantity(value, digits=6)


def format_exact(value: float | None) -> str:
    """A number for a file, ten significant digits; empty where there is none."""
    return "" if value is None else f"{value:.10g}"


def _recognisable(value: float, digits: int) -> str:
    for factor, suffix in SUFFIXES:
        if abs(value) >= factor:
            shown = f"{value / factor:.{max(digits, 3)}g}{suffix}"
            return shown if abs(value) < 1e15 else format_scientific(value, digits=digits)
    if value == round(value):
        return f"{value:.0f}"
    if abs(value) < 1e-4:
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e−{abs(int(power))}"
    least = 4 if abs(value) >= 1000 else 1
    text = _plain(value, _decimals(value, digits=max(digits, least)))
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_scientific(value: float, *, digits: int = 3) -> str:
    """A number of any magnitude, such as FLOPs: `3.78e15`, `42`."""
    text = re.sub(r"e\+?(-?)0*", r"e\1", f"{value:.{digits}g}")
    return text.replace("-", "−")


def format_percent(
    fraction: float | None, *, signed: bool = True, digits: int | None = None
) -> str:
    """A relative difference, `+1.2 %`; whole percents from ten on.

    Args:
        fraction: The difference; None or a non-finite number is written `unknown`.
        signed: Whether a sign stands before it.
        digits: Significant digits below ten percent; left out, one decimal stands.
    """
    if fraction is None or not math.isfinite(fraction):
        return "unknown"
    percent = abs(100 * fraction)
    text = f"{percent:.{0 if percent >= 9.95 else 1}f}"
    if digits is not None and percent < 9.95:
        text = format_quantity(percent, digits=digits)
    sign = ("−" if fraction < 0 else "+") if signed else ""
    return f"{sign}{text}{NBSP}%"


def format_cost(log_excess: float) -> str:
    """A log excess as a percentage of the loss, two digits; whole percents from ten on."""
    percent = 100 * math.expm1(log_excess)
    is_seen = abs(percent) >= 0.0095
    text = _plain(percent, max(_decimals(percent, digits=2), 0)) if is_seen else "0"
    return f"{text}{NBSP}%"


def format_p_value(p_value: float | None) -> str:
    """A p-value with as many digits as anybody acts on."""
    if p_value is None:
        return "–"
    return f"<{NBSP}0.001" if p_value < 0.001 else f"{p_value:.{2 if p_value > 0.095 else 3}f}"


def name_size(size: Mapping[str, float | None]) -> str:
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
    if lower is None or upper is None or math.isclose(lower, upper):
        return _decimals(lower or upper or 0.0, digits=4)
    most = _decimals(max(abs(lower), abs(upper)), digits=MOST_DIGITS)
    return min(_decimals(upper - lower, digits=3), most)


def plain(text: object) -> str:
    """Text from a file on one line: hidden characters spelled out, cut where it is long."""
    line = " ".join(as_written(str(text)).split())
    return line if len(line) <= MOST_TEXT else f"{line[: MOST_TEXT - 1]}…"
