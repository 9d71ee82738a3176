"""The documentation is true: its code runs, its links lead somewhere, what it lists is there."""

import ast
import json
import math
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import extrap

from . import cli_reference, flag_reference, python_reference, source_reference
from .api_pages import FOLDER, PACKAGE, on_page_markdown, packages, public_names
from .pages import ROOT, Page, blocks_of, parse_command

PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
PAGES.remove("docs/tutorials/own_analysis.md")  # needs a copy: tests/test_own_analysis.py
SLOW = {
    "docs/questions.md",
    "docs/sharing.md",
    "docs/tutorials/coordinates.md",
    "docs/tutorials/csv.md",
    "docs/tutorials/gpu_sweep.md",
    "docs/tutorials/optuna.md",
    "docs/tutorials/own_trainer.md",
}
"""Pages that train, or take more than some seconds."""


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.fixture
def setups(request):
    """What pages are given where a program of the reader's own would stand."""

    def curve(octaves, share):
        """A sealed forecast with curves, and the log of a larger run to a share of its steps."""
        extrap.save_forecast(request.getfixturevalue("watched"), "forecast.json")
        losses = request.getfixturevalue("draw_curve")(4096, octaves, np.random.default_rng(0))
        steps = np.linspace(0, 20_000, len(losses) + 1)[1:]
        pairs = list(zip(steps, losses, strict=True))[: round(share * len(steps))]
        rows = [f"{step:g},{loss:.5g}" for step, loss in pairs]
        Path("train.csv").write_text("\n".join(["step,loss", *rows]) + "\n")
        return pairs

    def progress(names):
        """A training whose rate is three octaves too low."""
        pairs = curve(-3.0, 1)
        names.update(extrap=extrap, train=lambda: iter(pairs))

    def tuned(names):
        """A training at its best rate, at 74 % of its steps."""
        curve(0.0, 0.74)

    def accumulation(names):
        torch = pytest.importorskip("torch")
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1)
        names.update(
            extrap=extrap,
            model=model,
            data=[[torch.randn(32, 5) for _ in range(2)] for _ in range(300)],
            optimizer=torch.optim.SGD(model.parameters(), lr=1e-3),
            loss=lambda m, b: (m(b[:, :4]) - b[:, 4:]).square().mean(),
        )

    def predictions(names):
        rng = np.random.default_rng(0)
        sure = rng.uniform(size=2000)
        table = {
            "confidence_small": sure,
            "correct_small": (rng.uniform(size=2000) < 0.5 + 0.5 * sure).astype(int),
            "correct_large": (rng.uniform(size=2000) < 0.8).astype(int),
        }
        pd.DataFrame(table).to_csv("saved.csv", index=False)

    def embedding(names):
        np.save("embedding.npy", np.random.default_rng(0).normal(size=(200, 8)))

    def trainers(names):
        """The log of the example as Hugging Face's `Trainer` and as Lightning write it."""
        rows = pd.read_csv("examples/run_log.csv")
        for folder in ("out", "lightning"):
            Path(folder).mkdir()
        entries = rows.rename(columns={"lr": "learning_rate"}).to_dict("records")
        entries.insert(20, {"step": 2000, "eval_loss": 1.9})
        state = {"max_steps": 6000, "log_history": entries}
        Path("out/trainer_state.json").write_text(json.dumps(state))
        rates = rows[["step", "lr"]].rename(columns={"lr": "lr-AdamW"})
        losses = rows[["step", "loss"]].rename(columns={"loss": "train_loss"})
        table = pd.concat([rates, losses]).sort_values("step", kind="stable")
        table.to_csv("lightning/metrics.csv", index=False)

    return {
        "a training in progress": progress,
        "a tuned training in progress": tuned,
        "logs of trainers": trainers,
        "a training with gradient accumulation": accumulation,
        "predictions of two models": predictions,
        "an embedding": embedding,
    }


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[pytest.mark.slow] if p in SLOW else []) for p in PAGES]
)
def test_page_runs_as_it_is_written(page, tmp_path, monkeypatch, setups):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    Page(path=page, folder=tmp_path, setups=setups).run()
    for name in set(sys.modules) - known:  # a page's own files
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == tmp_path:
            del sys.modules[name]


@pytest.mark.parametrize(
    ("path", "page"),
    [
        (cli_reference.PATH, cli_reference.cli_page),
        (flag_reference.PATH, flag_reference.flags_page),
        (python_reference.PATH, python_reference.python_page),
        (source_reference.PATH, source_reference.source_page),
    ],
)
def test_page_made_from_the_code_is_up_to_date(path, page):
    assert path.read_text(encoding="utf-8") == page(), "run make docs"


@pytest.mark.slow
def test_site_is_built_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)"
    for page in tmp_path.rglob("*.html"):
        assert re.findall(loaded, page.read_text(encoding="utf-8")) == [], page
    index = json.loads((tmp_path / "search/search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"] for entry in index["docs"]}
    assert {"reference/python.html#extrap.forecast", "limits.html"} <= found
    for name in packages():
        shown = re.findall(
            rf"{FOLDER}/{name}\.html#{re.escape(name)}\.(\w+)$", "\n".join(found), re.M
        )
        listed = public_names(PACKAGE / name.removeprefix("extrap.") / "__init__.py")
        assert shown, name
        assert set(shown) <= set(listed), name


