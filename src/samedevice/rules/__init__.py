"""The catalogue: one rule a file, found by importing every module of this package."""

from samedevice.rules.rule import Rule, all_rules, find_rule

__all__ = ["Rule", "all_rules", "find_rule"]
