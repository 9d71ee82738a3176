"""The examples for clusters: their commands are accepted, and a driver is stopped in time."""

import re
import shlex
from pathlib import Path

import pytest

from extrap.commands.study_files import run_command
from extrap.study.clusters import CLUSTER_SCHEMES

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "examples" / "cluster"
SLURM = CLUSTER / "dask_slurm.sh"
PAGE = ROOT / "docs" / "many_machines.md"
SOON_S = 60
"""A job has at least this long from its signal to its end."""


def script():
    return SLURM.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()


def parsed(name):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((CLUSTER / name).read_text(encoding="utf-8"))


def pods():
    """The pods of the Ray cluster, that of its head first."""
    cluster = parsed("ray.yaml")["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def slurm():
    return shlex.split(next(line for line in script() if line.startswith("exec ")))[1:]


def ray():
    return shlex.split(parsed("ray.yaml")["spec"]["entrypoint"].rpartition("exec ")[2])


def compose():
    return parsed("compose.yaml")["services"]["driver"]["command"]


def options(words):
    """What the command line takes a driver's command for."""
    assert words[:3] == ["extrap", "study", "run"]
    return run_command.make_context("run", list(words[3:])).params


@pytest.mark.parametrize("read", [slurm, ray, compose])
def test_a_driver_is_one_command_that_is_accepted(read):
    found = options(read())
    assert (ROOT / "studies" / Path(found["path"]).name).is_file()
    assert found["on"].partition("://")[0] in CLUSTER_SCHEMES
    assert found["checkpoints"]


def test_a_slurm_job_signals_its_driver_alone_and_in_time():
    told = dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(\S+))?$", "\n".join(script()), re.M))
    signal = re.fullmatch(r"B:USR1@(\d+)", told["signal"])  # B: workers would end of it
    assert signal is not None
    assert int(signal[1]) >= SOON_S
    assert int(signal[1]) > options(slurm())["stop_within"]
    assert "requeue" in told
    assert script()[-1].startswith("exec extrap ")  # so that the signal reaches the driver


def test_a_ray_job_signals_its_driver_in_time_and_starts_it_again():
    head = pods()[0]
    (container,) = head["containers"]
    hook = container["lifecycle"]["preStop"]["exec"]["command"][-1]
    waits = re.fullmatch(r"pkill -USR1 -x extrap && sleep (\d+)", hook)
    assert waits is not None
    assert head["terminationGracePeriodSeconds"] >= max(SOON_S, int(waits[1]))
    assert int(waits[1]) > options(ray())["stop_within"]
    assert parsed("ray.yaml")["spec"]["backoffLimit"] > 0


def test_a_compose_file_stops_its_driver_first_and_in_time():
    services = parsed("compose.yaml")["services"]
    grace = re.fullmatch(r"(\d+)s", services["driver"]["stop_grace_period"])
    assert grace is not None
    assert int(grace[1]) >= SOON_S
    assert int(grace[1]) > options(compose())["stop_within"]
    assert "worker" in services["driver"]["depends_on"]
    assert services["driver"]["restart"].startswith("on-failure")


def test_pods_share_the_folder_of_checkpoints_and_packs_have_the_gpus_they_ask_for():
    found = options(ray())
    for pod in pods():
        (container,) = pod["containers"]
        (mount,) = container["volumeMounts"]
        (volume,) = pod["volumes"]
        assert found["checkpoints"].startswith(mount["mountPath"] + "/")
        assert found["path"].startswith(mount["mountPath"] + "/")
        assert volume["name"] == mount["name"]
    limits = pods()[1]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == found["gpus_per_pack"] == 1


def test_services_share_one_folder_and_one_scheduler():
    services = parsed("compose.yaml")["services"]
    assert services["worker"]["volumes"] == services["driver"]["volumes"]
    assert not Path(options(compose())["checkpoints"]).is_absolute()
    place = options(compose())["on"].partition("://")[2]
    assert f"tcp://{place}" in services["worker"]["command"]
    assert place == "scheduler:8786"  # a service, and the port that Dask takes by default


def test_workers_of_a_slurm_job_find_the_scheduler_of_the_driver():
    place = options(slurm())["on"].partition("://")[2]
    lines = [shlex.split(line.rstrip("&")) for line in script() if "dask " in line[:10]]
    (scheduler,) = [words for words in lines if "scheduler" in words]
    (worker,) = [words for words in lines if "worker" in words]
    assert f"tcp://{place}" in worker
    at = {name: scheduler[scheduler.index(name) + 1] for name in ("--host", "--port")}
    assert f"{at['--host']}:{at['--port']}" == place


def engine_commands():
    """Commands of the engines in the examples and on the page: words that begin with theirs."""
    page = PAGE.read_text(encoding="utf-8")
    found = [*script(), *re.findall(r"(?:dask (?:scheduler|worker)|ray start)[^\n#;`]*", page)]
    words = [shlex.split(line.rstrip("&"), comments=True) for line in found]
    words = [each[1:] if each[:1] == ["srun"] else each for each in words]
    yaml = [service.get("command", []) for service in parsed("compose.yaml")["services"].values()]
    return [each for each in (*words, *yaml) if each[:1] in (["dask"], ["ray"])]


def test_commands_of_dask_are_accepted():
    pytest.importorskip("distributed")
    from distributed.cli.dask_scheduler import main as scheduler
    from distributed.cli.dask_worker import main as worker

    known = {"scheduler": scheduler, "worker": worker}
    numbers = {"$port": "8786"}
    commands = [each for each in engine_commands() if each[0] == "dask"]
    assert {each[1] for each in commands} == set(known)
    assert len(commands) == 6
    for _, name, *words in commands:
        context = known[name].make_context(name, [numbers.get(word, word) for word in words])
        if name == "worker":
            assert context.params["scheduler"]
            assert context.params["nthreads"] == 1  # torch's settings are those of a process


def test_commands_of_ray_are_accepted():
    pytest.importorskip("ray")
    from ray.scripts.scripts import start

    commands = [each for each in engine_commands() if each[0] == "ray"]
    assert len(commands) == 2
    for _, _, *words in commands:
        start.make_context("start", list(words))
    cluster = parsed("ray.yaml")["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        words = [f"--{name}={value}" for name, value in group["rayStartParams"].items()]
        start.make_context("start", words)
