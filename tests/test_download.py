"""`make data`: published tables from repositories and mirrors, over a server on this machine."""

import errno
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import conversions, download, rows, transfer
from tests.pages import ROOT

HOST, SOURCES = download.load_sources()
CHINCHILLA = "chinchilla_epoch.csv"
RAW_CHINCHILLA = b"""x,y,color,Model Size,Training FLOP,hex_color,loss
1.5,2.5,#faebdd,1e6,6e13,#faebdd,5.0
1.5,2.5,#faebdd,1e6,1.2e14,#faebdd,4.0
1.5,2.5,#faebdd,2e6,,#faebdd,3.5
1.5,2.5,#faebdd,2e6,2.4e14,#faebdd,3.0
"""
OF_CHINCHILLA = b"""task,params,tokens,flops,loss,epoch_outlier
chinchilla_fig4,1000000.0,10000000.0,60000000000000.0,5.0,1
chinchilla_fig4,1000000.0,20000000.0,120000000000000.0,4.0,1
chinchilla_fig4,2000000.0,20000000.0,240000000000000.0,3.0,1
"""
LARGE = b"a,b\n" + b"1,2\n" * 50_000
"""Comes in several parts."""


@dataclass
class Site:
    """What a server has and what it was asked for; all addresses without the leading slash."""

    files: dict = field(default_factory=dict)
    statuses: dict = field(default_factory=dict)
    """Address → status codes of its next answers."""
    cuts: dict = field(default_factory=dict)
    """Address → after how many bytes its next answers end."""
    moved: dict = field(default_factory=dict)
    """Address → where it is now."""
    has_ranges: bool = True
    address: str = ""
    requests: list = field(default_factory=list)
    """Address and first byte asked for."""

    def answer(self, handler):
        path = handler.path[1:]
        content = self.files.get(path)
        begin = int(re.match(r"bytes=(\d+)-", handler.headers.get("Range", "bytes=0-"))[1])
        self.requests.append((path, begin))
        if self.statuses.get(path):
            return handler.send_error(self.statuses[path].pop(0))
        if path in self.moved:
            handler.send_response(302)
            handler.send_header("Location", self.moved[path])
            handler.send_header("Content-Length", "0")
            return handler.end_headers()
        if content is None:
            return handler.send_error(404)
        version = f'"{hashlib.sha256(content).hexdigest()}"'
        is_part = self.has_ranges and begin and handler.headers["If-Range"] == version
        sent = content[begin:] if is_part else content
        handler.send_response(206 if is_part else 200)
        if is_part:
            end = len(content) - 1
            handler.send_header("Content-Range", f"bytes {begin}-{end}/{len(content)}")
        if self.has_ranges:
            handler.send_header("ETag", version)
        handler.send_header("Content-Length", str(len(sent)))
        handler.end_headers()
        cuts = self.cuts.get(path)
        return handler.wfile.write(sent[: cuts.pop(0)] if cuts else sent)


@pytest.fixture(autouse=True)
def without_waits(monkeypatch):
    monkeypatch.setattr(transfer, "WAITS", (0.0, 0.0))


@pytest.fixture
def site():
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self):
            site.answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join(10)


def source_of(content, name=CHINCHILLA, **changes):
    """The source of a table that is another one, without files unless they are given."""
    table = conversions.csv_of(content)
    checksum = hashlib.sha256(download.canonical(table)).hexdigest()
    plain = replace(SOURCES[name], files=(), conversion="", rows=len(table), sha256=checksum)
    return replace(plain, **changes)


def provided(source, folder, **options):
    """What is said of one table."""
    return download.provide(source, folder, **{"host": HOST, **options})


def refusal(source, folder, **options):
    """The one line of an error, after which nothing is in the folder."""
    with pytest.raises(transfer.DownloadError) as caught:
        provided(source, folder, **options)
    assert not list(folder.iterdir())
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


# tables


def test_mirror_is_asked_once_for_each_table(site, tmp_path, capsys):
    tables = {CHINCHILLA: OF_CHINCHILLA, "steplaw.csv": LARGE}
    site.files = {f"tables/{name}": content for name, content in tables.items()}
    sources = [source_of(content, name) for name, content in tables.items()]
    options = {"host": HOST, "mirror": f"{site.address}/tables/"}
    assert download.provide_all(sources, tmp_path, **options)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == tables
    assert len(site.requests) == 2
    assert download.provide_all(sources, tmp_path, **options)
    assert len(site.requests) == 2
    assert capsys.readouterr().out.splitlines() == [
        "chinchilla_epoch.csv: fetched, 3 rows",
        "steplaw.csv: fetched, 50000 rows",
        "chinchilla_epoch.csv: was here",
        "steplaw.csv: was here",
    ]


