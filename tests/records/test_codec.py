"""Arrays of a record are lists of numbers in its JSON."""

from dataclasses import dataclass

import numpy as np
import pytest

from extrap.fitting.projection import Index
from extrap.laws.base import Array
from extrap.records.codec import decode, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    values: Array
    rows: Index
    errors: Array | None


def test_arrays_come_back_as_they_were():
    table = Table(values=np.array([[1.0, 0.1], [2.5, -3.0]]), rows=np.arange(2), errors=None)
    document = encode(table)
    assert document == {"values": [[1, 0.1], [2.5, -3]], "rows": [0, 1], "errors": None}
    again = decode(Table, document)
    assert again.values.tolist() == table.values.tolist()
    assert (again.values.dtype, again.rows.dtype) == (float, table.rows.dtype)
    assert decode(Table, {**document, "errors": [0.5]}).errors.tolist() == [0.5]


@pytest.mark.parametrize("wrong", [[["1"]], [[True]], [[1.0], [1.0, 2.0]], [[float("nan")]], {}])
def test_what_is_no_table_of_numbers_is_refused(wrong):
    with pytest.raises(ValueError, match="values"):
        decode(Table, {"values": wrong, "rows": [0], "errors": None})
