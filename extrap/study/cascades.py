"""Small models before a large one: pairs trained, their answers saved, cascades judged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from extrap.cascading import CascadeReport, curve_rows, judge_pairs
from extrap.files import whole_file
from extrap.reading import without_password
from extrap.records import CascadeStudy, SizedModel, StudySpec
from extrap.reporting.cascades_page import cascade_page
from extrap.reporting.study_page import About
from extrap.study.protocol import Kind, RunsByStage, Say, Stage, workload_words

if TYPE_CHECKING:
    from extrap.workloads import LoadedWorkload

Key = tuple[str, int]
"""A model's sizes in words, and its seed."""
COLUMNS = ["confidence", "correct", "loss"]


class CascadeKind(Kind):
    """`CASCADE`: what every model answers is saved in a folder, and not trained again."""

    symbol = "CASCADE"
    record = CascadeStudy
    example = "CascadeStudy(name=…, question=…, smalls=(SizedModel(…),), large=SizedModel(…))"
    keeps_answers = True
    float_format = "%.6g"

    def specs(self) -> tuple[StudySpec, ...]:
        """None: there is no sweep."""
        return ()

    def stages(self, runs: RunsByStage) -> Iterator[Sequence[Stage]]:
        """None."""
        yield from ()

    def collect(self, storage: str | None, say: Say) -> pd.DataFrame:
        """Train what is missing; the curves of all pairs of models.

        Raises:
            DataError: The workload answers no classes, or a run diverged.
            ValueError: The storage is a URL, or the workload is unknown.
        """
        from extrap.workloads import load_workload

        study, folder = self.study, self.folder(storage)
        workload = load_workload(study.workload)
        answers = _answers(study, workload, folder, say)
        rule = _rule_answers(study, workload)
        cost = {model.label: 2.0 * workload.n_params(model.size) for model, _ in study.trainings()}
        rows: list[dict[str, object]] = []
        for model in study.smalls:
            for number, (small_seed, large_seed) in enumerate(study.pairs):
                small = answers[model.label, small_seed]
                large = answers[study.large.label, large_seed]
                for outcome, with_rule in (("correct", False), ("correct", True), ("loss", False)):
                    if with_rule and rule is None:
                        continue
                    inputs = {
                        "confidence_small": small["confidence"],
                        f"{outcome}_small": small[outcome],
                        f"{outcome}_large": large[outcome],
                        **(rule if with_rule and rule is not None else {}),
                    }
                    rows += curve_rows(
                        inputs,
                        small=model.label,
                        pair=number,
                        outcome=outcome,
                        rule=with_rule,
                        costs=(cost[model.label], cost[study.large.label]),
                        validation=study.validation,
                        level=study.level,
                    )
        return pd.DataFrame(rows)

    def analyse(self, runs: RunsByStage) -> CascadeReport:
        """What each small model saves and keeps."""
        return judge_pairs(self.study, runs.curves)

    def tables(self, result: CascadeReport, runs: RunsByStage) -> Mapping[str, pd.DataFrame]:
        """The curves."""
        return {"curves": runs.curves}

    def plan(self) -> list[str]:
        """The trainings and the cascades."""
        study = self.study
        lines = [f"workload: {workload_words(study.workload)}"]
        lines += [
            f"  {m.label}: {len(seeds)} runs of {study.recipe.n_updates} steps at lr {m.lr:g}"
            for m, seeds in study.trainings()
        ]
        lines.append(
            f"then cascades of {len(study.smalls)} small models and {study.large.label}, "
            f"{len(study.pairs)} pairs of trainings each"
            + (f", with the rule {study.rule.name} in front" if study.rule else "")
        )
        return lines

    def provenance(self, result: CascadeReport, runs: RunsByStage, source: str) -> dict[str, str]:
        """Where the answers are, the recipe, rates and seeds."""
        study = self.study
        rates = [f"{model.label}: {model.lr:g}" for model, _ in study.trainings()]
        return {
            "made from": source,
            "workload": workload_words(study.workload),
            "recipe": f"{study.recipe.n_updates} steps of {study.recipe.batch_size} examples, "
            f"{study.recipe.optimizer}, {study.recipe.schedule}",
            "learning rates": "; ".join(rates),
            "seeds, small and large": "; ".join(f"{a}, {b}" for a, b in study.pairs),
            "rule": study.rule.pattern if study.rule else "",
        }

    def page(self, result: CascadeReport, runs: RunsByStage, about: About, path: Path) -> None:
        """The page of the cascades."""
        cascade_page(result, about, path, rule=self.study.rule.name if self.study.rule else "")

    def folder(self, storage: str | None) -> Path:
        """The folder of the saved answers, by default `.extrap/NAME`."""
        if storage is not None and "://" in storage:
            raise ValueError(
                "a cascade study saves answers in a folder, got the storage "
                f"{without_password(storage)}; give a folder."
            )
        return Path(storage or f".extrap/{self.name}")

    def saved(self, storage: str | None) -> list[tuple[SizedModel, tuple[bool, ...]]]:
        """Which trainings of each model have answers."""
        from extrap.workloads import load_workload

        folder, workload = self.folder(storage), load_workload(self.study.workload)
        return [
            (
                model,
                tuple(
                    (folder / _file_name(self.study, workload, model, s)).is_file() for s in seeds
                ),
            )
            for model, seeds in self.study.trainings()
        ]


def _answers(
    study: CascadeStudy, workload: LoadedWorkload, folder: Path, say: Say
) -> dict[Key, pd.DataFrame]:
    """What every model answers to every held-out input, from the folder where it is saved."""
    from extrap.training import Pack, train_and_predict

    found: dict[Key, pd.DataFrame] = {}
    for model, seeds in study.trainings():
        places = {seed: folder / _file_name(study, workload, model, seed) for seed in seeds}
        missing = tuple(seed for seed in seeds if not places[seed].is_file())
        if missing:
            pack = Pack(
                workload=workload,
                size=model.size,
                recipe=study.recipe,
                cells=tuple(model.cell(seed) for seed in missing),
            )
            for cell, answer in train_and_predict(pack):
                columns = (answer.confidence, answer.correct, answer.loss)
                frame = pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))
                _save(frame, places[cell.seed])
                share, loss = 100 * answer.correct.mean(), answer.loss.mean()
                say(f"{model.label}, seed {cell.seed}: {share:.1f} % correct, loss {loss:.4f}")
        found |= {(model.label, seed): pd.read_parquet(places[seed]) for seed in seeds}
    return found


def _save(frame: pd.DataFrame, path: Path) -> None:
    """Whole or not at all: a killed process leaves no half of a file."""
    with whole_file(path) as draft:
        frame.to_parquet(draft, index=False)


def _file_name(study: CascadeStudy, workload: LoadedWorkload, model: SizedModel, seed: int) -> str:
    """Named by all that determines the answers, so that another study finds none of these."""
    parts = {
        "workload": study.workload.name,
        "data": dict(workload.fingerprint),
        "recipe": asdict(study.recipe),
        "size": dict(model.size),
        "lr": model.lr,
        "seed": seed,
    }
    text = json.dumps(parts, sort_keys=True, default=str)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.parquet"


def _rule_answers(study: CascadeStudy, workload: LoadedWorkload) -> dict[str, object] | None:
    if study.rule is None:
        return None
    from extrap.training import answers_of_rule

    filtered, correct = answers_of_rule(workload, study.rule)
    return {"filtered": filtered, "correct_filter": correct}
