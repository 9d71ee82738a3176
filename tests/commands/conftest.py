"""A command that is called in a folder of its own."""

import io

import pytest

from extrap.cli import main


@pytest.fixture
def called(capsys, tmp_path, monkeypatch):
    """Call a command: exit code, output, error."""
    monkeypatch.chdir(tmp_path)

    def called(*words, stdin=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = main(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return called
