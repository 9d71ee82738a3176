"""Write the golden files anew, and say which changed: `make contract`, then read the diff.

python -m tests.contract [BEGINNING OF A NAME ...]
"""

import sys
import warnings

from .cases import CASES
from .comparing import report
from .workplace import FOLDER

if __name__ == "__main__":
    warnings.simplefilter("error")
    asked = tuple(sys.argv[1:])
    golden = FOLDER / "golden"
    for name, case in CASES.items():
        if asked and not name.startswith(asked):
            continue
        path, text = golden / name, case.text()
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if not before or report(text, before, kind=case.kind, rel=case.rel):
            path.write_text(text, encoding="utf-8")
            print("changed" if before else "new", name)  # noqa: T201
    for path in golden.iterdir():
        if not asked and path.name not in CASES:
            path.unlink()
            print("gone", path.name)  # noqa: T201
