"""What every page is made with."""

import subprocess
import sys

import pytest

from extrap.reporting import pages, report

HEAVY = ("matplotlib", "numpy", "pandas", "scipy", "seaborn", "sklearn")


def test_a_page_that_would_be_too_large_leaves_its_pngs_out_and_says_so(
    tmp_path, monkeypatch, made
):
    whole = report(made, path=tmp_path / "a.html", title=".png</a>").read_text(encoding="utf-8")
    assert "image/png" in whole
    assert "left out" not in whole
    monkeypatch.setattr(pages, "MOST_BYTES", len(whole.encode()) - 1)
    light = report(made, path=tmp_path / "b.html", title=".png</a>").read_text(encoding="utf-8")
    assert "image/png" not in light
    assert "they are left out" in light
    assert light.count("image/svg+xml") == whole.count("image/svg+xml")
    assert ".png&lt;/a&gt;</h1>" in light


@pytest.mark.parametrize("module", ["index", "embedded", "markdown"])
def test_who_reads_pages_loads_no_tables_and_no_figures(module):
    code = f"import sys, extrap.reporting.{module}; print(*sys.modules)"
    told = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert not set(HEAVY) & set(told.split())
