"""Forecasts and verdicts as JSON documents, and back.

Scripts depend on these documents: keys are kept, `schema_version` rises when they change, an open
or missing number is `null` and never NaN.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from extrap import __version__
from extrap.errors import DataError, argument, first_line
from extrap.files import require_file
from extrap.fitting import (
    CurvatureTest,
    DivergenceModel,
    ExcessCurve,
    LocalLaw,
    LossModel,
    LossPosterior,
    Noise,
    ReferenceCurves,
)
from extrap.forecasting import Forecast, forecast
from extrap.laws import LAWS
from extrap.records import (
    Fit,
    Optimum,
    Point,
    Runs,
    SizePath,
    Verdict,
    Verdicts,
)
from extrap.records.codec import SCHEMA_VERSION, decode, encode, shape
from extrap.records.fields import require_fields
from extrap.records.seals import (
    Sealed,
    SealedKind,
    as_sealed,
    canonical_hash,
    is_sealed_file,
    set_aside,
    verify,
    write_document,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")
FORECAST = SealedKind(
    kind="extrap-forecast",
    what="forecast",
    remedy="write one with extrap forecast … --save {name}",
    attached=("curves",),
    loose=("notes",),
)
SHOWN = 12
"""Digits of a content hash that text shows."""
RECORDED = ("epochs", "batch_size", "flops")
"""Columns beyond those a fit depends on that a check of larger runs asks for."""
NO_FORECAST = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a file raises that is sealed and holds something else than a forecast."""


shape(
    Verdict,
    omit=("size", "tuned", "seed", "loss", "mean_loss", "expected_pi"),
    add={
        "run": lambda verdict: {
            "size": verdict.size,
            "tuned": verdict.tuned,
            "seed": verdict.seed,
            "loss": verdict.loss,
        }
    },
)
shape(CurvatureTest, add={"bends": lambda test: test.bends})


def forecast_document(forecast: Forecast, points: Sequence[Point]) -> dict[str, Any]:
    """What `extrap forecast --json` prints: points in the order asked, optima, laws."""
    model = forecast.loss_model
    return encode(
        {
            "schema_version": SCHEMA_VERSION,
            "level": forecast.level,
            "band": forecast.band,
            **_path(forecast),
            "points": [_advised_point(forecast, point) for point in points],
            "optima": forecast.optima,
            "laws": _laws(forecast),
            "local_weight": None if model is None else model.local_weight,
            "discrepancy": None if model is None else model.discrepancy,
            "curvature": forecast.curvature(),
            "divergence": forecast.divergence,
            "runs": forecast.runs.counts(),
            "notes": forecast.runs.notes,
            "data_hash": forecast.runs.data_hash(),
            "content_hash": content_hash(forecast),
            "created": forecast.created,
        }
    )


def _advised_point(forecast: Forecast, point: Point) -> dict[str, Any]:
    """A point with what known or kept values would do."""
    found = encode(point)
    if not point.path_inputs:
        del found["path_inputs"]
    return {
        **found,
        "rules": forecast.rules(**point.size),
        "transfer": forecast.transfer(**point.size),
    }


def verdicts_document(
    verdicts: Sequence[Verdict],
    *,
    level: float,
    forecast: Forecast | None = None,
    familywise: bool = False,
) -> dict[str, Any]:
    """What `extrap check --json` prints: one verdict per run, in row order.

    Args:
        verdicts: The verdicts.
        level: Of the forecast.
        forecast: What they were compared with; adds when it was made, and the hashes of its seal.
        familywise: Whether the level held for any false alarm among all.
    """
    found = Verdicts(verdicts)
    seal = forecast and {
        "created": forecast.created,
        "content_hash": content_hash(forecast),
        "data_hash": forecast.runs.data_hash(),
    }
    return encode(
        {
            "schema_version": SCHEMA_VERSION,
            "level": level,
            **({"forecast": seal} if seal else {}),
            "verdicts": list(verdicts),
            "configurations": [_configuration(runs) for runs in found.configurations],
            "n_configurations_judged": found.n_judged,
            "n_configurations_off": found.n_off,
            "n_configurations_off_expected": (1 - level) * (1 if familywise else found.n_tested),
            "familywise": familywise,
            "joint_p": found.joint_p,
            "n_judged": sum(verdict.on_law is not None for verdict in verdicts),
            "ok": all(verdict.on_law is not False for verdict in verdicts),
        }
    )


