from __future__ import annotations

from dataclasses import replace

import pytest

from extrap.records import SizePath, StudySpec, Target, TunedRange

GPT = SizePath(
    {"n_tokens": "20 * n_params", "n_params": "12 * depth * width**2", "width": "64 * depth"}
)
SPEC = StudySpec(
    name="dial",
    question="?",
    sizes={"depth": (4, 6, 8)},
    tune={"lr": TunedRange(low=0.01, high=0.1, n=3)},
    path={"width": "64 * depth"},
)


def test_one_dial_sets_everything_in_whatever_order_it_is_written() -> None:
    assert GPT.dials == ("depth",)
    assert GPT.values({"depth": 34}) == {
        "n_tokens": 20 * 12 * 34 * 2176**2,
        "n_params": 12 * 34 * 2176**2,
        "width": 2176,
    }


def test_definitions_are_read_from_text() -> None:
    path = SizePath.parse(["n_params = 12 * d**3", "n_tokens=20*n_params"])
    assert path == SizePath({"n_params": "12 * d**3", "n_tokens": "20*n_params"})
    assert SizePath.parse([]) is None
    with pytest.raises(ValueError, match="'n' twice"):
        SizePath.parse(["n = d", "n = 2 * d"])
    with pytest.raises(ValueError, match="reads name = formula"):
        SizePath.parse(["depth"])


def test_formulas_that_lead_nowhere_are_refused() -> None:
    with pytest.raises(ValueError, match="got a circle: "):
        SizePath({"a": "b", "b": "2 * a"})
    with pytest.raises(ValueError, match="a formula is arithmetic"):
        SizePath({"a": "2 *"})
    with pytest.raises(ValueError, match="formulas in quotes, got 3 for a"):
        SizePath({"a": 3})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="speaks of 'depth'"):
        GPT.values({"width": 3})
    with pytest.raises(ValueError, match=r"a = depth - 4 gives 0 at depth=4"):
        SizePath({"a": "depth - 4"}).values({"depth": 4})


def test_a_study_has_what_its_path_says_at_every_size() -> None:
    assert SPEC.size_values({"depth": 34}) == {"depth": 34, "width": 2176}
    assert replace(SPEC, path={}).size_values({"depth": 34}) == {"depth": 34}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ({"lr": "0.1 / depth"}, "neither a size nor tuned, got lr"),
        ({"depth": "2 * width"}, "neither a size nor tuned, got depth"),
        ({"width": "64 * height"}, "size columns depth and of each other, got height"),
        ({"width": "depth - 6"}, "gives -2 at depth=4"),
        ({"width": "1000 - depth**2"}, "gives -156 at depth=34"),
    ],
)
def test_a_path_that_does_not_fit_its_study_is_refused(path: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SPEC, path=path, targets=(Target(size={"depth": 34}),))


def test_what_the_path_moves_is_no_condition() -> None:
    from extrap.records import Workload

    spec = replace(SPEC, workload=Workload(name="bytes-mlp"), path={"batch_size": "8 * depth"})
    assert "batch_size" not in spec.conditions()
    assert "steps" in spec.conditions()
    assert "steps" not in replace(spec, path={"tokens": "100 * depth"}).conditions()


@pytest.mark.parametrize("name", ["batch_size", "steps"])
def test_what_is_trained_whole_is_whole_in_the_path(name: str) -> None:
    from extrap.records import Workload

    ours = replace(SPEC, workload=Workload(name="bytes-mlp"))
    path = {name: "50 * sqrt(depth)", "tokens": f"1e6 / {name}"}
    with pytest.raises(
        ValueError, match=rf"{name} of a path .* write round\(50 \* sqrt\(depth\)\)"
    ):
        replace(ours, path=path).require_whole()
    written = replace(ours, path={**path, name: "round(50 * sqrt(depth))"})
    written.require_whole()
    assert written.size_values({"depth": 6}) == pytest.approx(
        {"depth": 6, name: 122, "tokens": 1e6 / 122}
    )
    with pytest.raises(ValueError, match=r"gives 4.25 at depth=34"):  # of a target
        replace(ours, path={name: "depth / 8"}, sizes={"depth": (8, 16)},
                targets=(Target(size={"depth": 34}),)).require_whole()  # fmt: skip
    replace(SPEC, path=path).require_whole()
    assert replace(SPEC, path=path).size_values({"depth": 4})[name] == 100  # of one's own
    assert 122 < replace(SPEC, path=path).size_values({"depth": 6})[name] < 123


def test_what_is_trained_whole_is_whole_in_the_grid() -> None:
    from extrap.records import TunedRange, Workload

    rates = {"lr": TunedRange(low=1e-3, high=1e-1, n=5)}
    whole = {**rates, "batch_size": TunedRange(low=8, high=512, n=7)}
    parts = {**rates, "batch_size": TunedRange(low=8, high=512, n=8)}
    ours = replace(SPEC, workload=Workload(name="bytes-mlp"), path={}, tune=whole)
    ours.require_whole()
    replace(ours, sampler="law").require_whole()  # two tuned columns: it takes the grid
    with pytest.raises(ValueError, match=r"batch_size is a whole .* holds 14.4\d+; choose"):
        replace(ours, tune=parts).require_whole()
    replace(SPEC, path={}, tune=parts).require_whole()  # of one's own
    for sampler in ("tpe", "gp"):  # they draw whole numbers
        replace(ours, sampler=sampler, tune=parts).require_whole()
        ends = {"batch_size": TunedRange(low=8, high=500.5, n=7)}
        with pytest.raises(ValueError, match=r"holds 500\.5; choose low and high so"):
            replace(ours, sampler=sampler, tune=ends).require_whole()
    with pytest.raises(ValueError, match="sampler='law' does not"):
        replace(ours, sampler="law", tune={"batch_size": whole["batch_size"]}).require_whole()
