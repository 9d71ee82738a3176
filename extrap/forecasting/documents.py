"""Forecasts and verdicts as JSON documents, and back.

Scripts depend on these documents: keys are kept, `schema_version` rises when they change, an open
or missing number is `null` and never NaN.
"""

from __future__ import annotations

import inspect
import itertools
import json
import logging
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from extrap import __version__
from extrap.errors import DataError, argument, first_line
from extrap.files import require_file, write_text
from extrap.fitting.one_thread import one_thread
from extrap.fitting.reference_curves import ReferenceCurves
from extrap.fitting.surface.draws import DrawnPart, SurfaceDraws
from extrap.fitting.surface.optimum_law import CurvatureTest
from extrap.fitting.surface.optimum_process import Spreads
from extrap.fitting.surface.parameters import Margin
from extrap.forecasting import Forecast, forecast
from extrap.laws import LAWS
from extrap.records import Fit, Point, Runs, Verdict, Verdicts, seals
from extrap.records.codec import DOCUMENT_VERSION, decode, encode, shape

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

FORECAST_KIND, FORECAST_SCHEMA = "extrap-forecast", 2
"""Kind of the document of a saved forecast, and its schema: one of schema 1 holds laws of several
estimators, which are no more, and is refused."""
ORIGIN_KEYS = ("kind", "schema_version", "extrap_version", "data_hash")
NOT_FIELDS = (*ORIGIN_KEYS, "notes", "content_hash", "seal")
"""Keys of that document beside the fields of the forecast."""
HASH_DIGITS_SHOWN = 12
"""Digits of a content hash that text shows."""
CHECKED_COLUMNS = ("epochs", "batch_size", "flops")
"""Columns beyond those a fit depends on that a check of larger runs asks for."""


shape(Forecast, later=("settings",))
shape(CurvatureTest, add={"bends": lambda test: test.bends})


def forecast_document(forecast: Forecast, points: Sequence[Point]) -> dict[str, Any]:
    """A forecast in numbers: points in the order asked, optima, laws."""
    model = forecast.loss_model
    return encode(
        {
            "schema_version": FORECAST_SCHEMA,
            "level": forecast.level,
            "band": forecast.band,
            **({} if forecast.path is None else {"path": forecast.path.formulas}),
            "points": list(points),
            "optima": forecast.optima,
            "laws": _laws(forecast),
            "local_weight": None if model is None else model.local_weight,
            "discrepancy": None if model is None else model.discrepancy,
            "curvature": forecast.curvature(),
            **_timescale(forecast, points),
            "divergence": _divergence(forecast),
            "runs": forecast.runs.counts(),
            "notes": forecast.runs.notes,
            "data_hash": forecast.runs.data_hash(),
            "content_hash": content_hash(forecast),
            "created": forecast.created,
        }
    )


def _timescale(forecast: Forecast, points: Sequence[Point]) -> dict[str, Any]:
    """That of AdamW at the last point; nothing where it is not known."""
    sizes = [p.size for p in points if set(p.size) == set(forecast.runs.sizes)]
    timescale = forecast.timescale(**sizes[-1]) if sizes else None
    return {} if timescale is None else {"timescale": timescale}


def verdicts_document(
    verdicts: Sequence[Verdict],
    *,
    level: float,
    forecast: Forecast | None = None,
    familywise: bool = False,
    worse: bool = False,
) -> dict[str, Any]:
    """What `extrap check --json` prints: one verdict per run, in row order.

    Args:
        verdicts: The verdicts.
        level: Of the forecast.
        forecast: What they were compared with; adds when it was made, and the hashes of its seal.
        familywise: Whether the level held for any false alarm among all.
        worse: Whether it was asked only if losses are worse.
    """
    judged = Verdicts(verdicts)
    sealed = forecast and {
        "created": forecast.created,
        "content_hash": content_hash(forecast),
        "data_hash": forecast.runs.data_hash(),
    }
    return encode(
        {
            "schema_version": DOCUMENT_VERSION,
            "level": level,
            **({"forecast": sealed} if sealed else {}),
            "verdicts": list(verdicts),
            "configurations": [_configuration(runs) for runs in judged.configurations],
            "n_configurations_judged": judged.n_judged,
            "n_configurations_off": judged.n_off,
            "n_configurations_off_expected": (1 - level) * (1 if familywise else judged.n_tested),
            "familywise": familywise,
            "worse": worse,
            "joint_p": judged.joint_p,
            "n_judged": sum(verdict.on_law is not None for verdict in verdicts),
            "ok": all(verdict.on_law is not False for verdict in verdicts),
        }
    )


