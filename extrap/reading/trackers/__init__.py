"""What trackers and trainers leave behind, read as runs; a file each.

| they leave | is read by |
|---|---|
| tables of W&B's pages | `histories`, and as any table |
| W&B's run objects, `wandb://ENTITY/PROJECT` | `wandb_runs` |
| MLflow's folders, databases and servers | `mlflow` |
| TensorBoard's event files | `tensorboard` |
| HF Trainer's checkpoints | `huggingface` |
| Lightning's CSV logs | `lightning` |
"""

from __future__ import annotations

__all__: list[str] = []
