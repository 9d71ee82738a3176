"""What this project holds itself to, measured: `make backtest` and `make bench`.

A module each: it computes rows (what, what to beat, target, reached) and prints or returns them.
Timing lives here and never in the tests.
"""