def _laws(forecast: Forecast) -> list[dict[str, Any]]:
    laws = [_law("loss", fit, weight) for fit, weight in forecast.loss_laws]
    laws += [_law(name, fit, 1.0) for name, fit in forecast.tuned_laws.items() if fit is not None]
    return laws


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
    sealed = forecast_seal(forecast)
    path = Path(path)
    earlier = _earlier(path, sealed.content_hash)
    is_same = earlier is not None and earlier.curves == forecast.curves
    write_sealed(FORECAST, path, sealed, is_same=is_same)
    return sealed.content_hash


def forecast_seal(forecast: Forecast) -> Sealed:
    """A forecast as it is sealed, at its own time."""
    curves = None if forecast.curves is None else encode(forecast.curves)
    return as_sealed(
        encode(_content(forecast)),
        forecast.created,
        attached={"curves": curves},
        loose={"notes": list(forecast.runs.notes)},
    )


def restore_seal(forecast: Forecast, sealed: Sealed) -> Forecast:
    """The forecast with the time of its seal, if that is one of this very forecast.

    Reference curves are no part of the content that decides: made again from a run table, which
    has none, a forecast takes over those of the file.
    """
    if content_hash(forecast) != sealed.content_hash:
        return forecast
    curves = forecast.curves or _known(ReferenceCurves, sealed.attached.get("curves"))
    return replace(forecast, created=sealed.created, curves=curves)


def _earlier(path: Path, content: str) -> Forecast | None:
    """The forecast in a file, if it is intact and has this content hash."""
    try:
        found = load_forecast(path)
    except DataError:
        return None
    return found if content_hash(found) == content else None


