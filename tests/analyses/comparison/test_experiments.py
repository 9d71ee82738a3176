"""What a log of experiments says: candidates, worse ones, what is confirmed, what to run next."""

import csv
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap.analyses.comparison import judge_experiments
from extrap.analyses.comparison.cells import log_cells
from extrap.analyses.comparison.experiments_page import experiments_blocks
from extrap.cli import main
from extrap.errors import DataError
from extrap.reading.experiment_log import read_experiment_log

EXAMPLE = Path(__file__).parents[3] / "examples" / "experiments.tsv"
NIGHT = """\
commit,val_bpb,status,description
d9cf7a0,1.002104,keep,baseline
78e8b5b,1.001547,discard,baseline again
359d61d,1.000839,discard,gelu instead of relu
30a037e,1.005759,discard,drop value embeddings
185f80d,1.002626,discard,warmdown .3
1d7163d,1.001399,discard,baseline again
01d6a94,0.000000,crash,depth 9
e39626c,1.001528,discard,batch 2^19
6745e52,1.000399,discard,baseline again
d119cf3,0.996011,keep,rotary base 50k
0b6451b,0.997492,discard,wd .1 on embeddings
c46f071,0.995867,discard,softcap 20
3569ad4,0.996405,discard,two extra heads
f65bcc2,0.993853,keep,init scale .8
660a2f4,0.993427,discard,cosine warmdown
cdc9b50,1.001463,discard,baseline again
"""


def night(more=""):
    return pd.read_csv(io.StringIO(NIGHT + more), dtype={"commit": str})


def judged(table, **options):
    return judge_experiments(read_experiment_log(table), **options)


def outcomes(experiments):
    return {change.name: change.outcome for change in experiments.changes}


def fresh(*rows):
    """Rows of fresh runs: description and log gain against 1.0013."""
    return "".join(f",{1.0013 * math.exp(-gain)},repeat,{name}\n" for name, gain in rows)


ROTARY = fresh(
    *[("rotary base 50k", 0.0055 + e) for e in (-0.0006, 0.0001, 0.0005)],
    *[("baseline", e) for e in (-0.0005, 0.0006, 0.0)],
)


def test_a_log_names_candidates_and_worse_changes_and_confirms_nothing():
    experiments = judged(night())
    assert experiments.verdict == "undecided"
    expected = dict.fromkeys(
        ["gelu instead of relu", "warmdown .3", "batch 2^19", "wd .1 on embeddings"],
        "within noise",
    )
    expected |= dict.fromkeys(["softcap 20", "two extra heads", "cosine warmdown"], "within noise")
    expected |= {"rotary base 50k": "candidate", "init scale .8": "candidate"}
    expected |= {"drop value embeddings": "worse", "depth 9": "crashed"}
    assert outcomes(experiments) == expected
    assert experiments.noise.ci.lower < 0.0006 < experiments.noise.ci.upper
    assert experiments.base == "baseline"
    assert experiments.log_base == "init scale .8"


def test_a_candidate_is_held_against_what_it_was_built_on():
    change = next(c for c in judged(night()).changes if c.name == "init scale .8")
    assert change.base == "rotary base 50k"
    # against the pool of its base, not against its one run of .99601
    assert change.gain.value == pytest.approx(1 - 0.99385 / 0.99644, abs=4e-4)


def test_next_runs_are_three_of_a_candidate_and_of_its_base():
    experiments = judged(night())
    assert [runs.recipes for runs in experiments.next_runs] == [
        ("baseline", "rotary base 50k"),
        ("rotary base 50k", "init scale .8"),
    ]
    assert {runs.n_seeds for runs in experiments.next_runs} == {3}
    cells = log_cells(read_experiment_log(night()), experiments)
    assert cells.description.value_counts().to_dict() == {
        "baseline": 3,
        "rotary base 50k": 3,  # once, for both
        "init scale .8": 3,
    }
    assert set(cells.commit) == {"d9cf7a0", "d119cf3", "f65bcc2"}
    assert cells.seed[cells.description == "baseline"].tolist() == [5, 6, 7]


