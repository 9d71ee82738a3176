"""Runs the command line as `python -m extrap`."""

from __future__ import annotations

import sys

from extrap.cli import main

if __name__ == "__main__":
    sys.exit(main())
