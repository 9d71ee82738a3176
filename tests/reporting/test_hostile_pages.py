"""Every kind of page, with names an attacker chose: nothing runs, nothing loads, all is shown."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path
from urllib.parse import unquote

import pytest
from jinja2 import PackageLoader

from benchmarks import page as figures_page
from benchmarks.rows import Row
from extrap.backtesting import backtest
from extrap.checking import check
from extrap.forecasting import forecast
from extrap.levers import LeverReport
from extrap.reporting import (
    Section,
    allocation_page,
    batch_page,
    cascade_page,
    comparison_page,
    knob_page,
    lever_page,
    report,
    write_index,
)
from extrap.reporting.allocation_studies import AllocationReport
from extrap.reporting.tables import Table
from extrap.sparsity_sections import sparsity_sections

from .conftest import as_runs, large_frame, sweep_frame
from .hostile import EVIL, PAYLOADS, inspected, poisoned
from .recipes import STUDY as COMPARISON_STUDY
from .test_cascade_studies import REPORT as CASCADE
from .test_comparisons import FINDINGS
from .test_knobs import REPORT as KNOBS
from .test_levers import REPORT as LEVERS

WHEN = '2026-01-01T00:00:00+00:00"><script>alert(7)</script>'
ABOUT = {"created": WHEN, "provenance": {EVIL: EVIL, "storage": EVIL}}
TITLED = {**ABOUT, "title": EVIL, "question": EVIL}


def said(html: str) -> str:
    """The text of a page, as a reader sees it, and of its labels."""
    return " ".join(inspected(html).words)


def written(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAYLOADS)
def test_names_of_columns_on_the_page_of_a_forecast(tmp_path, kind):
    size, tuned = PAYLOADS[kind], f"{PAYLOADS[kind]}lr"
    names = {"width": size, "lr": tuned}
    made = forecast(as_runs(sweep_frame().rename(columns=names), (size,), (tuned,)))
    verdicts = [
        replace(v, advice=EVIL, experiment=EVIL, cause=v.cause, seed=EVIL)
        for v in check(made, as_runs(large_frame().rename(columns=names), (size,), (tuned,)))
    ]
    path = report(
        made,
        verdicts,
        path=tmp_path / "page.html",
        title=EVIL,
        question=EVIL,
        provenance={EVIL: EVIL},
        metrics={EVIL: made},
        baseline=made,
    )
    words = said(written(path))
    assert PAYLOADS[kind] in words.replace("\u00a0", " ")
    assert "49" not in re.findall(r"\{\{[^}]*\}\}|49", words) or "{{ 7*7 }}" in words


def test_sources_notes_and_flags_on_the_page_of_a_forecast(tmp_path, made):
    evil = replace(
        made,
        runs=replace(made.runs, source=EVIL, notes=(EVIL,)),
        created=WHEN,
        flags=(f"lack-of-fit: {EVIL}", EVIL),
    )
    words = said(written(report(evil, path=tmp_path / "page.html")))
    assert PAYLOADS["script"] in words
    assert PAYLOADS["template"] in words


def test_names_of_levers(tmp_path):
    found = poisoned(LEVERS, _renamed("batch × 8", "kept", "odd", "ghosts", "rate × k", "batches"))
    found = poisoned(found, _renamed("small", "large", "ghost", "tuned", "Dearer?"))
    assert isinstance(found, LeverReport)
    words = said(written(lever_page(found, path=tmp_path / "a.html", **TITLED)))
    assert all(payload in words for payload in PAYLOADS.values())


def test_names_of_knobs(tmp_path):
    found = poisoned(KNOBS, _renamed("warmup", "beta2", "precision", "eps", "bf16", "width"))
    found = replace(found, notes=(EVIL,))
    words = said(written(knob_page(found, path=tmp_path / "a.html", **TITLED)))
    assert all(payload in words for payload in PAYLOADS.values())


def test_names_of_cascades(tmp_path):
    found = poisoned(CASCADE, _renamed("width 8", "width 4", "width 64"))
    path = cascade_page(found, path=tmp_path / "a.html", rule=EVIL, **TITLED)
    words = said(written(path))
    assert all(payload in words for payload in PAYLOADS.values())


@pytest.mark.slow
def test_names_of_recipes_and_what_others_bring(tmp_path):
    names = _renamed("plain", "shifted", "steeper", "lost", "treatments")
    found = poisoned(FINDINGS, names)
    study = replace(COMPARISON_STUDY, question=EVIL)
    brought = Section(
        key="more",
        title=EVIL,
        words=(EVIL,),
        tables=(Table(caption=EVIL, columns=(EVIL, "b"), rows=((EVIL, EVIL),), note=EVIL),),
        notes=(EVIL,),
    )
    path = comparison_page(study, found, path=tmp_path / "a.html", sections=[brought], **ABOUT)
    words = said(written(path))
    assert all(payload in words for payload in PAYLOADS.values())


@pytest.mark.slow
def test_names_of_sparse_arms(tmp_path):
    from ..test_sparsity_sections import table

    evil = table.__wrapped__().replace({"arm": _renamed("dense", "half", "fifth", "tenth")})
    path = comparison_page(
        COMPARISON_STUDY,
        FINDINGS,
        path=tmp_path / "a.html",
        sections=sparsity_sections(evil),
        **ABOUT,
    )
    inspected(written(path))


@pytest.mark.slow
def test_names_of_batch_tasks(tmp_path, one_task):
    study, findings = one_task
    names = _renamed("bytes")
    path = batch_page(
        replace(study, question=EVIL), poisoned(findings, names), path=tmp_path / "a.html", **ABOUT
    )
    assert PAYLOADS["script"] in said(written(path))


@pytest.mark.slow
def test_names_of_an_allocation(tmp_path):
    from extrap.allocation_sweeps import judge_allocation

    from ..test_allocation_sweeps import STUDY, made_up

    found = judge_allocation(STUDY, made_up())
    assert isinstance(found, AllocationReport)
    words = said(written(allocation_page(found, path=tmp_path / "a.html", **TITLED)))
    assert PAYLOADS["script"] in words


def test_names_on_a_page_of_figures(tmp_path, made):
    from extrap.reporting.plates import backtest_plate

    row = Row(part=EVIL, figure=EVIL, beat=EVIL, target=EVIL, reached=EVIL, met=False, note=EVIL)
    words = figures_page.Words(
        title=EVIL, question=EVIL, lead=EVIL, command=EVIL, seeds=EVIL, libraries=("numpy",)
    )
    plates = [replace(backtest_plate(backtest(made.runs)), title=EVIL, text=EVIL)]
    path = tmp_path / "a.html"
    figures_page.write_page([row], plates, {EVIL: 1.0}, (EVIL,), words=words, path=path)
    assert PAYLOADS["script"] in said(written(path))


def test_every_template_of_a_page_has_the_policy():
    loader = PackageLoader("extrap.reporting")
    pages = [n for n in loader.list_templates() if "<html" in loader.get_source(_NONE, n)[0]]
    assert pages == ["base.html.j2"]
    head = loader.get_source(_NONE, "base.html.j2")[0].partition("<head>")[2]
    assert "{{ policy|safe }}" in head.strip().split("\n")[1]
    others = {n for n in loader.list_templates() if n.endswith(".html.j2")}
    others -= {"base.html.j2", "macros.html.j2"}
    assert len(others) >= 9
    for name in others:
        assert loader.get_source(_NONE, name)[0].startswith('{% extends "base.html.j2" %}'), name


_NONE = None


META = '<meta name="extrap:{}" content="{}">'


def stranger(folder: Path, name: str, **about: str) -> Path:
    """A page somebody else put beside the reports."""
    given = {"title": "t", "question": "q", "answer": "a", "created": "2026-01-01", **about}
    text = "".join(META.format(key, escape(value)) for key, value in given.items())
    path = folder / name
    path.write_text(f"<head>{text}</head><script>alert(8)</script>", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "name",
    [
        "javascript:alert(1).html",
        '"><script>alert(1)<!--.html',
        "a b#c?d&e.html",
        "data:text%2fhtml,x.html",
        "\\\\evil.example\\x.html",
        "é中.html",
        "..html",
        "-.html",
        "{{7*7}}.html",
    ],
)
def test_index_links_a_file_of_any_name_and_nothing_else(tmp_path, name):
    stranger(tmp_path, name, title=EVIL, question=EVIL, answer=EVIL, created=WHEN)
    html = written(write_index(tmp_path))
    words = said(html)
    assert all(payload in words for payload in PAYLOADS.values())
    (link,) = re.findall(r'<a href="([^"]*)"', html)
    assert (tmp_path / unquote(link)).is_file()


def test_index_survives_what_is_no_page(tmp_path):
    stranger(tmp_path, "good.html", title="good")
    (tmp_path / "folder.html").mkdir()
    os.mkfifo(tmp_path / "pipe.html")
    (tmp_path / "loop.html").symlink_to(tmp_path / "loop.html")
    (tmp_path / "zero.html").symlink_to("/dev/zero")
    (tmp_path / "gone.html").symlink_to(tmp_path / "nowhere")
    (tmp_path / "odd.html").write_bytes(b"<![foo[" + bytes(range(256)) * 9 + b"<!DOCTYPE [")
    (tmp_path / "large.html").write_text("<meta " * 200_000)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.html")).write_text(
        (tmp_path / "good.html").read_text().replace("good", "bytes")
    )
    html = written(write_index(tmp_path))
    inspected(html)
    assert sorted(re.findall(r"<a href=\"[^\"]*\">(\w+)<", html)) == ["bytes", "good"]


@pytest.mark.parametrize("name", ["\x00", "\x1b[31m", "\u202e", "a\nb", "x" * 101, ""])
def test_columns_that_cannot_be_seen_are_refused(name):
    with pytest.raises(ValueError, match="characters that can be seen"):
        as_runs(sweep_frame().rename(columns={"width": name}), (name,))


def _renamed(*names: str) -> dict[str, str]:
    """Name → a payload behind it, each another one; together all payloads."""
    evil = list(PAYLOADS.values())
    return {name: f"{name} {' '.join(evil[i :: len(names)])}" for i, name in enumerate(names)}


def test_poison_reaches_names() -> None:
    """The tests above are worth nothing where no name was replaced."""
    changed: list[Callable[[], bool]] = [
        lambda: poisoned(LEVERS, {"ghosts": "x"}) != LEVERS,
        lambda: poisoned(KNOBS, {"warmup": "x"}) != KNOBS,
    ]
    assert all(check() for check in changed)
