"""What studies, recipes and commands are made into; what they refuse is in `tests/contract`."""

from dataclasses import asdict, replace

import pytest

from extrap.analyses.allocation import AllocationStudy
from extrap.analyses.batch_size import BatchStudy, BatchTask
from extrap.analyses.comparison import ComparisonStudy, RecipeGroup, ablations, moves
from extrap.records import (
    TUNABLE,
    Cell,
    Command,
    Recipe,
    StudySpec,
    Target,
    TunedRange,
    Workload,
    override,
)

SPEC = StudySpec(
    name="own",
    question="?",
    workload=Workload(name="mine", options={"noise": 1.0}),
    recipe=Recipe(batch_size=8, n_evals=10, schedule="constant", warmup=0.0),
    sizes={"width": (8, 4)},
    tune={"lr": TunedRange(low=0.1, high=1.6, n=3)},
    seeds=(0, 1),
)
TASK = BatchTask(study=SPEC, steps={4: 400, 16: 100, 64: 50}, targets=(0.5,))


def test_a_grid_is_geometric_and_goes_on_beyond_its_ends():
    rates = SPEC.tune["lr"]
    assert (rates.values(), replace(rates, n=2).values()) == ((0.1, 0.4, 1.6), (0.1, 1.6))
    assert (rates.value(-1), rates.value(3)) == (0.025, 6.4)
    assert [rates.index(v) for v in (0.1, 0.2, 6.4)] == pytest.approx([0, 0.5, 3], abs=1e-12)
    assert [(dict(c.size)["width"], dict(c.tuned)["lr"], c.seed) for c in SPEC.grid_cells()] == [
        (width, lr, seed) for width in (4, 8) for lr in (0.1, 0.4, 1.6) for seed in (0, 1)
    ]
    assert Cell.of({"w": 1 / 3}, {}, 1.0) == Cell((("w", 0.333333333333),), (), 1)


def test_numbers_among_the_given_options_are_conditions():
    options = {"depth": 12, "dropout": 0.1, "tied": True, "corpus": "texts", "width": 3}
    plain = replace(SPEC, workload=Workload(name="w"))
    spec = replace(SPEC, workload=Workload(name="w", options={**options, "steps": 3}))
    added = spec.conditions().items() - plain.conditions().items()
    assert added == {("depth", 12), ("dropout", 0.1), ("tied", True)}
    assert spec.conditions()["steps"] == spec.recipe.steps  # the recipe is no option
    own = StudySpec(name="o", question="?", sizes=SPEC.sizes, tune=SPEC.tune)
    assert own.conditions() == {"workload": "own"}


def test_values_of_a_path_and_what_is_whole():
    path = {"batch_size": "round(50 * sqrt(depth))", "tokens": "1e6 / batch_size"}
    deep = replace(SPEC, workload=Workload(name="bytes-mlp"), sizes={"depth": (4, 6)}, path=path)
    expected = {"depth": 6, "batch_size": 122, "tokens": 8196.72131148}
    assert deep.size_values({"depth": 6}) == expected
    assert [deep.allows("batch_size", 8.0), deep.allows("batch_size", 8.5)] == [True, False]
    own = StudySpec(name="o", question="?", sizes=SPEC.sizes, tune=SPEC.tune)
    assert own.allows("batch_size", 8.5)
    assert not deep.allows("clip", -1.0)


def test_budget_is_split_into_whole_batches():
    made = AllocationStudy(name="a", question="?", study=SPEC, budgets=(1e5, 2e5, 4e5), times=4)
    for budget, params, length, tokens in (
        (6e5, 100, 1, 1000),
        (6e5, 99, 1, 1008),
        (6e5, 100, 16, 8 * 16 * 8),
        (1.0, 100, 1, 8),
    ):
        assert made.tokens(budget, params, tokens_per_example=length) == tokens
    assert (made.target, made.column, made.study_named.name) == (1.6e6, "width", "a")
    cells = made.cells(4, 1000)
    assert [(dict(cell.tuned)["lr"], cell.seed) for cell in cells] == [
        *((0.1, 0), (0.1, 1), (0.4, 0), (0.4, 1), (1.6, 0), (1.6, 1))
    ]
    assert {cell.size for cell in cells} == {(("width", 4.0), ("tokens", 1000.0))}


def test_rates_move_with_the_batch():
    made = replace(TASK, reference_batch=16)
    assert [made.rate(16, i) for i in range(-1, 4)] == [0.025, 0.1, 0.4, 1.6, 6.4]
    assert made.rate(64, 0) == 0.2
    assert replace(made, rate_exponent=1.0).rate(4, 0) == 0.025
    assert TASK.reference == 16  # the middle one
    assert replace(TASK, steps={**TASK.steps, 256: 20}).reference == 64


