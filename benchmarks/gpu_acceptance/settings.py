"""Where the acceptance runs: a card, the pretended device or the CPU; imports no torch."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

CUDA, PRETENDED, CPU = DEVICES = ("cuda", "pretended", "cpu")
ROOT = Path(__file__).parents[2]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where the parts run.

    Attributes:
        device: One of `DEVICES`.
        out: Folder of the results; parts put temporary folders into it.
    """

    device: str
    out: Path

    @property
    def is_card(self) -> bool:
        """Whether it is a real card, whose speed and memory mean something."""
        return self.device == CUDA

    @property
    def is_gpu(self) -> bool:
        """Whether the code for GPUs runs: on a card or the pretended device."""
        return self.device != CPU

    @property
    def place(self) -> torch.device:
        """The device in the words of torch."""
        import torch

        return torch.device("cuda" if self.is_gpu else "cpu")

    def pick(self, full: T, tiny: T) -> T:
        """The one on a card, the other elsewhere."""
        return full if self.is_card else tiny

    def judged(self, is_met: bool) -> bool | None:
        """A verdict on a speed, which there is on a card only."""
        return is_met if self.is_card else None

    def name(self) -> str:
        """Of the card, or what stands for it."""
        import torch

        return torch.cuda.get_device_name(self.place) if self.is_gpu else "CPU"

    def command(self, module: str, *arguments: str) -> list[str]:
        """What runs a module as a program on this device, in a process of its own."""
        child = "benchmarks.gpu_acceptance.child"
        return [sys.executable, "-m", child, self.device, module, *arguments]

    def environment(self) -> dict[str, str]:
        """Of processes that `command` starts: they find this tree from any folder."""
        known = os.environ.get("PYTHONPATH")
        path = os.pathsep.join([str(ROOT), *([known] if known else [])])
        hidden = {} if self.is_gpu else {"CUDA_VISIBLE_DEVICES": ""}
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        return {**kept, **hidden, "PYTHONPATH": path}
