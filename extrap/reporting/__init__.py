"""Numbers to a page people share."""
