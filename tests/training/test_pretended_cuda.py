"""The tests of the GPU path, run on the pretended CUDA device in a process of their own.

PyTorch asks once, while it is imported, whether there is CUDA: the device cannot be pretended
beside the tests of the CPU.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pretended_cuda import guard

ROOT = Path(__file__).parents[2]
MISSING = guard.what_is_missing()
TAIL = 4000
"""Characters of the output to show of a failure."""


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@pytest.mark.parametrize(
    ("marker", "tests"),
    [
        ("pretended", "test_on_a_pretended_card.py"),
        pytest.param("gpu", ".", marks=pytest.mark.slow),
    ],
)
def test_the_tests_of_the_gpu_path_pass_on_the_pretended_device(marker: str, tests: str) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-m", marker, "--device", "pretended"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"tests/training/{tests}"],
        cwd=ROOT,
        env={**kept, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-TAIL:]