def _laws(forecast: Forecast) -> list[dict[str, Any]]:
    laws = [_law("loss", fit, weight) for fit, weight in forecast.loss_laws]
    laws += [_law(name, fit, 1.0) for name, fit in forecast.tuned_laws.items()]
    return laws


def _divergence(forecast: Forecast) -> dict[str, Any] | None:
    """Where runs diverge at the largest size; None where none did."""
    values = forecast.values_at(forecast.optima[-1].size)
    if values is None or (edges := values.draws.even_odds()) is None:
        return None
    counts, j = forecast.runs.counts(), values.draws.main
    low, middle, high = (2.0 ** np.quantile(edges, [0.05, 0.5, 0.95])).tolist()
    return {
        "column": values.names[j],
        "size": values.size,
        "even_odds_at": middle,
        "even_odds_90": [low, high],
        "n_diverged": counts["diverged"],
        "n_runs": counts["complete"] + counts["diverged"],
    }


def _law(of: str, fit: Fit, weight: float) -> dict[str, Any]:
    law = LAWS[fit.law]
    return {
        "of": of,
        "law": fit.law,
        "formula": law.formula,
        "source": law.reference,
        "weight": weight,
        "parameters": {
            name: {"value": value, "se": math.sqrt(fit.covariance[i][i])}
            for i, (name, value) in enumerate(fit.parameters.items())
        },
        "x0": dict(zip(fit.columns, fit.reference, strict=True)),
        "fitted_range": dict(zip(fit.columns, fit.fitted_range, strict=True)),
        "n_points": fit.n_points,
        "flags": fit.flags,
    }


def _configuration(runs: Sequence[Verdict]) -> dict[str, Any]:
    """What the runs of one configuration share."""
    first = runs[0]
    loss, predicted = first.mean_loss, first.predicted
    return {
        "configuration": first.configuration,
        "size": first.size,
        "tuned": first.tuned,
        "seeds": [verdict.seed for verdict in runs],
        "n_runs": len(runs),
        "loss": loss,
        "predicted": predicted,
        "predicted_pi": first.predicted_pi,
        "expected": first.expected,
        "expected_pi": first.expected_pi,
        "deviation": loss / predicted - 1 if loss and predicted else None,
        "on_law": first.on_law,
        "p_value": first.p_value,
        "p_adjusted": first.p_adjusted,
        "cause": first.cause,
    }


def save_forecast(forecast: Forecast, path: str | Path) -> str:
    """Write a sealed forecast to a JSON file, with data hash, content hash and time.

    The seal shows any later change of the file, of its time as well. It is a checksum, not a
    signature; to prove the date, publish the content hash or commit the file.

    Args:
        forecast: The forecast.
        path: File to write; parent folders are created. An earlier, different forecast there is
            kept as `NAME.HASH.json`.

    Returns:
        The content hash, 64 hexadecimal digits; the time is not part of it.
    """
    document = sealed_document(forecast)
    write_sealed(document, Path(path))
    return str(document["content_hash"])


def sealed_document(forecast: Forecast) -> dict[str, Any]:
    """A forecast as it is saved: its fields by the codec, where it comes from, and the seal."""
    return seals.seal(_unsealed(forecast))


def _unsealed(forecast: Forecast) -> dict[str, Any]:
    return {
        "kind": FORECAST_KIND,
        "schema_version": FORECAST_SCHEMA,
        "extrap_version": __version__,
        "data_hash": forecast.runs.data_hash(),
        **encode(forecast),
        "notes": list(forecast.runs.notes),
    }


def content_hash(forecast: Forecast) -> str:
    """SHA-256 over everything a forecast says; its time and the notes on reading are left out."""
    return seals.content_hash(_unsealed(forecast))


def with_seal_of(forecast: Forecast, document: Mapping[str, Any]) -> Forecast:
    """The forecast with the time of its own sealed document, which has its content hash.

    Reference curves are no part of the content that decides: made again from a run table, which
    has none, a forecast takes over those of the document.
    """
    curves, sealed = forecast.curves, document.get("curves")
    if curves is None and sealed is not None:
        curves = decode(ReferenceCurves, sealed)
    return replace(forecast, created=document["created"], curves=curves)