def test_raw_files_are_converted(site, tmp_path):
    source = source_of(
        OF_CHINCHILLA,
        repository="https://github.com/some/where",
        commit="abc",
        files=("a b.csv",),
        conversion="digitised_chinchilla",
    )
    site.files = {"some/where/abc/a%20b.csv": RAW_CHINCHILLA}
    assert provided(source, tmp_path, host=site.address) == "fetched, 3 rows"
    assert (tmp_path / CHINCHILLA).read_bytes() == OF_CHINCHILLA


def test_table_without_raw_files_is_left_out_and_no_error(tmp_path, capsys):
    source = source_of(LARGE, "steplaw.csv")
    assert download.provide_all([source], tmp_path, host=HOST)
    said = capsys.readouterr().out
    assert all(part in said for part in (source.repository, source.commit, source.license))
    (tmp_path / "steplaw.csv").write_bytes(LARGE)
    assert provided(source, tmp_path) == "was here"
    (tmp_path / "steplaw.csv").write_bytes(OF_CHINCHILLA)
    assert not download.provide_all([source], tmp_path, host=HOST)
    assert (tmp_path / "steplaw.csv").read_bytes() == OF_CHINCHILLA  # somebody put it there


def test_another_table_of_this_name_is_replaced(tmp_path):
    mirror, folder = tmp_path / "mirror", tmp_path / "data"
    mirror.mkdir()
    folder.mkdir()
    (mirror / CHINCHILLA).write_bytes(OF_CHINCHILLA)
    (folder / CHINCHILLA).write_bytes(LARGE)
    source = source_of(OF_CHINCHILLA)
    assert provided(source, folder, mirror=str(mirror)) == "replaced, 3 rows"
    assert (folder / CHINCHILLA).read_bytes() == OF_CHINCHILLA


def test_checksum_is_of_numbers_not_of_how_they_are_written():
    source = source_of(OF_CHINCHILLA)
    download.check(source, OF_CHINCHILLA.replace(b"10000000.0", b"1e7").replace(b"\n", b"\r\n"))
    with pytest.raises(transfer.DownloadError):
        download.check(source, OF_CHINCHILLA.replace(b"4.0", b"4.00000000001"))
    with pytest.raises(transfer.DownloadError):
        download.check(
            source, b"".join(OF_CHINCHILLA.splitlines(keepends=True)[i] for i in (0, 2, 1, 3))
        )


def test_lines_that_cannot_be_read_are_counted():
    source, spoiled = source_of(OF_CHINCHILLA), OF_CHINCHILLA + b"a,1,2,3,4,0,5\n" * 2
    with pytest.raises(transfer.DownloadError, match="2 unreadable lines instead of 0"):
        download.check(source, spoiled)
    download.check(replace(source, unreadable_lines=2), spoiled)
    with pytest.raises(transfer.DownloadError, match="0 unreadable lines instead of 2"):
        download.check(replace(source, unreadable_lines=2), OF_CHINCHILLA)


def test_tables_at_hand_that_differ_are_named_in_a_line_each(tmp_path):
    (tmp_path / CHINCHILLA).write_bytes(OF_CHINCHILLA)
    (line,) = download.differing(tmp_path)  # what ships is as it should be
    assert line.startswith(f"{tmp_path / CHINCHILLA} is not the table of sources.toml: SHA-256 ")


# transfers


@pytest.mark.parametrize("has_ranges", [True, False])
def test_cut_connection_is_resumed(site, has_ranges):
    site.has_ranges = has_ranges
    site.files, site.cuts = {"a.csv": LARGE}, {"a.csv": [100_000]}
    assert transfer.download(f"{site.address}/a.csv") == LARGE
    assert site.requests == [("a.csv", 0), ("a.csv", 100_000 if has_ranges else 0)]


def test_file_that_changed_while_it_came_is_fetched_from_its_beginning(site):
    site.files, site.cuts = {"a.csv": LARGE}, {"a.csv": [1000]}
    answer = site.answer

    def change(handler):
        answer(handler)
        site.files["a.csv"] = OF_CHINCHILLA

    site.answer = change
    assert transfer.download(f"{site.address}/a.csv") == OF_CHINCHILLA
    assert site.requests == [("a.csv", 0), ("a.csv", 1000)]


