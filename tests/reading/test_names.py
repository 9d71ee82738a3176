import pytest

from extrap.reading.names import (
    is_bookkeeping,
    is_measured,
    is_recipe,
    known_name,
    loss_rank,
    short_name,
)


def test_losses_rank_held_out_before_training_and_last_before_best():
    in_order = ["val_loss", "val_ppl", "eval/loss", "test_loss", "loss", "train_loss"]
    in_order += ["best_val_loss", "value"]
    ranks = [loss_rank(name) for name in in_order[:-1]]
    assert sorted(ranks) == ranks
    assert len(set(ranks)) == len(ranks)
    assert loss_rank("c4_val_loss") == loss_rank("wiki_val_loss") > loss_rank("val_loss")
    assert loss_rank("value") > loss_rank("train_loss")


@pytest.mark.parametrize("name", ["lr", "loss_se", "aux_loss", "loss_scale", "val_acc", "z_loss"])
def test_what_stands_beside_a_loss_is_none(name):
    assert loss_rank(name) is None


@pytest.mark.parametrize(
    ("names", "claim"),
    [
        ("warmup_steps optimizer.name model_name lr_schedule batchSize dataset", is_recipe),
        (
            "run_id Notes git_commit gpu created_at wall_s steps_per_second data_path",
            is_bookkeeping,
        ),
        ("val_loss top1_acc grad_norm tokens_seen best_epoch eval/perplexity", is_measured),
    ],
)
def test_names_are_told_apart(names, claim):
    assert [name for name in names.split() if not claim(name)] == []
    assert not any(is_recipe(name) for name in ("gpu", "data_seed", "steps_per_second"))
    assert not any(is_bookkeeping(name) for name in ("warmup", "model_name", "dropout"))
    assert not any(is_measured(name) for name in ("seen_examples", "warmup", "flavour"))


def test_short_names():
    assert [known_name(n) for n in ("config.model.d_model", "Learning Rate", "params_lr")] == [
        *("d_model", "learning_rate", "lr")
    ]
    assert [short_name(n) for n in ("a/b.c", "param_count", "summary.loss.min", ".")] == [
        *("c", "param_count", "loss.min", ".")
    ]
