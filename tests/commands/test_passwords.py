"""No password of an address is in anything that is printed, logged or written."""

import logging
import re
import sys
from pathlib import Path

import pytest
import sqlalchemy

from extrap.cli import main
from extrap.errors import StudyError, first_line, without_password
from extrap.reading.storages import parse_url

from .test_status import STUDY

NASTY = ("hunter2", "p@ss:w/rd%", "a?b&c=d", "p%40ss%3Aw%2Frd%25", "br{ac}es", "sp ace#x")
FORMS = (
    "postgresql://me:{}@localhost:1/x",
    "postgresql+psycopg://me:{}@localhost:1/x",
    "postgresql://localhost:1/x?user=me&password={}",
    "postgresql://me@localhost:1/x?password={}&connect_timeout=1",
    "mysql://me:{}@localhost:1/x",
)
COMMANDS = (
    ["study", "status", "tiny.py", "--storage"],
    ["study", "status", "tiny.py", "--json", "--storage"],
    ["study", "run", "tiny.py", "--quiet", "--storage"],
    ["study", "run", "tiny.py", "--dry-run", "--storage"],
    ["report", "tiny.py", "--storage"],
    ["report", "--size", "width", "--tune", "lr"],
    ["forecast", "--size", "width", "--tune", "lr", "--at", "64"],
    ["check", "sweep.csv", "--size", "width", "--tune", "lr"],
    ["backtest", "--size", "width", "--tune", "lr"],
)


TRAIN = """
import math

def train(size, tuned, seed):
    octaves = math.log2(tuned["lr"]) + 6
    return 1.0 + size["width"] ** -0.5 + 0.05 * octaves**2 + 0.001 * seed

TRAIN = train
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "tiny.py").write_text(STUDY)
    (folder / "sweep.csv").write_text("width,lr,loss\n8,0.1,2.0\n16,0.1,1.0\n")
    return folder


def tells(text, password):
    """Whether a text has the password, or its longer half."""
    parts = [password, password[len(password) // 2 :], password[: len(password) // 2]]
    return any(part in text for part in parts if len(part) > 3 and part not in ("pass", "me"))


@pytest.mark.parametrize("password", NASTY)
@pytest.mark.parametrize("form", FORMS)
def test_an_address_is_shown_without_its_password(form, password):
    assert not tells(without_password(form.format(password)), password)


UNESCAPED = (
    ("postgresql://me:t0p@s3c@localhost:1/x", ("t0p", "s3c@")),
    ("postgresql://me:p@ss:topsecret@localhost/x", ("topsecret", "p@ss")),
    ("postgresql://me:p@ss/topsecret@localhost/x", ("topsecret", "p@ss")),
    ("postgresql://me:p@ss?topsecret@localhost/x", ("topsecret", "p@ss")),
    ("postgresql://m@e:p:topsecret@localhost/x", ("topsecret",)),
    ("postgresql://m/e:topsecret@localhost/x", ("topsecret",)),
    ("postgresql://me:topsecret@localhost:port/x", ("topsecret",)),
)
"""Addresses with a password that should have been escaped → what must not be told of them."""


@pytest.mark.parametrize(("address", "secrets"), UNESCAPED)
@pytest.mark.parametrize("command", [COMMANDS[0], COMMANDS[2], COMMANDS[4], COMMANDS[5]])
def test_a_password_that_is_not_escaped_is_not_told(
    command, address, secrets, place, monkeypatch, capsys, caplog
):
    monkeypatch.chdir(place)
    with caplog.at_level(logging.DEBUG):
        code = main([*command, address])
    said = capsys.readouterr()
    assert code == 2, said.err
    everything = said.out + said.err + caplog.text
    assert "Traceback" not in everything
    assert not [secret for secret in secrets if secret in everything], everything


def test_an_address_with_two_signs_is_refused_with_a_remedy():
    for address, _ in UNESCAPED[:4]:
        with pytest.raises(StudyError, match=r"%40|database address") as caught:
            parse_url(address)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert parse_url("sqlite:///a@b/c@d.db").database == "a@b/c@d.db"
    assert parse_url("postgresql://me%40there:p%40ss@localhost/x").host == "localhost"


def test_what_a_library_says_of_a_password_is_masked():
    url = "postgresql://me:t0p%40s3c@host/x"
    assert first_line("t0p@s3c t0p%40s3c\n-", url=url) == "*** ***"
    url = "postgresql://host/x?user=me&password=t0p&port=1"
    assert first_line("t0p on port 1", url=url) == "*** on port 1"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:3]))
def test_no_command_tells_a_password(command, place, monkeypatch, capsys, caplog):
    monkeypatch.chdir(place)
    for form, password in zip(FORMS, NASTY, strict=False):
        with caplog.at_level(logging.DEBUG):
            code = main([*command, form.format(password)])
        said = capsys.readouterr()
        assert code in (0, 2), said.err
        everything = said.out + said.err + caplog.text
        assert not tells(everything, password), everything
        caplog.clear()
    names = [path.name for path in place.rglob("*")]
    assert not any(tells(name, password) for name in names for password in NASTY)


def test_what_a_server_with_a_password_gives_holds_none(
    postgres, tmp_path, monkeypatch, capsys, caplog
):
    monkeypatch.chdir(tmp_path)
    more_sizes = STUDY.replace("(8, 16)", "(8, 16, 32, 64)")
    Path("tiny.py").write_text(more_sizes.replace('workload=Workload(name="mine"), ', "") + TRAIN)
    address = sqlalchemy.make_url(postgres.make_database("secrets"))
    password = address.password
    assert len(password or "") > 5
    plain = address.set(password=None).render_as_string()
    joined = f"{plain}?password={password}"
    with caplog.at_level(logging.DEBUG):
        for command in (
            ["study", "run", "tiny.py", "--quiet", "--storage", joined],
            ["study", "status", "tiny.py", "--json", "--storage", joined],
            ["report", "tiny.py", "--storage", joined],
        ):
            assert main(command) == 0
    said = capsys.readouterr()
    assert password not in said.out + said.err + caplog.text
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "tiny.py"]
    assert "tiny.html" in {path.name for path in written}
    assert not [path for path in written if password.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("kind", "missing", "packages"),
    [("postgresql", "psycopg", "psycopg["), ("mysql", "MySQLdb", "")],
)
def test_the_driver_that_is_missing_is_named(kind, missing, packages, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(StudyError, match=f"without {missing}; .*{re.escape(packages)}"):
        parse_url(f"{kind}://me@localhost/x")
