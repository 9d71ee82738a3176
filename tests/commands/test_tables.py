"""`cascade`, `critical-batch`, `compare` and `select`: what they read, say and refuse."""

import json
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest

from benchmarks.sweeps import simulate
from extrap.analyses.selection import select
from extrap.commands.option_table import parse_size

NS = (1e7, 4e7, 2e8, 1e9)
POINTS = np.random.default_rng(0).standard_normal((40, 5))


def outputs(n=400):
    """What two models answered, as a table in CSV."""
    rng = np.random.default_rng(0)
    lines = ["confidence_small,correct_small,correct_large"]
    for chance in rng.uniform(0.5, 1, n):
        lines.append(f"{chance:.6f},{int(rng.random() < chance)},{int(rng.random() < 0.9)}")
    return "\n".join(lines) + "\n"


def recipe(scale, luck):
    """Runs of a recipe whose loss is 1.5 + scale × width^-0.4."""
    axes = {"width": (16, 32, 64, 128, 256, 512), "seed": range(3)}
    table = simulate(lambda width, seed: 1.5 + scale * width**-0.4, noise=0.002, rng=luck, **axes)
    return table.assign(flops=table["width"] ** 2)


def test_allocate_reads_columns_of_any_name(called):
    rows = [(n, d, 1.7 + 400 / n**0.34 + 400 / d**0.34) for n in NS for d in (1e9, 5e9, 3e10)]
    table = pd.DataFrame(rows, columns=["n", "d", "loss"])
    text = table.assign(work=12 * table["n"] * table["d"]).to_csv(index=False)
    words = ("allocate", "-", "--params", "n", "--tokens", "d", "--flops", "1e21", "--json")
    for extra, k in (((), 6), (("--compute", "work"), 12)):
        out = called(*words, *extra, stdin=text)[1]
        found = [json.loads(out)[name]["value"] for name in ("params", "tokens")]
        assert found == pytest.approx([(1e21 / k) ** 0.5] * 2, rel=1e-2)  # N = D = √(C / k)


def test_cascade_reads_the_standard_input_rules_and_losses(called):
    code, out, _ = called("cascade", "-", "--cost-large", "5", "--json", stdin=outputs())
    assert (code, json.loads(out)["n_judged"]) == (0, 200)
    header, *rows = outputs().splitlines()
    marked = [f"{row},{int(i % 4 == 0)},0" for i, row in enumerate(rows)]
    text = "\n".join([f"{header},filtered,correct_filter", *marked]) + "\n"
    losses = text.replace("correct_", "loss_")
    code, out, _ = called("cascade", "-", "--cost-large", "20", stdin=losses)
    assert (code, "The rule answers " in out, "  mean loss  " in out) == (0, True, True)
    words = ("cascade", "-", "--cost-large", "20", "--quality", "0.999")
    assert "Let the large model answer all" in called(*words, stdin=outputs())[1]


def test_critical_batch_reads_other_columns_and_says_its_doubts(called):
    steps = [f"{b},{500 * (1 + 200 / b):.6g}" for b in 2 ** np.arange(4, 13)]
    words = ("critical-batch", "-", "--batch", "bs", "--steps", "n", "--json")
    code, out, _ = called(*words, stdin="\n".join(["bs,n", *steps]))
    document = json.loads(out)
    assert (code, document["laws"], document["groups"][0]["by"]) == (0, {}, {})
    assert document["groups"][0]["b_crit"] == pytest.approx(200, rel=1e-3)
    text = "batch_size,steps,budget\n8,1000,2000\n16,500,2000\n32,251,2000\n64,,100\n"
    code, out, _ = called("critical-batch", "-", stdin=text)
    assert code == 0
    assert all(words in out for words in ("at least", "[perfect-only]", "[censored]"))


def test_fixed_values_of_a_table_are_ranked_and_written_to_a_page(called):
    table = Path(__file__).parents[1] / "contract" / "tables" / "knobs.csv"
    words = "--size width --at 2048 --knob steady --knob moving=0.1 --knob idle -o deep/k.html"
    code, out, err = called("knobs", str(table), *words.split(), "--json")
    assert (code, err.split()) == (0, ["wrote", "deep/k.html"])
    numbers, page = json.loads(out), Path("deep/k.html").read_text(encoding="utf-8")
    names = {setting["name"] for setting in numbers["settings"]}
    assert names == {"steady", "moving", "idle"}
    assert all(f">{name}</th>" in page for name in names)
    notes = [numbers["notes"], called("knobs", str(table), *words.split()[:-2])[1]]
    assert "replicates" not in str(notes)  # runs of one size and seed differ in a value
    code, _, err = called("knobs", "mine.py", "--size", "width", "--knob", "depth")
    assert (code, "moves" in err, "COMPARISON" in err, err.count("\n")) == (2, True, True, 1)


