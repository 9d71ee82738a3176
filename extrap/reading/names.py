"""What the names of columns say: which are settings, sizes, losses, and which identify a run."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache


def split_words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


TRACKER_PREFIX = re.compile(
    r"(?:config|summary|hparams|hyperparameters|params?|metrics|user_attrs|attrs|tags|"
    r"Param|UserAttribute|SystemAttribute)[./:_ ]"
)
"""What trackers write before the name of a setting or a metric."""
ENDINGS = ("min", "max", "mean", "best", "last", "std", "avg", "name", "type", "kind", "class")
"""Last parts of a name that say nothing without the part before them."""

WIDTH_NAMES = split_words(
    "width d_model n_embd hidden_size hidden_dim dim embed_dim model_dim embedding_dim n_embed "
    "n_hidden hidden channels units"
)
"""Names of a width."""
DEPTH_NAMES = split_words("depth n_layers n_layer num_layers num_hidden_layers layers")
"""Names of a depth."""
COUNT_NAMES = split_words(
    "n_params params num_params n_parameters num_parameters parameters param_count "
    "params_no_embed params_no_emb non_embedding_params n_params_total active_params"
)
"""Names of a number of parameters."""
PARAMS_NAMES = (*COUNT_NAMES, *split_words("model_size size scale"))
"""Those, and names that may be of any measure of the model."""
TOKEN_NAMES = split_words(
    "n_tokens tokens num_tokens train_tokens tokens_trained n_examples examples seen_examples "
    "n_samples num_samples dataset_size data_size dataset_tokens tokens_seen"
)
"""Names of an amount of data: tokens or examples."""
RATIO_NAMES = split_words("tokens_per_param tpp")
"""Names of tokens per parameter."""
COMPUTE_NAMES = split_words(
    "flops compute train_flops training_flops total_flops flop flops_budget compute_budget budget "
    "training_compute"
)
"""Names of an amount of training compute."""
SYMBOLS = {"N": "params", "D": "tokens", "C": "flops", "L": "loss"}
"""What single letters are where `N` stands beside `D`, `C` or `D/N`, as in papers."""
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
"""Superscript digits → plain ones."""
MULTIPLES = {
    **dict.fromkeys(split_words("k thousand"), 1e3),
    **dict.fromkeys(split_words("m mn mio million"), 1e6),
    **dict.fromkeys(split_words("b bn g mrd billion"), 1e9),
    **dict.fromkeys(split_words("t tn trillion"), 1e12),
    **dict(
        zip(
            split_words("gflop tflop pflop eflop zflop"),
            (1e9, 1e12, 1e15, 1e18, 1e21),
            strict=True,
        )
    ),
    "pf-day": 8.64e19,
    "pflop/s-day": 8.64e19,
}
"""Unit in a header, in lower case and without a plural → how many of one it is."""
RATE_NAMES = split_words(
    "lr learning_rate max_lr peak_lr base_lr learningrate lr_max lr_peak initial_lr init_lr "
    "lr_mult eta η rate step_size"
)
"""Names of a learning rate."""
DECAY_NAMES = split_words("weight_decay wd λ")
"""Names of a weight decay."""
BATCH_NAMES = split_words(
    "batch_size batch_size_tokens batch_size_seqs global_batch_size bs batch_tokens "
    "tokens_per_batch batch per_device_train_batch_size"
)
"""Names of a batch size."""
TOKEN_BATCH_NAMES = tuple(name for name in BATCH_NAMES if "token" in name)
"""Those of a batch size in tokens."""
EXAMPLE_BATCH_NAMES = split_words("batch_size batch_size_seqs")
"""Those of a batch size in examples or sequences."""
LENGTH_NAMES = split_words("sequence_length seq_length seq_len context_length")
"""Names of the tokens of a sequence."""
STEP_NAMES = split_words(
    "steps n_steps step num_steps train_steps max_steps total_steps iterations updates"
)
"""Names of a number of steps."""
TOTAL_STEP_NAMES = split_words(
    "max_steps total_steps num_training_steps train_steps num_steps n_steps"
)
"""Settings of a trainer: the steps of the whole run."""
STEP_COUNT_NAMES = ("steps", "updates", *TOTAL_STEP_NAMES)
"""Names of the number of steps of a whole run in a table of runs."""
LOGGED_STEP_NAMES = split_words(
    "_step step global_step trainer/global_step train/global_step iteration iter epoch train/epoch"
)
"""Columns of a log, in lower case, the finest first."""
EPOCH_NAMES = split_words("epochs epoch n_epochs num_epochs")
"""Names of a number of epochs."""
PROGRESS_NAMES = split_words(
    "_step step steps n_steps global_step iteration iterations iters training_iteration updates "
    "epoch epochs n_tokens tokens tokens_seen seen_examples consumed_tokens num_steps train_steps"
)
"""Columns, in lower case, that say how far a run came."""
LETTERS = dict(
    zip("wdhlLn", split_words("width d_model hidden_size depth depth params"), strict=True)
)
"""What one letter stands for in a header such as `d512`."""
WARMUP_NAMES = split_words("warmup warmup_steps num_warmup_steps warmup_ratio warmup_frac")
"""Names of the length of a warmup."""
WARMUP_STEP_NAMES = split_words("warmup_steps num_warmup_steps warmup")
"""Names of the steps of a warmup."""
WARMUP_SHARE_NAMES = split_words("warmup_ratio warmup_frac warmup_fraction")
"""Names of the share of the steps that a warmup takes."""
SCHEDULE_NAMES = split_words("lr_scheduler_type lr_scheduler lr_schedule scheduler schedule")
"""Names of the kind of a learning rate schedule."""
RUN_IDS = (
    *("run", "run_id", "run id", "run_name", "run name", "name", "id"),
    *("experiment", "experiment_id", "experiment_name", "exp", "trial", "trial_id", "job_id"),
)
"""Columns, in lower case, that tell runs apart."""
RUN_NAMES = ("name", "run_name", "run name", "run", "experiment_name", "exp_name", "id")
"""Those that hold the names of runs, the likeliest first."""
RUN_TIMES = ("created", "started", "start_time", "start time", "created_at", "end_time")
"""Columns of a table of runs: when each began or ended."""
SEED_NAMES = split_words(
    "seed random_seed rng_seed model_seed init_seed run_seed data_seed manual_seed torch_seed "
    "trial_seed random_state replicate repeat rep"
)
"""Names of a seed."""
OTHER_TUNED_NAMES = split_words(
    "momentum beta1 beta2 adam_beta1 adam_beta2 dropout temperature init_std init_scale eps "
    "grad_clip"
)
"""Names of further settings that are tuned."""
NAMES_OF_PART = {
    "size": (*WIDTH_NAMES, *DEPTH_NAMES, *PARAMS_NAMES),
    "data": (*TOKEN_NAMES, *RATIO_NAMES),
    "tune": (*RATE_NAMES, *DECAY_NAMES, *BATCH_NAMES, *OTHER_TUNED_NAMES, *WARMUP_NAMES),
    "seed": SEED_NAMES,
}
"""Part of a column → names that are commonly given to such, the likeliest first."""
SETTINGS_IN_RUN_NAMES = frozenset((*NAMES_OF_PART["tune"], *SEED_NAMES)) - {
    "batch",
    "rate",
    "warmup",
}
"""Settings that are read from the names of runs; `batch3` there may be the third batch of runs."""
PLAYED = ("loss", "seed", "status", "stage")
"""Columns that every table of runs has; sizes, tuned values and conditions have other names."""
ALIKE = (
    WIDTH_NAMES,
    DEPTH_NAMES,
    PARAMS_NAMES,
    TOKEN_NAMES,
    RATE_NAMES,
    DECAY_NAMES,
    BATCH_NAMES,
    WARMUP_NAMES,
    SEED_NAMES,
)
"""Names that are given to one and the same thing."""
KNOWN = frozenset(name for names in NAMES_OF_PART.values() for name in names)
"""Every name in `NAMES_OF_PART`."""
MOST_LOG10 = {"params": 14.0, "tokens": 16.0, "compute": 30.0}
"""Kind of a count → logarithms to base 10 up to which there are such; natural ones are larger."""
LOGARITHM = re.compile(r"(?i)log_?2|log_?10|(?<![a-z])(?:ln|lg|log)(?![a-z])")
"""What a name says of a logarithm."""
RATIO_PATTERN = re.compile(
    r"tpp|d(_over|_per)?_n(_ratio)?|tok(en)?s?_ratio|"
    r"(data|tok(en)?s?)_to_(model|param(eter)?s?)(_size)?(_ratio)?|"
    r"(tok(en)?s?|data|examples?|samples?)_(per_)?(n_)?param(eter)?s?(_ratio)?"
)
"""Names of tokens per parameter; `chinchilla_ratio` may be of 20 of these."""
UNIT = re.compile(
    r"(?i)(?P<name>.*\w)\s*(?:[(\[]\s*(?:in\s+)?[x×*]?\s*(?P<inside>[\w\-/^*]+?)s?"
    r"(?:\s+(?:of\s+)?(?P<counted>tokens?|param(?:eter)?s?|flops?))?\s*[)\]]|"
    r"[\s,]+in\s+(?P<after>\w+?)s?|\s*/\s*(?P<divisor>1?e\d+|10(?:\^|\*\*)\d+)|"
    r"(?:_|,\s*)(?:in_)?"
    r"(?P<ending>[kmbt]|bn|thousands?|millions?|billions?|trillions?|1?e\d+))"
)
"""A header that ends in a unit: `Params (M)`, `N [1e6]`, `tokens in billions`, `tokens_B`."""
FLOP_UNIT = re.compile(
    r"(?i)(?:.*[\s_])?(?P<exa>[ez]flop)s?|"
    r"(?:.*[\s_])?(?:total|train(?:ing)?|compute|budget)[\s_]+(?P<other>[gtp]flop)s?"
)
"""Compute in a unit; smaller units alone, `tflops`, are those of a speed."""
COUNT_PATTERN = re.compile(r"(?i)(^|[\W_])(tokens|param(eter)?s)$")
"""Last words of names of counts, as in `Text tokens`."""
RATE_PATTERN = re.compile(r"(^|_)(lrs?|lrate|lr\d+|eta\d+|learning_?rate)($|_)")
"""Words of a learning rate, whichever it is."""
LAST_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("lr", RATE_PATTERN),
    ("weight_decay", re.compile(r"(^|_)(wd|weight_decay)($|_)")),
    ("width", re.compile(r"_(width|dim|hidden|channels|d_model)$")),
    ("depth", re.compile(r"_(layers|depth|blocks)$")),
    ("params", re.compile(r"(^|_)(params|parameters)$")),
    ("width", re.compile(r"(^|_)width_?(mult(iplier)?|factor|scale)$")),
    ("flops", re.compile(r"(^|_)(total|train(ing)?|compute|budget|c)_(flops?|flos)$")),
    ("tokens", re.compile(r"^((n|num|total|train(ing|ed)?)_)+tokens(_(seen|trained|used))?$")),
    ("seed", re.compile(r"_seed$")),
)
"""What a name is that is none of `KNOWN`: the first whose words it has."""
OF_A_RATE = re.compile(
    r"(^|_)(min|final|end|schedule[rs]?|sched|decay|warm_?up|type|name|policy|scaling|power|exp|"
    r"gamma|ratio|factor|step|steps|patience|log2?|log10|ln|cooldown|floor|frac)($|_)"
)
"""Words of names that say how a rate changes, not which it is."""
LOSS_PATTERN = re.compile(r"loss|nll|perplexity|ppl|bpb|bpc|cross_?entropy|xent")
"""In names of losses."""
ERROR_PATTERN = re.compile(r"error|err_rate|wer\b")
"""In names of error rates."""
SCORE_PATTERN = re.compile(r"acc|auc|score|f1\b|bleu")
"""In names of metrics that are better when larger."""
OUTCOME = ("value", "objective")
"""What Optuna's own table calls what a study minimises."""
HELD_OUT = (r"val|dev", r"eval|held_?out", r"test")
"""In names of losses on held-out data, the likeliest first."""
BESIDE = re.compile(
    r"(^|_)(se|sem|std_?err|std|stdev|sd|sigma|mad|var|lo\d*|hi\d*|ci|lower|upper|ema|"
    r"scale|fn|type|weight|coef|aux|reg|kl|"
    r"router|z|n|target|threshold|function|name)(_|$)"
)
"""Parts of names of what is beside a loss, and none that could be forecast."""
EXTREME = re.compile(r"(^|[_.])(min|max|best|mean|avg)($|[_.])")
"""Parts of names of an extreme or a mean of a curve."""
MEAN_PATTERN = re.compile(r"(?:^|(?<=_))(?:mean|avg|average)(?:$|_)")
"""What a name says of a mean."""
SPREAD_PATTERN = re.compile(
    r"(?:^|(?<=_))(?:(?P<error>std_?err(?:or)?|se|sem|standard_error)|"
    r"std(?:_?dev)?|sd|stdev|standard_deviation)(?:$|_)"
)
"""What a name says of numbers beside a mean: their standard error, or standard deviation."""
EVALUATION_COLUMN = re.compile(
    r"(^|_)(eval|val|valid|validation|test)_?(data|dataset|set|split)$|(^|_)(tokenizer|vocab)(_|$)"
)
"""Names of columns that say what a loss was measured on."""
N_SEEDS = split_words(
    "n n_seeds num_seeds seeds #seeds n_runs num_runs runs #runs n_reps reps n_repeats repeats "
    "n_replicates replicates count n_trials"
)
"""Names of columns of how many runs a mean is."""
MEASURED = re.compile(r"^(train|val|valid|eval|test|summary|metrics?|perf|system|grad)[./:]")
"""What trackers write before metrics."""
SPEED = re.compile(r"^(perf|system)[./:]")
"""What trackers write before measurements of the machine."""
IDENTITY_WORDS = frozenset(
    split_words(
        "id ids name names sweep group project entity job trial experiment exp run runs "
        "number index curve"
    )
)
"""Words in the names of columns that say which run it is, or of which group."""
BOOKKEEPING_WORDS = IDENTITY_WORDS | frozenset(
    split_words(
        "note notes comment comments description user username owner author host hostname node "
        "nodes machine cuda device devices cpu cpus pid ip rank ranks world worker workers git "
        "commit md5 branch dirty version python platform os logdir artifact source checkpoint "
        "ckpt saved logger resume resumed created started ended finished updated start end "
        "datetime runtime duration elapsed secs minutes min wall walltime heartbeat state status "
        "stage slurm queue partition cluster uuid flop compute step iteration iter epoch done "
        "tag tags compile compiled prefetch pin fsdp ddp checkpointing profile profiler "
        "verbose debug print attempt retry retries try usage cost price money restore replicate "
        "repeat rep fold"
    )
)
"""Those, and words of what times or places a run."""
PLACE_WORDS = frozenset(
    split_words(
        "path paths dir folder file filename url uri hash sha time timestamp date s sec second "
        "seconds hour hours memory mem mfu throughput speed gpu gpus flops gflops tflops pflops "
        "eval log logging save seed seeds"
    )
)
"""Those that do so whatever stands beside them."""
MEASURED_WORDS = frozenset(
    split_words(
        "grad gradient norm rms metric reward seen processed consumed final best last stopped"
    )
)
"""Words in the names of columns that were measured."""
RECIPE_WORDS = frozenset(
    split_words(
        "warmup cooldown decay wd schedule scheduler optimizer optimiser optim opt momentum beta "
        "beta1 beta2 betas eps epsilon dropout clip clipping batch bs lr learning rate data "
        "dataset corpus task domain tokenizer vocab arch architecture model activation init "
        "initialization parametrization parameterization mup precision dtype steps epochs updates "
        "iters iterations seq sequence length context ctx recipe arm variant method treatment "
        "condition setting settings hparams ema smoothing augmentation aug width depth layers "
        "heads ffn regularization l2 nesterov rope bias tied curriculum mixture accumulation "
        "accum teacher sparsity density tokens params attention ablation baseline strategy "
        "algorithm policy"
    )
)
"""Words in the names of columns that set how a run trains."""