def test_api_page_has_every_public_name():
    text = text_of("docs/reference/python.md")
    page = SimpleNamespace(file=SimpleNamespace(src_uri="reference/python.md"))
    site = on_page_markdown(text, page, None, None)
    names = set(extrap.__all__) - {"__version__"}
    for listed, entry in ((text, r"^- `extrap\.(\w+)"), (site, r"^::: extrap\.(\w+)$")):
        assert sorted(re.findall(entry, listed, re.MULTILINE)) == sorted(names)
    assert "- `" not in site
    forecast = next(line for line in text.splitlines() if line.startswith("- `extrap.forecast("))
    assert 'level=0.95, band="default"' in forecast
    assert forecast.endswith(f") -> Forecast`: {extrap.forecast.__doc__.splitlines()[0]}")


def test_links_of_the_readme_lead_to_what_is_there():
    """Those of the site are checked as it is built."""
    links = re.findall(r"\]\(([^)\s#]+)[^)]*\)", re.sub(r"`[^`\n]*`", "", text_of("README.md")))
    assert len(links) > 5
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_defaults_are_those_of_the_code():
    section = text_of("docs/methods.md").split("## Defaults")[-1]
    rows = re.findall(r"^- `([\w.]+)`: (.*)$", section, flags=re.MULTILINE)
    stated = [(row[0], *pair) for row in rows for pair in re.findall(r"`(\w+)=(.*?)`", row[1])]
    assert len(stated) > 40
    for module, name, value in stated:
        assert getattr(import_module(module), name) == ast.literal_eval(value), f"{module}.{name}"


EXAMPLES = [p for p in sorted((ROOT / "examples").rglob("*")) if p.is_file()]


def test_every_table_and_program_of_the_examples_is_on_a_page():
    """Pages run them; a picture is shown."""
    said = "".join(map(text_of, PAGES))
    names = [str(p.relative_to(ROOT)) for p in EXAMPLES if p.suffix in (".csv", ".png", ".py")]
    assert [name for name in names if name not in said] == []


@pytest.mark.parametrize(
    "path", [p for p in EXAMPLES if p.suffix in (".sh", ".yaml", ".yml")], ids=lambda p: p.name
)
def test_files_of_schedulers_are_valid_and_their_commands_are_accepted(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".sh":
        subprocess.run(["sh", "-n", str(path)], check=True)
    else:
        pytest.importorskip("yaml").safe_load(text)
    said = re.findall(r"^(?: +(?:run: )?|exec )(extrap .*)", text.replace("\\\n", " "), re.M)
    for command in said:
        parse_command(re.split(r"\||>>", command)[0])


# The README


def test_last_comment_of_the_readme_has_the_numbers_of_the_forecast(monkeypatch):
    readme = text_of("README.md")
    (block,) = [block for block in blocks_of(readme) if block.language == "python"]
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(compile(block.text, "README.md", "exec"), names)
    comment = " ".join(re.findall(r"^# (.*)$", block.text, flags=re.MULTILINE))
    point, big = names["point"], names["big"]
    assert isinstance(point, extrap.Point)
    wanted = [point.recommended["lr"], point.loss, *point.loss_pi]
    said = re.search(r"lr ([\d.]+) .* loss of ([\d.]+) \(95 %: ([\d.]+) to ([\d.]+)\)", comment)
    assert said is not None
    assert [float(each) for each in said.groups()] == pytest.approx(wanted, rel=0.006)
    kept = float(re.findall(r"0\.\d+", comment)[-1])
    causes = [v.cause for v in extrap.check(names["forecast"], big) if v.tuned["lr"] == kept]
    assert causes == ["mistuned"] * 4


def test_measured_figures_are_those_of_the_shipped_runs():
    sweep = extrap.read_runs(ROOT / "examples/sweep.csv", size="width", tune="lr")
    big = extrap.read_runs(ROOT / "examples/big.csv", size="width", tune="lr", stage="check")
    made = extrap.forecast(sweep)
    verdicts = extrap.check(made, big)
    law = made.tuned_laws["lr"]
    claims = [f"{law.values[1]:.3f} ± {law.covariance[1][1] ** 0.5:.3f}"]
    for width in (512, 1024):
        lower, upper = made.at(width=width).loss_pi
        claims.append(f"± {100 * ((upper / lower) ** 0.5 - 1):.1f} % at {width}")
        rate = made.at(width=width).tuned["lr"].value
        here = [v for v in verdicts if v.size["width"] == width]
        least = min(abs(math.log(v.tuned["lr"] / rate)) for v in here)
        tuned = [v for v in here if abs(math.log(v.tuned["lr"] / rate)) <= least + 1e-9]
        assert [v.on_law and v.loss in v.predicted_pi for v in tuned] == [True, True]
        claims.append("{:.2f}, {:.2f} % at {}".format(*(100 * v.deviation for v in tuned), width))
        seen = sum(v.loss for v in tuned) / 2
        claims.append(f"{100 * (1 - seen / made.last_value()):.1f} % ")
    fixed = [v for v in verdicts if v.tuned["lr"] == 0.01151]
    assert [v.cause for v in fixed] == ["mistuned"] * 4
    claims += [f"+{100 * v.deviation:.1f}" for v in (fixed[0], fixed[-1])]
    measured = text_of("docs/measured.md")
    for claim in claims:
        assert re.sub(r"(?<!\d)0\.", ".", claim).replace("-", "−") in measured, claim
