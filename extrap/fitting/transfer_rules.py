"""Known rules for tuned values, and what following one would cost against the fitted optimum.

A published rule gives a value outright. An anchored rule says only how a value moves with size:
it starts at the optimum of the smallest tuned size. Formulas use the letters of their papers: N
parameters without embeddings, D tokens, C training compute, n width, B batch size in tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from extrap.fitting.surface.tuned_values import TunedValues
from extrap.reading.names import RATE_NAMES, TOKEN_BATCH_NAMES, kinds_of, short_name
from extrap.records import Optimum, RuleRegret

KIND_OF_LETTER = {"N": "params", "D": "tokens", "C": "compute", "n": "width"}
"""Letter → the kind of size column that is taken for it, see `kinds_of`."""
TUNED_NAMES = {
    "lr": {*RATE_NAMES} - {"lr_mult"},
    "B": {*TOKEN_BATCH_NAMES},
}
FLOPS_PER_PARAMETER_AND_TOKEN = 6.0
MOST_RULE_LOG = 300.0
"""Beyond e to this power a rule's value, or the ratio of two, may be no float."""


class Rule(NamedTuple):
    """A rule `v = A Π x^e` for one tuned value, or `v = v_0 Π (x / x_0)^e` if it is anchored.

    Attributes:
        key: Name of the rule.
        tuned: `"lr"`, `"B"`, or `"any"`.
        constant: `A`; None for an anchored rule.
        exponents: Letter of a size → exponent.
    """

    key: str
    tuned: str
    constant: float | None
    exponents: Mapping[str, float]

    def applies(self, columns: Sequence[str], tuned: str) -> bool:
        """Whether the size columns and the tuned column are among those the rule uses."""
        is_tuned = self.tuned == "any" or short_name(tuned).lower() in TUNED_NAMES[self.tuned]
        probe = dict.fromkeys(columns, 1.0)
        return is_tuned and all(_size_of(letter, probe) is not None for letter in self.exponents)

    def value(
        self, size: Mapping[str, float], anchor: tuple[Mapping[str, float], float] | None = None
    ) -> float:
        """The tuned value at a size to which the rule applies.

        Args:
            size: Size column → value.
            anchor: Another size and the value there, from which an anchored rule starts.
        """
        product = math.exp(self._log_product(size))
        if self.constant is not None:
            return self.constant * product
        assert anchor is not None
        start, value = anchor
        return value * product / math.exp(self._log_product(start))

    def is_beyond(self, *sizes: Mapping[str, float]) -> bool:
        """Whether no float holds what the rule says of one of these sizes."""
        return any(abs(self._log_product(size)) > MOST_RULE_LOG for size in sizes)

    def _log_product(self, size: Mapping[str, float]) -> float:
        powers = ((_size_of(letter, size), power) for letter, power in self.exponents.items())
        return sum(power * math.log(x) for x, power in powers if x is not None)


RULES = (
    Rule("constant", "any", None, {}),
    Rule("inverse_width", "lr", None, {"n": -1.0}),
    Rule("inverse_root_width", "lr", None, {"n": -0.5}),
    Rule("step_law_lr", "lr", 1.79, {"N": -0.713, "D": 0.307}),
    Rule("step_law_batch", "B", 0.58, {"D": 0.571}),
    Rule("deepseek_lr", "lr", 0.3118, {"C": -0.1250}),
    Rule("deepseek_batch", "B", 0.2920, {"C": 0.3271}),
)
"""Sources: what muP makes transfer, Yang et al. (2022), arXiv 2203.03466, Table 1; Adam, hidden
layers, full and no alignment, Everett et al. (2024), arXiv 2407.05872; Step Law, Li et al. (2025),
arXiv 2503.04715, Eq. 1; DeepSeek LLM, Bi et al. (2024), arXiv 2401.02954, Eq. 1, C = 6 N D
without C."""


def compare_rules(values: TunedValues, optima: Sequence[Optimum]) -> tuple[RuleRegret, ...]:
    """What each rule that applies says at a size, and what it would cost; cheapest first.

    Args:
        values: At the size.
        optima: Those of the fitted sizes; the smallest with a loss anchors.
    """
    regrets, size = [], values.size
    anchor_of = next((o for o in optima if o.loss is not None), optima[0])
    for name, centre in zip(values.names, values.optimum, strict=True):
        value_there = anchor_of.tuned[name].value
        anchor = None if value_there is None else (anchor_of.size, value_there)
        for rule in RULES:
            if not rule.applies(tuple(size), name) or (rule.constant is None and anchor is None):
                continue
            if rule.is_beyond(size, *([] if anchor is None else [anchor[0]])):
                continue
            value = rule.value(size, anchor)
            regrets.append(
                RuleRegret(
                    rule=rule.key,
                    tuned=name,
                    value=value,
                    octaves=math.log2(value) - float(centre),
                    expected_regret=values.penalty({name: value})[0],
                )
            )
    return tuple(sorted(regrets, key=lambda row: row.expected_regret))


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
