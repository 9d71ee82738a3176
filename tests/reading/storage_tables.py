"""Reading a storage as tables."""

from extrap.reading.optuna import find_study


def read_storage(url, *, study=None, stage="tune"):
    """Runs, curves of the loss and notes of a study in a storage."""
    found = find_study(url, study=study, stage=stage)
    loss = found.losses[0] if found.losses else "loss"
    return found.table, found.curves(loss), found.notes
