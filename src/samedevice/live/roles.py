"""Which operand a message means, and where it belongs."""

from collections.abc import Mapping
from dataclasses import dataclass

from samedevice.torch_facts.messages import Match
from samedevice.torch_facts.messages.readings import is_host

#: arguments of operators that are a layer's own parameters or buffers
STATE_ARGUMENTS = ("weight", "bias", "running_mean", "running_var", "qkv_weight", "mat2")
#: operators whose first argument, the one that is never named, belongs to the layer
STATE_FIRST = ("addmm", "index_select", "embedding")
#: operators that name their second argument when the first is the odd one out
OPTIMIZERS = ("fused_adam", "fused_sgd", "foreach")


@dataclass(frozen=True, slots=True)
class Blame:
    """What a message tells of the operand out of place.

    Attributes:
        stray: its device; None when the message leaves two possibilities (two GPUs).
        wanted: where the others are.
        role: "state" (a layer's parameters), "argument", "first" (the operand written first), None unknown.
    """

    stray: str | None
    wanted: str | None
    role: str | None = None


def blame_of(match: Match) -> Blame:
    """What the message tells of who is out of place."""
    name, fields = match.family.name, match.fields
    if name == "argument-on-other-device":
        return _argument(fields)
    if name in ("elementwise-devices", "attention-devices", "function-operands", "mps-cpu-operand"):
        return _pair(fields)
    if name == "index-device":
        table = fields.get("d1", "cpu")
        if is_host(table):
            return Blame("cpu", None, "first")
        return Blame(None, table, None)
    if name == "convolution-types":
        if "t1" not in fields:
            return _pair(fields)
        return Blame("cpu", None, "argument" if is_host(fields["t1"]) else "state")
    if name == "rnn-devices":
        one, other = fields["d1"], fields["d2"]
        if is_host(one):
            return Blame("cpu", other, "first")
        second = "state" if "parameter" in match.text else "second"
        return Blame("cpu" if is_host(other) else None, one, second)
    if name in ("numpy-conversion", "lengths-on-host", "split-indices-on-host"):
        return Blame(fields.get("d1"), "cpu", None)
    if name == "pinned-memory":
        return Blame("cuda:0", "cpu", None)
    if name in ("gradient-device", "gradient-assigned"):
        return Blame(fields.get("d1"), fields.get("d2"), None)
    if name in ("meta-without-data", "meta-among-real"):
        return Blame("meta", None, None)
    return _pair(fields)


def _pair(fields: Mapping[str, str]) -> Blame:
    devices = [fields[k] for k in ("d1", "d2", "d3") if k in fields]
    host = [d for d in devices if is_host(d)]
    others = [d for d in devices if not is_host(d)]
    if "meta" in devices:
        return Blame("meta", next((d for d in devices if d != "meta"), None))
    if host and others:
        return Blame("cpu", others[0])
    return Blame(None, None)


def _argument(fields: Mapping[str, str]) -> Blame:
    named, common, arg = fields.get("d1"), fields.get("d2"), fields.get("arg", "")
    method = fields.get("method", "")
    if "t1" in fields:
        named, common = ("cpu", "cuda:0") if not is_host(fields["t1"]) else ("cuda:0", "cpu")
    if named is None or common is None:
        return Blame(None, None)
    if is_host(named) and not is_host(common):
        linear = any(
            m in method
            for m in ("addmm", "batch_norm", "layer_norm", "group_norm", "prelu", "conv", "mm", "nll_loss")
        )
        return Blame("cpu", common.lower(), "state" if arg in STATE_ARGUMENTS and linear else "argument")
    if is_host(common) and not is_host(named):
        if "addmv" in method:
            # The product is added onto a tensor made like the vector, the right operand.
            return Blame("cpu", named.lower(), "second")
        first_is_state = any(m in method for m in STATE_FIRST) or (not method and arg in ("mat1", "mat2"))
        return Blame("cpu", named.lower(), "state" if first_is_state else "first")
    return Blame(None, None)