@cache
def bare_name(column: str) -> str:
    """A column's name without what a tracker writes before it: `config/lr` → `lr`."""
    return TRACKER_PREFIX.sub("", column, count=1) if TRACKER_PREFIX.match(column) else column


@cache
def short_name(column: str) -> str:
    """The last part of a column's name: `config.optimizer.lr` → `lr`.

    Example:
        >>> short_name("val/loss"), short_name("summary.val_loss.min")
        ('loss', 'val_loss.min')
    """
    bare = bare_name(column)
    if column[: len(column) - len(bare)].endswith("_") and bare.lower() not in KNOWN:
        bare = column  # `param_count` is no setting called `count`
    parts = [part for part in re.split(r"[./:](?!\s)", bare) if part.strip()]
    is_open = bool(parts[1:]) and (parts[-1].lower() in ENDINGS or parts[-1].isdigit())
    return ".".join(parts[-2:] if is_open else parts[-1:]) or column


def known_name(column: str) -> str:
    """A column's name as `NAMES_OF_PART` would have it: short, in lower case, with underscores.

    Example:
        >>> known_name("config.optimizer.lr"), known_name("muon_lr"), known_name("min_lr")
        ('lr', 'lr', 'min_lr')
    """
    whole, short = _plain(column), _plain(short_name(column))
    exact = next((name for name in (whole, short) if name in KNOWN), None)
    if exact or MEASURED.match(column) or short in COMPUTE_NAMES or LOGARITHM.search(short):
        return exact or short
    meant = next((word for word, pattern in LAST_WORDS if pattern.search(short)), short)
    return short if meant == "lr" and OF_A_RATE.search(short) else meant


