"""The best learning rate against batch size in words: exponents, rules that hold, advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extrap.batching import BatchFindings, RateLaw, TaskResult
from extrap.records import Measure
from extrap.reporting.batch_tables import RULE_NAMES, power

__all__ = ["rate_exponent", "rate_sentences", "rates_sentence"]


def rate_sentences(result: TaskResult) -> list[str]:
    """The exponent of the best rate, which rules hold, and what to do."""
    task, laws = result.task.study.name, result.rate_laws
    rate = rate_exponent(result)
    if rate is None or not laws:
        return [
            f"{task}: too few batches have a best rate inside their grid for a law; widen lr= or "
            "raise growth= of the study."
        ]
    moves = [
        f"{name}^{power(m)}"
        for name, m in (result.joint.exponents.items() if result.joint else ())
        if name != "batch_size"
    ]
    also = f", and as {' · '.join(moves)}" if moves else ""
    words = [f"{task}: the best rate goes as batch^{power(rate)}{also}."]
    n_held = {
        name: sum(law.rule(name).holds is True for law in laws.values()) for name in RULE_NAMES
    }
    holding = [
        name.replace("-", " ") + ("" if len(laws) == 1 else f" at {n} of {len(laws)} sizes")
        for name, n in sorted(n_held.items(), key=lambda pair: -pair[1])
        if n
    ]
    failing = [
        name.replace("-", " ")
        for name in RULE_NAMES
        if all(law.rule(name).holds is False for law in laws.values())
    ]
    if holding:
        words.append(f"Rules that hold: {_listed(holding)}.")
    if failing:
        words.append(f"Rejected: {_listed(failing)}.")
    words.append(_rate_advice(laws, rate))
    return words


def rates_sentence(findings: Sequence[BatchFindings]) -> str:
    """Exponents and rules over several tasks in a few sentences; empty without a law."""
    exponents = {
        found.result.task.study.name: rate
        for found in findings
        if (rate := rate_exponent(found.result)) is not None and found.result.rate_laws
    }
    laws = [law for found in findings for law in found.result.rate_laws.values()]
    if not exponents:
        return ""
    ends = [f(exponents, key=lambda name: exponents[name].value or 0.0) for f in (min, max)]
    low, high = (f"batch^{power(exponents[name])} ({name})" for name in ends)
    held = {
        name: sum(law.rule(name).holds is True for law in laws)
        for name in sorted(RULE_NAMES, key=lambda n: -sum(bool(w.rule(n).holds) for w in laws))
    }
    rules = _listed([f"{name.replace('-', ' ')} in {n}" for name, n in held.items()])
    n_bent = sum(_bends(law) for law in laws)
    return (
        f"The best rate goes from {low.replace(') (', '; ')} to {high.replace(') (', '; ')}. Of "
        f"{len(laws)} sweeps rules hold as follows: {rules}. In {n_bent} the rate bends over the "
        "batch, so that no single exponent serves: tune it where you "
        "will train."
    )


def _bends(law: RateLaw) -> bool:
    return law.bend_p is not None and law.bend_p < 1 - law.level


def _rate_advice(laws: Mapping[tuple[float, ...], RateLaw], rate: Measure) -> str:
    n_bent = sum(map(_bends, laws.values()))
    to_the = f"{rate.value:.2f}".replace("-", "−")
    if n_bent > len(laws) / 2:
        return (
            "The rate bends over the batch, so no single exponent serves: tune it where you will "
            "train."
        )
    return (
        f"Within the batches measured scale the rate by the batch's ratio to the power {to_the}; "
        "beyond them tune it again."
    )


def rate_exponent(result: TaskResult) -> Measure | None:
    """The exponent of the rate in the batch: over all sizes, or of the only one with a law."""
    if result.joint is not None:
        return result.joint.exponents["batch_size"]
    if not result.rate_laws:
        return None
    return result.rate_laws[max(result.rate_laws)].exponent


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
