"""A disk that fills up, and two runs at once: the command a user gives, in its own process."""

from __future__ import annotations

from pathlib import Path

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


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The storage of an undisturbed run."""
    folder = made_folder(tmp_path_factory.mktemp("whole"))
    assert end_of(study_command(folder, folder / "tiny.db")).code == 0
    return folder / "tiny.db"


@pytest.mark.slow
@pytest.mark.parametrize("is_mounted", [True, False], ids=["tmpfs", "limit"])
def test_a_full_storage_says_so_and_the_run_goes_on(whole, tmp_path, is_mounted) -> None:
    folder = made_folder(tmp_path)
    disk = folder / "disk"
    with small_disk(disk, LITTLE if is_mounted else PLENTY) as remount:
        if is_mounted and remount is None:
            pytest.skip("NOT TESTED on a full disk: nothing may be mounted here")
        storage = disk / "tiny.db"
        most = None if is_mounted else LITTLE
        ended = end_of(study_command(folder, storage, most_bytes=most))
        assert ended.is_clear, ended.told
        assert str(storage) in ended.told
        assert "start anew" not in ended.told
        if is_mounted:
            assert "is full" in ended.told
            assert remount is not None
            assert remount(f"size={PLENTY}")
        ended = end_of(study_command(folder, storage))
        assert ended.code == 0, ended.told
        assert same_runs(storage, whole)


@pytest.mark.slow
def test_two_at_once_end_well_and_share(whole: Path, tmp_path: Path) -> None:
    folder = made_folder(tmp_path)
    processes = [study_command(folder, folder / "tiny.db") for _ in range(2)]
    for ended in map(end_of, processes):
        assert ended.code == 0, ended.told
    assert same_runs(folder / "tiny.db", whole, rtol=ROUNDED)
    assert (folder / "reports" / "tiny.html").read_text().rstrip().endswith("</html>")
    assert not list((folder / "reports").glob("*.part")) + list(folder.glob("reports/.*.part"))