def test_fresh_runs_confirm_and_alone_give_the_gain():
    experiments = judged(night(ROTARY))
    assert outcomes(experiments)["rotary base 50k"] == "confirmed"
    assert experiments.verdict == "better here"
    change = experiments.best
    assert change.name == "rotary base 50k"
    base = [1.001463, *(1.0013 * math.exp(-e) for e in (-0.0005, 0.0006, 0.0))]  # since then
    gain = float(np.mean(np.log(base))) - math.log(1.0013) + 0.0055
    assert change.gain.value == pytest.approx(-math.expm1(-gain), rel=1e-6)
    assert change.gain.ci.lower > 0
    assert change.p_value < 0.01
    assert experiments.base == "rotary base 50k"
    assert experiments.log_base == "init scale .8"


def test_a_base_that_fresh_runs_do_not_confirm_is_no_base():
    flat = fresh(*[("rotary base 50k", e) for e in (-0.0006, 0.0001, 0.0005)])
    experiments = judged(night(flat + "".join(ROTARY.splitlines(keepends=True)[3:])))
    assert outcomes(experiments)["rotary base 50k"] == "not confirmed"
    assert experiments.base == "baseline"


def test_the_likeliest_candidate_is_proposed_first():
    late = ",0.985,discard,muon\n"
    experiments = judged(night(late))
    chances = {change.name: change.probability for change in experiments.changes}
    proposed = [chances[proposal.recipes[1]] for proposal in experiments.next_runs]
    assert len(proposed) == 3
    assert proposed == sorted(proposed, reverse=True)
    assert experiments.next_runs[0].recipes[1] != experiments.of("candidate")[1].name


def test_two_fresh_runs_confirm_nothing_and_one_more_is_proposed():
    rows = ROTARY.splitlines(keepends=True)
    experiments = judged(night("".join([*rows[:2], *rows[3:5]])))
    assert outcomes(experiments)["rotary base 50k"] == "candidate"
    proposal = next(r for r in experiments.next_runs if "baseline" in r.recipes)
    assert proposal.n_seeds == 1


def test_runs_before_a_change_was_selected_are_not_fresh():
    rows = ROTARY.splitlines(keepends=True)[:3]  # the base has five runs, one after the change
    assert outcomes(judged(night("".join(rows))))["rotary base 50k"] == "candidate"


def test_fresh_runs_that_show_nothing_do_not_confirm():
    flat = ROTARY.replace("rotary base 50k", "warmdown .3")
    rows = [
        ("warmdown .3", 0.0002),
        ("warmdown .3", -0.0004),
        ("warmdown .3", 0.0),
        *[("baseline", e) for e in (-0.0005, 0.0006, 0.0)],
    ]
    assert outcomes(judged(night(fresh(*rows))))["warmdown .3"] == "not confirmed"
    assert outcomes(judged(night(flat)))["warmdown .3"] == "confirmed"


def test_without_a_repeat_none_is_called_and_how_many_repeats_would_tell_is_said():
    table = night()
    experiments = judged(table[table.description != "baseline again"])
    assert set(outcomes(experiments).values()) == {"not judged", "crashed"}
    assert experiments.verdict == "undecided"
    (proposal,) = experiments.next_runs
    assert proposal.recipes == ("baseline",)
    assert 3 <= proposal.n_seeds <= 9
    assert re.search(r"a gain of 0\.\d+ % then stands out", proposal.why.replace("\xa0", " "))
    assert experiments.best is None
    assert experiments.to_dict()["gain"] is None


