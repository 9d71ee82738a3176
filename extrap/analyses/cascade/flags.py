"""What the flags of a cascade mean."""

from __future__ import annotations

from extrap.reporting.flags import Meaning

MEANINGS: dict[str, Meaning] = {
    "judged-quality-missed": (
        "On the test inputs the quality is worse than requested.",
        "The threshold was chosen on other inputs, where it is optimistic; on new inputs expect "
        "the tested quality.",
        "Ask for a higher quality (--quality), or choose on more inputs.",
    ),
    "quality-not-reached": (
        "No threshold reaches the quality.",
        "The large model then answers all inputs, and nothing is saved.",
        "Ask for a quality that the large model reaches (--quality), or improve the small model.",
    ),
}
