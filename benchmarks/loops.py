"""One process of the training benchmark: 36 runs of the byte MLP, by one of three ways.

    python -m benchmarks.loops WAY --width W --runs FIRST LAST --steps N --threads T

| way | is |
|---|---|
| `ordinary` | a plain PyTorch loop, one run at a time: `nn.Module`, fused `torch.optim.Adam` |
| `vmap` | `torch.func.vmap` over stacked parameters, Adam as elementwise operations |
| `ours` | `extrap.training.train`, which chooses its layout itself |

Every way trains the same runs: same start, data order, rates, evaluations. Prints the seconds from
the loaded workload to the last result, the losses, and of `ours` where the time went, as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from extrap.records import Workload
from extrap.training.worker_pool import WorkerPool, n_cores

SOURCE = Workload(name="bytes-mlp")
N_RUNS = 36


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and print seconds and losses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=["ordinary", "ours", "vmap"])
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--runs", type=int, nargs=2, default=(0, N_RUNS))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args(arguments)
    pool = WorkerPool(n_cores() - 1)
    try:
        if given.way == "ours":
            pool.start(SOURCE)  # as a study does: they import torch while this process does
        sys.stdout.write(json.dumps(_train(given, pool)) + "\n")
    finally:
        pool.close()


def _train(given: argparse.Namespace, pool: WorkerPool) -> dict[str, object]:
    import torch

    from benchmarks import ways
    from extrap.workloads import load_workload

    torch.set_num_threads(given.threads)
    workload = load_workload(SOURCE)
    first, last = given.runs
    pack = ways.bench_pack(
        workload, width=given.width, first=first, last=last, steps=given.steps, source=SOURCE
    )
    began, spent = time.perf_counter(), {}
    match given.way:
        case "ordinary":
            losses = ways.train_ordinary(pack)
        case "vmap":
            losses = ways.train_vmap(pack)
        case _:
            losses, spent = ways.train_ours(pack, pool)
    return {"seconds": time.perf_counter() - began, "losses": losses, "spent": spent}


if __name__ == "__main__":
    main()
