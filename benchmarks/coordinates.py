"""Coordinate checks of right and wrong parametrizations: is what is wrong found, and named?

    python -m benchmarks.coordinates [SEED]

Planted are ten kinds of faults in three models each, all other things being right; beside them
stand correct models under the rules of this package, of Muon and of the package `mup`, with widths
from 32, 64 and 128. Beside the answer stands the trivial one: a layer breaks whose outputs change
as a power of the width beyond ± .15. Rules were chosen with seed 10.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch

import extrap
from benchmarks.page import print_rows
from benchmarks.parametrized_models import CNN, MLP, Case, Transformer, with_options
from benchmarks.rows import Row
from extrap.analyses.coordinates import CoordinateCheck
from extrap.analyses.coordinates.slopes import STABLE_SLOPE

MATRICES = ("query", "key", "value", "projection", "up", "down")
"""Hidden layers of the transformer."""
SEEDS = (0, 1, 2)
FOUND, NAMED, FLAGGED, DIFFERENCE, SECONDS = 27, 24, 1, 0.05, 20.0
"""Targets."""


def planted() -> Iterator[Case]:
    """Ten kinds of faults, three models each."""
    mlp, normed = with_options(MLP), with_options(MLP, norm=True, gelu=True)
    cnn, normed_cnn = with_options(CNN), with_options(CNN, norm=True)
    narrow, deep = with_options(Transformer, base=32), with_options(Transformer, base=32, depth=3)
    matrices = tuple(f"{name}.weight" for name in MATRICES)
    hidden = ("hidden.1.weight", "hidden.2.weight")
    for model, base in ((mlp, 64), (cnn, 32), (narrow, 32)):
        names = matrices if model is narrow else hidden
        layers = MATRICES if model is narrow else ("hidden.1", "hidden.2")
        faster, slower, larger = (dict.fromkeys(names, power) for power in (1.0, -1.0, 0.5))
        yield Case(
            fault="readout unscaled",
            model=model,
            base=base,
            rates={"readout": 1.0},
            inits={"readout": 0.5},
            layers=("readout",),
        )
        yield Case(
            fault="hidden rate not scaled", model=model, base=base, rates=faster, layers=layers
        )
        yield Case(fault="scaled twice", model=model, base=base, rates=slower, layers=layers)
        yield Case(fault="init not rescaled", model=model, base=base, inits=larger, layers=layers)
    for model, power in ((narrow, -1.0), (deep, -0.5), (narrow, 1.0)):
        rates, layers = {"tokens": power}, ("tokens",)
        optimizer = "adamw" if power > 0 else "adam"
        yield Case(
            fault="embedding rate scaled",
            model=model,
            base=32,
            rates=rates,
            layers=layers,
            optimizer=optimizer,
        )
    for depth, base, optimizer in ((2, 32, "adam"), (1, 64, "adam"), (2, 32, "muon")):
        model = with_options(Transformer, base=base, depth=depth, attention_power=0.5)
        yield Case(
            fault="attention 1/√d", model=model, base=base, optimizer=optimizer, layers=("scores",)
        )
    for model, base, optimizer in ((mlp, 64, "adamw"), (narrow, 32, "adamw"), (mlp, 64, "muon")):
        yield Case(
            fault="weight decay coupled",
            model=model,
            base=base,
            optimizer=optimizer,
            decay=0.1,
            is_coupled=True,
            layers=(*MATRICES, "hidden", "readout"),
        )
    for model, base in ((mlp, 64), (normed, 32), (narrow, 32)):
        names = matrices if model is narrow else hidden
        yield Case(
            fault="Muon with Adam's factor",
            model=model,
            base=base,
            optimizer="muon",
            rates=dict.fromkeys(names, -0.5),
            layers=(*MATRICES, "hidden.1", "hidden.2"),
        )
    for power, head_size in ((0.0, 0), (0.5, 0), (0.0, 8)):
        model = with_options(Transformer, base=32, tied=power, head_size=head_size)
        yield Case(fault="tied embeddings unscaled", model=model, base=32, layers=("tokens",))
    for model, power in ((normed, -1.0), (narrow, -1.0), (normed_cnn, -0.5)):
        rates = {"norm": power}
        yield Case(
            fault="layer norm gain scaled", model=model, base=32, rates=rates, layers=("norm",)
        )


def correct() -> Iterator[Case]:
    """Models of which nothing is wrong."""
    rates = {"sgd": 0.1, "mup-sgd": 0.1}
    rules = ("adam", "muon", "mup")
    for base, optimizer in itertools.product((32, 64, 128), (*rules, "sgd", "mup-sgd")):
        rate = rates.get(optimizer, 2e-3)
        yield Case(model=with_options(MLP), base=base, optimizer=optimizer, rate=rate)
    for base, optimizer in itertools.product((32, 64, 128), (*rules, "mup-adamw", "adamw")):
        model = with_options(MLP, norm=True, gelu=True, depth=2)
        decay = 0.1 if optimizer in ("muon", "adamw", "mup-adamw") else 0.0
        yield Case(model=model, base=base, optimizer=optimizer, decay=decay)
    for norm, optimizer in itertools.product((False, True), ("adam", "mup", "adamw")):
        yield Case(model=with_options(CNN, norm=norm), base=32, optimizer=optimizer)
    yield Case(model=with_options(CNN), base=64, optimizer="adam")
    for base, optimizer in itertools.product((32, 64), rules):
        yield Case(model=with_options(Transformer, base=base), base=base, optimizer=optimizer)
    for optimizer in rules:
        model = with_options(Transformer, base=32, head_size=8, depth=1)
        yield Case(model=model, base=32, optimizer=optimizer)
    for optimizer in ("adam", "muon"):
        model = with_options(Transformer, base=32, tied=1.0)
        yield Case(model=model, base=32, optimizer=optimizer)


def checked(case: Case, seed: int) -> CoordinateCheck:
    """The answer on one model."""
    return extrap.coordinate_check(
        case.build,
        case.widths,
        case.batch(seed),
        make_optimizer=case.make_optimizer,
        lr=case.rate,
        seeds=[seed + s for s in SEEDS],
    )


def is_trivially_flagged(check: CoordinateCheck) -> bool:
    """Whether some layer's outputs change as a power of the width beyond ± .15."""
    slopes = (layer.change_slope.value or 0.0 for layer in check.coordinates)
    return any(abs(slope) > STABLE_SLOPE for slope in slopes)