def test_another_part_than_asked_for_is_not_appended(site):
    site.files, site.cuts = {"a.csv": LARGE}, {"a.csv": [1000]}
    answer, headers = site.answer, []

    def shift(handler):
        send = handler.send_header
        handler.send_header = lambda name, value: send(
            name, value.replace("bytes 1000-", "bytes 900-")
        )
        headers.append(dict(handler.headers))
        answer(handler)

    site.answer = shift
    assert transfer.download(f"{site.address}/a.csv") == LARGE
    assert [begin for _, begin in site.requests] == [0, 1000, 0]
    assert "Range" not in headers[-1]


@pytest.mark.parametrize("status", [429, 503, 416])
def test_busy_server_is_asked_again(site, status):
    site.files, site.statuses = {"a.csv": LARGE}, {"a.csv": [status]}
    assert transfer.download(f"{site.address}/a.csv") == LARGE
    assert len(site.requests) == 2


def test_redirect_is_followed_within_the_host(site):
    site.files, site.moved = {"b.csv": LARGE}, {"a.csv": f"{site.address}/b.csv"}
    assert transfer.download(f"{site.address}/a.csv") == LARGE


# bad input


def test_wrong_checksum_names_both_and_the_columns(site, tmp_path):
    site.files = {CHINCHILLA: LARGE}
    source = source_of(OF_CHINCHILLA)
    line = refusal(source, tmp_path, mirror=site.address)
    assert {source.sha256, source_of(LARGE).sha256} == set(re.findall(r"\b[0-9a-f]{64}\b", line))
    assert "50000 rows instead of 3" in line
    assert "'a, b'" in line


def test_connection_that_is_cut_again_and_again_leaves_nothing(site, tmp_path):
    site.files, site.cuts = {CHINCHILLA: OF_CHINCHILLA}, {CHINCHILLA: [50, 50, 50, 50]}
    line = refusal(source_of(OF_CHINCHILLA), tmp_path, mirror=site.address)
    assert "was cut off at 150 of" in line
    assert [begin for _, begin in site.requests] == [0, 50, 100]


def test_source_that_moved(site, tmp_path):
    source = source_of(OF_CHINCHILLA)
    assert "404 Not Found; the source moved" in refusal(source, tmp_path, mirror=site.address)
    site.moved = {CHINCHILLA: "http://elsewhere.invalid/a.csv"}
    line = refusal(source, tmp_path, mirror=site.address)
    assert "moved to 'http://elsewhere.invalid/a.csv'" in line
    site.moved = {CHINCHILLA: CHINCHILLA}
    assert "302" in refusal(source, tmp_path, mirror=site.address)
    assert site.requests[0] == (CHINCHILLA, 0)


@pytest.mark.parametrize("content", [b"", b"\0\xff\xfe\n\x80", b"a,b\n1,2\n"])
def test_what_is_no_table_or_another(site, tmp_path, content):
    site.files = {CHINCHILLA: content}
    assert refusal(source_of(OF_CHINCHILLA), tmp_path, mirror=site.address)


def test_web_page_is_no_table(site, tmp_path):
    site.files = {CHINCHILLA: b"\n<!DOCTYPE html><html>Sign in</html>"}
    line = refusal(source_of(OF_CHINCHILLA), tmp_path, mirror=site.address)
    assert line.endswith("answers with a web page")


def test_file_that_is_too_large_or_too_slow(site, tmp_path, monkeypatch):
    site.files = {CHINCHILLA: LARGE}
    monkeypatch.setattr(transfer, "MAX_BYTES", 1000)
    assert "larger than 1000" in refusal(source_of(LARGE), tmp_path, mirror=site.address)
    monkeypatch.undo()
    monkeypatch.setattr(transfer, "LONGEST", -1.0)
    assert "takes longer" in refusal(source_of(LARGE), tmp_path, mirror=site.address)


@pytest.mark.parametrize("host", ["[::1", "127.0.0.1:port", "127.0.0.1/é", "127.0.0.1/a b"])
def test_what_is_no_address_is_refused_at_once(host, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "WAITS", (1000.0,))
    line = refusal(source_of(OF_CHINCHILLA), tmp_path, mirror=f"http://{host}")
    assert "is no address" in line


def test_no_server(site, tmp_path):
    address = f"{site.address.rpartition(':')[0]}:1"  # a port of the system, which nothing has
    source = source_of(OF_CHINCHILLA)
    assert "cannot be reached" in refusal(source, tmp_path, mirror=address)
    assert "No such file" in refusal(source, tmp_path, mirror=str(tmp_path / "nothing"))


