"""The message catalogue: what PyTorch's device errors say, by release, and what they mean.

Data only, one entry a family; standard library only, never imports torch.
"""

from samedevice.torch_facts.messages.catalogue import Match, families, family, match_message
from samedevice.torch_facts.messages.family import Cause, Family, Reading, Text, Wording

__all__ = ["Cause", "Family", "Match", "Reading", "Text", "Wording", "families", "family", "match_message"]
