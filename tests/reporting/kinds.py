"""One page of every kind, for tests that look at all of them."""

from dataclasses import replace

from benchmarks import page as figures_page
from benchmarks.rows import Row
from extrap.analyses.allocation.page import allocation_page
from extrap.analyses.batch_size.page import batches_page
from extrap.analyses.comparison.page import comparison_page
from extrap.analyses.sensitivity.page import sensitivity_page
from extrap.analyses.sweep.page import report
from extrap.analyses.sweep.verdicts import check
from extrap.forecasting import forecast
from extrap.reporting.html import write_page
from extrap.reporting.index import write_index
from extrap.reporting.study_page import About
from tests.analyses.comparison.test_page import FINDINGS
from tests.analyses.conftest import as_runs, large_frame, sweep_frame
from tests.analyses.sensitivity.test_page import REPORT as SENSITIVITY
from tests.reporting.hostile import EVIL

KINDS = ("report", "forecast", "full", "sensitivity", "comparison")
KINDS += ("batches", "allocation", "figures", "index")
ABOUT = About(
    "A study", "Which is best?", {"commit": "abc123"}, created="2026-01-02T03:04:05+00:00"
)


def allocation_report(folder):
    """What the allocation study of `tests/analyses/allocation` finds in made-up runs."""
    from extrap.analyses.allocation.study import AllocationKind
    from extrap.study import runs_of_table
    from tests.analyses.allocation.test_study import STUDY, made_up

    made_up().to_csv(folder / "allocation.csv", index=False)
    kind = AllocationKind(STUDY)
    return kind.analyse(runs_of_table(kind, folder / "allocation.csv"))


def hostile_report(path, size, tuned):
    """The report of a sweep with these columns, and evil names and texts wherever it has any."""
    names = {"width": size, "lr": tuned}
    sweep, large = (frame.rename(columns=names) for frame in (sweep_frame(), large_frame()))
    made = forecast(as_runs(sweep, (size,), (tuned,)))
    verdicts = check(made, as_runs(large, (size,), (tuned,)))
    evil = [replace(v, advice=EVIL, experiment=EVIL, seed=EVIL) for v in verdicts]
    about = {"title": EVIL, "question": EVIL, "provenance": {EVIL: EVIL}}
    return report(made, evil, path=path, metrics={EVIL: made}, **about)


def write_figures(path, text):
    """A page of figures, one met and one missed, with a text wherever it has any."""
    texts = dict.fromkeys(("part", "figure", "beat", "target", "reached", "note"), text)
    words = dict.fromkeys(("title", "question", "lead", "command", "seeds"), text)
    figures_page.write_page(
        [Row(**texts, met=True), Row(**texts, met=False)],
        {text: 1.0},
        (text,),
        words=figures_page.Words(**words, libraries=("numpy",)),
        path=path,
    )
    return path


def study_pages(folder, one_task, about, changed=lambda record: record):
    """Kind of study → what makes its page, of results in which something may be changed."""
    _, findings = one_task
    return {
        "sensitivity": lambda: sensitivity_page(changed(SENSITIVITY), about),
        "comparison": lambda: comparison_page(changed(FINDINGS), about),
        "batches": lambda: batches_page(changed(findings), about),
        "allocation": lambda: allocation_page(changed(allocation_report(folder)), about),
    }


def write_kinds(folder, made, judge, one_task):
    """Kind → page, all in one folder; each after the first links to nothing but itself."""
    other = forecast(as_runs(sweep_frame(widths=(16, 32, 64, 128), seeds=3)))
    pages = {
        "report": report(made, judge(1.1), path=folder / "report.html", question="w" * 200),
        "forecast": report(other, path=folder / "forecast.html", title="Another sweep"),
        "full": report(made, judge(), path=folder / "full.html", metrics={"accuracy": other}),
        **{
            kind: write_page(page(), folder / f"{kind}.html")
            for kind, page in study_pages(folder, one_task, ABOUT).items()
        },
        "figures": write_figures(folder / "figures.html", "text"),
    }
    pages["index"] = write_index(folder)
    assert tuple(pages) == KINDS
    return pages
