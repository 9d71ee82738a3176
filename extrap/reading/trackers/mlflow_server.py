"""MLflow's tracking servers and databases, read through its client.

`http://HOST:PORT` is a server; `mlflow+postgresql://…` is whatever else the client opens. It may
refuse a database of another version, and never upgrades one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from extrap.errors import DataError
from extrap.reading.bounds import first_line
from extrap.reading.found import Found
from extrap.reading.settings import as_number
from extrap.reading.trackers.experiments import as_stored, chosen_experiment
from extrap.reading.trackers.stitching import stitched
from extrap.reading.trackers.tracked import (
    MOST_RUNS,
    LazyHistory,
    Points,
    TrackedRun,
    table_of,
)

PREFIX = "mlflow+"
PAGE = 1000


def read_server(address: str, *, study: str | None = None) -> Found:
    """The runs of an experiment.

    Args:
        address: The server.
        study: Name or ID of the experiment, where there are several with runs.

    Raises:
        DataError: The server does not give them, or there is no such experiment.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    uri = address.removeprefix(PREFIX)
    where = _without_secret(uri)
    try:
        client = MlflowClient(tracking_uri=uri)
        names = {each.experiment_id: each.name for each in _pages(client.search_experiments)}
        found: list[Any] = []
        for run in _pages(lambda **page: client.search_runs(list(names), **page)):
            found.append(run)
            if len(found) > MOST_RUNS:
                raise DataError(f"at most {MOST_RUNS:,} runs are read, got more of {where}.")
        wanted = chosen_experiment(
            [run.info.experiment_id for run in found], names, study, where=where
        )
        runs = [_tracked(client, run) for run in found if run.info.experiment_id == wanted]
        joined, notes = stitched(sorted(runs, key=lambda run: run.started))
        return table_of(joined, where=where, notes=notes)
    except MlflowException as error:
        raise DataError(
            f"MLflow does not give the runs of {where}: {_reason(error, uri)}; check the address."
        ) from error


def _tracked(client: Any, run: Any) -> TrackedRun:
    name = str(run.info.run_name or run.info.run_id)

    def fetch(metric: str) -> Points:
        history = client.get_metric_history(run.info.run_id, metric)
        ordered = sorted(history, key=lambda each: (each.step, each.timestamp))
        return [(float(each.step), as_stored(float(each.value))) for each in ordered]

    return TrackedRun(
        name=name,
        settings={key: as_number(str(value)) for key, value in run.data.params.items()},
        history=LazyHistory(run.data.metrics, fetch),
        summary={key: as_stored(float(value)) for key, value in run.data.metrics.items()},
        status=str(run.info.status).lower(),
        family=name,
        started=float(run.info.start_time or 0) / 1000,
    )


def _pages(search: Callable[..., Any]) -> Iterator[Any]:
    token: str | None = None
    while True:
        page = search(max_results=PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _reason(error: Exception, uri: str) -> str:
    """The first line of what MLflow says, without what stands before the @ of an address."""
    account, has_account, _ = uri.partition("://")[2].rpartition("@")
    text = str(error).replace(f"{account}@", "") if has_account else str(error)
    return first_line(text.replace(account.partition(":")[2] or "\0", "***"))


def _without_secret(uri: str) -> str:
    """An address without what stands before its @."""
    scheme, found, rest = uri.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if found else uri