def load_forecast(path: str | Path) -> Forecast:
    """Read a forecast that `save_forecast` wrote, and verify its seal.

    Raises:
        DataError: The file is missing, is not a forecast, was written by another schema, or was
            changed after it was sealed; the field is named.
    """
    document = read_sealed(Path(path), FORECAST_KIND, version=FORECAST_SCHEMA)
    try:
        return _forecast(document)
    except ValueError as error:
        raise DataError(f"{path} is not a complete forecast: {error}.") from error


def _forecast(document: Mapping[str, Any]) -> Forecast:
    model = document.get("loss_model")
    posterior = model.get("posterior") if isinstance(model, dict) else None
    if isinstance(posterior, dict) and "parts" in posterior and "columns" in posterior:
        raise ValueError("an earlier state of this version wrote its laws; make it again")
    forecast = decode(Forecast, {k: v for k, v in document.items() if k not in NOT_FIELDS})
    return replace(forecast, runs=replace(forecast.runs, notes=tuple(document.get("notes", ()))))


def of_forecast(analysis: Callable[..., Result]) -> Callable[..., Result]:
    """An analysis of a forecast as a public function, which takes whatever `as_forecast` takes.

    Its own keywords are the analysis'; all others say how runs are read.
    """
    names = inspect.signature(analysis).parameters

    @wraps(analysis)
    @one_thread
    def public(source: Any, **keywords: Any) -> Result:
        options = {name: keywords.pop(name) for name in names if name in keywords}
        return analysis(as_forecast(source, keywords), **options)

    return public


def as_forecast(source: Any, columns: Mapping[str, Any] | None = None) -> Forecast:
    """The forecast of an analysis: as it is, from the `.json` it was sealed in, or made of runs.

    Args:
        source: What the analysis was given.
        columns: How runs are read, as for `extrap.forecast`; None where it takes no runs.

    Raises:
        TypeError: It is no forecast and the analysis takes no runs; or as `extrap.read_runs`.
        ValueError: Keywords for reading were given beside a forecast.
        DataError: As `load_forecast` or `extrap.forecast`.
    """
    is_sealed = seals.is_sealed_file(source)
    if columns and (is_sealed or isinstance(source, Forecast)):
        raise ValueError(
            f"{argument(next(iter(columns)))} says how runs are read, got a forecast, which has "
            "read its own; leave it out."
        )
    if isinstance(source, Forecast):
        return source
    if is_sealed:
        return load_forecast(source)
    if columns is None:
        raise TypeError(
            f"a forecast is what extrap.forecast returns or the .json it was sealed in, got "
            f"{type(source).__name__}; write extrap.forecast(…)."
        )
    return forecast(source, **columns)


def read_sealed(
    path: Path, kind: str, *, version: int | None = DOCUMENT_VERSION
) -> dict[str, Any]:
    """Read a sealed document of a kind from a file and verify it.

    Args:
        path: The file.
        kind: Its `kind`.
        version: Its `schema_version`; None if any may be read.

    Raises:
        DataError: It is of another kind or schema, or was changed after it was sealed; the field
            is named.
    """
    require_file(path, "sealed file")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is not JSON: {first_line(error)}; name a sealed file, such as extrap "
            "forecast --save FILE writes."
        ) from error
    fields = document if isinstance(document, dict) else {}
    for key, expected in (("kind", kind), ("schema_version", version)):
        if expected is not None and (value := fields.get(key)) != expected:
            raise DataError(
                f"{path} has the {key} {value!r:.60}, which must be {expected!r}; name another "
                "file, or make it again."
            )
    try:
        seals.verify(fields)
    except ValueError as error:
        raise DataError(f"the seal of {path} is broken: {error}.") from error
    return fields


def read_if_intact(path: Path, kind: str) -> dict[str, Any] | None:
    """The sealed document in a file, of any schema; None if there is none that is intact."""
    try:
        return read_sealed(path, kind, version=None) if path.is_file() else None
    except DataError as error:
        logger.warning("%s", error)
        return None


