"""Workloads of the studies, by the names under which a study has them."""

from pathlib import Path

STUDIES = Path(__file__).parents[1] / "studies"
CLASSES = f"{STUDIES / 'ladder_workload.py'}:Classes"
DIGITS = f"{STUDIES / 'digits_workload.py'}:Digits"
IMAGES = f"{STUDIES / 'metz_workload.py'}:Images"
TEACHER = f"{STUDIES / 'teacher_workload.py'}:Teacher"