def test_overrides_walk_records_positions_and_number_keys():
    given = """tasks.0.study.seeds=0
        tasks.0.steps.16=70
        tasks.0.targets=0.4, 1
        tasks.0.study.workload.noise=3
        tasks.0.study.workload.corpus=texts
        tasks.0.study.workload.tied=true
        tasks.0.study.sizes.width=5,9.5
        tasks.0.study.recipe.nesterov=TRUE
        tasks.0.study.recipe.schedule=cosine
        overhead=.5"""
    study = BatchStudy(name="batches", question="?", tasks=(TASK,))
    found = override(study, given.splitlines())
    task = found.tasks[0]
    assert (task.study.seeds, task.targets, found.overhead) == ((0,), (0.4, 1.0), 0.5)
    assert task.steps == {4: 400, 16: 70, 64: 50}
    assert task.study.workload.options == {"noise": 3.0, "corpus": "texts", "tied": True}
    assert task.study.sizes == {"width": (5, 9.5)}
    assert (task.study.recipe.nesterov, task.study.recipe.schedule) == (True, "cosine")
    assert study.tasks[0].steps[16] == 100


def test_words_of_a_command_are_filled_in_with_numbers_as_people_write_them():
    command = Command(["p", "--n={n}", "{lr}", "{lr:.2g}", "{{x}}", "{run_dir}"])
    words = command.filled({"n": 64.0, "lr": 0.0078125, "run_dir": "/a b"})
    assert words == ("p", "--n=64", "0.0078125", "0.0078", "{x}", "/a b")
    for number, word in (
        (float(2**53 - 1), "9007199254740991"),
        (float(2**53), "9007199254740992.0"),
        (1e-5, "1e-05"),
    ):
        assert Command(["{n}"]).filled({"n": number}) == (word,)
    assert Command(["a", "{lr}"]) == Command(("a", "{lr}"))
    assert Command(["a", "{lr}", "{n}-{lr}"]).placeholders() == ("lr", "n")


def test_recipes_are_compared_at_the_sizes_in_common():
    plain = replace(SPEC, sizes={"width": (8, 16, 32, 64)})
    norm = replace(plain, name="norm", sizes={"width": (16, 32, 64, 128)})
    arms = {"none": plain, "norm": norm}
    group = RecipeGroup(name="norms", question="Better?", arms=arms, target={"width": 256})
    assert group.plain is plain
    assert group.sizes() == ({"width": 16}, {"width": 32}, {"width": 64})
    few = {**arms, "norm": replace(norm, sizes={"width": (32, 16, 99)})}
    open_target = RecipeGroup(name="g", question="?", arms=few)
    assert open_target.target_size == {"width": 32}
    fewer = replace(open_target, arms={**arms, "norm": replace(norm, sizes={"width": (8,)})})
    assert fewer.target_size == {"width": 8}  # a target that was left out follows the sizes
    other = replace(group, name="again", arms={**arms, "norm": replace(norm, name="n2")})
    study = ComparisonStudy(name="c", question="?", groups=(group, other))
    assert [spec.name for spec in study.arms()] == ["own", "norm", "n2"]


def test_ablations_change_the_recipe_of_one_sweep_or_are_whole_sweeps():
    recipe = Recipe(steps=640, batch_size=4)
    grown = replace(recipe, schedule="steps", drops=(0.5,), decay_by="batch", drop_factor=4)
    small = replace(SPEC, name="small", recipe=recipe, sizes={"width": (64,)})
    large = replace(small, name="big", recipe=Recipe(steps=20, batch_size=128))
    group = ablations(small, {"Batch grown, × 4": grown, "large": large}, plain_name="as it was")
    assert group.arms == {
        "as it was": small,
        "Batch grown, × 4": replace(small, name="small-batch-grown-4", recipe=grown),
        "large": large,
    }
    assert (group.name, group.target_size) == ("ablations", {"width": 64})
    study = ComparisonStudy(name="c", question="?", groups=(group,))
    (wider,) = override(study, ["sizes.width=512"]).groups
    assert wider.target_size == {"width": 512}


TOY = StudySpec(
    name="toy",
    question="?",
    workload=Workload(name="bytes-mlp", options={"depth": 3, "tied": True, "corpus": "x"}),
    recipe=Recipe(optimizer="adamw", weight_decay=0.1),
    sizes={"width": (16, 32, 64)},
    tune={"lr": TunedRange(low=2**-9, high=2**-5, n=5)},
)


