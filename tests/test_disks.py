"""A disk that fills up, and two runs at once: the command a user gives."""

import pytest

pytest.importorskip("torch")

from benchmarks.disks import (
    LITTLE,
    PLENTY,
    ROUNDED,
    end_of,
    made_folder,
    same_runs,
    small_disk,
    study_command,
)
from extrap.cli import main


def study_run(folder, storage):
    """The exit code of `extrap study run` in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return main(["study", "run", "tiny.py", "--storage", f"sqlite:///{storage}", "--quiet"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The storage of an undisturbed run."""
    folder = made_folder(tmp_path_factory.mktemp("whole"))
    assert study_run(folder, folder / "tiny.db") == 0
    return folder / "tiny.db"


@pytest.mark.slow
@pytest.mark.parametrize("is_mounted", [True, False], ids=["tmpfs", "limit"])
def test_a_full_storage_says_so_and_the_run_goes_on(whole, tmp_path, is_mounted, capsys):
    folder = made_folder(tmp_path)
    storage = folder / "disk" / "tiny.db"
    with small_disk(storage.parent, LITTLE if is_mounted else PLENTY) as remount:
        if is_mounted:
            if remount is None:
                pytest.skip("NOT TESTED on a full disk: nothing may be mounted here")
            code, said = study_run(folder, storage), capsys.readouterr().err
            assert "is full" in said
            assert remount(f"size={PLENTY}")
        else:
            ended = end_of(study_command(folder, storage, most_bytes=LITTLE))
            code, said = ended.code, ended.told
        assert code == 2, said
        assert said.startswith("extrap: ")
        assert "Traceback" not in said
        assert str(storage) in said
        assert study_run(folder, storage) == 0
        assert same_runs(storage, whole, rtol=ROUNDED)
