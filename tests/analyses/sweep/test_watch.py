"""`extrap watch` as scripts see it; the monitor is a stand-in without statistics."""

from pathlib import Path

import pytest

import extrap
from extrap.cli import main
from extrap.records import Recipe
from tests.monitors import FakeMonitor, remembering

LOG = "step,loss\n25,3.25\n50,3.125\n75,3\n"


@pytest.fixture
def built(monkeypatch):
    """What the command builds its monitor with."""
    made: list = []
    monkeypatch.setattr("extrap.checking.monitoring.Monitor", remembering(made, limit=4.0))
    return made


@pytest.fixture
def run(capsys, tmp_path, monkeypatch, made, built):
    """Watch `log.csv` in a folder with a sealed forecast."""
    del built
    monkeypatch.chdir(tmp_path)
    extrap.save_forecast(made, "forecast.json")
    Path("log.csv").write_text(LOG)

    def run(*options, log="log.csv", at="4096"):
        code = main(["watch", "forecast.json", log, "--at", at, *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_follows_the_log_to_the_end_of_the_run(run, monkeypatch):
    def write_more(pause):
        assert pause == 0.5
        with Path("log.csv").open("a") as file:
            file.write("90,3\n100,2.9\n")

    monkeypatch.setattr("extrap.checking.monitoring.time.sleep", write_more)
    Path("log.csv").write_text("step,loss\n25,3.25\n50,3.125\n")
    code, out, _ = run("--interval", "0.5")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()[:-1]] == ["50", "100"]


def test_points_that_are_not_compared_are_counted(run, monkeypatch):
    monkeypatch.setattr(FakeMonitor, "n_ignored", 3)
    _, out, _ = run("--once")
    assert out.splitlines()[-1].startswith("Not compared: 3 points")


def test_options_reach_the_monitor_and_the_reader(run, built):
    Path("log.jsonl").write_text('{"global_step": 25, "train_loss": 3.25}\n')
    code, out, _ = run(
        *("--once", "--total-steps", "1e4", "--tuned", "lr=0.001", "--level", "0.9"),
        *("--step", "global_step", "--loss", "train_loss"),
        *("--schedule", "wsd", "--warmup", "0.1", "--decay", "0.3"),
        log="log.jsonl",
        at="width=4096",
    )
    assert code == 0
    assert out.startswith("step 25 ")
    [(forecast, given)] = built
    assert forecast.runs.sizes == ("width",)
    assert given == {
        "at": {"width": 4096},
        "total_steps": 10_000,
        "tuned": {"lr": 0.001},
        "level": 0.9,
        "schedule": Recipe(schedule="wsd", warmup=0.1, decay=0.3),
    }


def test_log_without_a_loss_yet_is_fine(run):
    Path("log.csv").write_text("step,loss\n")
    code, out, err = run("--once")
    assert (code, err, "no loss yet" in out) == (0, "", True)


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        (("--once",), {"log": "absent.csv"}, "no file absent.csv"),
        (("--once",), {"log": "forecast.json"}, "forecast.json"),
        (("--once", "--loss", "los"), {}, "did you mean 'loss'?"),
        (("--tuned", "lr"), {}, "NAME=NUMBER, got 'lr'"),
        (("--tuned", "lr=1", "--tuned", "lr=2"), {}, "lr was given twice"),
        (("--interval", "0"), {}, "--interval"),
        (("--maximise", "acc", "--loss", "ll"), {}, "got --loss ll"),
        ((), {"at": "large"}, "--at takes a number"),
    ],
)
def test_bad_usage_is_exit_two_and_one_line(run, options, given, message):
    code, out, err = run(*options, **given)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_loss_that_is_no_number_is_an_alarm(run):
    Path("log.csv").write_text("step,loss\n25,3.25\n50,nan\n")
    assert run("--once")[0] == 1


def test_a_size_may_be_a_multiple_of_the_largest_swept(run, built):
    assert run("--once", at="2x")[0] == 0
    [(forecast, given)] = built
    assert given["at"] == {"width": 2 * forecast.largest()["width"]}
