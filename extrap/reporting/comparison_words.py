"""Recipes over size in words: verdict cards, a headline, what to do, what was expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from extrap.comparing import Comparison, Contrast, EffectiveCompute, SizeDifference
from extrap.records import Interval, Measure
from extrap.reporting.cards import Card
from extrap.reporting.comparison_findings import (
    GroupFindings,
    TargetCheck,
    has_misfit,
    measured_target,
    winning_side,
)
from extrap.reporting.numbers import (
    NBSP,
    format_estimate,
    format_interval,
    format_p_value,
    format_percent,
    format_quantity,
    format_value,
    name_size,
)

__all__ = [
    "LIMITS",
    "check_sentences",
    "comparison_headline",
    "contrast_card",
    "contrast_sentence",
    "found_sentence",
    "percent_words",
    "times_words",
    "verdict_words",
]

LIMITS = (
    "A verdict speaks of the sizes that were run. The difference at the target holds if both laws "
    "go on as they are; an exponent that differs by little can look like a shift, and the other "
    "way round, until the sizes are far apart.",
    "Each recipe is at its own best values of what was tuned. What is fixed alike in all of them, "
    "such as the schedule, may suit one recipe better than another.",
    "No difference told is not the same as no difference: read the interval.",
    "What a recipe is worth counts training compute as the runs record it. Hardware may be faster "
    "or slower for one of them; the hours in the cost table say so where they were measured.",
    "Loss is not ability: recipes of equal loss may differ in what they can do.",
)
MOST_NAMED = 12
"""Treated recipes that a headline of several groups names one by one."""
NO_ENDS = (Measure(value=None, ci=Interval(None, None)),) * 2
ONE = 1e-9
"""A factor this near to 1 is 1."""
MIXED = "■"
"""Better at some sizes and worse at others."""
NO_LAW = "The laws do not fit: read the differences by size."
_SHAPES = {"shift": "◆", "exponent": "▲", "same": "●", "unknown": "?"}


def verdict_words(contrast: Contrast) -> str:
    """The verdict in three or four words."""
    side = winning_side(contrast)
    if contrast.sign_changes:
        is_steeper = contrast.verdict == "exponent" and not has_misfit(contrast)
        return f"better or worse by size{_steeper(contrast) if is_steeper else ''}"
    if contrast.differs and has_misfit(contrast):
        return f"differs{ {'better': ', lower', 'worse': ', higher'}.get(side, '') }"
    if contrast.verdict == "shift":
        return f"shifts the law{ {'better': ' down', 'worse': ' up'}.get(side, '') }"
    if contrast.verdict == "exponent":
        return f"changes its exponent{_steeper(contrast)}"
    return "no difference told" if contrast.verdict == "same" else "cannot say"


def _steeper(contrast: Contrast) -> str:
    value = contrast.exponent_difference.value
    if value is None:
        return ""
    return ", falls faster" if value > 0 else ", falls slower"


def contrast_card(
    contrast: Contrast, comparison: Comparison, check: TargetCheck | None = None
) -> Card:
    """Everything that is known of a treated recipe against the plain one.

    Args:
        contrast: What its sweep says.
        comparison: Where it belongs.
        check: What was measured of it at the target afterwards.
    """
    side = winning_side(contrast)
    kinds = {"better": "on", "worse": "off", "": "mixed"}
    is_mixed = bool(contrast.sign_changes)
    shape = MIXED if is_mixed else _SHAPES.get(contrast.verdict, "?")
    return Card(
        kind=kinds[side] if contrast.differs or is_mixed else contrast.verdict,
        verdict=f"{shape}{NBSP}{verdict_words(contrast)}",
        title=f"{contrast.treated} against {comparison.plain}",
        facts=(*_checked_facts(check, comparison), *_facts(contrast, comparison)),
        advice=(_advice(contrast, comparison), *_checked_advice(check)),
        experiment=_experiment(contrast, comparison),
    )


def _checked_facts(
    check: TargetCheck | None, comparison: Comparison
) -> tuple[tuple[str, str], ...]:
    if check is None:
        return ()
    where = f"loss at {name_size(comparison.target)}, measured"
    return ((where, percent_words(check.difference)),)


def _checked_advice(check: TargetCheck | None) -> tuple[str, ...]:
    if check is None or check.agrees is not False:
        return ()
    return (
        "The forecast did not hold at the target: go by what was measured there, and by no "
        "forecast beyond it.",
    )


def _facts(contrast: Contrast, comparison: Comparison) -> list[tuple[str, str]]:
    facts = [
        (_place_words(place), percent_words(place.difference, n_pairs=_pairs(place)))
        for place in _places(contrast)
    ]
    if not contrast.differs and contrast.mean_difference.value is not None:
        facts.append(("mean difference, all sizes", percent_words(contrast.mean_difference)))
    column = comparison.columns[0]
    for name in (contrast.treated, comparison.plain):
        own = contrast.exponents.get(name)
        if own is not None:
            facts.append((f"exponent in {column}, {name}", _measure_words(own)))
    facts.append(("exponent, difference", _measure_words(contrast.exponent_difference)))
    facts += [_worth_fact(worth, column) for worth in contrast.effective_compute[-1:]]
    facts.append(("laws cross", _crossing_words(contrast, comparison)))
    if contrast.p_value is not None:
        facts.append(("p-value of one law for both", _p_words(contrast)))
    return facts


def _places(contrast: Contrast) -> list[SizeDifference]:
    """What counts, first: measured at the target, else the forecast and the largest size.

    Laws that do not fit come second.
    """
    measured, largest = measured_target(contrast), contrast.by_size[-1:]
    if measured is not None:
        return [measured]
    places = [*filter(None, [contrast.at_target]), *largest]
    return places[::-1] if has_misfit(contrast) else places


def _pairs(place: SizeDifference) -> int | None:
    return None if place.is_forecast else place.n_pairs


def _place_words(place: SizeDifference) -> str:
    how = "forecast" if place.is_forecast else f"{place.n_pairs} pair{'s' * (place.n_pairs != 1)}"
    return f"loss at {name_size(place.size)}, {how}"


def _p_words(contrast: Contrast) -> str:
    p_value = format_p_value(contrast.p_value)
    if contrast.p_adjusted is None or contrast.p_adjusted == contrast.p_value:
        return p_value
    return f"{p_value}, {format_p_value(contrast.p_adjusted)} after Holm's correction"


def _worth_fact(worth: EffectiveCompute, column: str) -> tuple[str, str]:
    unknown = Measure(value=None, ci=Interval(None, None))
    words = f"{times_words(worth.factor)} the compute" if worth.factor != unknown else ""
    if worth.size_factor != unknown:
        words += f"{'; ' * bool(words)}{times_words(worth.size_factor)} the {column}"
    return f"worth at {name_size(worth.size)}", words or "unknown"


def _crossing_words(contrast: Contrast, comparison: Comparison) -> str:
    crossover = contrast.crossover
    if crossover.size.value is None:
        between = " and ".join(
            f"between {name_size(before.size)} and {name_size(after.size)}"
            for before, after in contrast.sign_changes
        )
        return f"the measured sign changes {between}" if between else "no crossing is told"
    where = f"{comparison.columns[0]} {_size_words(crossover.size)}"
    inside = "within" if crossover.is_inside else "outside"
    better = f"; below it {crossover.better_below} is better" if crossover.better_below else ""
    return f"{where}, {inside} the measured sizes{better}"


def _size_words(measure: Measure) -> str:
    """A size with its interval, to three digits: it is read off two curves."""
    lower, upper = (None if v is None else float(f"{v:.3g}") for v in measure.ci)
    value = format_quantity(float(f"{measure.value or 0.0:.3g}"))
    if lower is None and upper is None:
        return f"{value} (interval unknown)"
    if lower is None or upper is None:
        side, bound = ("at most", upper) if lower is None else ("at least", lower)
        return f"{value} ({side} {format_quantity(bound)})"
    return f"{value} ({format_quantity(lower)} to {format_quantity(upper)})"


def percent_words(measure: Measure, *, n_pairs: int | None = None) -> str:
    """A relative difference with its interval, in percent and with a sign.

    Args:
        measure: The difference.
        n_pairs: Seeds behind a measured one, to say why it has no interval.
    """
    lower, upper = (None if side is None else 100 * side for side in measure.ci)
    value = measure.value
    if lower is None and upper is None:
        is_single = n_pairs is not None and n_pairs <= 1
        why = "one seed: no interval" if is_single else "interval unknown"
        return "unknown" if value is None else f"{format_percent(value)} ({why})"
    words = format_estimate(None if value is None else 100 * value, Interval(lower, upper))
    sign = "+" if value is not None and value > 0 and words[0].isdigit() else ""
    return f"{sign}{words}{NBSP}%"


def times_words(measure: Measure) -> str:
    """A factor with its interval."""
    words = _measure_words(measure)
    return words if words == "unknown" else f"{words} times"


def _measure_words(measure: Measure) -> str:
    if measure.ci == Interval(None, None):
        value = measure.value
        return "unknown" if value is None else f"{format_value(value)} (interval unknown)"
    return format_estimate(measure.value, measure.ci)


def _advice(contrast: Contrast, comparison: Comparison) -> str:
    side = winning_side(contrast)
    if contrast.sign_changes:
        return f"{_by_size_words(contrast)} {_beyond_words(contrast)}".strip()
    if contrast.verdict == "unknown":
        return f"The data cannot say{_open_words(contrast)}. Do not scale it up on these runs."
    if contrast.verdict == "same":
        return (
            f"No difference is told{_open_words(contrast)}. That is no proof of none. "
            "Choose by cost and convenience; if that range matters to you, add seeds or a larger "
            "size."
        )
    if has_misfit(contrast):
        return _measured_words(contrast, side)
    if contrast.verdict == "shift":
        return {
            "better": f"{_course(contrast, 'lower')} {_pays(contrast)}",
            "worse": f"{_course(contrast, 'higher')} Do not use it for its loss. "
            f"{_pays(contrast)}",
            "": "The laws differ, but not yet which way it goes where it counts. Add seeds.",
        }[side].strip()
    grows = (contrast.exponent_difference.value or 0.0) > 0
    if grows and side == "better":
        where = _told_at(contrast)
        return f"It is better at {where} and gains more with size. Use it, the more the larger."
    if grows:
        return (
            "It gains with size: what it costs at small sizes says too little for it. Run one "
            "larger size before you drop it."
        )
    if side == "better":
        where = _told_at(contrast)
        return f"It is better at {where}, by less the larger. Compare anew before you go beyond."
    return (
        "It loses with size: what it gains at small sizes says too much for it. Do not scale it "
        "up on the strength of small runs."
    )


def _by_size_words(contrast: Contrast) -> str:
    """Where it is told to be better and where worse, the sizes in their order."""
    parts: list[tuple[str, list[str]]] = []
    for place in contrast.told_sizes:
        how = "better" if (place.difference.value or 0.0) < 0 else "worse"
        if not parts or parts[-1][0] != how:
            parts.append((how, []))
        parts[-1][1].append(
            f"{name_size(place.size)} ({_short_percent(place.difference.value or 0.0)})"
        )
    said = ", ".join(f"{how} at {_listed(sizes)}" for how, sizes in parts)
    return f"{_capital(said)}: which one wins depends on size."


def _beyond_words(contrast: Contrast) -> str:
    """What the laws say beyond sizes at which both recipes win somewhere."""
    if has_misfit(contrast):
        return NO_LAW
    gap = contrast.exponent_difference.value
    if contrast.verdict != "exponent" or gap is None:
        return ""
    return f"By its exponent it {'gains' if gap > 0 else 'loses'} with size."


def _measured_words(contrast: Contrast, side: str) -> str:
    """What was measured, where no law is to be read."""
    told = contrast.told_sizes
    if not told:
        return f"{NO_LAW} Which way they go where it counts is not told; add seeds."
    how = "lower" if (told[0].difference.value or 0.0) < 0 else "higher"
    last = name_size(contrast.by_size[-1].size)
    not_last = "" if side else f" At {last} no difference is told."
    where = _listed(
        [f"{name_size(p.size)} ({_short_percent(p.difference.value or 0.0)})" for p in told]
    )
    return f"Its measured loss is {how} at {where}.{not_last} {NO_LAW} Forecast nothing from them."


def _open_words(contrast: Contrast) -> str:
    """What is left open: of the mean difference, and at the target."""
    mean = contrast.mean_difference.ci
    if mean == Interval(None, None):
        return _range_words(measured_target(contrast) or contrast.at_target)
    lower, upper = (None if side is None else 100 * side for side in mean)
    interval = _from(format_interval(Interval(lower, upper)))
    words = f": a mean difference {interval}{NBSP}% over the sizes is left open"
    at = _range_words(measured_target(contrast) or contrast.at_target)
    return words + at.replace(": at", ", and at").replace(" is left open", "")


def _course(contrast: Contrast, side: str) -> str:
    """How a difference goes over the sizes where no difference of exponents is told."""
    ends = contrast.by_size[:1] + contrast.by_size[-1:]
    first, last = (place.difference for place in ends) if len(contrast.by_size) > 1 else NO_ENDS
    if _are_apart(first.ci, last.ci) and first.value is not None and last.value is not None:
        said = " and ".join(
            f"{format_percent(place.difference.value)} at {name_size(place.size)}"
            for place in ends
        )
        how = "shrinks" if abs(last.value) < abs(first.value) else "grows"
        return (
            f"Its loss differs by {said}: the difference {how} with size, by the exponent or by "
            "the floor, which these sizes cannot tell apart."
        )
    return (
        f"Its loss above the floor is {side} in about one proportion at every size: no "
        "difference of exponents is told."
    )


def _are_apart(a: Interval, b: Interval) -> bool:
    """Whether two closed intervals have nothing in common."""
    if a.lower is None or a.upper is None or b.lower is None or b.upper is None:
        return False
    return a.upper < b.lower or b.upper < a.lower


def _told_at(contrast: Contrast) -> str:
    """Where it is seen which recipe is better: at the target if there, else the largest size."""
    at = measured_target(contrast) or contrast.at_target
    if at is not None and at.difference.ci != Interval(None, None) and 0 not in at.difference.ci:
        return name_size(at.size)
    return name_size(contrast.by_size[-1].size)


def _range_words(place: SizeDifference | None) -> str:
    if place is None or place.difference.ci == Interval(None, None):
        return ""
    lower, upper = (None if side is None else 100 * side for side in place.difference.ci)
    interval = format_interval(Interval(lower, upper))
    return f": at {name_size(place.size)} anything {_from(interval)}{NBSP}% is left open"


def _from(interval: str) -> str:
    return interval if interval.startswith("at ") else f"from {interval}"


def _pays(contrast: Contrast) -> str:
    """Whether it pays for its own compute, which the factor already counts."""
    if not contrast.effective_compute:
        return ""
    factor = contrast.effective_compute[-1].factor
    lower, upper = factor.ci
    if factor.value is None or (lower is not None and upper is not None and lower > upper):
        return ""
    if lower is not None and lower > 1 + ONE:
        return "It pays: the plain recipe needs more compute for the same loss."
    if upper is not None and upper < 1 - ONE:
        return "It does not pay: the plain recipe needs less compute for the same loss."
    return ""


def _experiment(contrast: Contrast, comparison: Comparison) -> tuple[str, ...]:
    """The cheapest runs that would settle it."""
    if not contrast.by_size or contrast.verdict not in ("exponent", "unknown"):
        return ()
    column, largest = comparison.columns[0], contrast.by_size[-1].size
    twice = format_quantity(2 * largest[column])
    return (f"add {column} {twice} to both sweeps; where intervals are wide, double the seeds.",)


def contrast_sentence(contrast: Contrast, comparison: Comparison) -> str:
    """One line on a treated recipe, for a terminal and the table of expectations."""
    parts = [verdict_words(contrast)]
    parts += [
        f"{_place_words(place)}: {percent_words(place.difference, n_pairs=_pairs(place))}"
        for place in _places(contrast)
    ]
    if not contrast.differs and contrast.mean_difference.ci != Interval(None, None):
        parts.append(f"mean difference: {percent_words(contrast.mean_difference)}")
    if has_misfit(contrast):
        return f"{contrast.treated}: {'; '.join([*parts, 'the laws do not fit'])}."
    parts += [
        f"worth {times_words(worth.factor)} the compute at {name_size(worth.size)}"
        for worth in contrast.effective_compute[-1:]
        if worth.factor.value is not None
    ]
    return f"{contrast.treated}: {'; '.join(parts)}."


def found_sentence(found: GroupFindings) -> str:
    """What was found of a group, a line a treated recipe."""
    if found.comparison is None:
        return f"No comparison: {found.problem}"
    told = found.comparison
    return " ".join(contrast_sentence(contrast, told) for contrast in told.contrasts)


def comparison_headline(findings: Sequence[GroupFindings]) -> str:
    """Which treatments move the law, in a few sentences; of several groups each is named."""
    by_words: dict[str, dict[str, list[_Told]]] = {}
    for found in findings:
        checks = {check.treated: check.difference for check in found.checks}
        for contrast in found.comparison.contrasts if found.comparison is not None else ():
            told = _told(contrast, found.group.target, checks.get(contrast.treated))
            groups = by_words.setdefault(verdict_words(contrast), {})
            groups.setdefault(found.group.name, []).append(told)
    lost = [found.group.name for found in findings if found.comparison is None]
    named = len(findings) > 1
    n_told = sum(len(told) for groups in by_words.values() for told in groups.values())
    if n_told > MOST_NAMED and named:
        return _counted(by_words, n_told, len(findings))
    parts = []
    for words, groups in _sorted(by_words):
        said = [f"{f'in {g}: ' if named else ''}{_arms_words(told)}" for g, told in groups.items()]
        parts.append(f"{_capital(words)}{' ' if named else ': '}{'; '.join(said)}.")
    if lost:
        parts.append(f"Not compared: {_listed(lost)}.")
    return " ".join(parts)


def _counted(by_words: dict[str, dict[str, list[_Told]]], n_told: int, n_groups: int) -> str:
    """Too many recipes to name: how many go which way, and in which groups."""
    parts = [
        f"{sum(map(len, groups.values()))} {words} ({_listed(list(groups))})"
        for words, groups in _sorted(by_words)
    ]
    return f"{n_told} treatments in {n_groups} groups: {'; '.join(parts)}."


_Told = tuple[str, str, str]
"""A treated recipe, its difference in percent, and how and where that is known."""


def _arms_words(told: Sequence[_Told]) -> str:
    """Recipes with their differences; where all are known alike that is said once."""
    if len(told) > 1 and len({where for _, _, where in told}) == 1 and told[0][2]:
        return f"{_listed([f'{arm} ({by})' for arm, by, _ in told])}, {told[0][2]}"
    return _listed([f"{arm} ({by} {where})" if by else arm for arm, by, where in told])


def _told(contrast: Contrast, target: Mapping[str, float], measured: Measure | None) -> _Told:
    """The difference at the target: measured there if it was, else forecast by laws that fit."""
    if measured is not None and measured.value is not None:
        where = f"measured at {name_size(target)}"
        return contrast.treated, _short_percent(measured.value), where
    at = measured_target(contrast)
    if at is None:
        at = contrast.by_size[-1] if has_misfit(contrast) else contrast.at_target
    if at is None or at.difference.value is None:
        return contrast.treated, "", ""
    how = "forecast" if at.is_forecast else "measured"
    where = f"{how} at {name_size(at.size)}"
    return contrast.treated, _short_percent(at.difference.value), where


def _short_percent(share: float) -> str:
    """Two digits, and whole percents from ten on."""
    percent = 100 * abs(share)
    text = f"{percent:.0f}" if percent >= 9.95 else f"{percent:.2g}"
    return f"{'−' if share < 0 else '+'}{text}{NBSP}%"


def _sorted(
    by_words: dict[str, dict[str, list[_Told]]],
) -> Iterable[tuple[str, dict[str, list[_Told]]]]:
    """What differs first."""
    last = ("no difference told", "cannot say")
    return sorted(by_words.items(), key=lambda pair: (pair[0] in last, pair[0] == last[1]))


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def _listed(words: list[str]) -> str:
    """One, one and two, or one, two and three."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def check_sentences(found: GroupFindings) -> tuple[str, ...]:
    """How the forecast difference did, for each recipe that was trained at the target."""
    if not found.checks or found.comparison is None:
        return ()
    where = name_size(found.comparison.target)
    first = f"Checked at {where}, each recipe at the values forecast for it{_since(found)}."
    return (first, *(_check_sentence(check) for check in found.checks))


def _since(found: GroupFindings) -> str:
    """When the forecast was written down, and whether that was before the runs it speaks of."""
    if not found.sealed:
        return ""
    order = ""
    if found.began:
        late = ", AFTER runs there began: this is no blind check"
        order = ", before any run there" if found.sealed <= found.began else late
    return f"; forecast written down {found.sealed}{order}"


def _check_sentence(check: TargetCheck) -> str:
    words = (
        f"{check.treated}: forecast {percent_words(check.forecast)}, measured "
        f"{percent_words(check.difference)} in {check.n_pairs} "
        f"pair{'s' * (check.n_pairs != 1)}"
    )
    verdict = {
        True: "the forecast held.",
        False: "the forecast was off: one of the laws does not go on as fitted; add that size to "
        "the sweep.",
        None: "too few runs have a loss there to judge it.",
    }[check.agrees]
    return f"{words}: {verdict}"
