"""Perceptrons on scikit-learn's digits in NumPy, as somebody's own training code."""

from __future__ import annotations

import itertools

import numpy as np
from sklearn.datasets import load_digits

N_TRAIN = 1347
"""Of 1,797 images; the others are held out."""


def images() -> tuple[np.ndarray, np.ndarray]:
    """Pixels, shape (1797, 64), and digits, in one random order."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    return (x[order] / 16 - 0.3).astype(np.float32), y[order]


X, Y = images()


def train(
    width: int,
    lr: float,
    seed: int,
    *,
    steps: int,
    batch: int,
    hidden: int = 1,
    is_tanh: bool = False,
    is_adam: bool = False,
    weight_decay: float = 0.0,
) -> float:
    """The held-out cross-entropy in nats after training with a linearly falling rate."""
    rng = np.random.default_rng(seed)
    shape = [64, *[width] * hidden, 10]
    weights = [
        rng.normal(0, (2 / a) ** 0.5, (a, b)).astype(np.float32)
        for a, b in itertools.pairwise(shape)
    ]
    parameters = [*weights, *(np.zeros(b, np.float32) for b in shape[1:])]
    first, second = [0 * p for p in parameters], [0 * p for p in parameters]
    with np.errstate(all="ignore"):
        for step in range(steps):
            chosen = rng.integers(0, N_TRAIN, batch)
            gradients = _gradients(parameters, X[chosen], Y[chosen], is_tanh=is_tanh)
            rate = lr * (1 - step / steps)
            for i, gradient in enumerate(gradients):
                move = gradient + weight_decay * parameters[i]
                if is_adam:
                    first[i] = 0.9 * first[i] + 0.1 * move
                    second[i] = 0.99 * second[i] + 0.01 * move**2
                    move = first[i] / (1 - 0.9 ** (step + 1))
                    move = move / (np.sqrt(second[i] / (1 - 0.99 ** (step + 1))) + 1e-8)
                else:
                    first[i] = move = 0.9 * first[i] + move
                parameters[i] = parameters[i] - rate * move
        log_chance = _forward(parameters, X[N_TRAIN:], is_tanh=is_tanh)[1]
    return float(-log_chance[np.arange(len(log_chance)), Y[N_TRAIN:]].mean())


def _forward(
    parameters: list[np.ndarray], x: np.ndarray, *, is_tanh: bool
) -> tuple[list[np.ndarray], np.ndarray]:
    """The inputs of every layer, and the log probability of every digit."""
    n = len(parameters) // 2
    inputs = [x]
    for weight, bias in zip(parameters[: n - 1], parameters[n:-1], strict=True):
        before = inputs[-1] @ weight + bias
        inputs.append(np.tanh(before) if is_tanh else np.maximum(before, 0))
    z = inputs[-1] @ parameters[n - 1] + parameters[-1]
    z = z - z.max(axis=1, keepdims=True)
    return inputs, z - np.log(np.exp(z).sum(axis=1, keepdims=True))


def _gradients(
    parameters: list[np.ndarray], x: np.ndarray, y: np.ndarray, *, is_tanh: bool
) -> list[np.ndarray]:
    """Of the mean cross-entropy, weights first and then biases."""
    inputs, log_chance = _forward(parameters, x, is_tanh=is_tanh)
    back = np.exp(log_chance)
    back[np.arange(len(y)), y] -= 1
    back /= len(y)
    n = len(parameters) // 2
    of_weights, of_biases = [], []
    for layer in range(n - 1, -1, -1):
        of_weights.append(inputs[layer].T @ back)
        of_biases.append(back.sum(axis=0))
        if layer:
            own = inputs[layer]
            back = (back @ parameters[layer].T) * ((1 - own**2) if is_tanh else (own > 0))
    return [*of_weights[::-1], *of_biases[::-1]]
