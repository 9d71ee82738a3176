"""Compile and load `guard.cpp`."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

SOURCE = Path(__file__).with_name("guard.cpp")
BUILT = Path(__file__).parents[2] / "build" / "pretended_cuda"
DISTRIBUTION = distribution("torch")
TORCH = Path(str(DISTRIBUTION.locate_file("torch")))
OPTIONS = ["-shared", "-fPIC", "-O1", "-std=c++17", "-w"]


class GuardError(Exception):
    """The library cannot be built."""


def load_guard() -> ctypes.CDLL:
    """The library, compiled where this source and version of PyTorch have none yet.

    Raises:
        GuardError: There is no C++ compiler, or it fails, or PyTorch is imported already: it asks
            once, while it is imported, whether there is CUDA.
    """
    if "torch" in sys.modules:
        raise GuardError("torch is imported already")
    for name in ("libc10.so", "libtorch_cpu.so"):  # their symbols, for the library to find
        ctypes.CDLL(str(TORCH / "lib" / name), mode=ctypes.RTLD_GLOBAL)
    key = hashlib.sha256(SOURCE.read_bytes() + DISTRIBUTION.version.encode()).hexdigest()[:16]
    library = BUILT / f"guard-{key}.so"
    if not library.exists():
        compile_guard(library)
    return ctypes.CDLL(str(library))


def compile_guard(library: Path) -> None:
    """Compile into a file beside the library, then rename it: two processes may do so at once."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise GuardError("there is no C++ compiler")
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        command = [compiler, *OPTIONS, f"-I{TORCH / 'include'}", str(SOURCE), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise GuardError(f"the C++ compiler failed: {done.stderr}")
        made.replace(library)
