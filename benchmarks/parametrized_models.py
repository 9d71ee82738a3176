"""Models of right and wrong parametrizations, for `benchmarks.coordinates`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from extrap.workloads import width_rules

N_CLASSES, N_INPUTS, N_TOKENS, CONTEXT, N_EXAMPLES = 10, 32, 64, 16, 32


class MLP(nn.Module):
    """Linear layers, with layer norms before the activations or without."""

    def __init__(
        self, width: int, *, depth: int = 3, norm: bool = False, gelu: bool = False
    ) -> None:
        super().__init__()
        sizes = [N_INPUTS, *[width] * depth]
        self.hidden = nn.ModuleList(map(nn.Linear, sizes[:-1], sizes[1:]))
        norms = (nn.LayerNorm(width) if norm else nn.Identity() for _ in range(depth))
        self.norms = nn.ModuleList(norms)
        self.readout = nn.Linear(width, N_CLASSES)
        self.activation = nn.GELU() if gelu else nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.hidden, self.norms, strict=True):
            x = self.activation(norm(layer(x)))
        return self.readout(x)


class CNN(nn.Module):
    """Convolutions, the mean over places, a readout."""

    def __init__(self, width: int, *, depth: int = 2, norm: bool = False) -> None:
        super().__init__()
        sizes = [3, *[width] * depth]
        layers = (nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(sizes))
        self.hidden = nn.ModuleList(layers)
        norms = (nn.GroupNorm(4, width) if norm else nn.Identity() for _ in range(depth))
        self.norms = nn.ModuleList(norms)
        self.readout = nn.Linear(width, N_CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.hidden, self.norms, strict=True):
            x = functional.relu(norm(layer(x)))
        return self.readout(x.mean((-2, -1)))


class Block(nn.Module):
    """Attention and an MLP, each after a layer norm and added to its input."""

    def __init__(self, width: int, *, heads: int, scale: float | None, ratio: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, scale
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.projection = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.up, self.down = nn.Linear(width, ratio * width), nn.Linear(ratio * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.attention_norm(x)
        q, k, v = (
            f(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        x = x + self.projection(seen.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.mlp_norm(x))))


class Transformer(nn.Module):
    """A decoder; its heads grow with the width unless `head_size` is given."""

    def __init__(
        self,
        width: int,
        *,
        depth: int = 2,
        head_size: int = 0,
        attention_power: float = 1.0,
        base: int = 64,
        tied: float | None = None,
        ratio: int = 2,
    ) -> None:
        super().__init__()
        heads = width // head_size if head_size else 4
        scale = None
        if not head_size:
            scale = (base / 4) ** (attention_power - 0.5) * (width / 4) ** -attention_power
        self.tokens, self.positions = nn.Embedding(N_TOKENS, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(
            Block(width, heads=heads, scale=scale, ratio=ratio) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.tied_factor = None if tied is None else (width / base) ** -tied / math.sqrt(base)
        if tied is None:
            self.readout = nn.Linear(width, N_TOKENS, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.tokens(x) + self.positions.weight
        for block in self.blocks:
            h = block(h)
        h = self.norm(h)
        if self.tied_factor is None:
            return self.readout(h)
        return functional.linear(h * self.tied_factor, self.tokens.weight)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model with an optimizer, and what is wrong with it.

    Attributes:
        model: The architecture, by the width.
        base: Width at which the width rule changes nothing; the smallest of the widths.
        optimizer: Whose rule it is: `"adam"`, `"adamw"`, `"sgd"`, `"muon"`, or `"mup"` and
            `"mup-sgd"` for layers and optimizers of the package mup.
        rate: Learning rate at the base width.
        decay: Weight decay.
        rates: Part of a parameter's name → power of the relative width by which its rate is
            wrong.
        inits: Likewise of its initial values.
        is_coupled: Whether the decay is multiplied by the wrong rate of the parameter.
        fault: The kind of fault; empty of a correct model.
        layers: Parts of the names of the layers at fault.
    """

    model: Callable[..., nn.Module]
    base: int = 64
    optimizer: str = "adam"
    rate: float = 2e-3
    decay: float = 0.0
    rates: Mapping[str, float] = field(default_factory=dict)
    inits: Mapping[str, float] = field(default_factory=dict)
    is_coupled: bool = False
    fault: str = ""
    layers: tuple[str, ...] = ()

    @property
    def widths(self) -> tuple[int, ...]:
        """Four, from the base on."""
        return tuple(self.base * 2**i for i in range(4))

    def build(self, width: int) -> nn.Module:
        """The model of a width, with its initial values as the rule has them."""
        if self.optimizer.startswith("mup"):
            return mup_model(self, width)
        model = self.model(width)
        rules = self._rules(width)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                factor = rules[name].init * self._wrong(self.inits, name, width)
                is_norm = "norm" in name
                parameter.mul_(self._wrong(self.inits, name, width) if is_norm else factor)
        return model

    def make_optimizer(self, model: nn.Module, lr: float) -> Any:
        """The optimizers of a model, one group for each rate."""
        if self.optimizer.startswith("mup"):
            return mup_optimizer(self, model, lr)
        width = next(p for p in model.parameters() if p.dim() > 1)
        width = width.shape[1] if isinstance(model, Transformer) else width.shape[0]
        rules = self._rules(width)
        groups: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
        for name, parameter in model.named_parameters():
            rule = rules[name]
            by_muon = self.optimizer == "muon" and rule.role == "hidden" and parameter.dim() == 2
            rate = lr * rule.rate * self._wrong(self.rates, name, width)
            decay = self.decay if self.is_coupled else self.decay * lr / rate
            groups[by_muon].append({"params": [parameter], "lr": rate, "weight_decay": decay})
        if self.optimizer == "muon":
            muon = torch.optim.Muon(groups[True], lr=lr, adjust_lr_fn="match_rms_adamw")
            return [muon, torch.optim.AdamW(groups[False], lr=lr)]
        kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
        return kinds[self.optimizer](groups[False], lr=lr)

    def _rules(self, width: int) -> Mapping[str, Any]:
        return width_rules(
            lambda size: self.model(int(size["width"])),
            {"width": width},
            parametrization="mup",
            base_width=self.base,
            optimizer=self.optimizer,
        )

    def _wrong(self, powers: Mapping[str, float], name: str, width: int) -> float:
        power = next((power for part, power in powers.items() if part in name), 0.0)
        return float((width / self.base) ** power)

    def batch(self, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """Random inputs and classes."""
        draw = torch.Generator().manual_seed(seed)
        if isinstance(self.model(self.base), Transformer):
            windows = torch.randint(N_TOKENS, (N_EXAMPLES // 2, CONTEXT + 1), generator=draw)
            return windows[:, :-1], windows[:, 1:]
        shape = (3, 6, 6) if isinstance(self.model(self.base), CNN) else (N_INPUTS,)
        x = torch.randn(N_EXAMPLES, *shape, generator=draw)
        return x, torch.randint(N_CLASSES, (N_EXAMPLES,), generator=draw)


def mup_model(case: Case, width: int) -> nn.Module:
    """A model with the readout and the shapes of the package mup."""
    import mup

    def built(size: int) -> nn.Module:
        model = case.model(size)
        readout = model.readout
        model.readout = mup.MuReadout(
            readout.in_features, readout.out_features, bias=readout.bias is not None
        )
        return model

    model = built(width)
    mup.set_base_shapes(model, built(case.base), delta=built(2 * case.base))
    return model


def mup_optimizer(case: Case, model: nn.Module, lr: float) -> Any:
    """The optimizer of the package mup."""
    import mup

    kinds = {"mup": mup.MuAdam, "mup-sgd": mup.MuSGD, "mup-adamw": mup.MuAdamW}
    return kinds[case.optimizer](model.parameters(), lr=lr, weight_decay=case.decay)


def with_options(model: type[nn.Module], **options: Any) -> Callable[[int], nn.Module]:
    """An architecture as a function of the width alone."""
    return partial(model, **options)