def load_forecast(path: str | Path) -> Forecast:
    """Read a forecast that `save_forecast` wrote, and verify its seal.

    Raises:
        DataError: The file is missing, is not a forecast, was written by another schema, or its
            content was changed after it was sealed.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"forecast {path} does not exist; check the path.")
    sealed = read_sealed(FORECAST, path)
    try:
        made = _proved(_restore(sealed))
        if unknown := sorted(set(sealed.content) - set(_content(made))):
            raise ValueError(f"its keys {', '.join(unknown)} are unknown to this version")
        return made
    except NO_FORECAST as error:
        raise DataError(f"{path} is not a complete forecast: {first_line(error)}.") from error


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
    is_sealed = is_sealed_file(source)
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


def read_sealed(kind: SealedKind, path: Path) -> Sealed:
    """Read a sealed file and verify it.

    Raises:
        DataError: It is of another kind or schema, or was changed after it was sealed.
    """
    require_file(path, f"sealed {kind.what}")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {first_line(error)}.") from error
    if not isinstance(document, dict) or document.get("kind") != kind.kind:
        raise DataError(f"{path} is not a {kind.what}; {kind.remedy.format(name=path.name)}.")
    if (version := document.get("schema_version", SCHEMA_VERSION)) != SCHEMA_VERSION:
        raise DataError(
            f"{path} has schema version {version}, this extrap reads {SCHEMA_VERSION}; make the "
            f"{kind.what} again."
        )
    try:
        return verify(kind, document)
    except ValueError as error:
        raise DataError(f"the seal of {path} is broken: {error}.") from error


def read_if_intact(kind: SealedKind, path: Path) -> Sealed | None:
    """What a file holds; None if there is none, or none that is intact."""
    try:
        return read_sealed(kind, path) if path.is_file() else None
    except DataError as error:
        logger.warning("%s", error)
        return None


def write_sealed(kind: SealedKind, path: Path, sealed: Sealed, *, is_same: bool) -> None:
    """Write a sealed file; an intact one there is kept beside it, unless it says the same."""
    if not is_same and (earlier := read_if_intact(kind, path)) is not None:
        set_aside(path, earlier.content_hash, what=kind.what)
    write_document(sealed.document(kind), path)


def _proved(forecast: Forecast) -> Forecast:
    """A forecast from a file, after it was seen to forecast."""
    require_fields(forecast)
    forecast_document(forecast, [forecast.at(**size) for size in forecast.default_targets()])
    return forecast


def content_hash(forecast: Forecast) -> str:
    """SHA-256 over everything a forecast says; its time and the notes on reading are left out."""
    return canonical_hash(encode(_content(forecast)))


def _content(forecast: Forecast) -> dict[str, Any]:
    runs = forecast.runs
    table = runs.canonical(also=RECORDED)
    return {
        "kind": "extrap-forecast",
        "schema_version": SCHEMA_VERSION,
        "extrap_version": __version__,
        "level": forecast.level,
        "sizes": list(runs.sizes),
        "tuned": list(runs.tuned),
        "conditions": list(runs.conditions),
        "data_hash": runs.data_hash(),
        "optima": forecast.optima,
        "noise": encode(forecast.noise),
        "band": forecast.band,
        **_path(forecast),
        "loss_laws": [{"fit": fit, "weight": w} for fit, w in forecast.loss_laws],
        **_combination(forecast.loss_model),
        "tuned_laws": forecast.tuned_laws,
        "excess_curve": forecast.excess_curve,
        "divergence": forecast.divergence,
        "flags": list(forecast.flags),
        "runs": {
            "columns": [str(c) for c in table.columns],
            "rows": table.astype(object).to_numpy().tolist(),
        },
    }


def _path(forecast: Forecast) -> dict[str, Any]:
    """How sizes follow from an input; forecasts without such a path have no such key."""
    return {} if forecast.path is None else {"path": dict(forecast.path.formulas)}


def _combination(model: LossModel | None) -> dict[str, Any]:
    """How the laws of the loss are combined."""
    if model is None:
        return {}
    return {
        "local_law": model.local,
        "local_weight": model.local_weight,
        "discrepancy": model.discrepancy,
        "averaged_law": model.posterior,
        "discrepancy_dof": model.discrepancy_dof,
        "reach": model.reach,
    }


def _restore(sealed: Sealed) -> Forecast:
    document = sealed.content
    rows = pd.DataFrame(document["runs"]["rows"], columns=document["runs"]["columns"])
    for column in ("loss", *RECORDED):
        if column in rows:
            rows[column] = rows[column].astype(float)
    return Forecast(
        runs=Runs.from_frame(
            rows,
            sizes=document["sizes"],
            tuned=document["tuned"],
            conditions=document["conditions"],
            source="a sealed forecast",
            notes=sealed.loose.get("notes", ()),
        ),
        level=document["level"],
        optima=tuple(decode(Optimum, optimum) for optimum in document["optima"]),
        noise=decode(Noise, document["noise"]),
        band=document["band"],
        loss_model=_restore_loss_model(document),
        tuned_laws={
            name: None if fit is None else decode(Fit, fit)
            for name, fit in document["tuned_laws"].items()
        },
        excess_curve=None
        if document["excess_curve"] is None
        else _restore_excess_curve(document["excess_curve"]),
        divergence=_known(DivergenceModel, document["divergence"]),
        curves=_known(ReferenceCurves, sealed.attached.get("curves")),
        flags=tuple(document["flags"]),
        created=sealed.created,
        path=SizePath(document["path"]) if "path" in document else None,
    )


def _restore_loss_model(document: Mapping[str, Any]) -> LossModel | None:
    if not document["loss_laws"]:
        return None
    return LossModel(
        laws=tuple(
            (decode(Fit, entry["fit"]), float(entry["weight"])) for entry in document["loss_laws"]
        ),
        local=_known(LocalLaw, document["local_law"]),
        local_weight=float(document["local_weight"]),
        discrepancy=float(document["discrepancy"]),
        posterior=_known(LossPosterior, document["averaged_law"]),
        discrepancy_dof=float(document["discrepancy_dof"]),
        reach=document["reach"],
    )


def _restore_excess_curve(fields: Mapping[str, Any]) -> ExcessCurve:
    rise = fields["rise"]
    if not isinstance(rise[0], list):  # earlier files: one tuned column's pair, bare
        rise = [rise] * len(fields["tuned"])
    return decode(ExcessCurve, {**fields, "rise": rise})


def _known(cls: type[T], fields: Mapping[str, Any] | None) -> T | None:
    return None if fields is None else decode(cls, fields)
