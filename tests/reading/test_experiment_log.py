"""Logs of experiments: decisions, repeats, bases, failed runs, and what is refused."""

import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest

from extrap import read_runs
from extrap.cli import main
from extrap.errors import DataError
from extrap.reading.decisions import MEANING_OF_WORD, plain_status
from extrap.reading.experiment_log import is_experiment_log, read_experiment_log
from extrap.reading.repeated_recipes import plain_description
from extrap.reading.table_files import read_table

ROOT = Path(__file__).parents[2]
NIGHT = """commit\tval_bpb\tmemory_gb\tstatus\tdescription
d9cf7a0\t1.002104\t45.9\tkeep\tbaseline
78e8b5b\t1.001547\t45.6\tdiscard\tbaseline again
359d61d\t1.000839\t44.1\tdiscard\tgelu instead of relu²
01d6a94\t0.000000\t0.0\tcrash\tdepth 9
d119cf3\t0.996011\t45.9\tkeep\trotary base 50k
0b6451b\t0.997492\t45.8\tdiscard\twd .1 on embeddings
6ae2e12\t0.000000\t0.0\tcrash\tuntie head
f65bcc2\t0.993853\t45.9\tkeep\tinit scale .8
660a2f4\t0.993427\t45.5\tdiscard\tcosine warmdown
cdc9b50\t1.001463\t45.9\tdiscard\tbaseline again
"""


def read(text, name="log.csv", folder=None, **options):
    """The log that a text is, as a frame of text cells."""
    delimiter = "\t" if "\t" in text else ","
    rows = list(csv.DictReader(io.StringIO(text), delimiter=delimiter))
    return read_experiment_log(rows, **options)


def recipes_of(text, **options):
    """The recipe of each row."""
    return [experiment.recipe for experiment in read(text, **options).experiments]


def log_of(rows, header="description,val_loss,status"):
    return "\n".join([header, *rows, ""])


def test_a_kept_change_is_the_base_of_what_follows_and_a_repeat_keeps_its_own():
    log = read(NIGHT)
    assert [e.recipe for e in log.experiments] == [0, 0, 1, 2, 3, 4, 5, 6, 7, 0]
    assert log.bases == (-1, 0, 0, 0, 3, 3, 3, 6)
    assert [e.base for e in log.experiments] == [-1, -1, 0, 0, 0, 3, 3, 3, 6, -1]
    assert log.recipes[0] == "baseline"
    assert log.recipes[3] == "rotary base 50k"
    assert log.metric == "val_bpb"
    assert read(NIGHT.replace("init scale .8", "scale 1.0")).recipes[6] == "scale 1.0"


def test_a_crash_has_no_loss_and_rows_keep_their_number():
    log = read(NIGHT)
    assert [e.row for e in log.experiments] == [*range(1, 11)]
    assert [e.row for e in log.experiments if e.loss is None] == [4, 7]
    assert {e.decision for e in log.experiments} == {"keep", "discard", "crash"}
    assert log.experiments[4].commit == "d119cf3"


