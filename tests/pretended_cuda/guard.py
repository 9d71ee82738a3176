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
OPTIONS = ("-shared", "-fPIC", "-O1", "-std=c++17", "-w")


class GuardError(Exception):
    """The device cannot be pretended here."""


def torch_folder() -> Path:
    """Where PyTorch is installed; it is not imported."""
    return Path(str(distribution("torch").locate_file("torch")))


def what_is_missing() -> str | None:
    """Why the device cannot be pretended here, or None if it can."""
    libraries = torch_folder() / "lib"
    if not (libraries / "libtorch_cpu.so").exists() or (libraries / "libtorch_cuda.so").exists():
        return "torch is not a CPU build for Linux"
    return None if shutil.which("g++") else "there is no C++ compiler"


def load_guard() -> ctypes.CDLL:
    """The library, compiled where this source and version of PyTorch have none yet.

    Raises:
        GuardError: Something is missing, the compiler fails, or PyTorch is imported already: it
            asks only once, while it is imported, whether there is CUDA.
    """
    if "torch" in sys.modules:
        raise GuardError("torch is imported already")
    if missing := what_is_missing():
        raise GuardError(missing)
    for name in ("libc10.so", "libtorch_cpu.so"):  # their symbols, for the library to find
        ctypes.CDLL(str(torch_folder() / "lib" / name), mode=ctypes.RTLD_GLOBAL)
    version = distribution("torch").version.encode()
    key = hashlib.sha256(SOURCE.read_bytes() + version).hexdigest()[:16]
    library = BUILT / f"guard-{key}.so"
    if not library.exists():
        compile_guard(library)
    return ctypes.CDLL(str(library))


def compile_guard(library: Path) -> None:
    """Compile into a folder beside the library, then move it: two processes may do so at once."""
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        command = [
            "g++",
            *OPTIONS,
            f"-I{torch_folder() / 'include'}",
            str(SOURCE),
            "-o",
            str(made),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise GuardError(f"the C++ compiler failed: {done.stderr}")
        made.replace(library)