def _plain(name: str) -> str:
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[\s\-()\[\]#]+", "_", split.lower()).strip("_")


@cache
def kind_of(column: str) -> str | None:
    """What a column counts: params, tokens, examples, ratio, compute, width, depth; else None.

    Example:
        >>> kind_of("num_params"), kind_of("config.hidden_size"), kind_of("Tokens/Param")
        ('params', 'width', 'ratio')
    """
    if RATIO_PATTERN.fullmatch(_plain(bare_name(column).replace("/", "_"))):
        return "ratio"
    name = known_name(column)
    if name in TOKEN_NAMES:
        return "tokens" if "token" in name else "examples"
    kinds = {"params": (*COUNT_NAMES, "model_size"), "ratio": RATIO_NAMES}
    kinds |= {"compute": COMPUTE_NAMES, "width": WIDTH_NAMES, "depth": DEPTH_NAMES}
    return next((kind for kind, names in kinds.items() if name in names), None)


def kinds_of(columns: Iterable[str]) -> dict[str, str]:
    """The columns that `kind_of` knows, and the symbols N, D, C where N and D are both there."""
    names = list(columns)
    symbols = symbols_in(names)
    kinds = {name: kind_of(symbols.get(name, name)) for name in names}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def symbols_in(columns: Collection[str]) -> Mapping[str, str]:
    """The `SYMBOLS` that names of columns may be: those of papers where N and D or C are there."""
    names = set(columns)
    is_paper = "N" in names and ({"D", "C"} & names or "ratio" in map(kind_of, names))
    return SYMBOLS if is_paper else {}


def header_unit(column: str) -> tuple[str, float] | None:
    """The name of a count without its unit, and how many of one the unit is; None without one.

    Example:
        >>> header_unit("Params (M)"), header_unit("N [1e6]"), header_unit("loss_b")
        (('Params', 1000000.0), ('N', 1000000.0), None)
    """
    if flops := FLOP_UNIT.fullmatch(column.strip()):
        return "flops", MULTIPLES[(flops["exa"] or flops["other"]).lower()]
    powers = column.strip().translate(SUPERSCRIPTS)
    match = UNIT.fullmatch(re.sub(r"10\^?(?=\d+\s*[)\]])", "10^", powers))
    if match is None:
        return None
    name, counted = match["name"], match["counted"]
    if counted and kind_of(name) is None:  # `Data (B tokens)`
        name = "tokens" if counted.startswith("t") else "params"
    parts = (match[part] for part in ("inside", "after", "divisor", "ending"))
    unit = next(filter(None, parts)).lower().removesuffix("s")
    multiple = MULTIPLES.get(unit)
    if power := re.fullmatch(r"(?:1?e|10(?:\^|\*\*))(\d+)", unit):
        multiple = 10.0 ** int(power[1])
    is_count = name in SYMBOLS or kind_of(name) in ("params", "tokens", "compute")
    is_count |= bool(COUNT_PATTERN.search(name))
    return (name, multiple) if is_count and multiple else None


def from_logarithm(column: str, largest: float = math.nan) -> tuple[str, str] | None:
    """What a column holds the logarithm of, and the formula of it; None of any other name.

    A logarithm that names no base, of a count, has the base that its largest value allows.

    Example:
        >>> from_logarithm("log2lr"), from_logarithm("config.ln_lr")
        (('lr', 'lr = 2 ** log2lr'), ('lr', 'lr = exp(ln_lr)'))
    """
    short = short_name(column)
    match = LOGARITHM.search(short)
    plain = "" if match is None else short.replace(match[0], "").strip(" _()")
    if match is None or not re.fullmatch(r"[A-Za-z]\w*", plain):
        return None
    base = {"ln": "", "lg": "10"}.get(match[0].lower(), re.sub(r"\D", "", match[0]))
    if match[0].lower() == "log":
        kind = kind_of(SYMBOLS.get(plain, plain))
        if kind not in MOST_LOG10 and known_name(plain) not in KNOWN:
            return None
        base = "10" if largest <= MOST_LOG10.get(str(kind), -math.inf) else ""
    quoted = short if re.fullmatch(r"[A-Za-z_]\w*", short) else f"`{short}`"
    formula = f"{base} ** {quoted}" if base else f"exp({quoted})"
    return plain, f"{plain} = {formula}"


def synonyms(name: str) -> set[str]:
    """Names that are given to the same thing as this one, as `known_name` writes them."""
    return {word for group in ALIKE if name in group for word in group}


def _name_words(column: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower()))