def write_sealed(document: Mapping[str, Any], path: Path) -> None:
    """Write a sealed document; one that says something else is kept beside as `NAME.HASH.json`."""
    earlier = read_if_intact(path, document["kind"])
    if earlier and any(earlier.get(k) != document.get(k) for k in ("content_hash", "curves")):
        aside = path.with_name(f"{path.stem}.{earlier['content_hash'][:8]}{path.suffix}")
        path.replace(aside)
        logger.warning("an earlier %s differs; it is kept as %s", document["kind"], aside)
    write_text(path, json.dumps(document, indent=1, allow_nan=False) + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTable:
    """The runs of a forecast as they are saved: the columns that a fit or a check asks for."""

    sizes: tuple[str, ...]
    tuned: tuple[str, ...]
    conditions: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def _run_table(runs: Runs) -> RunTable:
    table = runs.canonical(also=CHECKED_COLUMNS)
    return RunTable(
        sizes=runs.sizes,
        tuned=runs.tuned,
        conditions=runs.conditions,
        columns=tuple(map(str, table.columns)),
        rows=tuple(map(tuple, table.astype(object).to_numpy().tolist())),
    )


def _runs(table: RunTable) -> Runs:
    frame = pd.DataFrame(table.rows, columns=list(table.columns))
    numbers = [column for column in ("loss", *CHECKED_COLUMNS) if column in frame]
    return Runs.from_frame(
        frame.astype(dict.fromkeys(numbers, float)),
        sizes=table.sizes,
        tuned=table.tuned,
        conditions=table.conditions,
        source="a sealed forecast",
    )


shape(Runs, written_as=(RunTable, _run_table, _runs))


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedDraws:
    """Draws of a surface as they are saved: `theta` as 32-bit numbers, row by row, in base 64.

    Of each part: n, spread of the asymmetry, the margin's three numbers, the spreads of each
    column: of one size column four, without `column_bend`, as older files have them.
    """

    log_sizes: tuple[tuple[float, ...], ...]
    pinned: tuple[tuple[float | None, ...], ...]
    centre: tuple[float, ...]
    main: int | None
    parts: tuple[tuple[float, ...], ...]
    theta: str


def _packed(draws: SurfaceDraws) -> PackedDraws:
    pins = draws.pinned.astype(object)
    pins[np.isnan(draws.pinned)] = None
    return PackedDraws(
        log_sizes=tuple(map(tuple, draws.log_sizes.tolist())),
        pinned=tuple(map(tuple, pins.tolist())),
        centre=tuple(draws.centre.tolist()),
        main=draws.main,
        parts=tuple(
            (part.n, part.asymmetry_sd, *part.margin, *itertools.chain(*_spreads(part, draws)))
            for part in draws.parts
        ),
        theta=b64encode(draws.theta.astype("<f4").tobytes()).decode("ascii"),
    )


def _spreads(part: DrawnPart, draws: SurfaceDraws) -> list[tuple[float, ...]]:
    """The spreads of each tuned column, as they are saved."""
    n_spreads = len(Spreads._fields) - (draws.log_sizes.shape[1] == 1)
    return [spreads[:n_spreads] for spreads in part.spreads]


def _unpacked(packed: PackedDraws) -> SurfaceDraws:
    """Raises a ValueError where the parts of a surface do not fit together."""
    n_tuned, n_draws = len(packed.centre), sum(int(part[0]) for part in packed.parts)
    most = len(Spreads._fields)
    lengths = {5 + n_spreads * n_tuned: n_spreads for n_spreads in (most - 1, most)}
    n_numbers = {len(part) for part in packed.parts}
    if len(n_numbers) > 1 or not n_numbers <= set(lengths):
        raise ValueError(f"parts: each must hold {' or '.join(map(str, lengths))} numbers")
    n_spreads = lengths[n_numbers.pop()] if n_numbers else most
    numbers = np.frombuffer(b64decode(packed.theta), dtype="<f4").astype(float)
    parts = tuple(
        DrawnPart(
            n=int(n),
            asymmetry_sd=asymmetry_sd,
            margin=Margin(*shapes[:3]),
            spreads=tuple(
                Spreads(*shapes[i : i + n_spreads]) for i in range(3, len(shapes), n_spreads)
            ),
        )
        for n, asymmetry_sd, *shapes in packed.parts
    )
    draws = SurfaceDraws(
        log_sizes=np.array(packed.log_sizes),
        pinned=np.array(packed.pinned, dtype=float),
        centre=np.array(packed.centre),
        main=packed.main,
        parts=parts,
        theta=numbers.reshape(n_draws, -1),
    )
    if draws.theta.shape[1] != draws.places.n or not np.isfinite(draws.theta).all():
        raise ValueError(f"theta: must be {n_draws} by {draws.places.n} numbers")
    return draws


shape(SurfaceDraws, written_as=(PackedDraws, _packed, _unpacked))
