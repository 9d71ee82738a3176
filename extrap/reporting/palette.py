"""The colours of every page and figure, in light and in dark mode."""

from __future__ import annotations

RAMPS = {
    "size": (
        "440154 481b6d 46337f 3f4889 365d8d 2d708e 26818e 20928c 20a386 31b57b 52c569 7ad151",
        "355f8d 2d708e 277f8e 218e8d 1e9d89 26ad81 3bbb75 5ac864 81d34d aadc32 d5e21a fde725",
    ),
}
"""Parts of matplotlib's viridis: those with contrast on white, and on dark."""
STEPS = 12
# name → (light, dark)
COLOURS = {
    "ink": ("#1d2433", "#e6e9ef"),
    "muted": ("#5d6778", "#9aa5b8"),
    "grid": ("#e3e7ee", "#2b323e"),
    "paper": ("#ffffff", "#161a21"),
    "shade": ("#eef1f6", "#1f2530"),
    "law": ("#1264b8", "#74b4ff"),
    "good": ("#0a7457", "#55cfa6"),
    "warn": ("#b5480b", "#f3a265"),
    "bad": ("#b3211b", "#ff8d85"),
    **{
        f"{name}-{i}": (f"#{light}", f"#{dark}")
        for name, ramp in RAMPS.items()
        for i, (light, dark) in enumerate(zip(*map(str.split, ramp), strict=True))
    },
}


def colour(name: str) -> str:
    """The colour of a name, or of a place on a ramp such as `size:0.4`, on white."""
    ramp, found, place = name.partition(":")
    return COLOURS[f"{ramp}-{round(float(place) * (STEPS - 1))}" if found else name][0]


def style_sheet(mode: str) -> str:
    """CSS declarations of every colour, for `"light"` or `"dark"`."""
    return ";".join(f"--{name}:{pair[mode == 'dark']}" for name, pair in COLOURS.items())


VARIABLES = {light: f"var(--{name},{light})" for name, (light, _) in COLOURS.items()}
"""Colour on white → the CSS variable of a page, which is another colour in dark mode."""
