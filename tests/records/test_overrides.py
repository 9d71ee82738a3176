import pytest

from extrap.records import BatchStudy, BatchTask, Recipe, StudySpec, TunedRange, Workload, override

SMALL = StudySpec(
    name="small",
    question="?",
    workload=Workload(name="teacher", options={"noise": 1.0}),
    recipe=Recipe(schedule="constant", warmup=0.0),
    sizes={"width": (4, 8)},
    tune={"lr": TunedRange(low=0.1, high=1, n=3)},
    seeds=(0, 1),
)
TASK = BatchTask(study=SMALL, steps={2: 100, 8: 50, 32: 20}, targets=(0.5,))
STUDY = BatchStudy(name="batches", question="?", tasks=(TASK,))


def test_overrides_walk_records_positions_and_number_keys():
    given = """tasks.0.study.seeds=0
        tasks.0.steps.8=70
        tasks.0.targets=0.4, 1
        tasks.0.study.workload.noise=3
        tasks.0.study.workload.corpus=texts
        tasks.0.study.workload.tied=true
        tasks.0.study.sizes.width=5,9.5
        tasks.0.study.recipe.nesterov=TRUE
        tasks.0.study.recipe.schedule=cosine
        overhead=.5"""
    found = override(STUDY, given.splitlines())
    task = found.tasks[0]
    assert task.study.seeds == (0,)
    assert task.steps == {2: 100, 8: 70, 32: 20}
    assert task.targets == (0.4, 1.0)
    assert task.study.workload.options == {"noise": 3.0, "corpus": "texts", "tied": True}
    assert task.study.sizes == {"width": (5, 9.5)}
    assert (task.study.recipe.nesterov, task.study.recipe.schedule) == (True, "cosine")
    assert found.overhead == 0.5
    assert STUDY.tasks[0].steps[8] == 50


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("tasks.0.steps.16=10", "no '16'.* 2, 8, 32"),
        ("tasks.1.steps.8=10", "no '1'; there are 0"),
        ("tasks.0.steps.8=1.5", "whole .* got '1.5'"),
        ("tasks.0.steps=5", r"tasks\.0\.steps\.FIELD"),
        ("tasks=5", r"tasks\.0\.FIELD"),
        ("tasks.0.seeds=5", "did you mean"),
        ("tasks.0.noise_batch=65", "among those of steps="),
    ],
)
def test_wrong_path_into_a_batch_study_says_what_is_there(assignment, words):
    with pytest.raises(ValueError, match=words):
        override(STUDY, [assignment])