def test_tabs_commas_and_json_lines_say_the_same(tmp_path):
    rows = list(csv.DictReader(io.StringIO(NIGHT), delimiter="\t"))
    (tmp_path / "log.tsv").write_text(NIGHT)
    with (tmp_path / "log.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    numbers = [{**row, "val_bpb": float(row["val_bpb"])} for row in rows]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, numbers)))
    logs = [read_experiment_log(tmp_path / f"log.{end}") for end in ("tsv", "csv", "jsonl")]
    assert logs[0].experiments == logs[1].experiments == logs[2].experiments
    assert len({log.data_hash() for log in logs}) == 1
    assert logs[0].data_hash() != read(NIGHT.replace("0.996011", "0.996012")).data_hash()


@pytest.mark.parametrize(
    ("word", "decision"),
    [
        ("KEEP", "keep"),
        ("accepted", "keep"),
        ("New best!", "keep"),
        ("✅ merged", "keep"),
        ("✓", "keep"),
        ("true", "keep"),
        ("no gain (+.001)", "discard"),
        ("reverted", "discard"),
        ("✗", "discard"),
        ("No", "discard"),
        ("worse - by far", "discard"),
        ("OOM", "crash"),
        ("diverged", "crash"),
        ("crash: CUDA", "crash"),
        ("timed out", "crash"),
        ("re-run", "repeat"),
        ("confirmation", "repeat"),
        ("control", "repeat"),
    ],
)
def test_a_status_is_known_by_its_meaning(word, decision):
    assert MEANING_OF_WORD[plain_status(word)] == decision


@pytest.mark.parametrize("marks", [("True", "False"), ("1", "0"), ("yes", "no"), (True, False)])
def test_a_column_of_booleans_says_what_was_kept(marks):
    rows = [
        {"experiment": name, "val_loss": loss, "kept": marks[not is_kept]}
        for name, loss, is_kept in (("base", 3.3, True), ("a", 3.2, True), ("b", 3.25, False))
    ]
    log = read_experiment_log(rows)
    assert [e.decision for e in log.experiments] == ["keep", "keep", "discard"]
    assert log.bases == (-1, 0, 1)


def test_tags_may_hold_other_words_and_a_state_may_say_that_a_run_crashed():
    header = "Name,State,Tags,val_loss"
    rows = ['a,finished,"keep, night",3.3', 'b,crashed,"night",', 'c,finished,"x, discard",3.4']
    log = read(log_of(rows, header))
    assert [e.decision for e in log.experiments] == ["keep", "crash", "discard"]


def test_unknown_statuses_are_asked_once_and_all_of_them():
    text = log_of(["baseline,3.3,keep", "a,3.2,maybe", "b,3.4,tbd", "c,3.4,maybe"])
    with pytest.raises(DataError) as caught:
        read(text)
    (choice,) = caught.value.choices
    assert choice.arguments == {"statuses": {"maybe": "discard", "tbd": "discard"}}
    log = read(text, statuses={"maybe": "discard", "TBD": "crash"})
    assert [e.decision for e in log.experiments] == ["keep", "discard", "crash", "discard"]
    with pytest.raises(ValueError, match="keep, discard"):
        read(text, statuses={"maybe": "perhaps"})


@pytest.mark.parametrize(
    ("description", "key"),
    [
        ("Rerun of rotary base 50k (seed 3)", "rotary base 50k"),
        ("rotary base 50k, second run", "rotary base 50k"),
        ("repeat: rotary base 50k", "rotary base 50k"),
        ("rotary base 50k - confirmation", "rotary base 50k"),
        ("rotary base 50k with a new seed", "rotary base 50k"),
        ("re-run 2", ""),
        ("again", ""),
        ("second layer norm", "second layer norm"),
        ("heads (8)", "heads #8"),
        ("check", ""),
    ],
)
def test_words_of_a_repeat_are_left_out_of_a_description(description, key):
    assert plain_description(description) == key


def test_words_for_the_baseline_mean_the_first_recipe_and_bare_repeats_the_current_base():
    rows = ["d12 model,3.3,keep", "qk norm,3.2,keep", "control,3.31,discard", "again,3.21,discard"]
    rows += ["baseline_2,3.3,discard", "current best,3.2,discard", "seed 4,3.2,discard"]
    assert recipes_of(log_of(rows)) == [0, 1, 0, 1, 0, 1, 1]


def test_a_description_may_say_which_commit_it_repeats():
    header = "commit,description,val_loss,status"
    rows = ["abc1,baseline,3.3,keep", "abc2,a,3.2,discard", "abc3,b,3.1,keep"]
    assert recipes_of(log_of([*rows, "abc4,rerun of abc2,3.2,discard"], header)) == [0, 1, 2, 1]


def test_a_discarded_change_is_tried_anew_on_a_later_base():
    rows = ["baseline,3.3,keep", "lr x2,3.31,discard", "lr x2 again,3.32,discard"]
    rows += ["qk norm,3.2,keep", "lr x2,3.1,discard", "lr x2,3.11,discard"]
    log = read(log_of(rows))
    assert [e.recipe for e in log.experiments] == [0, 1, 1, 2, 3, 3]
    assert log.bases == (-1, 0, 0, 2)
    assert log.recipes[3] == "lr x2 (row 5)"
    assert recipes_of(log_of([*rows[:4], "lr x2 again,3.1,discard"])) == [0, 1, 1, 2, 3]


def test_a_repeat_of_a_former_base_is_one_whatever_the_base_is_now():
    rows = ["baseline,3.3,keep", "qk norm,3.2,keep", "muon,3.1,keep", "qk norm,3.2,discard"]
    assert recipes_of(log_of(rows)) == [0, 1, 2, 1]


def test_a_marked_repeat_finds_any_earlier_recipe_and_is_asked_of_without_one():
    rows = ["baseline,3.3,keep", "lr x2,3.31,discard", "qk norm,3.2,keep", "lr x2,3.3,repeat"]
    assert recipes_of(log_of(rows)) == [0, 1, 2, 1]
    with pytest.raises(DataError, match="'warmup'") as caught:
        read(log_of([*rows, "warmup,3.3,rerun"]))
    (choice,) = caught.value.choices
    assert choice.arguments == {"statuses": {"rerun": "discard"}}
    assert read(log_of([*rows, "warmup,3.3,rerun"]), **choice.arguments)


def test_a_kept_repeat_makes_a_base_of_a_recipe_that_is_none():
    rows = ["baseline,3.3,keep", "lr x2,3.29,discard", "lr x2 again,3.2,keep", "wd,3.2,discard"]
    log = read(log_of(rows))
    assert log.bases == (-1, 0, 1)
    rows = ["baseline,3.3,keep", "qk norm,3.2,keep", "baseline again,3.3,keep", "wd,3.2,discard"]
    assert read(log_of(rows)).bases == (-1, 0, 1)


def test_numbered_runs_repeat_the_unnumbered_or_the_first_alone():
    rows = ["baseline,3.3,keep", "relu2 #1,3.2,discard", "relu2 #2,3.21,discard"]
    rows += ["heads (4),3.3,discard", "heads (8),3.4,discard"]
    assert recipes_of(log_of(rows)) == [0, 1, 1, 2, 3]


def test_one_commit_is_one_recipe_unless_changes_share_the_commit_of_their_base():
    header = "commit,description,val_loss,status"
    rows = ["a1,baseline,3.3,keep", "b2,relu2,3.2,discard", "b2,,3.21,discard"]
    assert recipes_of(log_of(rows, header)) == [0, 1, 1]
    rows = ["a1,baseline,3.3,keep", "a1,relu2,3.2,discard", "a1,swiglu,3.2,discard", "b,x,3,keep"]
    assert recipes_of(log_of(rows, header)) == [0, 1, 2, 3]


def test_rows_without_a_description_are_told_apart_by_their_commits():
    rows = ["a1,3.3,keep", "b2,3.2,keep", "c3,3.2,discard", "b2,3.21,rerun"]
    log = read(log_of(rows, "commit,val_loss,status"))
    assert [e.recipe for e in log.experiments] == [0, 1, 2, 1]
    assert log.recipes == ("a1", "b2", "c3")
    assert recipes_of(log_of(["3.3,keep", "3.2,keep"], "val_loss,status")) == [0, 1]


def test_columns_name_the_base_the_repeated_run_or_the_recipe():
    header = "id,parent,description,val_loss,status"
    rows = ["1,,baseline,3.3,keep", "2,1,a,3.2,keep", "3,1,b,3.3,discard", "4,2,b,3.1,discard"]
    assert read(log_of(rows, header)).bases == (-1, 0, 0, 1)
    header = "sha,parent_sha,description,val_loss,status"
    rows = ["1a,0f,start,3.3,keep", "2a,1a,a,3.2,keep", "3a,0f,b,3.3,discard"]
    assert read(log_of(rows, header)).bases == (-1, 0, 0)
    header = "commit,repeat_of,description,val_loss,status"
    rows = ["abcdef1,,x,3.3,keep", "abcdef2,,a,3.2,discard", "c,abcdef2345,more of it,3.2,discard"]
    assert recipes_of(log_of(rows, header)) == [0, 1, 1]
    header = "recipe,description,val_loss,status"
    rows = ["p,one,3.3,keep", "q,two,3.2,discard", "q,three,3.2,discard", "p,four,3.3,discard"]
    assert recipes_of(log_of(rows, header)) == [0, 1, 1, 0]
    with pytest.raises(DataError, match="'9'"):
        read(log_of(["1,,x,3.3,keep", "2,9,y,3.3,keep"], "id,parent,description,val_loss,status"))


def test_the_first_run_with_a_loss_is_the_first_recipe():
    log = read(log_of(["depth 9,0,crash", "d12,3.3,discard", "a,3.2,keep"]))
    assert [(e.recipe, e.base) for e in log.experiments] == [(1, 0), (0, -1), (2, 0)]


@pytest.mark.parametrize("cell", ["0", "0.000", "", "nan", "inf", "OOM", "-"])
def test_a_metric_of_zero_or_none_is_a_failed_run_and_makes_no_base(cell):
    log = read(log_of(["baseline,3.3,keep", f"a,{cell},keep", "b,3.2,discard"]))
    assert [e.loss for e in log.experiments] == [3.3, None, 3.2]
    assert log.bases == (-1, 0, 0)
    assert any("row 2" in note for note in log.notes)


def test_a_crash_with_a_loss_and_a_loss_that_is_not_finite_are_failed_runs():
    log = read(log_of(["baseline,3.3,keep", "a,3.1,crash", "b,3.2,discard"]))
    assert [e.loss for e in log.experiments] == [3.3, None, 3.2]
    losses = (3.3, float("inf"), float("nan"))
    rows = [{"change": str(x), "loss": x, "kept": x < 5} for x in losses]
    assert [e.loss for e in read_experiment_log(rows).experiments] == [3.3, None, None]


def test_a_size_is_one_in_which_runs_of_a_recipe_differ():
    header = "name,params,tokens,val_loss,decision"
    rows = ["base,1e7,2e8,3.9,keep", "base,4e7,8e8,3.5,keep", "a,1e7,2e8,3.8,discard"]
    assert [dict(e.size) for e in read(log_of(rows, header)).experiments] == [
        {"params": 1e7},
        {"params": 4e7},
        {"params": 1e7},
    ]
    rows = ["base,1e7,2.00e8,3.9,keep", "base,1e7,2.05e8,3.9,keep", "wider,4e7,1e8,3.8,discard"]
    assert not any(e.size for e in read(log_of(rows, header)).experiments)
    named = read(log_of(rows, header), sizes=["params"])
    assert [e.size["params"] for e in named.experiments] == [1e7, 1e7, 4e7]


@pytest.mark.parametrize("column", ["timestamp", "#"])
def test_a_log_that_begins_with_the_newest_row_is_turned(column):
    order = {"timestamp": ["2026-03-04T12:00", "2026-03-04T11:00", "2026-03-04T10:00"]}
    marks = order.get(column, ["3", "2", "1"])
    rows = [
        f"{m},{r}"
        for m, r in zip(marks, ["b,3.2,discard", "a,3.1,keep", "x,3.3,keep"], strict=True)
    ]
    log = read(log_of(rows, f"{column},description,val_loss,status"))
    assert [(e.row, e.base) for e in log.experiments] == [(3, -1), (2, 0), (1, 1)]
    assert any(column in note for note in log.notes)


def test_a_copied_row_counts_once():
    log = read(NIGHT + NIGHT.splitlines()[2] + "\n")
    assert len(log.experiments) == 10
    assert len(read(log_of(["baseline,3.3,keep"] * 3)).experiments) == 3


def test_rows_are_selected_before_anything_else():
    header = "dataset,description,val_loss,status"
    rows = ["a,baseline,3.3,keep", "b,x,2.3,odd", "a,y,3.2,keep"]
    log = read(log_of(rows, header), where={"dataset": "a"})
    assert [e.row for e in log.experiments] == [1, 3]


def test_a_metric_to_maximise_is_a_loss():
    text = log_of(["baseline,.71,keep", "a,.7,discard"], "description,val_acc,status")
    with pytest.raises(DataError) as caught:
        read(text)
    (choice,) = caught.value.choices
    log = read(text, **choice.arguments)
    assert [e.loss for e in log.experiments] == pytest.approx([0.29, 0.3])


def test_an_accuracy_in_percent_becomes_a_loss_by_the_formula_that_is_proposed():
    text = log_of(["baseline,71,keep", "a,70,discard"], "description,accuracy,status")
    with pytest.raises(DataError, match="let="):
        read(text, maximise="accuracy")
    log = read(text, maximise="accuracy", let=["error = 1 - accuracy / 100"], loss="error")
    assert [e.loss for e in log.experiments] == pytest.approx([0.29, 0.3])


def test_a_log_of_crashes_alone_is_a_log():
    table = pd.read_csv(io.StringIO(log_of(["a,,crash", "b,,oom"])))
    assert is_experiment_log(table)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (log_of(["a,3.3,keep"]), "two experiments"),
        (log_of(["a,0,crash", "b,,oom"]), "all 2"),
        (log_of(["a,3.3,keep", "b,-3.3,discard"]), "positive"),
        (log_of(["a,3.30,keep", "b,3.31,keep", "c,2.29,keep", "d,2.31,keep"]), "bits and nats"),
        (log_of(["a,.51,keep", "b,.52,keep", "c,51,keep", "d,51.5,keep"]), "percent"),
        (log_of(["a,3.0,keep", "b,3.01,keep", "c,20.1,keep", "d,20.2,keep"]), "perplexity"),
        ("description,val_loss,val_bpb,status\na,3,,keep\nb,,1,keep\n", "other rows"),
        ("description,val_loss,val_bpb,status\na,3,1,keep\nb,3,1,keep\n", "could be the loss"),
        ("description,val_loss,val_data,status\na,3,x,keep\nb,3,y,keep\n", "val_data"),
        ("description,val_loss,tokenizer,status\na,3,x,keep\nb,3,y,keep\n", "tokenizer"),
        (log_of(["a,3.3", "b,3.2"], "description,val_loss"), "which changes were kept"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(text, part):
    with pytest.raises(DataError, match=part) as caught:
        read(text)
    assert "\n" not in str(caught.value)


def test_one_diverged_run_and_two_sizes_are_no_second_unit():
    assert read(log_of(["a,3.3,keep", "b,3.31,keep", "c,4.76,discard"]))
    header = "description,params,val_loss,status"
    rows = ["a,1e7,3.3,keep", "a,1e8,2.29,keep", "b,1e7,3.3,keep", "b,1e8,2.29,keep"]
    assert read(log_of(rows, header))


def test_bits_per_byte_are_the_same_for_all_tokenizers():
    text = "description,val_bpb,vocab,status\na,1,8k,keep\nb,1.1,16k,discard\n"
    assert len(read(text).experiments) == 2


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.tsv"):
        read_experiment_log(tmp_path / "nothing.tsv")


def test_sweeps_are_no_logs():
    tables = [*ROOT.glob("examples/*.csv"), *ROOT.glob("studies/*.csv")]
    assert tables
    assert not [path.name for path in tables if is_experiment_log(read_table(path))]
    states = [{"params_lr": 0.1, "value": 2.0, "state": s} for s in ("COMPLETE", "PRUNED", "FAIL")]
    assert not is_experiment_log(read_table(states))
    unknown = [{"description": "a", "val_loss": 2.0, "status": s} for s in ("shipped", "meh")]
    assert is_experiment_log(read_table(unknown))
    assert not is_experiment_log(
        read_table([{k: r[k] for k in ("val_loss", "status")} for r in unknown])
    )


@pytest.mark.parametrize("command", [["forecast"], []])
def test_a_log_read_as_a_sweep_is_sent_to_compare(command, tmp_path, capsys):
    path = tmp_path / "night.tsv"
    path.write_text(NIGHT)
    assert main([*command, str(path)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert f"extrap compare {path}" in lines[0]
    with pytest.raises(DataError, match="extrap compare"):
        read_runs(path)


def test_quotation_marks_between_tabs_are_text(tmp_path):
    path = tmp_path / "log.tsv"
    lines = ["val_bpb\tstatus\tdescription", "1.0\tkeep\tbaseline", '1.1\tdiscard\t"relu2" 3"']
    path.write_text("\n".join([*lines, '1.1\tdiscard\t"open', '1.2\tdiscard\t"and open']) + "\n")
    names = [e.name for e in read_experiment_log(path).experiments]
    assert names == ["baseline", '"relu2" 3"', '"open', '"and open']


def test_a_column_of_mostly_unknown_words_holds_no_decisions():
    words = ["1.5", "x", "true", "complete", "2"]
    table = pd.DataFrame({"status": words, "width": range(5), "loss": [3.0, 2.9, 2.8, 2.7, 2.6]})
    assert not is_experiment_log(table)
    assert is_experiment_log(table.assign(status=["keep", "discard", "x", "complete", "keep"]))
