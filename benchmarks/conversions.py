"""Tidy tables from the raw files of the repositories that published them.

Each conversion takes the raw files in the order of `sources.toml` and gives the rows in the order
on which the checksum of the table rests.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from extrap.files import PANDAS_EXACT, ROUND_TRIP

BATCH_TOKENS = 2**20
"""Of every run of `misfitting_lr_sweep_v0`: 1.0M tokens a batch there."""
EVALUATIONS = "eval/ppl//fsx-onellm/data/corpora/text_only/text_eval/"
"""Begins the names of columns with perplexities."""
N_OUTLIERS = 5
"""Runs with the fewest tokens per parameter, which Besiroglu et al. (2024) leave out."""


def csv_of(content: bytes, **options: Any) -> pd.DataFrame:
    """The table that a CSV file holds, numbers to the last bit."""
    exact = {} if int(pd.__version__.split(".")[0]) >= PANDAS_EXACT else ROUND_TRIP
    return pd.read_csv(io.BytesIO(content), low_memory=False, **exact, **options)


def learning_curves(files: Sequence[bytes]) -> pd.DataFrame:
    """The 92 curves of the vision and the language benchmark."""
    text = dict.fromkeys(("Domain", "Task", "Model"), str)
    raw = pd.concat([csv_of(content, dtype=text) for content in files], ignore_index=True)
    return pd.DataFrame(
        {
            "curve_id": raw["Domain"] + "|" + raw["Task"] + "|" + raw["Model"],
            "domain": raw["Domain"],
            "task": raw["Task"],
            "model": raw["Model"],
            "seen_examples": raw["Seen Examples"],
            "loss": raw["Loss"],
            "split": raw["Training"].map({1: "train", 0: "test"}),
        }
    )


def digitised_chinchilla(files: Sequence[bytes]) -> pd.DataFrame:
    """Chinchilla's runs, tokens from compute by 6 N D."""
    raw = csv_of(files[0])[["Model Size", "Training FLOP", "loss"]].dropna()
    params, flops = raw["Model Size"], raw["Training FLOP"]
    tokens = flops / (6.0 * params)
    return pd.DataFrame(
        {
            "task": "chinchilla_fig4",
            "params": params,
            "tokens": tokens,
            "flops": flops,
            "loss": raw["loss"],
            "epoch_outlier": ((tokens / params).rank(method="first") <= N_OUTLIERS).astype(int),
        }
    )


def overtrained_models(files: Sequence[bytes]) -> pd.DataFrame:
    """Models of Gadre et al. on each validation set; `flops` overflows as 64 bits do."""
    rows = [row for content in files for row in _evaluations(json.loads(content))]
    table = pd.DataFrame(rows).sort_values(
        ["task", "params", "chinchilla_multiplier", "val_set"], ignore_index=True
    )
    return table.assign(flops=6 * table["params"] * table["tokens"])


def _evaluations(model: Mapping[str, Any]) -> list[dict[str, Any]]:
    settings, arguments = model["hyperparameters"], model["open_lm_args"]
    of_model = {
        "task": model["dataset_name"],
        "run": model["name"],
        "model": "",
        "params": settings["params"],
        "params_no_embed": settings["params_no_embed"],
        "tokens": settings["tokens"],
        "chinchilla_multiplier": settings["chinchilla_multiplier"],
        "lr": settings["lr"],
        "wd": settings["wd"],
        "warmup_steps": settings["warmup"],
        "batch_size_seqs": settings["global_bs"],
        "seed": int(arguments[arguments.index("--seed") + 1]),
    }
    return [
        {
            **of_model,
            "model": result["model"],
            "loss": result["loss"],
            "loss_tok_lo95": result["loss_tokens_lower_95"],
            "loss_tok_hi95": result["loss_tokens_upper_95"],
            "loss_seq_lo95": result["loss_sequences_lower_95"],
            "loss_seq_hi95": result["loss_sequences_upper_95"],
            "val_set": result["val_data"][0]
            .removeprefix("training/eval_data/")
            .removeprefix("val_tok_mult/")
            .removesuffix(".tar"),
        }
        for result in model["results"]
    ]


def rate_sweeps(files: Sequence[bytes]) -> pd.DataFrame:
    """Learning rates of dense models, then of both kinds of mixtures of experts."""
    dense, *mixtures = files
    return pd.concat([_dense_sweep(dense), *map(_expert_sweep, mixtures)], ignore_index=True)


def _dense_sweep(content: bytes) -> pd.DataFrame:
    """A sheet whose size stands in a line above its runs."""
    raw = csv_of(content)
    runs = raw.assign(model=raw["Params"].ffill()).dropna(subset="lr")
    return pd.DataFrame(
        {
            "task": "dense_c4_v0",
            "model": runs["model"],
            "params": runs["N_w_emb"],
            "params_no_emb": runs["N"],
            "tokens": runs["D"],
            "lr": runs["lr"],
            "batch_size_tokens": BATCH_TOKENS,
            "flops": runs["Est C"],
            "loss": runs["C4 Eval Loss"],
            "loss_wiki": runs["Wiki Eval Loss"],
            "train_loss_avg": runs["Avg Train Loss"],
        }
    )


def _expert_sweep(content: bytes) -> pd.DataFrame:
    raw = csv_of(content)
    kind = raw["Name"].str.extract(r"\.model-(?P<model>\w+)\.moe-(?P<router>\w+)\.")
    experts = raw["model.number_of_experts"].astype(str)
    return pd.DataFrame(
        {
            "task": "moe_" + kind["router"] + "_v0_E" + experts,
            "model": kind["model"],
            "tokens": raw["optim/n_tokens"],
            "lr": raw["optim.lr"],
            "batch_size_tokens": BATCH_TOKENS,
            "loss": np.log(raw[f"{EVALUATIONS}c4.jsonl"]),
            "loss_wiki": np.log(raw[f"{EVALUATIONS}wikipedia.jsonl"]),
            "train_loss_avg": raw["train/avg_loss_AVG"],
            "steps": raw["steps"],
            "seed": raw["torch_seed"],
            "name": raw["Name"],
        }
    )


def digitised_llama(files: Sequence[bytes]) -> pd.DataFrame:
    """Llama 3's isoFLOP points, to whole parameters and tokens and six decimals."""
    raw = csv_of(files[0])
    whole = raw[["params", "tokens"]].round().astype("int64")
    return raw[["condition", "budget"]].join(whole).assign(loss=raw["loss"].round(6))


CONVERSIONS: Mapping[str, Callable[[Sequence[bytes]], pd.DataFrame]] = {
    function.__name__: function
    for function in (
        learning_curves,
        digitised_chinchilla,
        overtrained_models,
        rate_sweeps,
        digitised_llama,
    )
}
"""Name in `sources.toml` → conversion."""
