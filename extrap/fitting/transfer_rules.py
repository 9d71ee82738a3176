"""Known rules for tuned values, and what following one would cost against the fitted optimum.

A published rule gives a value outright. An anchored rule says only how a value moves with size:
it starts at the optimum of the smallest tuned size. Formulas use the letters of their papers: N
parameters without embeddings, D tokens, C training compute, n width, B batch size in tokens, η
learning rate, λ weight decay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from extrap.fitting.surface.tuned_values import TunedValues
from extrap.reading.names import (
    BATCH_NAMES,
    DECAY_NAMES,
    RATE_NAMES,
    TOKEN_BATCH_NAMES,
    kinds_of,
    short_name,
)
from extrap.records import Optimum, RuleRegret
from extrap.records.settings import Setting, horizon_of

KIND_OF_LETTER = {"N": "params", "D": "tokens", "C": "compute", "n": "width"}
"""Letter → the kind of size column that is taken for it, see `kinds_of`."""
TUNED_NAMES = {
    "lr": {*RATE_NAMES} - {"lr_mult"},
    "B": {*TOKEN_BATCH_NAMES},
    "batch": {*BATCH_NAMES},
    "decay": {*DECAY_NAMES},
}
"""What a rule is for → names of tuned columns; `B` is one in tokens."""
SETTING_OF_LETTER = {"B": "batch", "η": "rate", "λ": "decay"}
"""Letter of another setting → its role, see `Setting`."""
TUNED_OF_ROLE = {"batch": "batch", "rate": "lr", "decay": "decay"}
"""Role of a setting → what a rule calls it where it is tuned."""
FLOPS_PER_PARAMETER_AND_TOKEN = 6.0
MOST_RULE_LOG = 300.0
"""Beyond e to this power a rule's value, or the ratio of two, may be no float."""
FITTED = "fitted"
"""Key of the law that the sweep itself gives, beside those of rules."""


class Rule(NamedTuple):
    """A rule `v = A Π x^e` for one tuned value, or `v = v_0 Π (x / x_0)^e` if it is anchored.

    Attributes:
        key: Name of the rule.
        tuned: A key of `TUNED_NAMES`, or `"any"`.
        constant: `A`; None for an anchored rule.
        exponents: Letter of a size → exponent.
        others: Letter of another setting → exponent; only of anchored rules. A batch that the
            runs do not name is taken to stay; without a weight decay there is no such rule.
    """

    key: str
    tuned: str
    constant: float | None
    exponents: Mapping[str, float]
    others: Mapping[str, float] = {}

    def applies(self, columns: Sequence[str], tuned: str) -> bool:
        """Whether the size columns and the tuned column are among those the rule uses."""
        probe = dict.fromkeys(columns, 1.0)
        return self.is_for(tuned) and all(
            _size_of(letter, probe) is not None for letter in self.exponents
        )

    def is_for(self, tuned: str) -> bool:
        """Whether it is a rule for a tuned column."""
        return self.tuned == "any" or short_name(tuned).lower() in TUNED_NAMES[self.tuned]

    def value(
        self,
        size: Mapping[str, float],
        anchor: tuple[Mapping[str, float], float] | None = None,
        moved: Mapping[str, float] | None = None,
    ) -> float:
        """The tuned value at a size to which the rule applies.

        Args:
            size: Size column → value.
            anchor: Another size and the value there, from which an anchored rule starts.
            moved: Letter of another setting → its value over that of the anchor.
        """
        product = math.exp(self._log_product(size))
        if self.constant is not None:
            return self.constant * product
        assert anchor is not None
        start, value = anchor
        factors = ((moved or {}).get(letter, 1.0) ** p for letter, p in self.others.items())
        return value * product / math.exp(self._log_product(start)) * math.prod(factors)

    def is_beyond(self, *sizes: Mapping[str, float]) -> bool:
        """Whether no float holds what the rule says of one of these sizes."""
        return any(abs(self._log_product(size)) > MOST_RULE_LOG for size in sizes)

    def _log_product(self, size: Mapping[str, float]) -> float:
        powers = ((_size_of(letter, size), power) for letter, power in self.exponents.items())
        return sum(power * math.log(x) for x, power in powers if x is not None)


class RuleValue(NamedTuple):
    """What a rule, or the fitted law, says of one tuned column."""

    rule: str
    tuned: str
    value: float


