"""Files are whole or as they were, tables come back as they went, terminals are not commanded."""

import errno
import logging
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extrap.cli import main
from extrap.commands.log_lines import PlainFormatter
from extrap.commands.printing import say
from extrap.files import (
    as_written,
    guarded,
    import_source,
    read_csv,
    unguarded,
    whole_file,
    write_csv,
    write_note,
    write_text,
)
from extrap.reading.table_files import read_table
from extrap.reporting.index import write_index


@given(st.text(alphabet="'=+-@\t\r\n 1a＝", max_size=6))
def test_every_text_comes_back(text):
    assert unguarded(guarded(text)) == text


def test_a_table_comes_back_with_its_texts_and_numbers(tmp_path):
    columns = {
        "=width": [16, 32, -1],
        "@note": ["=1+1", "plain", "-x"],
        "loss": [2.5, -1.5, np.nan],
    }
    table = pd.DataFrame({**columns, "mixed": ["=1", -2, None]}, index=[7, 7, 7])
    write_csv(table, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().splitlines() == [
        *("'=width,'@note,loss,mixed", "16,'=1+1,2.5,'=1", "32,plain,-1.5,-2", "-1,'-x,,")
    ]
    for back in (read_csv(tmp_path / "a.csv"), read_table(tmp_path / "a.csv")):
        assert list(back) == list(table)
        assert back["@note"].tolist() == ["=1+1", "plain", "-x"]
        assert back["=width"].astype(int).tolist() == [16, 32, -1]
        assert back["mixed"].tolist()[:2] == ["=1", "-2"]


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_on_a_full_disk_the_old_file_stays_and_no_draft(tmp_path, monkeypatch, step):
    path = tmp_path / "page.html"
    write_text(path, "old")
    (tmp_path / "pages").mkdir()
    index = write_index(tmp_path / "pages")
    before = index.read_bytes()
    monkeypatch.setattr(step, full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_text(path, "new")
    assert caught.value.filename == str(path)
    with pytest.raises(OSError, match="No space left"):
        write_index(tmp_path / "pages")
    assert (path.read_text(), index.read_bytes()) == ("old", before)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["page.html"]


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    path = tmp_path / "a"
    with whole_file(path) as one, whole_file(path) as other:  # containers share process numbers
        one.write_text("one")
        other.write_text("other")
        assert one.read_text() == "one"
    assert path.read_text() == "one"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    umask = os.umask(0o027)
    try:
        write_text(tmp_path / "b", "new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o640


def test_links_rights_and_devices_are_kept(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_text(link, "é\udc80")  # a broken character is spelled out
    assert link.is_symlink()
    assert target.read_text() == "é\\udc80"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    write_text("/dev/null", "gone")
    assert not Path("/dev/null").is_file()
    with pytest.raises(IsADirectoryError):
        write_text(tmp_path, "no file")


HIDDEN = "\x1b[31m\x1b]0;t\x07\x08\r\x7f\x9b\u202e\u2066\ufeff\udc80\x00"


def test_hidden_characters_are_spelled_out_and_others_stay(capsys):
    assert as_written("é中\t🙂 [red]x[/red]\n") == "é中\t🙂 [red]x[/red]\n"
    shown = as_written(HIDDEN)
    assert shown.isprintable()
    assert shown.isascii()
    assert shown.startswith("\\x1b[31m\\x1b]0;t\\x07")
    record = logging.LogRecord("a", logging.WARNING, "f", 1, "to %s", (HIDDEN,), None)
    assert as_written(PlainFormatter("%(message)s").format(record)).isprintable()
    say(HIDDEN)
    assert capsys.readouterr().out.strip().isprintable()


@pytest.mark.parametrize("verb", ["forecast", "check", "report", "backtest"])
def test_no_file_commands_the_terminal(tmp_path, capsys, verb):
    table = tmp_path / f"a{HIDDEN.replace(chr(0), '').encode(errors='replace').decode()}.csv"
    table.write_text(f"wi{HIDDEN}dth,loss\n1,2\n", encoding="utf-8", errors="surrogateescape")
    words = [str(table)] * (1 + (verb == "check"))
    for size in ("width", "loss"):
        assert main([verb, *words, "--size", size]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert as_written(err) == err
        assert len(err.splitlines()) == 1


def test_a_file_is_imported_as_it_stands_and_nothing_is_written_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    path, name = tmp_path / "mine.py", "imported_as_it_stands"
    for value in (2, 4, 6):  # as long, and within a second
        path.write_text(f"value = {value}\n", encoding="utf-8")
        os.utime(path, (1_000_000_000, 1_000_000_000))
        assert import_source(path, name).value == value
    assert [each.name for each in tmp_path.iterdir()] == ["mine.py"]
    assert sys.modules.pop(name).__file__ == str(path)
    path.write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(ZeroDivisionError):
        import_source(path, name)
    assert name not in sys.modules


def test_a_note_that_does_not_fit_leaves_no_draft(tmp_path, monkeypatch):
    def full(self, target):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write_note(tmp_path / "note", "words")
    assert list(tmp_path.iterdir()) == []
