"""What to install for a library that is missing: what the package's own metadata require.

The distribution is in no index, so that its extras cannot be named; what they hold can be.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

DISTRIBUTIONS = {
    "PIL": "pillow",
    "google": "protobuf",
    "mlflow": "mlflow-skinny",
    "psycopg": "psycopg",
    "pytorch_lightning": "lightning",
    "sklearn": "scikit-learn",
    "upath": "universal-pathlib",
    "yaml": "pyyaml",
    **{
        name: name
        for name in (
            "accelerate",
            "cattrs",
            "click",
            "cloudpickle",
            "cmaes",
            "distributed",
            "fsspec",
            "jinja2",
            "lightning",
            "matplotlib",
            "numpy",
            "optuna",
            "pandas",
            "polars",
            "psutil",
            "pyarrow",
            "ray",
            "rich",
            "scipy",
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
WITH = {
    "psutil": ("optuna",),
    "ray": ("cloudpickle",),
    "tensorboard": ("protobuf",),
    "torch": ("psutil",),
    "transformers": ("accelerate",),
    "wandb": ("protobuf",),
}
"""Distribution → what else is needed wherever it is."""


def how_to_install(module: str) -> str:
    """What to do about a library that is missing, for the end of a sentence.

    Args:
        module: What could not be imported, such as `wandb` or `google.protobuf`.

    Returns:
        `run pip install` with the bounds that the package itself has, of the library and of what
        is needed wherever it is; without its metadata their names alone. A module that is none
        of ours may come from anywhere, so that no name is guessed for it.
    """
    distribution = DISTRIBUTIONS.get(module.partition(".")[0])
    if distribution is None:
        return "install the package that provides it, or check the name"
    wanted = [_bounded(each) for each in (*WITH.get(distribution, ()), distribution)]
    return "run pip install " + " ".join(f"'{requirement}'" for requirement in wanted)


def _bounded(distribution: str) -> str:
    """A distribution with the bounds of the package's metadata, where it has them."""
    try:
        lines = requires("extrap-hp") or []
    except PackageNotFoundError:  # a source tree that was never installed
        return distribution
    wanted = (line.partition(";")[0].strip() for line in lines)
    return next((each for each in wanted if _name(each) == distribution), distribution)


def _name(requirement: str) -> str:
    """`psycopg[binary]>=3.2` → `psycopg`."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")
