"""Analyses of runs beyond one forecast; pure functions of `Runs`."""
