"""A kind of study of one's own: a sweep, then half and twice the best rate, sealed before.

extrap study run examples/own/kind.py
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.records import Cell
from extrap.reporting.blocks import Answer, Page
from extrap.reporting.study_page import About, study_page
from extrap.study import Kind, RunsByStage, Seal, Stage
from extrap.study.protocol import only, sweep


@dataclass(frozen=True)
class Doubling:
    """What a study file defines: a name, a question and a sweep."""

    name: str
    question: str
    spec: StudySpec


class DoublingKind(Kind):
    """The best rate of a sweep, then half and twice of it."""

    symbol = "DOUBLING"
    record = Doubling

    def specs(self) -> tuple[StudySpec, ...]:
        """The sweeps."""
        return (self.study.spec,)

    def follows(self) -> Sequence[str]:
        """What follows the sweep, for the dry run."""
        return ["half and twice its best rate: 2 runs"]

    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """The sweep; once it is trained, two runs beside its best."""
        spec = self.study.spec
        yield [sweep(spec)]
        best = self.best(runs)
        cells = [Cell.of({"width": 8}, {"lr": f * best}, 0) for f in (0.5, 2)]
        note = {"kind": "doubling", "schema_version": 1, "best": best}
        seal = Seal(what="best rate", file="doubling.json", document=note, spec=spec)
        yield [Stage(spec=spec, wants=only(cells), name="check", seal=seal)]

    def best(self, runs: RunsByStage) -> float:
        """The rate of the least loss."""
        frame = runs.of(self.study.spec).to_frame()
        return float(frame.loc[frame["loss"].idxmin(), "lr"])

    def analyse(self, runs: RunsByStage) -> dict[str, Any]:
        """The result: plain data."""
        return {"best": self.best(runs), "n": len(runs.of(self.study.spec, "check"))}

    def page(self, result: Any, runs: RunsByStage, about: About) -> Page:
        """The result for people."""
        blocks = [Answer(text=f"Use {result['best']:g}, which {result['n']} runs bear out.")]
        return study_page("doubling", about, blocks, caveats=())


DOUBLING = Doubling(
    "twice",
    "Is it best?",
    StudySpec(
        name="twice",
        question="?",
        workload=Workload(name="bytes-mlp"),
        recipe=Recipe(steps=8, batch_size=4, n_evals=1),
        tune={"lr": TunedRange(low=0.01, high=0.04, n=3)},
        sizes={"width": (8,)},
        seeds=(0,),
        growth=0,
    ),
)