def rows(seed: int) -> Iterator[Row]:
    """All figures."""
    cases = list(planted())
    faults = [checked(case, seed) for case in cases]
    found = [check.is_flat is False for check in faults]
    named = [
        check.first is not None and any(part in check.first for part in case.layers)
        for case, check in zip(cases, faults, strict=True)
    ]
    kinds = dict.fromkeys(case.fault for case in cases)
    missed = [case.fault for case, hit in zip(cases, named, strict=True) if not hit]
    yield _count("planted faults", f"found, of {len(cases)} of {len(kinds)} kinds", found, FOUND)
    yield _count(
        "planted faults",
        "first layer named",
        named,
        NAMED,
        note=f"not named: {', '.join(missed) or 'none'}",
    )
    trivial = [is_trivially_flagged(check) for check in faults]
    yield Row(part="planted faults", figure="found by the trivial answer", reached=_of(trivial))
    models = list(correct())
    right = [checked(case, seed) for case in models]
    flagged = [check.is_flat is not True for check in right]
    names = [
        f"{type(case.model(case.base)).__name__} {case.base} {case.optimizer}: {check.first}"
        for case, check in zip(models, right, strict=True)
        if check.is_flat is not True
    ]
    yield Row(
        part="correct models",
        figure="flagged",
        beat=_of([is_trivially_flagged(check) for check in right]),
        target=f"≤ {FLAGGED}",
        reached=_of(flagged),
        met=sum(flagged) <= FLAGGED,
        note="; ".join(names),
    )
    yield against_mup(seed)
    yield timed(seed)


def _of(hits: Sequence[bool]) -> str:
    return f"{sum(hits)} of {len(hits)}"


def _count(part: str, figure: str, hits: Sequence[bool], least: int, note: str = "") -> Row:
    return Row(
        part=part,
        figure=figure,
        target=f"≥ {least}",
        reached=_of(hits),
        met=sum(hits) >= least,
        note=note,
    )


def against_mup(seed: int) -> Row:
    """Slopes of the outputs of every layer after each update, against `mup.coord_check`."""
    from mup.coord_check import get_coord_data

    case = Case(model=with_options(MLP), optimizer="mup")
    check, batch = checked(case, seed), case.batch(seed)
    logs: dict[tuple[str, int], list[list[float]]] = {}
    for s in SEEDS:

        def lazy(width: int, s: int = seed + s) -> torch.nn.Module:
            torch.manual_seed(s)
            return case.build(width)

        table = get_coord_data(
            {width: (lambda width=width: lazy(width)) for width in case.widths},
            [batch],
            optimizer="adam",
            lr=case.rate,
            nsteps=check.steps,
            output_fdict={"l2": "l2"},
            cuda=False,
            show_progress=False,
        )
        for (name, step), of_layer in table.groupby(["module", "t"]):
            means = of_layer.groupby("width")["l2"].mean()
            logs.setdefault((name, int(step)), []).append(np.log(means.to_numpy()).tolist())
    x = np.log(case.widths)
    differences = []
    for layer in check.coordinates:
        for step in range(check.steps):
            if (layer.name, step + 1) in logs:
                theirs = np.mean(logs[layer.name, step + 1], axis=0)
                ours = np.log(layer.outputs[step]).mean(axis=1)
                slopes = (float(np.polyfit(x, y, 1)[0]) for y in (ours, theirs))
                differences.append(abs(np.subtract(*slopes)))
    return Row(
        part="MLP of mup's layers",
        figure=f"largest difference of {len(differences)} slopes to mup.coord_check",
        target=f"≤ {DIFFERENCE}",
        reached=f"{max(differences):.3f}",
        met=max(differences) <= DIFFERENCE and len(differences) > 0,
    )


def timed(seed: int) -> Row:
    """Seconds of one check, widths 64 to 512, three seeds."""
    case = Case(model=with_options(Transformer))
    start = time.perf_counter()
    checked(case, seed)
    seconds = time.perf_counter() - start
    return Row(
        part="time",
        figure="transformer of two blocks, widths 64 to 512, 3 seeds, CPU",
        target=f"≤ {SECONDS:g} s",
        reached=f"{seconds:.1f} s",
        met=seconds <= SECONDS,
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    print_rows(list(rows(int(sys.argv[1]) if len(sys.argv) > 1 else 0)))