RULES = (
    Rule("constant", "any", None, {}),
    Rule("inverse_width", "lr", None, {"n": -1.0}),
    Rule("inverse_root_width", "lr", None, {"n": -0.5}),
    Rule("inverse_root_tokens", "lr", None, {"D": -0.5}),
    Rule("bjorck_tokens", "lr", None, {"D": -0.32}),
    Rule("bjorck", "lr", None, {"N": -0.23, "D": -0.32}),
    Rule("step_law_lr", "lr", 1.79, {"N": -0.713, "D": 0.307}),
    Rule("step_law_tokens", "lr", None, {"D": 0.307}),
    Rule("deepseek_lr", "lr", 0.3118, {"C": -0.1250}),
    Rule("constant_timescale", "lr", None, {"D": -1.0}, {"B": 1.0, "λ": -1.0}),
    Rule("constant_timescale", "decay", None, {"D": -1.0}, {"B": 1.0, "η": -1.0}),
    Rule("power_lines_decay", "decay", None, {"D": -0.473, "N": -0.527}, {"B": 1.0, "η": -1.0}),
    Rule("power_lines_batch", "batch", None, {"D": 0.383}),
    Rule("step_law_batch", "B", 0.58, {"D": 0.571}),
    Rule("deepseek_batch", "B", 0.2920, {"C": 0.3271}),
)
"""Sources: what muP makes transfer, Yang et al. (2022), arXiv 2203.03466, Table 1; Adam, hidden
layers, full and no alignment, Everett et al. (2024), arXiv 2407.05872; 1 / √D, the option of
OLMo-core's ladder; Bjorck et al. (2024), arXiv 2409.19913, which holds from 760M parameters on;
Step Law, Li et al. (2025), arXiv 2503.04715, Eq. 1; DeepSeek LLM, Bi et al. (2024), arXiv
2401.02954, Eq. 1, C = 6 N D without C; AdamW's timescale B / (η λ D) stays, Wang, Aitchison
(2024), arXiv 2405.13698, who set the weight decay by it; that the rate may do so at a fixed decay
is our reading; or it goes as (D / N)^−.527, and B as D^.383, Bergsma et al. (2025), arXiv
2505.13738."""
OF_HORIZON = (
    "constant",
    "inverse_root_tokens",
    "bjorck_tokens",
    "step_law_tokens",
    "constant_timescale",
    "power_lines_decay",
    "power_lines_batch",
)
"""Rules that say how a value moves with tokens alone."""


def values_of_rules(
    size: Mapping[str, float],
    optima: Sequence[Optimum],
    recommended: Mapping[str, float],
    settings: Sequence[Setting] = (),
) -> tuple[RuleValue, ...]:
    """What the fitted law and each rule that applies say at a size.

    Args:
        size: Size column → value.
        optima: Those of the fitted sizes; the smallest with a loss anchors.
        recommended: Tuned column → the value to use there.
        settings: What the runs have in common at each size.
    """
    anchor_of = next((o for o in optima if o.loss is not None), optima[0])
    tuned_there = {name: estimate.value for name, estimate in anchor_of.tuned.items()}
    here, start = _whole(size, settings), _whole(anchor_of.size, settings)
    moved = _moved(here, start, recommended, tuned_there, settings)
    values = [RuleValue(FITTED, name, value) for name, value in recommended.items()]
    for name, value in tuned_there.items():
        anchor = None if value is None else (start, value)
        values += _values_of(name, here, anchor, moved)
    return tuple(values)


def values_over_horizons(
    size: Mapping[str, float],
    recommended: Mapping[str, float],
    settings: Sequence[Setting],
    *,
    amount: float,
) -> tuple[RuleValue, ...]:
    """What the rules make of the values at a size with another horizon than the sweep's.

    They start at what the sweep itself says of the size; the batch and other settings stay.

    Args:
        size: Size column → value.
        recommended: Tuned column → the value to use there at the horizon of the sweep.
        settings: What the runs have in common at each size; one of them is the horizon.
        amount: The other horizon.

    Returns:
        Nothing where the horizon of the sweep at the size is unknown.
    """
    horizon = horizon_of(settings)
    of_sweep = None if horizon is None else horizon.value(size)
    if horizon is None or of_sweep is None:
        return ()
    is_batch_tuned = any(short_name(name).lower() in BATCH_NAMES for name in recommended)
    if horizon.role == "steps" and is_batch_tuned:
        return ()  # the tokens are then another matter
    if not abs(math.log(amount) - math.log(of_sweep)) <= MOST_RULE_LOG:
        return ()
    times = amount / of_sweep
    has_decay = any(s.role == "decay" and s.amount for s in settings) or any(
        short_name(name).lower() in DECAY_NAMES for name in recommended
    )
    return tuple(
        RuleValue(rule.key, name, value * times ** rule.exponents.get("D", 0.0))
        for name, value in recommended.items()
        for rule in RULES
        if rule.key in OF_HORIZON and rule.is_for(name) and (has_decay or "λ" not in rule.others)
    )