def test_a_night_in_which_nothing_helps_has_no_candidates():
    rng = np.random.default_rng(0)
    rows = [("keep", "baseline"), ("repeat", "baseline"), ("repeat", "baseline")]
    rows += [("discard", f"idea {i}") for i in range(30)]
    losses = np.exp(0.001 * rng.normal(size=len(rows)))
    table = pd.DataFrame(rows, columns=["status", "description"]).assign(val_loss=losses)
    experiments = judged(table)
    assert experiments.verdict == "nothing better"
    assert experiments.next_runs == ()


def climbing(widths, gain=0.006, slope=0.0, more=()):
    """A log over widths: one change, selected at 64, with three fresh runs at all widths.

    Its gain falls by the slope from each width to the next.
    """
    rng = np.random.default_rng(4)
    rows = [("keep", "baseline", 64, 0.0)] + [("repeat", "baseline", 64, 0.0)] * 2
    rows += [("discard", f"idea {i}", 64, 0.0) for i in range(8)]
    rows += [("discard", "softcap", 64, gain)]
    for i, width in enumerate(widths):
        fresh_gain = gain - slope * i
        rows += [("repeat", "baseline", width, 0.0), ("repeat", "softcap", width, fresh_gain)] * 3
    rows += [("discard", name, 64, gain) for name in more]
    table = pd.DataFrame(rows, columns=["status", "description", "width", "gain"])
    noise = 0.0005 * rng.normal(size=len(table))
    table["val_loss"] = 3 * (table.width / 64) ** -0.1 * np.exp(noise - table.gain)
    return table.drop(columns="gain")


def over_widths(table, **options):
    return judge_experiments(read_experiment_log(table, sizes=["width"]), **options)


def test_a_confirmed_change_climbs_to_the_next_size():
    experiments = over_widths(climbing([64]), at={"width": 1024})
    assert experiments.verdict == "better here"
    (proposal,) = experiments.next_runs
    assert proposal.recipes == ("baseline", "softcap")
    assert proposal.size["width"] in (128, 256)


def test_outcomes_stay_when_a_larger_size_has_more_runs():
    here = outcomes(over_widths(climbing([64])))
    table = climbing([64, 128, *[128] * 5])
    assert (table.width == 128).sum() > (table.width == 64).sum()
    assert outcomes(over_widths(table)) == here
    assert here["softcap"] == "confirmed"


def test_a_change_that_was_run_at_another_size_alone_is_not_judged():
    row = {"status": "discard", "description": "gelu", "width": 128, "val_loss": 2.8}
    table = pd.concat([climbing([64, 128]), pd.DataFrame([row])], ignore_index=True)
    assert outcomes(over_widths(table))["gelu"] == "not judged"


def test_fresh_runs_at_two_sizes_give_a_verdict_at_the_target():
    experiments = over_widths(climbing([64, 128, 256]), at={"width": 512})
    assert experiments.verdict == "survives"
    comparison = experiments.comparisons["softcap"]
    assert comparison.target == {"width": 512}
    assert [row.n_pairs or row.size["width"] for row in comparison.contrasts[0].by_size] == [
        64,
        128,
        256,
    ]


@pytest.mark.parametrize(
    ("more", "verdict", "code"), [((), "hurts", 1), (["gelu"], "undecided", 4)]
)
def test_a_change_that_hurts_at_larger_sizes_does_not_pass(more, verdict, code, tmp_path, capsys):
    table = climbing([64, 128, 256], slope=0.006, more=more)
    experiments = over_widths(table, at={"width": 512})
    assert experiments.verdict == verdict
    assert experiments_blocks(experiments)[0].color == ("bad" if verdict == "hurts" else "warn")
    table.to_csv(tmp_path / "log.csv", index=False)
    options = ["--size", "width", "--at", "512", "--gate"]
    assert main(["compare", str(tmp_path / "log.csv"), *options]) == code
    assert "softcap hurts at width" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--at", "64"], 0), (["--at", "512"], 4)])
def test_better_here_passes_where_this_size_is_asked_for(options, code, tmp_path, capsys):
    climbing([64]).to_csv(tmp_path / "log.csv", index=False)
    words = ["compare", str(tmp_path / "log.csv"), "--size", "width", "--gate", *options]
    assert main(words) == code


