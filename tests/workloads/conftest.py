from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from extrap.records import Workload
from extrap.workloads import LoadedWorkload, load_workload

BYTES = {"corpus_bytes": 60_000, "validation_bytes": 20_000, "n_validation": 64, "context": 8}
TINY: dict[str, dict[str, object]] = {
    "bytes-mlp": BYTES,
    "bytes-transformer": {**BYTES, "head_size": 4},
    "images": {"resolution": 4},
    "teacher": {"n_features": 16, "n_examples": 500},
}


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., LoadedWorkload]:
    """Load a built-in workload small: `tiny(name, **options)`."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("images") / "images.npz"
    np.savez(
        path,
        x_train=rng.integers(0, 256, (60, 8, 8, 3), dtype=np.uint8),
        y_train=np.arange(60) % 5,
    )
    paths: dict[str, dict[str, Path | str]] = {"images": {"path": str(path)}}

    def load(name: str, **options: object) -> LoadedWorkload:
        given = {**TINY[name], **paths.get(name, {}), **options}
        return load_workload(Workload(name=name, options=given))

    return load
