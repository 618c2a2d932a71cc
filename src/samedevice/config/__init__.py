"""Settings from pyproject.toml and samedevice.toml."""

from samedevice.config.settings import Settings, find_settings, load_settings

__all__ = ["Settings", "find_settings", "load_settings"]
