"""`extrap land`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from extrap.commands.analysis import EXIT_FINE, EXIT_UNDECIDED, Printed, analysis


@analysis(
    "land LOG",
    "output",
    """
    --total-steps FLOAT | Last step of the run; default: what a trainer's state says.
    --schedule constant|linear|cosine|wsd|steps | How the learning rate goes on; default: what the
        logged rates tell.
    --warmup FLOAT | Steps of the warm-up, or below 1 their share; default: read from the
        logged rates.
    --decay FLOAT | Steps of the last decay of wsd, or below 1 their share.
    --final FLOAT | Last rate as a share of the peak. [default: 0]
    --rates FILE | Table with step and lr instead of a schedule.
    --study FILE | Study file whose recipe has the schedule.
    --like FINISHED... | Log of a finished run of the recipe, of any size, at the same peak rate
        (repeatable).
    --tuned | Accept other peak rates: every run has the best rate of its size.
    --cooldown-now FLOAT | The end if the rate began to fall now, over this share of the shortened
        run; the other options describe the run so far.
    --peak FLOAT | Peak rate, where the log has no rates.
    --step TEXT | Column or key of the step. [default: step]
    --loss TEXT | Column, key or tag of the loss; default loss.
    --rate TEXT | Column, key or tag of the learning rate; default: the one that is called so.
    --let FORMULA... | Formula of the loss or step, e.g. "error = 1 - acc / 100" (repeatable, in
        order).
    --maximise METRIC | Metric that is better when larger: the loss is 1 − x of a share, −x below
        0.
    --level FLOAT | Level of the interval. [default: 0.9]
    --save FILE | Seal the landing in this file, for extrap check FILE LOG.
    """,
)
def land_command(
    log: str,
    *,
    like: Sequence[str],
    study: str | None,
    loss: str | None,
    maximise: str | None,
    save: str | None,
    output: str | None,
    **options: Any,
) -> Printed:
    """Forecast where the loss of a running job ends.

    LOG is what extrap watch reads, or the trainer_state.json of Hugging Face's Trainer. The rest
    of the learning rates decides where the loss ends: name the schedule, or give a table of rates.
    The exit code is 4 if nothing can be said.

    Example: extrap land train.csv --total-steps 20000 --schedule cosine --warmup 500
    """
    from extrap.analyses.landing import land
    from extrap.analyses.landing.sealed import save_landing
    from extrap.forecasting.documents import HASH_DIGITS_SHOWN

    schedule = options.pop("schedule")
    if study is not None:
        if schedule is not None:
            raise click.UsageError("--study and --schedule are two plans; give one of them.")
        from extrap.study import open_study

        schedule = open_study(study, symbol="STUDY").declared.recipe
    columns = {name: options.pop(name) for name in ("step", "rate", "let")}
    columns |= {"loss": loss or maximise or "loss", "maximised": maximise is not None}
    landing = land(log, schedule, like=like, **columns, **options)
    notes = []
    if save:
        digest = save_landing(landing, log, save, **columns)
        notes.append(f"sealed in {save}, content hash {digest[:HASH_DIGITS_SHOWN]}")
    if output:
        from extrap.analyses.landing.page import landing_page
        from extrap.reporting.html import write_page

        notes.append(f"wrote {write_page(landing_page(landing, log), output)}")
    return Printed(landing, code=EXIT_UNDECIDED if landing.refusal else EXIT_FINE, notes=notes)
