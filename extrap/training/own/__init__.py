"""Training by a function or command of the user's own: run, watched, and its answer read."""

__all__: list[str] = []