def test_the_run_that_selected_a_change_is_left_out_of_the_comparison():
    table = climbing([64, 128])
    first = table.index[table.description.eq("softcap")][0]
    wild = table.assign(val_loss=table.val_loss.mask(table.index == first, 2.9))
    ours, theirs = (
        over_widths(log, at={"width": 256}).comparisons["softcap"] for log in (table, wild)
    )
    assert ours.contrasts[0].at_target == theirs.contrasts[0].at_target


def test_a_log_with_one_trained_recipe_is_refused():
    table = pd.DataFrame(
        {
            "status": ["keep", "crash", "repeat"],
            "description": ["baseline", "depth 9", "baseline"],
            "val_loss": [3.0, 0.0, 3.01],
        }
    )
    with pytest.raises(DataError, match="a log needs a change that has a loss beside its base"):
        judged(table)


def test_the_command_reads_a_log(capsys, tmp_path):
    cells = tmp_path / "next.csv"
    page = tmp_path / "page.html"
    code = main(["compare", str(EXAMPLE), "--gate", "--next", str(cells), "-o", str(page)])
    out = capsys.readouterr().out.replace("\xa0", " ")
    assert code == 4
    assert out.startswith("Candidates: rotary base 50k (better here, one run)")
    assert "Nothing is known of larger sizes." in out
    assert f"wrote {cells}: 12 runs" in out
    with cells.open() as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == {"commit", "status", "description", "seed"}
    assert "rotary base 50k" in page.read_text()


def test_the_document_of_a_log_has_what_programs_need(capsys):
    assert main(["compare", str(EXAMPLE), "--gate", "--json"]) == 4
    answer = json.loads(capsys.readouterr().out)
    assert answer["kind"] == "extrap-experiments"
    assert answer["verdict"] == "undecided"
    assert answer["candidates"] == ["rotary base 50k", "squared relu"]
    assert answer["interval"][0] < answer["gain"] < answer["interval"][1]
    first = answer["next_runs"][0]
    assert {"size", "n_seeds", "cost", "why", "recipes"} <= set(first)


@pytest.mark.parametrize(("more", "code"), [(ROTARY, 0), ("", 4)])
def test_exit_codes_of_a_log(tmp_path, more, code, capsys):
    path = tmp_path / "night.csv"
    path.write_text(NIGHT + more)
    assert main(["compare", str(path), "--gate"]) == code


def test_options_without_an_effect_on_a_log_are_refused(capsys):
    assert main(["compare", str(EXAMPLE), "--price", "2"]) == 2
    assert "--price has no effect on" in capsys.readouterr().err
    assert main(["compare", str(EXAMPLE), "--at", "1024"]) == 2
    assert "no column of sizes" in capsys.readouterr().err


def test_an_unknown_status_is_asked_by_name(tmp_path, capsys):
    path = tmp_path / "night.csv"
    path.write_text(NIGHT.replace("discard,softcap", "maybe,softcap"))
    assert main(["compare", str(path)]) == 2
    assert "--status maybe=" in capsys.readouterr().err
    assert main(["compare", str(path), "--status", "maybe=discard"]) == 0


def test_a_diverged_run_does_not_hide_the_noise():
    diverged = ",1e9,discard,lr × 100\n,50,discard,lr × 50\n,,crash,lr × 1000\n"
    rows = "".join(NIGHT.splitlines(keepends=True)[i] for i in (0, 1, 2, 10))
    experiments = judged(pd.read_csv(io.StringIO(rows + diverged)))
    assert experiments.noise.value < 0.002
    assert outcomes(experiments)["rotary base 50k"] == "candidate"
    assert outcomes(experiments)["lr × 100"] == outcomes(experiments)["lr × 50"] == "worse"