def test_critical_batch_offers_the_commands_that_settle_a_mixture(called):
    rows = [
        f"{b},{500 * (1 + 200 / b):.6g},{'ab'[i % 2]}" for i, b in enumerate(2 ** np.arange(9))
    ]
    text = "\n".join(["batch_size,steps,optimizer", *rows])
    code, _, err = called("critical-batch", "-", stdin=text)
    assert code == 2
    for option in ("--by optimizer", "--where optimizer=a", "--ignore optimizer"):
        assert option in err
        assert called("critical-batch", "-", *option.split(), stdin=text)[0] == 0


def test_a_knob_that_is_no_column_or_was_not_named_is_offered(called):
    rows = [(w, k, seed, 2 + 1 / w + k / 1e5) for w in (8, 16) for k in (50, 100) for seed in "01"]
    table = pd.DataFrame(rows, columns=["width", "warmup", "seed", "loss"]).assign(beta2=0.9)
    text = table.to_csv(index=False)
    words = ("knobs", "-", "--size", "width", "--knob")
    code, _, err = called(*words, "nope", stdin=text)
    assert (code, "'nope'" in err, "mixes" in err) == (2, True, False)
    code, _, err = called(*words, "beta2", stdin=text)
    assert (code, "--knob warmup" in err, "tune" in err) == (2, True, False)


def test_a_backtest_is_made_without_the_prior_where_that_is_asked(called):
    rows = [f"{1e18 * 4**i:g},{1.7 + 1.6 * 4 ** (-0.17 * i) + 0.01 * (-1) ** i}" for i in range(8)]
    table, widths = "compute,loss\n" + "\n".join(rows), []
    for options in ((), ("--prior", "none")):
        code, out, _ = called("backtest", "-", *options, "--json", stdin=table)
        assert code == 0
        last = json.loads(out)["holdouts"][-1]
        widths.append(last["predicted_pi"][1] - last["predicted_pi"][0])
    assert widths[0] < 0.9 * widths[1]


def test_compare_refuses_what_is_not_named_and_speaks_of_single_seeds(called):
    both = pd.concat([recipe(5.0, 1).assign(arm="moe"), recipe(6.0, 0).assign(arm="dense")])
    both.iloc[3, both.columns.get_loc("arm")] = None
    text = both.to_csv(index=False)
    assert "row(s) 4 of" in called("compare", "-", "--size", "width", "--by", "arm", stdin=text)[2]
    for name, luck in (("dense", 0), ("moe", 1)):
        frame = recipe(6.0 - luck, luck)
        rates = ((0.1, 1), (0.2, 1.1))
        tried = pd.concat([frame.assign(lr=x, loss=frame["loss"] * by) for x, by in rates])
        tried.to_csv(f"{name}.csv", index=False)
        alone = frame[frame["seed"] == 0].assign(wall_s=60.0)
        alone.to_csv(f"{name}1.csv", index=False)
    code, _, err = called("compare", "dense.csv", "moe.csv", "--size", "width")
    assert (code, "mixes several (lr" in err, "--tune lr" in err) == (2, True, True)
    assert called("compare", "dense.csv", "moe.csv", "--size", "width", "--tune", "lr")[0] == 0
    code, out, _ = called("compare", "dense1.csv", "moe1.csv", "--size", "width", "--details")
    assert (code, "add a second seed at every size" in out) == (0, True)
    assert ("wall-clock" in out, "GPU-hours" in out) == (True, False)


def test_select_reads_arrays_and_writes_difficulties(called):
    np.save("points.npy", POINTS)
    code, out, err = called("select", "points.npy", "--keep", "0.2")
    assert (code, err) == (0, "")
    assert [int(line) for line in out.split()] == select(POINTS, keep=8).rows.tolist()
    frame = pd.DataFrame(POINTS, columns=list("abcde")).assign(digit=np.arange(40) % 4)
    frame.to_csv("points.csv", index=False)
    words = ("--keep", "8", "--label", "digit", "--which", "easy", "-o", "rows.csv")
    code, out, _ = called("select", "points.csv", *words)
    assert (code, out[:18]) == (0, "kept 8 of 40 (easy")
    table = pd.read_csv("rows.csv")
    expected = select(POINTS, keep=8, which="easy", labels=np.arange(40) % 4)
    assert table["row"].tolist() == list(range(40))
    assert np.flatnonzero(table["kept"]).tolist() == expected.rows.tolist()
    np.testing.assert_allclose(table["difficulty"], expected.difficulty)


