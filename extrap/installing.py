"""What to install for a library that is missing; the distribution itself is in no index."""

from __future__ import annotations

SAME_NAME = """cattrs click cloudpickle cmaes distributed jinja2 lightning matplotlib numpy optuna
pandas polars pyarrow rich scipy seaborn statsmodels threadpoolctl tqdm wandb"""
"""Modules that are installed under the name they are imported by."""
PACKAGES = {
    **{name: name for name in SAME_NAME.split()},
    "accelerate": "accelerate transformers",
    "google": "protobuf tensorboard",
    "mlflow": "mlflow-skinny",
    "psutil": "psutil torch",
    "psycopg": "'psycopg[binary]'",
    "pytorch_lightning": "lightning",
    "ray": "'ray[client]'",
    "sklearn": "scikit-learn",
    "tensorboard": "protobuf tensorboard",
    "torch": "psutil torch",
    "transformers": "accelerate transformers",
    "yaml": "pyyaml",
}
"""Module that is imported → what pip installs for it."""


def how_to_install(module: str) -> str:
    """What to do about a library that is missing, for the end of a sentence."""
    packages = PACKAGES.get(module.partition(".")[0])
    if packages is None:
        return "install the package that provides it, or check the name"
    return f"run pip install {packages}"