@pytest.mark.parametrize("raw", [b"x,y\n1,2\n", b"", b"Model Size,Training FLOP,loss\n1,b,2\n"])
def test_raw_file_of_another_form(site, tmp_path, raw):
    source = source_of(OF_CHINCHILLA, files=("a.csv",), conversion="digitised_chinchilla")
    (address,) = source.addresses("")
    site.files = {address[1:]: raw}
    line = refusal(source, tmp_path, host=site.address)
    assert line.startswith("the raw files have another form")


def test_full_disk_leaves_no_part_of_a_file(tmp_path, monkeypatch):
    mirror, folder = tmp_path / "mirror", tmp_path / "data"
    mirror.mkdir()
    folder.mkdir()
    (mirror / CHINCHILLA).write_bytes(OF_CHINCHILLA)
    write = Path.write_bytes

    def write_half(path, content):
        write(path, content[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    line = refusal(source_of(OF_CHINCHILLA), folder, mirror=str(mirror))
    assert line.endswith("No space left on device")


def test_interrupt_leaves_no_part_of_a_file(site, tmp_path, monkeypatch, capsys):
    site.files = {CHINCHILLA: LARGE}
    receive = transfer._Transfer._read

    def interrupt(self, answer):
        receive(self, answer)
        raise KeyboardInterrupt

    monkeypatch.setattr(transfer._Transfer, "_read", interrupt)
    arguments = ["--mirror", site.address, "--only", "chinchilla_epoch", "--folder", str(tmp_path)]
    assert download.main(arguments) == 130
    assert not list(tmp_path.iterdir())
    assert len(site.requests) == 1
    assert "goes on" in capsys.readouterr().out


# the command


def test_command_says_what_came_and_what_the_backtest_lacks(site, tmp_path, capsys):
    arguments = ["--mirror", site.address, "--folder", str(tmp_path / "data")]
    assert download.main([*arguments, "--only", "chinchilla_epoch"]) == 1
    first, *lacking = capsys.readouterr().out.splitlines()
    assert first.startswith("chinchilla_epoch.csv: FAILED: ")
    assert "  chinchilla: no chinchilla_epoch.csv" in lacking
    assert "alabdulmohsin_bench_m1_m4.csv" not in "".join(lacking)  # it ships


def test_command_says_where_tables_come_from_only_if_some_were_left_out(tmp_path, capsys):
    name = next(s.name for s in SOURCES.values() if not s.files and not s.is_shipped)
    arguments = ["--only", name, "--folder", str(tmp_path)]
    assert download.main(arguments) == 0
    assert "come from a --mirror" in capsys.readouterr().out
    (tmp_path / name).write_bytes(LARGE)
    assert download.main(arguments) == 1
    assert "come from a --mirror" not in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--only", "nothing"], ["--mirror", "ftp://a.invalid"]])
def test_wrong_arguments_are_named(wrong, capsys):
    with pytest.raises(SystemExit, match="2"):
        download.main(wrong)
    assert wrong[1] in capsys.readouterr().err


def test_lines_show_no_control_characters(site, tmp_path, capsys):
    site.answer = lambda handler: handler.send_error(404, "Not\x1b[2J here")
    download.provide_all([source_of(LARGE)], tmp_path, host=HOST, mirror=site.address)
    line = capsys.readouterr().out
    assert "here" in line
    assert "\x1b" not in line


def test_table_that_ships_is_not_fetched(site, tmp_path):
    source = SOURCES["alabdulmohsin_bench_m1_m4.csv"]
    assert provided(source, tmp_path, mirror=site.address) == "ships with the project"
    assert not site.requests
    assert (ROOT / "benchmarks" / source.name).is_file()


# the list of sources


def tables_read():
    """Published tables that benchmarks and tests name."""
    tests = (ROOT / "tests" / "published", ROOT / "tests" / "reading")
    files = [*(ROOT / "benchmarks").glob("*.py"), *(p for f in tests for p in f.rglob("*.py"))]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    required = re.findall(r'(?:require|table_path)\(\w+, "([\w.]+)"\)', text)
    constants = re.findall(r'"((?:alab|gadre|chinch|step|tiny|misfit|porian)\w+\.csv)"', text)
    return {*required, *constants}


def test_every_table_that_is_read_has_a_source():
    assert len(tables_read()) >= 17
    assert tables_read() <= set(SOURCES)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_source_says_what_it_is_and_where_it_comes_from(source):
    assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", source.repository)
    assert re.fullmatch(r"[0-9a-f]{8}|[0-9a-f]{12}|[0-9a-f]{40}", source.commit)
    assert re.fullmatch("[0-9a-f]{64}", source.sha256)
    assert all((source.what, source.license, source.paper, source.rows > 0))
    assert source.checked in ("whole", "part", "no")
    assert bool(source.files) == bool(source.conversion) == (source.checked != "no")
    if source.files:
        assert len(source.commit) == 40
        assert source.conversion in conversions.CONVERSIONS


def test_braces_stand_for_alternatives():
    addresses = list(SOURCES["gadre_mlfoundations.csv"].addresses("https://host"))
    assert len(addresses) == len(set(addresses)) == 104
    project = "https://host/mlfoundations/scaling/a003c4913793ac2ae7ef87b28ecb562955d026d5/"
    assert f"{project}exp_data/models/c4_original-open_lm_7b-1.0.json" in addresses
    first, *_ = SOURCES["misfitting_lr_sweep_v0.csv"].addresses("https://host")
    assert "/cde6be755fe5b0de5fef05880d7fa919781f765a/scaling/data/" in first


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_tables_at_hand_have_their_checksums(source):
    path = rows.table_path(rows.DATA, source.name)
    if not path.is_file():
        pytest.skip(f"the published table {source.name} is not here (make data)")
    download.check(source, path.read_bytes())
    table = conversions.csv_of(path.read_bytes(), on_bad_lines="skip")
    assert len(table) == source.rows


def test_models_of_the_overtrained_are_those_of_their_table():
    path = rows.table_path(rows.DATA, "gadre_mlfoundations.csv")
    if not path.is_file():
        pytest.skip("the published table gadre_mlfoundations.csv is not here (make data)")
    addresses = SOURCES["gadre_mlfoundations.csv"].addresses("")
    names = {address.rpartition("/")[2].replace("%3D", "=") for address in addresses}
    assert names == {f"{run}.json" for run in pd.read_csv(path)["run"]}


def test_a_folder_is_completed_by_the_other_and_by_what_ships(tmp_path, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, name in ((one, "a.csv"), (two, "a.csv"), (two, "b.csv")):
        folder.mkdir(exist_ok=True)
        (folder / name).touch()
    monkeypatch.setattr(rows, "FOLDERS", (one, two))
    assert rows.require(one, "a.csv") == one / "a.csv"
    assert rows.require(one, "b.csv") == two / "b.csv"
    shipped = "alabdulmohsin_bench_m1_m4.csv"
    assert rows.require(tmp_path, shipped) == ROOT / "benchmarks" / shipped
    with pytest.raises(FileNotFoundError):
        rows.require(tmp_path, "b.csv")


# conversions


def test_learning_curves_keep_their_texts_and_their_order():
    head = "Domain,Task,Model,Seen Examples,Loss,Training\n"
    vision = f"{head}IC,bird_5,MiX/B/16,7.0,0.5,1\nIC,bird_5,MiX/B/16,4.0,0.75,0\n"
    numbers = f"{head}LM,val_loss,1.68e+07,8.0,0.25,1\n"
    language = head + "BB,\"('unit', '1-shot')\",262M,9.0,.125,0\n"
    files = [text.encode() for text in (vision, numbers, language)]
    table = conversions.learning_curves(files)
    assert table.to_dict("list") == {
        "curve_id": ["IC|bird_5|MiX/B/16"] * 2
        + ["LM|val_loss|1.68e+07", "BB|('unit', '1-shot')|262M"],
        "domain": ["IC", "IC", "LM", "BB"],
        "task": ["bird_5", "bird_5", "val_loss", "('unit', '1-shot')"],
        "model": ["MiX/B/16", "MiX/B/16", "1.68e+07", "262M"],
        "seen_examples": [7.0, 4.0, 8.0, 9.0],
        "loss": [0.5, 0.75, 0.25, 0.125],
        "split": ["train", "test", "train", "test"],
    }


def test_five_runs_with_the_fewest_tokens_per_parameter_are_outliers():
    flops = "".join(
        f"{params},{6 * params * tokens},2\n" for params in (1, 10) for tokens in range(4, 0, -1)
    )
    table = conversions.digitised_chinchilla([f"Model Size,Training FLOP,loss\n{flops}".encode()])
    assert table["tokens"].tolist() == [4, 3, 2, 1] * 2
    assert table["epoch_outlier"].tolist() == [0, 0, 0, 1, 1, 1, 1, 1]


def model_file(name, params, tokens, losses):
    """A file of Gadre et al. with a loss for each validation set."""
    results = [
        {
            "loss": loss,
            "loss_tokens_lower_95": loss - 1,
            "loss_tokens_upper_95": loss + 1,
            "loss_sequences_lower_95": loss - 2,
            "loss_sequences_upper_95": loss + 2,
            "val_data": [f"training/eval_data/{data}.tar"],
            "model": "d=8",
        }
        for data, loss in losses.items()
    ]
    settings = {"params": params, "params_no_embed": 5, "tokens": tokens, "warmup": 100}
    settings |= {"lr": 0.003, "wd": 0.033, "global_bs": 64, "chinchilla_multiplier": 0.25}
    about = {"name": name, "dataset_name": "c4", "hyperparameters": settings}
    about |= {"open_lm_args": ["--seed", "124", "--precision", "amp"], "results": results}
    return json.dumps(about).encode()


def test_overtrained_models_have_a_row_for_each_validation_set():
    large = model_file("large", 7_000_000_000, 140_000_000_000, {"c4_val/shard-{0..9}": 9.0})
    small = model_file("small", 10, 200, {"val_tok_mult/openlm/a": 8.0, "val_tok_mult/de/b": 7.0})
    table = conversions.overtrained_models([large, small])
    assert table["run"].tolist() == ["small", "small", "large"]
    assert table["val_set"].tolist() == ["de/b", "openlm/a", "c4_val/shard-{0..9}"]
    assert table["loss_tok_lo95"].tolist() == [6.0, 7.0, 8.0]
    assert table["loss_seq_hi95"].tolist() == [9.0, 10.0, 11.0]
    assert table["seed"].tolist() == [124] * 3
    overflow = (6 * 7 * 140 * 10**18 + 2**63) % 2**64 - 2**63
    assert table["flops"].tolist() == [12000, 12000, overflow]


def test_sweeps_of_rates_join_a_sheet_and_two_logs():
    columns = "Params,total steps,lr,Avg Train Loss,C4 Eval Loss,Wiki Eval Loss,Est C,D,N,N_w_emb"
    sheet = [
        columns,
        "12M,,,,,,,,12,",
        ',"4,000",,,,,,,12,40',
        ",,1E-03,3.1,3.2,3.3,4.47E+16,200,12,40",
    ]
    sheet += ["25M,,,,,,,,25,50", ",,2E-03,4.1,4.2,4.3,1E+17,300,25,50"]
    perplexities = [f"{conversions.EVALUATIONS}{name}.jsonl" for name in ("c4", "wikipedia")]
    log = pd.DataFrame(
        {
            "Name": ["moe_bsz1M.ngpu16_2024.model-12m.moe-spm.lr_1e-3,number_of_experts_4"],
            "train/avg_loss_AVG": [2.5],
            **dict(zip(perplexities, ([np.exp(2.0)], [np.exp(3.0)]), strict=True)),
            "optim.lr": [0.001],
            "torch_seed": [0],
            "model.number_of_experts": [4],
            "steps": [250],
            "optim/n_tokens": [500],
        }
    )
    spm = log.to_csv(index=False, quoting=1).encode()
    table = conversions.rate_sweeps(
        ["\n".join(sheet).encode(), spm.replace(b"spm", b"gshard"), spm]
    )
    assert table["task"].tolist() == ["dense_c4_v0"] * 2 + ["moe_gshard_v0_E4", "moe_spm_v0_E4"]
    assert table["model"].tolist() == ["12M", "25M", "12m", "12m"]
    assert table["loss"].tolist() == pytest.approx([3.2, 4.2, 2.0, 2.0])
    assert table["loss_wiki"].tolist() == pytest.approx([3.3, 4.3, 3.0, 3.0])
    assert table["tokens"].tolist() == [200, 300, 500, 500]
    assert table["params"].dropna().tolist() == [40, 50]
    assert table["steps"].dropna().tolist() == [250, 250]
    assert len(table.columns) == 14


def test_points_of_llama_are_rounded():
    raw = b"condition,tokens,params,budget,loss\n"
    raw += b"raw_loss,1579500858.99,633111399.91,6e18,0.9198434\n"
    (row,) = conversions.digitised_llama([raw]).to_dict("records")
    assert row == {
        "condition": "raw_loss",
        "budget": 6e18,
        "params": 633111400,
        "tokens": 1579500859,
        "loss": 0.919843,
    }