STEPS = "params,batch_size,steps\n" + "".join(f"1,{b},{500 + 9999 / b}\n" for b in (8, 32, 99))
BLANK = "a,b,c\n1,x,2\n3,,2\n2,y,1\n"
COST, LIMIT = "cascade - --cost-large 20", "critical-batch -"
SIZES = "n,d,loss\n" + "".join(f"{n:g},{d:g},2\n" for n, d in zip(NS, NS[::-1], strict=True))
TWO, KEEP = "compare a.csv b.csv --size", "select"


@pytest.mark.parametrize(
    ("words", "text", "message"),
    [
        (f"{COST} --cost-small 0", outputs(), "--cost-small"),
        (f"{COST} --quality 90", outputs(), "write 0.9 for 90 %"),
        (f"{COST} --validation 5", outputs(), "--validation"),
        ("allocate - --flops 1e21", SIZES, "--params"),
        ("allocate - --flops 1e21 --params n --tokens d --compute work", SIZES, "--compute"),
        (COST, outputs(10), "got 10"),
        (COST, "width,loss\n8,2.5\n", "'confidence_small'"),
        (f"{LIMIT} --batch bs", STEPS, "no column 'bs'"),
        (f"{LIMIT} --at 3", STEPS, "name one: --by params"),
        (f"{LIMIT} --from -1", STEPS, "--from must"),
        (f"{LIMIT} --at 9 --by params", STEPS, "no law over groups"),
        ("critical-batch -", "batch_size,steps\n64,100\n64,101\n64,99\n", "two batch sizes"),
        ("critical-batch -", "batch_size,steps,budget\n8,,10\n16,,10\n32,,10\n", "got 0 at 0"),
        ("critical-batch -", "batch_size,steps\n8,many\n", "steps must"),
        (f"{TWO} width --names a", "", "name of its own"),
        (f"{TWO} width --names a,a", "", "name of its own, got a, a"),
        (f"{TWO} width --plain moe", "", "one of the recipes"),
        (f"{TWO} width --by recipe", "", "splits a single table"),
        (f"{TWO} width --at many", "", "takes a number"),
        (f"{KEEP} points.npy --keep 2.5", "", "fraction in (0, 1]"),
        (f"{KEEP} same.npy --keep 1 --label digit", "", "no column 'digit'"),
        (f"{KEEP} table.csv --keep 1 --label class", BLANK, "no column 'class'"),
        (f"{KEEP} same.npy --keep 0.2", "", "in all 300 rows"),
        (f"{KEEP} huge.npy --keep 0.2", "", "got 1e+300"),
        (f"{KEEP} same.npy --keep 0.2 --seed -1", "", "seed must be"),
        (f"{KEEP} table.csv --keep 2 --label b", BLANK, "none in row 2"),
        (f"{KEEP} absent.npy --keep 1", "", "there is no file"),
        (f"{KEEP} table.csv --keep 1", "a,b\n1,2\n3,x\n", "b must hold numbers, got 'x' in row 2"),
        (f"{KEEP} pickle.npy --keep 1", "", "no readable .npy"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(called, words, text, message):
    for name in ("a", "b"):
        recipe(6.0, 0).to_csv(f"{name}.csv", index=False)
    Path("table.csv").write_text(text)
    np.save("points.npy", POINTS)
    np.save("same.npy", np.ones((300, 5)))
    np.save("huge.npy", np.array([[1e300, 2.0], [3.0, 1e300], [1.0, 1.0]]))
    np.save("pickle.npy", np.array([{}]), allow_pickle=True)
    code, out, err = called(*words.split(" "), stdin=text)
    first, *proposed = [line for line in err.splitlines() if not line.startswith("Using ")]
    assert (code, out) == (2, "")
    assert message in first
    assert all(line.startswith("  extrap ") for line in proposed)


@pytest.mark.parametrize(
    ("text", "size"),
    [("8X", 1024), ("1k", 1000), ("1.5M", 1.5e6), ("2B", 2e9), ("1e3", 1000), ("width=2K", 2000)],
)
def test_sizes_are_read_as_they_are_printed(text, size):
    assert parse_size(text, ["width"], largest={"width": 128.0}) == {"width": size}


def test_a_multiple_is_of_a_size_column():
    with pytest.raises(click.UsageError, match="multiple of the largest width, got '2x' for tok"):
        parse_size("width=8x,tokens=2x", ["width"], largest={"width": 128.0})
