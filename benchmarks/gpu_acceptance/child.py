"""A module run as a program on the device of the acceptance, in a process of its own.

python -m benchmarks.gpu_acceptance.child DEVICE MODULE [ARGUMENT …]
"""

from __future__ import annotations

import runpy
import sys

from benchmarks.gpu_acceptance.settings import PRETENDED


def main() -> None:
    """Pretend that there is a card if that is the device, then run the module."""
    _, device, module, *arguments = sys.argv
    if device == PRETENDED:
        from benchmarks.pretended_cuda import install

        install()  # before anything imports torch
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