def alike(n):
    """A night whose n repeats of the base ran with its seed."""
    table = night()
    table = table[table.description != "baseline again"]
    repeats = pd.DataFrame({"val_bpb": [1.002104] * n, "status": "repeat"})
    return pd.concat([table, repeats.assign(commit="", description="baseline")])


def test_repeats_that_are_alike_tell_no_noise():
    experiments = judged(alike(1))
    assert set(outcomes(experiments).values()) == {"not judged", "crashed"}
    assert (experiments.n_repeats, experiments.n_alike) == (0, 1)
    assert experiments.next_runs[0].why.startswith("to measure the noise, with other seeds;")
    assert "vary the seed" in str(experiments)


def test_a_loop_whose_reruns_are_all_alike_comes_to_an_end():
    experiments = judged(alike(3))
    assert experiments.next_runs == ()
    assert log_cells(read_experiment_log(alike(3)), experiments).columns.tolist() == [
        "commit",
        "status",
        "description",
        "seed",
    ]


@pytest.mark.parametrize("names", [{"status": "decision", "description": "title"}, {}])
def test_next_runs_are_rows_of_the_log_under_its_own_names(names):
    table = night().drop(columns="commit").rename(columns=names)
    cells = log_cells(read_experiment_log(table), judged(table))
    appended = pd.concat([table, cells.assign(val_bpb=0.996)])
    assert set(appended) == {*table, "seed"}
    assert len(judged(appended).changes) == len(judged(table).changes)


def test_a_change_tried_again_on_another_base_is_repeated_under_its_own_name():
    rows = ",0.993,keep,gelu\n,1.0,keep,rotary base 50k\n,0.99,keep,gelu instead of relu\n"
    table = night(rows).drop(columns="commit")
    cells = log_cells(read_experiment_log(table), judged(table))
    name = "gelu instead of relu (row 19)"
    assert name in set(cells.description)
    log = read_experiment_log(pd.concat([table, cells.assign(val_bpb=0.991)]))
    assert name in log.recipes
    assert len(log.recipes) == len(read_experiment_log(table).recipes)


def test_a_target_below_all_sizes_is_refused_at_once():
    with pytest.raises(ValueError, match="below the smallest size"):
        judge_experiments(read_experiment_log(night().assign(width=64), sizes=["width"]), at=32)


def test_an_accuracy_is_maximised_from_the_command_line(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("name,acc,status\nbaseline,.7,keep\nbaseline,.702,repeat\nx,.73,keep\n")
    assert main(["compare", str(path), "--maximise", "acc"]) == 0
    assert "Candidate: x" in capsys.readouterr().out


def test_the_gain_is_that_of_the_verdict():
    rng = np.random.default_rng(5)
    gains = {
        "baseline": {64: 0, 256: 0},
        "lr": {64: 0.02, 256: -0.02},
        "qk": {64: 0.01, 256: 0.01},
    }

    def run(name, width, status):
        loss = 3 * (width / 64) ** -0.1 * math.exp(0.0005 * rng.normal() - gains[name][width])
        return {"description": name, "width": width, "status": status, "val_loss": loss}

    first = [run(name, 64, "discard") for name in gains]
    more = [run(name, width, "repeat") for width in (64, 256) for name in gains for _ in range(4)]
    log = read_experiment_log(pd.DataFrame([first[0] | {"status": "keep"}, *first[1:], *more]))
    experiments = judge_experiments(log, at=256)
    assert [c.verdict for c in experiments.comparisons.values()] == ["hurts", "survives"]
    assert experiments.verdict == "survives"
    document = experiments.to_dict()
    assert document["gain"] == pytest.approx(0.01, abs=0.001)
    assert document["interval"] == experiments.comparisons["qk"].to_dict()["interval"]


def test_columns_of_the_standard_input_are_renamed_once(monkeypatch, capsys):
    text = NIGHT.replace("status", "fate", 1)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["compare", "-", "--rename", "fate=status"]) == 0
    assert "Candidates" in capsys.readouterr().out
