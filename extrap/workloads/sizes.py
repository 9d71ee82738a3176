"""The size columns of a model: which there are, and that they are whole numbers."""

from __future__ import annotations

from collections.abc import Mapping


def whole_sizes(
    workload: str, size: Mapping[str, float], columns: Mapping[str, int | None]
) -> dict[str, int]:
    """Every size column as a whole number.

    Args:
        workload: Its name, for the message.
        size: Size column → value, as given.
        columns: Size column → its default; None for one that must be given.

    Raises:
        ValueError: A column is missing or unknown, or a value is no whole number above 0.
    """
    required = [column for column, default in columns.items() if default is None]
    fits = set(required) <= set(size) <= set(columns)
    if not fits or any(value < 1 or value != int(value) for value in size.values()):
        required = required or list(columns)[:1]
        optional = [column for column in columns if column not in required]
        also = f" (and optionally {', '.join(optional)})" if optional else ""
        raise ValueError(
            f"the sizes of {workload} must be whole numbers {', '.join(required)}{also}, got "
            f"{dict(size)}; write sizes={{'{required[0]}': (16, 32, 64)}}."
        )
    return {column: int(size.get(column, default or 0)) for column, default in columns.items()}
