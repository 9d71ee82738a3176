"""Calls of the command line whose documents, texts and exit codes are kept."""

import io
import logging
import os
import re
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
BATCH = "examples/steps.csv --by width --by target"
SEALED = "S/forecast.json"
RUN = "W/tiny.py --storage sqlite:///W/run.db"
STUDY = f"{RUN} --set seeds=0"
CHECKED = (
    "coord-check W/tiny.py --set workload.name=studies/digits_workload.py:Digits "
    "--steps 2 --lr .0078 --width 16,32,64,128"
)

JSON = {
    "forecast-clean": f"forecast {CLEAN} --at 512 --at width=4096",
    "forecast-pair": f"forecast {PAIR} --at params=1e8,tokens=1e10 --level .8",
    "best-values": "forecast T/best.csv --tune lr --at params=7e9,tokens=3e11",
    "check-sealed": f"check {SEALED} examples/big.csv",
    "backtest-clean": f"backtest {CLEAN}",
    "watch-log": "watch W/accuracy.json T/log.csv --at 256 --total-steps 1000 --tuned lr=0.01 "
    "--loss acc --maximise acc --once",
    "plan-clean": f"plan {CLEAN} --at 1024 --budget 4e15",
    "cost-clean": f"cost {CLEAN} --at 1024 --set lr=0.004 --price 2",
    "allocate-pair": "allocate T/pair.csv --flops 1e20 --level .8 --unique-tokens 5e9 "
    "--inference-tokens 1e12",
    "compare-recipes": "compare T/recipes.csv --by recipe --size width --at 1024 --price 2",
    "critical-batch": f"critical-batch {BATCH} --at width=512,target=1.9",
    "cascade": "cascade T/inputs.csv --cost-large 10",
    "select-hard": "select T/embedding.csv --keep .3 --label label",
    "knobs": "knobs T/knobs.csv --size width --at 2048 --knob steady --knob moving=0.1 "
    "--knob idle --level .9",
    "status": "study status W/tiny.py --storage sqlite:///W/tiny.db",
    "coord-check": CHECKED,
}
"""Called with --json: what they print is a document."""

TEXT = {
    "forecast": f"forecast {CLEAN} --at 512 --at 4096",
    "best-values": "forecast T/best.csv --at params=7e9,tokens=3e11 --at 2x",
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
    "status": "study status W/tiny.py --storage sqlite:///W/tiny.db",
    "dry-run": "study run W/tiny.py --storage sqlite:///W/new.db --dry-run",
    "report": f"report {CLEAN} W/big.csv -o W/again.html --markdown -",
    "study-run": f"cd W/ && study run {STUDY} --quiet && study status {RUN}",
    "help": "--help",
}
"""Called for people, some after another command (`&&`): what they print is a text."""

PAGES = {"report-page": (TEXT["report"], "again.html")}
CSV = {
    "study-table": (TEXT["study-run"], "reports/tiny.runs.csv"),
    "plan-table": (TEXT["plan"], "plan.csv"),
}
"""Called for a file: what a person reads on a page, and tables as CSV."""

PROGRESS = re.compile(r"^fitting .* …\n", re.MULTILINE)
"""Said on a busy machine, where a fit takes more than a second or two."""
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
    return {"code": code, "out": said[0], "err": PROGRESS.sub("", said[1])}


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
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.loc[:, table.columns == "wall_s"] = "SECONDS"
    return table.to_csv(index=False)
