from dataclasses import replace

import pytest

from extrap.records import Recipe, StudySpec, Target, TunedRange, Workload, moves

STUDY = StudySpec(
    name="toy",
    question="?",
    workload=Workload(name="bytes-mlp", options={"depth": 3, "tied": True, "corpus": "x"}),
    recipe=Recipe(optimizer="adamw", weight_decay=0.1),
    sizes={"width": (16, 32, 64)},
    tune={"lr": TunedRange(low=2**-9, high=2**-5, n=5)},
)


def changed(group):
    """Arm → the fields of the recipe and the options by which it differs from the plain one."""
    found = {}
    for arm, spec in group.arms.items():
        own = {**spec.workload.options, **{n: getattr(spec.recipe, n) for n in FIELDS}}
        plain = {**STUDY.workload.options, **{n: getattr(STUDY.recipe, n) for n in FIELDS}}
        found[arm] = {name: value for name, value in own.items() if value != plain[name]}
    return found


FIELDS = Recipe.__dataclass_fields__


def test_every_value_in_use_is_halved_and_doubled_alone_by_default():
    group = moves(STUDY)
    found = changed(group)
    # decay has no room beyond 1 − warmup; clip is 0; momentum is not AdamW's; 3 / 2 rounds to 2
    assert found == {
        "plain": {},
        "1 − beta1 ×½": {"beta1": 0.95},
        "1 − beta1 ×2": {"beta1": 0.8},
        "1 − beta2 ×½": {"beta2": 0.9995},
        "1 − beta2 ×2": {"beta2": 0.998},
        "eps ×½": {"eps": 5e-9},
        "eps ×2": {"eps": 2e-8},
        "weight_decay ×½": {"weight_decay": 0.05},
        "weight_decay ×2": {"weight_decay": 0.2},
        "init_scale ×½": {"init_scale": 0.5},
        "init_scale ×2": {"init_scale": 2.0},
        "warmup ×½": {"warmup": 0.025},
        "warmup ×2": {"warmup": 0.1},
        "decay ×½": {"decay": 0.25},
        "depth 2": {"depth": 2},
        "depth ×2": {"depth": 6},
    }
    assert group.plain == STUDY
    assert group.target == {"width": 64}
    assert {tuple(spec.tune.items()) for spec in group.arms.values()} == {(*STUDY.tune.items(),)}


def test_names_factors_and_target_may_be_given():
    group = moves(STUDY, ["depth", "batch_size"], times=(4,), target={"width": 99})
    assert changed(group) == {
        "plain": {},
        "depth ×4": {"depth": 12},
        "batch_size ×4": {"batch_size": 512},
    }
    assert group.target == {"width": 99}
    assert [spec.name for spec in group.arms.values()] == [
        "toy",
        "toy-depth-4",
        "toy-batch_size-4",
    ]
    aimed = replace(STUDY, targets=(Target(size={"width": 512}), Target(size={"width": 256})))
    assert moves(aimed, ["depth"]).target == {"width": 512}
    one = replace(STUDY, workload=Workload(name="bytes-mlp", options={"depth": 1}))
    assert list(moves(one, ["depth"]).arms) == ["plain", "depth ×2"]


@pytest.mark.parametrize("name", ["clip", "lr", "precision", "momentum", "tied", "width", "x"])
def test_a_named_value_that_cannot_be_moved_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be a positive"):
        moves(STUDY, [name])


def test_a_tuned_value_is_not_moved():
    tuned = replace(STUDY, tune={**STUDY.tune, "warmup": TunedRange(low=0.01, high=0.1, n=2)})
    assert [arm for arm in moves(tuned).arms if "warmup" in arm] == []


def test_factors_and_trainings_without_a_recipe_are_refused():
    for times in ((), (1,), (0,), (-2,)):
        with pytest.raises(ValueError, match="factors other than 1"):
            moves(STUDY, times=times)
    with pytest.raises(ValueError, match="function or command"):
        moves(STUDY.without_recipe())
