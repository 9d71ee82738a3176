import hashlib

import pytest

from extrap.errors import DataError
from extrap.workloads.corpus import read_corpus


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def test_the_standard_library_gives_exactly_the_bytes_asked_for():
    corpus = read_corpus("stdlib", n_bytes=300_000, validation_bytes=100_000)
    assert (len(corpus.validation), len(corpus.training)) == (100_000, 200_000)
    again = read_corpus("stdlib", n_bytes=300_000, validation_bytes=100_000)
    assert corpus.sha256 == again.sha256


def test_no_file_is_in_both_parts(tmp_path):
    write(tmp_path, **{letter: letter * 100 for letter in "abcdef"})
    corpus = read_corpus(str(tmp_path), n_bytes=550, validation_bytes=150)
    assert not set(corpus.validation.tolist()) & set(corpus.training.tolist())
    assert (len(corpus.validation), len(corpus.training)) == (150, 400)
    assert corpus.n_files == 6


def test_a_single_file_is_split_inside(tmp_path):
    write(tmp_path, book="v" * 100 + "t" * 300)
    corpus = read_corpus(str(tmp_path), n_bytes=10_000, validation_bytes=100)
    assert set(corpus.validation.tolist()) == {ord("v")}
    assert corpus.training.tobytes() == b"t" * 300


def test_the_order_of_files_does_not_depend_on_the_folder(tmp_path):
    texts = {letter: letter * 50 for letter in "abcdefgh"}
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, names in zip(folders, ("abcdefgh", "hgfedcba"), strict=True):
        folder.mkdir()
        write(folder, **{name: texts[name] for name in names})
    one, two = (read_corpus(str(f), n_bytes=400, validation_bytes=100) for f in folders)
    assert one.sha256 == two.sha256
    first = min(texts, key=lambda name: hashlib.sha256(f"{name}.txt".encode()).hexdigest())
    assert one.validation[:50].tobytes().decode() == texts[first]


def test_hidden_files_and_folders_are_skipped_and_any_encoding_is_fine(tmp_path):
    (tmp_path / ".hidden").mkdir()
    write(tmp_path / ".hidden", x="h" * 1000)
    (tmp_path / ".secret").write_text("h" * 1000)
    (tmp_path / "latin").write_bytes(b"\xff" * 200)
    write(tmp_path, b="b" * 200)
    corpus = read_corpus(str(tmp_path), n_bytes=400, validation_bytes=100)
    text = corpus.validation.tobytes() + corpus.training.tobytes()
    assert b"h" not in text
    assert b"\xff" in text


@pytest.mark.parametrize("text", ["", "short"])
def test_a_folder_with_too_little_text_says_what_to_do(tmp_path, text):
    write(tmp_path, a=text, b=text)
    with pytest.raises(DataError, match="200 bytes"):
        read_corpus(str(tmp_path), n_bytes=1000, validation_bytes=100)
