"""A training script as one may have it: takes options, prints its loss as it goes.

A toy with known answers, in the standard library alone: a line is fitted to noise by gradient
descent, and what is printed is the loss of a law in width and rate.
"""

from __future__ import annotations

import argparse
import math
import random

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, required=True)
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=200)
given = parser.parse_args()

octaves = math.log2(given.lr * given.width**0.7 / 0.4)
noise = random.Random(f"{given}").gauss(0, 0.002)
final = (1.8 + 3 / math.sqrt(given.width)) * math.exp(0.02 * octaves**2 + noise)
for step in range(20, given.steps + 1, 20):
    loss = final * (1 + 0.5 * (given.steps / step - 1) ** 0.5)
    print(f"step {step}: loss={loss:.6f}", flush=True)
