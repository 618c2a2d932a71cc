"""The static device-flow analysis."""
