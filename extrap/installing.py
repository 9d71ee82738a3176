"""What to install for a library that is missing: what the package's own metadata require.

The distribution is in no index, so that its extras cannot be named; what they hold can be.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

__all__ = ["DISTRIBUTIONS", "how_to_install"]

DISTRIBUTIONS = {
    "PIL": "pillow",
    "google": "protobuf",
    "grpc": "grpcio",
    "mlflow": "mlflow-skinny",
    "psycopg": "psycopg",
    "pytorch_lightning": "lightning",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    **{
        name: name
        for name in (
            "accelerate",
            "cattrs",
            "click",
            "jinja2",
            "lightning",
            "matplotlib",
            "numpy",
            "optuna",
            "pandas",
            "polars",
            "psutil",
            "pyarrow",
            "rich",
            "scipy",
            "scoringrules",
            "seaborn",
            "statsmodels",
            "tensorboard",
            "torch",
            "transformers",
            "triton",
            "wandb",
        )
    },
}
"""What is imported → the distribution that brings it."""


def how_to_install(module: str) -> str:
    """What to do about a library that is missing, for the end of a sentence.

    Args:
        module: What could not be imported, such as `wandb` or `google.protobuf`.

    Returns:
        `run pip install` with the bounds that the package itself has, of all libraries that are
        needed together; without its metadata the library's name alone. A module that is none of
        ours may come from anywhere, so that no name is guessed for it.
    """
    distribution = DISTRIBUTIONS.get(module.partition(".")[0])
    if distribution is None:
        return "install the package that provides it, or check the name"
    wanted = _together(distribution) or [distribution]
    return "run pip install " + " ".join(f"'{requirement}'" for requirement in wanted)


def _together(distribution: str) -> list[str]:
    """The requirements of the extra that holds a distribution; of one of the core, its own."""
    try:
        lines = requires("extrap-hp") or []
    except PackageNotFoundError:  # a source tree that was never installed
        return []
    parts = [line.partition(";") for line in lines]
    kept = [(requirement.strip(), marker.strip()) for requirement, _, marker in parts]
    for requirement, marker in kept:
        if _name(requirement) == distribution:
            return [each for each, its in kept if its == marker] if marker else [requirement]
    return []


def _name(requirement: str) -> str:
    """`psycopg[binary]>=3.2` → `psycopg`."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")
