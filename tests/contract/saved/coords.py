"""A small study for `extrap coord-check`; its data come with a package."""

from __future__ import annotations

from extrap import StudySpec, TunedRange, Workload

STUDY = StudySpec(
    name="coords",
    question="Do outputs move equally far at every width?",
    workload=Workload(name="digits"),
    sizes={"width": (16, 64, 256)},
    tune={"lr": TunedRange(low=2**-8, high=2**-6, n=3)},
    seeds=(0, 1),
)
