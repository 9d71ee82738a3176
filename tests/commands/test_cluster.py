"""The examples for clusters are nothing but `extrap study work`, and the command line takes it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from extrap.commands.workers import work_command
from extrap.reading.storages import parse_url, path_of

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "examples" / "cluster"


def slurm() -> list[str]:
    lines = (CLUSTER / "slurm.sh").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line and not line.startswith("#")]
    return shlex.split(line.removeprefix("exec srun "))


def parsed(name: str) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((CLUSTER / name).read_text(encoding="utf-8"))


def kubernetes() -> list[str]:
    (container,) = parsed("kubernetes.yaml")["spec"]["template"]["spec"]["containers"]
    return list(container["command"])


def compose() -> list[str]:
    return list(parsed("compose.yaml")["services"]["worker"]["command"])


@pytest.mark.parametrize("read", [slurm, kubernetes, compose])
def test_an_example_is_one_command_that_is_accepted(read: Any) -> None:
    words = read()
    assert words[:3] == ["extrap", "study", "work"]
    context = work_command.make_context("work", words[3:])
    assert (ROOT / context.params["path"]).is_file()
    assert context.params["storage"]
    assert context.params["shard"] is None


def test_a_journal_on_a_shared_disk_is_named_from_the_root() -> None:
    (storage,) = [each for each in work_command.params if each.name == "storage"]
    texts = [
        getattr(storage, "help", ""),
        (ROOT / "docs" / "many_machines.md").read_text(encoding="utf-8"),
    ]
    texts += [path.read_text(encoding="utf-8") for path in CLUSTER.iterdir()]
    named = re.findall(r"journal:/+[A-Z]\w*[^\s`]*", " ".join(texts))
    assert len(named) >= 3
    assert [url for url in named if not path_of(parse_url(url)).is_absolute()] == []


def test_the_batch_script_is_shell_and_warns_the_step_in_time() -> None:
    path = CLUSTER / "slurm.sh"
    if shell := shutil.which("sh"):
        subprocess.run([shell, "-n", str(path)], check=True)
    text = path.read_text(encoding="utf-8")
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(\S+))?$", text, re.M))
    assert options["signal"].startswith("USR1@")  # without B: it is the step that is told
    assert "exec srun" in text
    assert "requeue" in options
    assert 'SLURM_ARRAY_TASK_ID/16"' in text
    assert options["array"] == "1-16"


def test_containers_are_given_time_to_end() -> None:
    pod = parsed("kubernetes.yaml")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= 60
    assert pod["restartPolicy"] == "OnFailure"
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert parsed("compose.yaml")["services"]["worker"]["stop_grace_period"] == "120s"
