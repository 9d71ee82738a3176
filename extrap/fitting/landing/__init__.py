"""Where a run's loss ends: a law of its log and its learning rates, and what is known of it."""
