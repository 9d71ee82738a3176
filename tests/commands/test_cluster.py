"""The examples for clusters are nothing but `extrap study work`, and the command line takes it."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from extrap.commands.workers import work_command
from extrap.reading.storages import parse_url, path_of

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "examples" / "cluster"


def slurm():
    lines = (CLUSTER / "slurm.sh").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line and not line.startswith("#")]
    return shlex.split(line.removeprefix("exec srun "))


def parsed(name):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((CLUSTER / name).read_text(encoding="utf-8"))


def kubernetes():
    (container,) = parsed("kubernetes.yaml")["spec"]["template"]["spec"]["containers"]
    return list(container["command"])


def compose():
    return list(parsed("compose.yaml")["services"]["worker"]["command"])


@pytest.mark.parametrize("read", [slurm, kubernetes, compose])
def test_an_example_is_one_command_that_is_accepted(read):
    words = read()
    assert words[:3] == ["extrap", "study", "work"]
    context = work_command.make_context("work", words[3:])
    assert (ROOT / context.params["path"]).is_file()
    assert context.params["storage"]
    assert context.params["shard"] is None


def test_every_example_is_told_in_time_that_it_ends():
    path = CLUSTER / "slurm.sh"
    if shell := shutil.which("sh"):
        subprocess.run([shell, "-n", str(path)], check=True)
    text = path.read_text(encoding="utf-8")
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(\S+))?$", text, re.M))
    assert options["signal"].startswith("USR1@")  # without B: the step gets it
    assert "requeue" in options
    pod = parsed("kubernetes.yaml")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 60
    assert pod["restartPolicy"] == "OnFailure"
    named = [
        url
        for file in CLUSTER.iterdir()
        for url in re.findall(r"journal:/+[A-Z]\w*[^\s`]*", file.read_text(encoding="utf-8"))
    ]
    assert named
    assert all(path_of(parse_url(url)).is_absolute() for url in named)
