"""Calls of the command line whose documents, texts and exit codes are kept."""

from __future__ import annotations

import io
import logging
import os
import shlex
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from extrap.cli import main

from .pages import page_text
from .workplace import FOLDER, ROOT, SAVED, TABLES, workplace

CLEAN = "T/clean.csv --size width --tune lr"
PAIR = "T/pair.csv --size params --size tokens"
CURVED = "T/curved.csv --size width --tune lr"
SINGLE = "T/single.csv --size depth --tune lr --tune batch_size --condition optimizer"
ACCURACY = "T/accuracy.csv --size width --tune lr --loss acc --maximise acc"
CURVES = f"{ACCURACY} --curves T/accuracy_curves.csv"
SWEEP = "examples/sweep.csv --size width --tune lr"
BATCH = "examples/steps.csv --by width --by target"
SEALED = "S/forecast.json"
STUDY = "W/tiny.py --storage sqlite:///W/run.db --set seeds=0"
CHECKED = (
    "coord-check W/tiny.py --set workload.name=digits --steps 2 --lr .0078 --width 16 --width 256"
)

JSON = {
    "forecast-clean": f"forecast {CLEAN} --at 512 --at width=4096",
    "forecast-clean-level-50": f"forecast {CLEAN} --at 1024 --level .5 --band family",
    "forecast-clean-fixed": f"forecast {CLEAN} --at 512 --fix E=1.5 --fix lr.b=-0.4",
    "forecast-clean-untuned": "forecast T/clean.csv --size width --tune none --at 512",
    "forecast-pair": f"forecast {PAIR} --at params=1e8,tokens=1e10 --level .8",
    "forecast-pair-path": f"forecast {PAIR} --path 'params = 12 * depth * (64 * depth)**2' "
    "--path 'tokens = 20 * params' --at depth=14",
    "forecast-curved": f"forecast {CURVED} --at 1024 --at 512",
    "forecast-curved-let": "forecast T/curved.csv --size n --tune rate --let 'n = 12 * width**2' "
    "--let 'rate = lr * width' --at 1e7",
    "forecast-single": f"forecast {SINGLE} --at 24",
    "forecast-accuracy": f"forecast {CURVES} --at 512 --final best",
    "forecast-accuracy-tail": f"forecast {CURVES} --final tail:0.1",
    "forecast-sweep": f"forecast {SWEEP} --at 512",
    "forecast-wandb": "forecast examples/wandb_export.csv --size model.width --tune lr "
    "--loss val/loss --at 512",
    "forecast-sealed": f"forecast {SEALED} --at 512 --at 3000",
    "forecast-inferred": "forecast examples/wandb_export.csv --at 8x",
    "forecast-storage": "forecast W/theirs.db --size width --tune lr --at 256",
    "check-clean": f"check {CLEAN} T/clean_big.csv",
    "check-clean-recipe": f"check {CLEAN} T/clean_big.csv --condition optimizer --band family",
    "check-clean-bend": f"check {CLEAN} T/clean_bend.csv",
    "check-sealed": f"check {SEALED} examples/big.csv",
    "check-sweep": f"check {SWEEP} examples/big.csv --level .8",
    "check-pair": f"check {PAIR} T/pair_big.csv",
    "check-kept": "check examples/kept_rate.csv examples/big.csv --size width --band family",
    "check-accuracy": f"check {CURVES} T/accuracy.csv --big-curves T/accuracy_curves.csv",
    "backtest-clean": f"backtest {CLEAN}",
    "backtest-pair": f"backtest {PAIR} --band family",
    "backtest-sealed": f"backtest {SEALED}",
    "watch-log": "watch W/accuracy.json T/log.csv --at 256 --total-steps 1000 --tuned lr=0.01 "
    "--loss acc --maximise acc --once",
    "watch-log-bad": "watch W/accuracy.json T/log_bad.csv --at 256 --total-steps 1000 "
    "--let 'loss = 1 - acc' --loss loss --level .9 --once",
    "plan-clean": f"plan {CLEAN} --at 1024 --budget 4e15",
    "plan-clean-hours": f"plan {CLEAN} --at 1024 --budget-hours 0.02 --runs 6 --no-larger",
    "plan-curved": f"plan {CURVED} --at 1024 --budget 4e7 --cost 'width**2' --aim lr",
    "plan-pair": f"plan {PAIR} --at params=1e8,tokens=1e10 --budget 2e19 --aim loss",
    "plan-among": f"plan {CLEAN} --at 1024 --runs 4 --among T/clean_among.csv",
    "cost-clean": f"cost {CLEAN} --at 1024 --set lr=0.004 --price 2",
    "cost-clean-recommended": f"cost {CLEAN} --at 2048 --flops 1e16 --flops-per-s 1e12 --level .8",
    "cost-curved": f"cost {CURVED} --at 1024 --set lr=0.02 --gpu-hours 5 --price 3 "
    "--cost 'width**2'",
    "cost-single": f"cost {SINGLE} --at 24 --set batch_size=64 --flops 1e15",
    "allocate-splits": "allocate examples/splits.csv --flops 1e22",
    "allocate-pair": "allocate T/pair.csv --flops 1e20 --level .8 --unique-tokens 5e9 "
    "--inference-tokens 1e12",
    "allocate-pair-fixed": "allocate T/pair.csv --flops 1e19 --fix E=1.7 --fix c1=0.34",
    "compare-recipes": "compare T/recipes.csv --by recipe --size width --at 1024 --price 2",
    "compare-recipes-plain": "compare T/recipes.csv --by recipe --plain steep --size width "
    "--level .8 --flops-per-second 1e12",
    "compare-tuned": "compare T/clean.csv examples/sweep.csv --size width --tune lr "
    "--names clean,sweep",
    "critical-batch": f"critical-batch {BATCH} --at width=512,target=1.9",
    "critical-batch-options": f"critical-batch {BATCH} --overhead .5 --from 32 --level .8 "
    "--let 'tokens = steps * batch_size'",
    "cascade": "cascade T/inputs.csv --cost-large 10",
    "cascade-options": "cascade T/inputs.csv --cost-small 2 --cost-large 30 --quality 0.85 "
    "--group text --validation .4 --level .8 --seed 3",
    "select-hard": "select T/embedding.csv --keep .3 --label label --balance 1",
    "select-easy": "select T/embedding.csv --keep 7 --which easy --metric euclidean --clusters 2",
    "select-random": "select T/embedding.csv --keep .5 --which random --seed 4",
    "knobs": "knobs T/knobs.csv --size width --at 2048 --knob steady --knob moving=0.1 "
    "--knob idle --level .9",
    "status": "study status W/tiny.py --storage sqlite:///W/tiny.db",
    "page": "page W/page.html",
    "coord-check": CHECKED,
}
"""Called with --json: what they print is a document."""

