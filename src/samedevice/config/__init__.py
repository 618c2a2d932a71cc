"""Settings from pyproject.toml and samedevice.toml."""
