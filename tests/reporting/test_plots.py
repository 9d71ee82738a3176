from __future__ import annotations

import io
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

import extrap
from extrap.errors import DataError
from extrap.reporting.figures.canvas import INKS, colour, draw_svg, inked, ramp
from tests.reporting.hostile import PAYLOADS


@pytest.fixture(scope="module")
def fc() -> extrap.Forecast:
    return extrap.forecast(extrap.read_runs("examples/sweep.csv", size="width", tune="lr"))


@pytest.fixture(scope="module")
def verdicts(fc):
    return extrap.check(fc, extrap.read_runs("examples/big.csv", size="width", tune="lr"))


@pytest.fixture(autouse=True)
def _no_window():
    """Figures are drawn in memory and closed after each test."""
    before = plt.get_backend()
    plt.switch_backend("agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


def rendered(figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=40)
    return buffer.getvalue()


def test_pictures_share_a_figure_side_by_side(fc, verdicts):
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    assert extrap.plot_law(fc, verdicts, ax=left) is left
    assert extrap.plot_optimum(fc, "lr", verdicts, ax=right) is right
    assert plt.get_fignums() == [figure.number]
    assert left.get_xlabel() == right.get_xlabel() == "width"
    assert (left.get_ylabel(), right.get_ylabel()) == ("loss", "best lr")
    assert len(rendered(figure)) > 10_000


def test_the_law_that_is_drawn_is_the_forecast(fc, verdicts):
    ax = extrap.plot_law(fc, verdicts)
    lines = {line.get_label(): line.get_xydata() for line in ax.get_lines()}
    curve = lines["law of the optimum"]
    for x, loss in curve[::20]:
        assert fc.at(width=x).loss == pytest.approx(loss)
    optima = next(c for c in ax.containers if c.get_label().startswith("tuned"))[0].get_xydata()
    assert optima.tolist() == [[o.size["width"], o.loss] for o in fc.optima]
    kinds = ("on law", "off law, mistuned")
    drawn = np.concatenate([c.get_offsets() for c in ax.collections if c.get_label() in kinds])
    judged = [[v.size["width"], v.loss] for v in verdicts]
    assert sorted(drawn.tolist()) == pytest.approx(np.array(sorted(judged)))
    plain = extrap.plot_law(fc, fixed=False)
    assert not [h for h in plain.get_legend_handles_labels()[1] if h.startswith("law at")]


def test_the_optimum_that_is_drawn_is_the_forecast(fc):
    ax = extrap.plot_optimum(fc)
    curve = max((line.get_xydata() for line in ax.get_lines()), key=len)
    for x, value in curve[::20]:
        assert fc.at(width=x).tuned["lr"].value == pytest.approx(value)


@pytest.mark.parametrize(
    ("against", "labels"),
    [("tuned", ("lr", "loss")), ("size", ("width", "loss")), ("both", ("lr", "width"))],
)
def test_a_sweep_is_drawn_from_each_side(fc, against, labels):
    ax = extrap.plot_sweep(fc, against=against)
    assert (ax.get_xlabel(), ax.get_ylabel()) == labels
    assert len(ax.figure.axes) == 2  # and its colour bar
    assert rendered(ax.figure)


def test_a_backtest_is_drawn(fc):
    found = extrap.backtest(fc.runs)
    ax = extrap.plot_backtest(found)
    heights = {round(y, 9) for c in ax.collections for _, y in np.asarray(c.get_offsets())}
    heights |= {round(float(y), 9) for line in ax.get_lines() for y in line.get_ydata()}
    assert {round(100 * h.deviation, 9) for h in found.holdouts} <= heights
    with pytest.raises(DataError, match="none could be made"):
        extrap.plot_backtest(replace(found, holdouts=()))


def test_no_global_setting_changes_and_nothing_is_closed(fc):
    other = plt.figure()
    before = dict(mpl.rcParams)
    ax = extrap.plot_law(fc)
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == [other.number, ax.figure.number]
    alone = mpl.figure.Figure().add_subplot()
    extrap.plot_sweep(fc, ax=alone)
    assert plt.get_fignums() == [other.number, ax.figure.number]


def test_colours_are_those_of_the_paper_and_never_placeholders(fc):
    for style, side in (("default", 0), ("dark_background", 1)):
        with plt.style.context(style):
            ax = extrap.plot_law(fc)
            law = next(line for line in ax.get_lines() if line.get_label() == "law of the optimum")
            assert to_hex(law.get_color()) == INKS["law"][side]
            colours = {to_hex(line.get_color()) for line in ax.get_lines()}
            assert not [c for c in colours if c.startswith("#fe0")]
    clear = mpl.figure.Figure(facecolor="black").add_subplot(facecolor="none")
    extrap.plot_optimum(fc, ax=clear)
    assert INKS["law"][1] in {to_hex(line.get_color()) for line in clear.get_lines()}


def test_pages_keep_their_placeholders_after_a_plot(fc):
    extrap.plot_sweep(fc)
    assert colour("law").startswith("#fe00")
    with inked("light"):
        assert colour("law") == INKS["law"][0]
        assert not ramp("size", 0.5).startswith("#fe0")
    svg = draw_svg(
        lambda ax: ax.plot([1], [1], color=colour("law")), width=90, height=90, key="k", label="l"
    )
    assert "var(--law)" in svg


@pytest.mark.parametrize("payload", [PAYLOADS["mathtext"], "a_b$x$"])
def test_names_are_not_read_as_mathematics(fc, payload):
    frame = fc.runs.to_frame().rename(columns={"width": payload, "lr": "$"})
    odd = extrap.forecast(extrap.read_runs(frame, size=payload, tune="$"))
    for ax in (extrap.plot_law(odd), extrap.plot_sweep(odd), extrap.plot_optimum(odd)):
        assert rendered(ax.figure)
    assert payload in extrap.plot_law(odd).get_xlabel()


def test_what_cannot_be_drawn_is_said(fc):
    with pytest.raises(ValueError, match=r"tuned columns are lr, got 'wd'"):
        extrap.plot_optimum(fc, "wd")
    with pytest.raises(ValueError, match="one of size, tuned, both, got 'time'"):
        extrap.plot_sweep(fc, against="time")
    frame = fc.runs.to_frame().groupby("width", as_index=False)["loss"].min()
    untuned = extrap.forecast(extrap.read_runs(frame, size="width"))
    with pytest.raises(ValueError, match="has none"):
        extrap.plot_optimum(untuned)
    with pytest.raises(ValueError, match="nothing was tuned"):
        extrap.plot_sweep(untuned)
    assert extrap.plot_sweep(untuned, against="size").get_xlabel() == "width"
