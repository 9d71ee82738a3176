import math
from dataclasses import replace

from extrap.records import Cell, Recipe, Workload
from extrap.training import Layout, Pack, train
from extrap.workloads import load_workload

OPTIONS = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 256}


def test_stacks_of_two_give_what_stacks_of_eight_give_and_say_the_same():
    size = {"width": 8}
    tuned = [{"lr": lr, "weight_decay": 0.01} for lr in (2**-8, 2**-6, 1e30, 2**-5, 2**-4)]
    pack = Pack(
        workload=load_workload(Workload(name="bytes-mlp", options=OPTIONS)),
        size=size,
        recipe=Recipe(steps=12, batch_size=8, n_evals=4, noise_every=2, clip=0.5),
        cells=tuple(Cell.of(size, values, seed) for values in tuned for seed in (0, 1)),
    )
    heard, results = [], []
    for at_once in (2, 8):
        layout, told, own = Layout(n_threads=1, at_once=at_once), [], []

        def prune(step, losses, own=own, told=told):
            assert len(told) == 1  # before the first step
            own.append((step, [None if math.isnan(x) else x for x in losses]))
            return [not (step == 6 and i in (1, 8)) for i in range(len(losses))]

        found = train(pack, layout=layout, device="cpu", on_eval=prune, on_layout=told.append)
        results.append([replace(result, wall_s=0.0) for result in found])
        heard.append(own)
        assert told == [layout]
    assert results[0] == results[1]
    assert heard[0] == heard[1]
    statuses = [result.status for result in results[0]]
    assert [statuses.count(s) for s in ("pruned", "diverged", "complete")] == [2, 2, 6]
    assert {len(r.gradients) for r in results[0] if r.status == "complete"} == {4}