TEXT = {
    "forecast": f"forecast {CLEAN} --at 512 --at 4096",
    "check": f"check {CLEAN} T/clean_big.csv",
    "backtest": f"backtest {CLEAN}",
    "watch": "watch W/accuracy.json T/log_bad.csv --at 256 --total-steps 1000 --loss acc "
    "--maximise acc --once",
    "plan": f"plan {CLEAN} --at 1024 --budget 4e15 --out W/plan.csv",
    "cost": f"cost {CLEAN} --at 1024 --set lr=0.004 --price 2",
    "allocate": "allocate T/pair.csv --flops 1e20 --unique-tokens 5e9 --inference-tokens 1e12",
    "compare": "compare T/recipes.csv --by recipe --size width --at 1024 --price 2",
    "critical-batch": f"critical-batch {BATCH} --at width=512,target=1.9",
    "cascade": "cascade T/inputs.csv --cost-large 10",
    "select": "select T/embedding.csv --keep 5",
    "knobs": "knobs T/knobs.csv --size width --at 2048 --knob steady --knob moving --knob idle",
    "status": "study status W/tiny.py --storage sqlite:///W/tiny.db",
    "export": "study export W/tiny.py --storage sqlite:///W/tiny.db --out W/tiny-export.db",
    "import": "study export W/tiny.py --storage sqlite:///W/tiny.db --out W/sent.db && "
    "study import W/tiny.py W/sent.db --storage sqlite:///W/import.db",
    "dry-run": "study run W/tiny.py --storage sqlite:///W/new.db --dry-run",
    "page": "page W/page.html --link https://example.org/page.html",
    "report": f"report {CLEAN} W/big.csv -o W/again.html --markdown -",
    "index": "index W/pages",
    "init": "init W/fresh",
    "coord-check": f"{CHECKED} --set recipe.parametrization=mup",
    "study-run": f"cd W/ && study run {STUDY} --quiet && study status {STUDY} && "
    f"study export {STUDY} --out W/run-export.db",
    "version": "--version",
    "help": "--help",
}
"""Called for people, some after another command (`&&`): what they print is a text."""

PAGES = {
    "report-page": (TEXT["report"], "again.html"),
}
CSV = {
    "study-table": (TEXT["study-run"], "reports/tiny.runs.csv"),
    "plan-table": (TEXT["plan"], "plan.csv"),
    "select-table": (f"{TEXT['select']} -o W/select.csv", "select.csv"),
}
"""Called for a file: what a person reads on a page, and tables as CSV."""

EXITS = {
    line: line.removeprefix("extrap").strip().format_map(globals())
    for line in (FOLDER / "exits.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
}
"""Commands whose exit code and standard error are kept."""


def run(arguments: str) -> dict[str, Any]:
    """Exit code, standard output and standard error of a call of `extrap` from the root."""
    at = str(workplace())
    for short, folder in (("T/", TABLES.relative_to(ROOT)), ("S/", SAVED.relative_to(ROOT))):
        arguments = arguments.replace(short, f"{folder}/")
    arguments = arguments.replace("W/", f"{at}/")
    out, err, handlers = io.StringIO(), io.StringIO(), logging.root.handlers[:]
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        logging.root.handlers[:] = []
        with redirect_stdout(out), redirect_stderr(err):
            code = max(_call(part) for part in arguments.split(" && "))
    finally:
        logging.root.handlers[:] = handlers
        os.chdir(before)
    said = [stream.getvalue().replace(at, "W") for stream in (out, err)]
    return {"code": code, "out": said[0], "err": said[1]}


def _call(command: str) -> int:
    """Exit code of a command; `cd` is one, for a study writes its report where it is run."""
    if command.startswith("cd "):
        os.chdir(command.removeprefix("cd "))
        return 0
    return main(shlex.split(command))


once = cache(run)
"""The same, called once per process where the files that it leaves are compared as well."""


def left(arguments: str, file: str) -> str:
    """What a command leaves in a file: the text of a page, or a table as CSV without clocks."""
    once(arguments)
    path = workplace() / file
    if path.suffix == ".html":
        return page_text(path.read_text(encoding="utf-8")).replace(str(workplace()), "W")
    if path.suffix == ".parquet":
        return pd.read_parquet(path).to_csv(index=False)
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.loc[:, table.columns == "wall_s"] = "SECONDS"
    return table.to_csv(index=False)