def without_repeats(said: Sequence[RuleValue]) -> tuple[RuleValue, ...]:
    """Without anchored rules that move nothing where `constant` says the same."""
    constant = {name: value for rule, name, value in said if rule == "constant"}
    anchored = {rule.key for rule in RULES if rule.constant is None} - {"constant"}
    return tuple(
        row
        for row in said
        if row.rule not in anchored
        or not math.isclose(row.value, constant.get(row.tuned, math.inf))
    )


def cost_of_rules(values: TunedValues, said: Sequence[RuleValue]) -> tuple[RuleRegret, ...]:
    """What values would cost at a size, the others at their optimum; cheapest first.

    Args:
        values: What is known of the tuned values at the size.
        said: By the rules.
    """
    centres = dict(zip(values.names, values.optimum.tolist(), strict=True))
    regrets = [
        RuleRegret(
            rule=rule,
            tuned=name,
            value=value,
            octaves=math.log2(value) - centres[name],
            expected_regret=values.penalty({name: value})[0],
        )
        for rule, name, value in said
    ]
    return tuple(sorted(regrets, key=lambda row: row.expected_regret or 0.0))


def _values_of(
    name: str,
    size: Mapping[str, float],
    anchor: tuple[Mapping[str, float], float] | None,
    moved: Mapping[str, float | None],
) -> list[RuleValue]:
    """What each rule for a tuned column says that applies."""
    values = []
    for rule in RULES:
        if not rule.applies(tuple(size), name) or (rule.constant is None and anchor is None):
            continue
        factors = {letter: moved.get(letter, 1.0) for letter in rule.others}
        if None in factors.values() or ("λ" in factors and "λ" not in moved):
            continue
        if rule.is_beyond(size, *([] if anchor is None else [anchor[0]])):
            continue
        moves = {letter: factor for letter, factor in factors.items() if factor is not None}
        values.append(RuleValue(rule.key, name, rule.value(size, anchor, moves)))
    return values


def _whole(size: Mapping[str, float], settings: Sequence[Setting]) -> dict[str, float]:
    """A size with the tokens, width and parameters that follow it, where these are no columns."""
    whole = dict(size)
    for setting in settings:
        value = setting.value(size) if setting.role in ("tokens", "width", "params") else None
        if value is not None:
            whole.setdefault(setting.column, value)
    return whole


def _moved(
    size: Mapping[str, float],
    start: Mapping[str, float],
    recommended: Mapping[str, float],
    tuned_there: Mapping[str, float | None],
    settings: Sequence[Setting],
) -> dict[str, float | None]:
    """Letter of another setting → its value at a size over that at the anchor; None if unknown."""
    moved: dict[str, float | None] = {}
    by_role = {setting.role: setting for setting in settings}
    for letter, role in SETTING_OF_LETTER.items():
        names = TUNED_NAMES[TUNED_OF_ROLE[role]]
        tuned = next((n for n in tuned_there if short_name(n).lower() in names), None)
        if tuned is not None:
            before, after = tuned_there[tuned], recommended.get(tuned)
        elif (setting := by_role.get(role)) is not None:
            before, after = setting.value(start), setting.value(size)
        else:
            continue
        moved[letter] = after / before if before and after else None
    return moved


def compute_of(size: Mapping[str, float]) -> float | None:
    """FLOPs of a run of one size, by its column or as 6 N D; None where the columns do not say."""
    return _size_of("C", size)


def _size_of(letter: str, size: Mapping[str, float]) -> float | None:
    for column, kind in kinds_of(size).items():
        if kind == KIND_OF_LETTER[letter]:
            return size[column]
    if letter == "C":
        n, d = _size_of("N", size), _size_of("D", size)
        return None if n is None or d is None else FLOPS_PER_PARAMETER_AND_TOKEN * n * d
    return None