def plain_words(column: str) -> str:
    """The words of a name, in lower case with underscores; `±` is a standard error."""
    return "_".join(re.findall(r"[a-z0-9#]+", column.lower().replace("±", " se ")))


def is_recipe(column: str) -> bool:
    """Whether a column's name is that of a setting."""
    return bool(_name_words(short_name(column)) & RECIPE_WORDS) and not is_bookkeeping(column)


def is_bookkeeping(column: str) -> bool:
    """Whether a column's name is that of what identifies, times or places a run."""
    name_words = _name_words(short_name(column))
    if name_words & {"log"} and from_logarithm(column):
        return False
    is_sure = column.startswith("_") or name_words & PLACE_WORDS
    return bool(is_sure or (name_words & BOOKKEEPING_WORDS and not name_words & RECIPE_WORDS))


def is_identity(column: str) -> bool:
    """Whether a column's name is that of what says which run it is, or of which group."""
    name_words = _name_words(short_name(column))
    return bool(name_words & IDENTITY_WORDS) and not name_words & PLACE_WORDS


def is_measured(column: str) -> bool:
    """Whether a column's name is that of a metric."""
    name = short_name(column).lower()
    name_words = _name_words(name)
    is_metric = (
        any(pattern.search(name) for pattern in (LOSS_PATTERN, ERROR_PATTERN, SCORE_PATTERN))
        or name in OUTCOME
    )
    plain = plain_words(column)
    is_metric |= bool(plain) and not SPREAD_PATTERN.sub("", plain)
    is_rate = RATE_PATTERN.search(_plain(short_name(column)))  # `final_lr` is set
    is_metric |= bool(SPEED.match(column))
    outcomes = name_words & MEASURED_WORDS - ({"final"} if is_rate else set())
    return is_metric or bool(outcomes and known_name(column) not in KNOWN)


def loss_rank(column: str) -> tuple[int, int, int] | None:
    """How likely a name is that of the loss, the smallest first; None if it is none."""
    name = re.sub(r"[\s\-./:]+", "_", bare_name(column).lower())
    is_loss, is_error = LOSS_PATTERN.search(name), ERROR_PATTERN.search(name)
    if name in OUTCOME:
        return (len(HELD_OUT) + 3, 0, 0)
    if not (is_loss or is_error) or BESIDE.search(name):
        return None
    held_out = [i for i, pattern in enumerate(HELD_OUT) if re.search(rf"(^|_)({pattern})", name)]
    if held_out:
        rank = held_out[0]
    else:
        rank = len(HELD_OUT) + int(bool(re.search(r"(^|_)tr(ain|n)", name)))
    kind = 0 if re.search(r"loss|nll|ent", name) else 1 if is_loss else 2
    n_words = len(re.findall(r"[a-z]+", name))
    if not held_out and n_words > 1 and re.search(r"ppl|perplexity", name):
        rank += 2  # of a task, `lambada_ppl`: a training loss is likelier
    return (rank + 4 * bool(EXTREME.search(column.lower())), kind, 0 if n_words <= 2 else 1)
