"""What every page is made with."""

import subprocess
import sys

import pytest

HEAVY = ("matplotlib", "numpy", "pandas", "scipy", "sklearn")


@pytest.mark.parametrize("module", ["index", "embedded", "markdown"])
def test_who_reads_pages_loads_no_tables_and_no_figures(module):
    code = f"import sys, extrap.reporting.{module}; print(*sys.modules)"
    told = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert not set(HEAVY) & set(told.split())
