from dataclasses import replace

import pytest

from extrap.records import SizePath, StudySpec, Target, TunedRange, Workload

SPEC = StudySpec(
    name="path_inputs",
    question="?",
    sizes={"depth": (4, 6, 8)},
    tune={"lr": TunedRange(low=0.01, high=0.1, n=3)},
    path={"width": "64 * depth"},
)
OURS = replace(SPEC, workload=Workload(name="bytes-mlp"))
TARGETS = (Target(size={"depth": 34}),)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ({"lr": "0.1 / depth"}, "got lr;"),
        ({"depth": "2 * width"}, "got depth;"),
        ({"seed": "depth"}, "got seed;"),
        ({"width": "64 * height"}, "got height;"),
        ({"width": "depth - 6"}, "gives -2 at depth=4"),
        ({"width": "1000 - depth**2"}, "gives -156 at depth=34"),
    ],
)
def test_a_path_that_does_not_fit_its_study_is_refused(path, words):
    with pytest.raises(ValueError, match=words):
        replace(SPEC, path=path, targets=TARGETS)


def test_a_formula_is_text():
    with pytest.raises(ValueError, match="got 64 for width;"):
        SizePath({"width": 64})


def test_what_is_trained_whole_is_whole_in_the_grid():
    rates = {"lr": TunedRange(low=1e-3, high=1e-1, n=5)}
    whole = {**rates, "batch_size": TunedRange(low=8, high=512, n=7)}
    parts = {**rates, "batch_size": TunedRange(low=8, high=512, n=8)}
    ours = replace(OURS, path={}, tune=whole)
    ours.require_whole()
    replace(ours, sampler="law").require_whole()  # two tuned columns: it takes the grid
    with pytest.raises(ValueError, match=r"got 14.4\d+; choose"):
        replace(ours, tune=parts).require_whole()
    replace(SPEC, path={}, tune=parts).require_whole()  # of one's own
    for sampler in ("tpe", "gp"):  # they draw whole numbers
        replace(ours, sampler=sampler, tune=parts).require_whole()
        ends = {"batch_size": TunedRange(low=8, high=500.5, n=7)}
        with pytest.raises(ValueError, match=r"got 500\.5"):
            replace(ours, sampler=sampler, tune=ends).require_whole()
    with pytest.raises(ValueError, match="sampler='grid'"):
        replace(ours, sampler="law", tune={"batch_size": whole["batch_size"]}).require_whole()
    assert [ours.allows("batch_size", 8.0), ours.allows("batch_size", 8.5)] == [True, False]
    assert SPEC.allows("batch_size", 8.5)
    assert not ours.allows("clip", -1.0)


@pytest.mark.parametrize("name", ["batch_size", "steps"])
def test_what_is_trained_whole_is_whole_in_the_path(name):
    path = {name: "50 * sqrt(depth)", "tokens": f"1e6 / {name}"}
    with pytest.raises(ValueError, match=rf"{name} .* write round\(50"):
        replace(OURS, path=path).require_whole()
    written = replace(OURS, path={**path, name: "round(50 * sqrt(depth))"})
    written.require_whole()
    assert written.size_values({"depth": 6}) == {"depth": 6, name: 122, "tokens": 8196.72131148}
    eighth = replace(OURS, path={name: "depth / 8"}, sizes={"depth": (8, 16)}, targets=TARGETS)
    with pytest.raises(ValueError, match=r"got 4\.25"):
        eighth.require_whole()
    replace(SPEC, path=path).require_whole()  # of one's own
