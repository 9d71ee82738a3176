"""A report in Markdown, for pull requests and the summaries of CI jobs.

Names come from users' files: what Markdown or HTML would act on is escaped, `@` and `#` mention
nobody and no issue, and addresses are no links.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from extrap.files import as_written
from extrap.records import Interval
from extrap.reporting.glossary import CAUSES
from extrap.reporting.numbers import (
    NBSP,
    format_estimate,
    format_interval,
    format_percent,
    format_quantity,
    name_size,
    name_tuned,
)

__all__ = ["escaped", "report_markdown"]

MOST_ROWS = 20
"""Of a table; the page has them all."""
LONGEST = 300
"""Characters of a text from a file."""
_SIGNS = {"on law": "🟢", "deviates": "🔴", "forecast": "🔵"}
_PARTLY = "🟡"
"""Of a forecast that leads on law, while other runs are off it."""
_ACTS = re.compile(r"[\\`*_\[\]<>|~$&]")
_ADDRESS = re.compile(r"[\w./%~?=&#:+,;-]+")
"""Characters of a link; none that ends it."""
_SCHEMES = ("https", "http")
_LINKS = re.compile(
    r"@|#|://|\bGH-|\bwww\.|:(?=[\w+-]+:)|\b(?=[0-9]*[a-f])[0-9a-f]{7,40}\b|\b[0-9]{40}\b",
    re.IGNORECASE,
)
"""What becomes a mention, an issue, a link, a picture or a commit even as plain text."""
_UNSEEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0]"
)
"""Characters without width or of no visible effect: names that differ by them look alike."""
_WORD_JOINER = "\u2060"


def escaped(text: object) -> str:
    """Text that Markdown shows as it is, on one line."""
    plain = " ".join(as_written(str(text)).replace(NBSP, " ").split())
    plain = _UNSEEN.sub(lambda m: ascii(m[0])[1:-1], plain)
    if len(plain) > LONGEST:
        plain = f"{plain[: LONGEST - 1]}…"
    plain = _LINKS.sub(lambda m: m[0][0] + _WORD_JOINER + m[0][1:], plain)
    # entities: a backslash before < or & does not hold in every renderer
    return _ACTS.sub(lambda m: f"&#{ord(m[0])};", plain)


def report_markdown(document: Mapping[str, Any], *, link: str | None = None) -> str:
    """The headline, a table of forecasts or verdicts, warnings with what to do, the cause.

    Args:
        document: What `read_report` returns.
        link: Address of the page, for the last line; only `https:`, `http:` and relative ones.
    """
    head = f"{_sign(document)} {escaped(document['title'])}".strip()
    parts = [f"### {head}", f"**{escaped(document['answer'])}**"]
    if document["kind"] == "report":
        numbers = document["numbers"]
        parts += [_forecasts(numbers), _verdicts(numbers), _causes(numbers), _flags(numbers)]
        parts += [_other(name, told) for name, told in (numbers.get("metrics") or {}).items()]
    else:
        parts.insert(1, escaped(document["question"]))
    parts.append(_footer(document, link))
    return "\n\n".join(part for part in parts if part) + "\n"


def _sign(document: Mapping[str, Any]) -> str:
    """Green only where no run is off."""
    status = document["status"]
    if document.get("ok") is False and status != "deviates":
        return _PARTLY
    return _SIGNS.get(status, "")


def _forecasts(numbers: Mapping[str, Any]) -> str:
    forecast = numbers["forecast"]
    level, tuned = forecast["level"], list(numbers["tuned"])
    header = [*numbers["sizes"], "times fitted", f"loss ({100 * level:g} %)"]
    header += [f"{name} ({100 * level:g} %)" for name in tuned]
    header += [f"recommended {name}" for name in tuned]
    rows = [
        [
            *(format_quantity(point["size"][name]) for name in numbers["sizes"]),
            f"{point['extrapolation_ratio']:.3g}",
            format_estimate(point["loss"], Interval(*point["loss_pi"])),
            *(
                format_estimate(point["tuned"][n]["value"], Interval(*point["tuned"][n]["pi"]))
                for n in tuned
            ),
            *(format_quantity((point["recommended"] or {}).get(name)) for name in tuned),
        ]
        for point in forecast["points"]
    ]
    return _table(header, rows)


def _verdicts(numbers: Mapping[str, Any]) -> str:
    """Larger runs, those that deviate first."""
    if not numbers["verdicts"]:
        return ""
    told = numbers["verdicts"]["verdicts"]
    order = {False: 0, None: 1, True: 2}
    words = {True: "on law", False: "**off law**", None: "not judged"}
    rows = [
        [
            name_size(verdict["run"]["size"]),
            name_tuned(verdict["run"]["tuned"]) or "–",
            verdict["run"]["seed"],
            _loss(verdict["run"]["loss"]),
            format_percent(verdict["deviation"]),
            words[verdict["on_law"]],
        ]
        for verdict in sorted(told, key=lambda v: order[v["on_law"]])
    ]
    counts = Counter(verdict["on_law"] for verdict in told)
    line = f"{counts[True]} of {len(told)} larger runs on law, {counts[False]} off"
    line += f", {counts[None]} not judged." if counts[None] else "."
    table = _table(
        ["size", "values", "seed", "loss", "against forecast", "verdict"], rows, plain=(5,)
    )
    return f"{line}\n\n<details><summary>Larger runs</summary>\n\n{table}\n\n</details>"


def _causes(numbers: Mapping[str, Any]) -> str:
    """What may have caused deviations, and what to do."""
    told = (numbers["verdicts"] or {}).get("verdicts", [])
    seen: dict[str, Mapping[str, Any]] = {}
    for verdict in told:
        if verdict["on_law"] is False and verdict["cause"]:
            seen.setdefault(verdict["cause"], verdict)
    lines = [
        f"- Likely cause at {escaped(name_size(v['run']['size']))}: "
        f"**{escaped(CAUSES.get(cause, cause))}**. {escaped(v['advice'])}"
        + (f" To decide: {escaped(v['experiment'])}" if v["experiment"] else "")
        for cause, v in seen.items()
    ]
    return "\n".join(lines)


def _flags(numbers: Mapping[str, Any]) -> str:
    """Warnings: what each means, why it matters, what to do."""
    return "\n".join(
        f"- ⚠️ `{_code(flag['name'])}`{_detail(flag)}: {escaped(flag['meaning'])} "
        f"{escaped(flag['why'])} **{escaped(flag['action'])}**"
        for flag in numbers["flags"]
    )


def _detail(flag: Mapping[str, Any]) -> str:
    return f" ({escaped(flag['detail'])})" if flag["detail"] else ""


def _code(text: str) -> str:
    """Text within backticks, where entities are not read."""
    return re.sub(r"[^A-Za-z0-9 .=_-]", "·", as_written(text))[:LONGEST]


def _other(name: str, told: Mapping[str, Any]) -> str:
    points = told["forecast"]["points"]
    words = "; ".join(
        f"{name_size(p['size'])}: {format_estimate(p['loss'], Interval(*p['loss_pi']))}"
        for p in points[:MOST_ROWS]
    )
    return f"{escaped(name)}: {escaped(words)}"


def _footer(document: Mapping[str, Any], link: str | None) -> str:
    words = f"Forecast made {escaped(document['created'][:10])}"
    if document["kind"] != "report":
        words = f"Made {escaped(document['created'][:10])}"
    if link and _is_address(link):
        return f"{words}. [The whole page]({link})."
    return f"{words}." + (f" The whole page: {escaped(link)}" if link else "")


def _is_address(link: str) -> bool:
    """Whether a link leads to a page: https, http, or relative to the summary's own place."""
    if not _ADDRESS.fullmatch(link):
        return False
    try:
        parts = urlsplit(link)
    except ValueError:
        return False
    if parts.scheme:
        return parts.scheme in _SCHEMES and bool(parts.hostname)
    return not link.startswith("//")


def _table(
    header: Sequence[object], rows: Sequence[Sequence[object]], *, plain: Sequence[int] = ()
) -> str:
    """A table; cells of the columns in `plain` are ours and stay as they are."""
    lines = ["| " + " | ".join(map(escaped, header)) + " |", "|" + " --- |" * len(header)]
    lines += [
        "| " + " | ".join(str(c) if i in plain else escaped(c) for i, c in enumerate(row)) + " |"
        for row in rows[:MOST_ROWS]
    ]
    more = len(rows) - MOST_ROWS
    return "\n".join(lines) + (f"\n\n{more} more in the page." if more > 0 else "")


def _loss(loss: float | None) -> str:
    return "none" if loss is None else format_interval(Interval(loss, loss)).split(" to ")[0]
