"""The real machine after a crash."""
