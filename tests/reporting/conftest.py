"""What pages of every analysis are made from."""

from tests.analyses.conftest import backtested, diverging, judge, made, one_task, two_tasks

__all__ = ["backtested", "diverging", "judge", "made", "one_task", "two_tasks"]
