"""The colours of every page, in light and in dark mode."""

from __future__ import annotations

# name → (light, dark)
INKS = {
    "ink": ("#1d2433", "#e6e9ef"),
    "muted": ("#5d6778", "#9aa5b8"),
    "grid": ("#e3e7ee", "#2b323e"),
    "paper": ("#ffffff", "#161a21"),
    "shade": ("#eef1f6", "#1f2530"),
    "law": ("#1264b8", "#74b4ff"),
    "fixed": ("#b5480b", "#f3a265"),
    "good": ("#0a7457", "#55cfa6"),
    "warn": ("#b5480b", "#f3a265"),
    "bad": ("#b3211b", "#ff8d85"),
}


def ink_sheet(mode: str) -> str:
    """CSS declarations of these colours, for `"light"` or `"dark"`; ramps of figures not among."""
    return ";".join(f"--{name}:{pair[mode == 'dark']}" for name, pair in INKS.items())
