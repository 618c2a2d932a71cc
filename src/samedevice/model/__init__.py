"""Immutable records that every engine and renderer shares; standard library only."""
