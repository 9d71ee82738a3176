from dataclasses import replace

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.study.fingerprints import fingerprint

SPEC = StudySpec(
    name="old",
    question="?",
    workload=Workload(name="mine", options={"n_features": 8}),
    recipe=Recipe(steps=100),
    sizes={"width": (4, 8)},
    tune={"lr": TunedRange(low=0.01, high=0.1, n=3)},
)
OLD = {
    "schema_version": 2, "sampler": "grid", "workload.name": "mine", "workload.n_features": 8,
    "recipe.steps": 100, "recipe.batch_size": 128, "recipe.optimizer": "adam",
    "recipe.momentum": 0.9, "recipe.nesterov": False, "recipe.beta1": 0.9, "recipe.beta2": 0.999,
    "recipe.eps": 1e-8, "recipe.weight_decay": 0.0, "recipe.clip": 0.0, "recipe.init_scale": 1.0,
    "recipe.schedule": "wsd", "recipe.warmup": 0.05, "recipe.decay": 0.5,
    "recipe.parametrization": "standard", "recipe.base_width": 64, "recipe.precision": "fp32",
    "recipe.n_evals": 50, "tune.lr.low": 0.01, "tune.lr.high": 0.1, "tune.lr.n": 3,
}  # fmt: skip
"""What was stored before a recipe could grow its batch."""


def test_a_study_stored_before_the_batch_could_grow_still_resumes():
    assert fingerprint(SPEC, {}) == OLD
    recipe = replace(SPEC.recipe, schedule="steps", decay_by="batch")
    assert set(fingerprint(replace(SPEC, recipe=recipe), {})) > set(OLD)
