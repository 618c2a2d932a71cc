"""The usual causes of device errors by the name of their rule."""

from samedevice.torch_facts.messages import causes_in_code, causes_in_state
from samedevice.torch_facts.messages.family import Cause

#: what was written wrong, how to tell, how to write it right
CAUSES: dict[str, Cause] = {cause.rule: cause for cause in (*causes_in_code.CAUSES, *causes_in_state.CAUSES)}
