"""pytest runs below pytest."""

pytest_plugins = ["pytester"]