def values_of(spec):
    return {**spec.workload.options, **asdict(spec.recipe)}


def moved(group):
    """Arm → the fields of the recipe and the options by which it differs from the plain one."""
    plain = values_of(TOY)
    return {
        arm: {name: value for name, value in values_of(spec).items() if value != plain[name]}
        for arm, spec in group.arms.items()
    }


def test_every_value_in_use_is_halved_and_doubled_alone_by_default():
    group = moves(TOY)
    # decay has no room beyond 1 − warmup; clip is 0; momentum is not AdamW's; 3 / 2 rounds to 2
    assert moved(group) == {
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
    assert (group.plain, group.target) == (TOY, {"width": 64})
    assert all(spec.tune == TOY.tune for spec in group.arms.values())
    tuned = replace(TOY, tune={**TOY.tune, "warmup": TunedRange(low=0.01, high=0.1, n=2)})
    assert [arm for arm in moves(tuned).arms if "warmup" in arm] == []


def test_names_factors_and_target_of_moves_may_be_given():
    group = moves(TOY, ["depth", "batch_size"], times=(4,), target={"width": 99})
    changes = {"depth ×4": {"depth": 12}, "batch_size ×4": {"batch_size": 512}}
    assert moved(group) == {"plain": {}, **changes}
    assert group.target == {"width": 99}
    names = ["toy", "toy-depth-4", "toy-batch_size-4"]
    assert [spec.name for spec in group.arms.values()] == names
    aimed = replace(TOY, targets=(Target(size={"width": 512}), Target(size={"width": 256})))
    assert moves(aimed, ["depth"]).target == {"width": 512}
    one = replace(TOY, workload=Workload(name="bytes-mlp", options={"depth": 1}))
    assert list(moves(one, ["depth"]).arms) == ["plain", "depth ×2"]


def test_tuned_values_and_data_size_make_the_recipe_of_a_run():
    recipe = Recipe(steps=7, batch_size=32)
    tuned = {"lr": 0.1, "batch_size": 16.0, "clip": 1.0}
    run = recipe.with_values({"width": 8, "tokens": 6400}, tuned, tokens_per_example=10)
    assert (run.steps, run.batch_size, run.clip) == (40, 16, 1.0)
    assert isinstance(run.batch_size, int)
    assert recipe.with_values({}, {"lr": 0.1}, tokens_per_example=10) == recipe
    assert recipe.with_values({}, {"steps": 9.0}, tokens_per_example=10).steps == 9
    assert recipe.with_values({"tokens": 1}, {}, tokens_per_example=10).steps == 1
    with pytest.raises(ValueError, match="got width"):
        recipe.with_values({}, {"width": 3}, tokens_per_example=10)
    values = {name: 1 if name == "batch_size" else 0.25 for name in TUNABLE}
    run = Recipe().with_values({}, values, tokens_per_example=1)
    assert all(getattr(run, name) == value for name, value in values.items())
    allowed = [recipe.allows(*pair) for pair in (("own", -1.0), ("clip", 1.0), ("clip", -1.0))]
    assert allowed == [True, True, False]


def test_batch_grows_where_the_rate_would_fall_and_sees_the_same_examples():
    grown = Recipe(
        steps=160,
        batch_size=32,
        schedule="steps",
        drops=[0.5, 0.75],
        drop_factor=4,
        decay_by="batch",
    )
    falls = replace(grown, decay_by="rate")
    assert grown.phases() == ((80, 32, 1.0), (10, 128, 1.0), (2, 512, 1.0))  # 2.5 is no number
    assert falls.phases() == ((80, 32, 1.0), (40, 32, 0.25), (40, 32, 0.0625))
    assert (falls.n_updates, falls.n_examples, falls.largest_from) == (160, 5120, 0)
    assert (grown.n_updates, grown.n_examples, grown.largest_from) == (92, 4864, 90)
    even = replace(grown, steps=128)
    assert (even.n_updates, even.n_examples) == (64 + 8 + 2, 128 * 32)
    sizes = [even.phase_at(update).batch_size for update in (0, 63, 64, 71, 72, 73, 99)]
    assert sizes == [32, 32, 128, 128, 512, 512, 512]
    assert falls.phase_at(80).rate == 0.25
    short = replace(grown, steps=2)  # a phase of half an update rounds to none
    assert short.phases() == ((1, 32, 1.0), (1, 128, 1.0))
    for schedule in ("constant", "wsd"):
        recipe = replace(grown, schedule=schedule)
        assert recipe.phases() == ((160, 32, 1.0),)
        assert (recipe.n_updates, recipe.n_examples, recipe.largest_from) == (160, 5120, 0)
