"""The workload that studies share, by the name under which a study has it."""

from pathlib import Path

DIGITS = f"{Path(__file__).parents[1] / 'studies' / 'digits_workload.py'}:Digits"
