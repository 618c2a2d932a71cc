"""What the pieces of a message tell beyond its family: who is named, who is meant."""

from samedevice.torch_facts.messages.family import Fields, Reading, T
from samedevice.torch_facts.messages.methods import find_method

_FIRST = T("the first of the call", "das erste des Aufrufs")
_SEVERAL_GPUS = ("cross-gpu-operands", "split-without-move", "load-without-map-location", "bare-cuda-in-multi-gpu", "unreplicated-attribute")  # fmt: skip
_MODULE = ("module-not-moved", "module-in-container", "module-added-after-move", "device-argument-dropped", "moved-behind-your-back")  # fmt: skip


def is_host(device: str) -> bool:
    """It names the CPU, however written ("cpu", "CPU", "torch.FloatTensor")."""
    low = device.lower()
    return low.startswith("cpu") or (
        low.startswith("torch.") and not any(a in low for a in ("cuda", "mps", "xpu", "hpu", "npu"))
    )


def two_gpus(fields: Fields) -> bool:
    """Both named devices are accelerators."""
    one, other = fields.get("d1", ""), fields.get("d2", "")
    return (
        bool(one and other)
        and not is_host(one)
        and not is_host(other)
        and one != other
        and "meta" not in (one, other)
    )


def read_argument(fields: Fields) -> Reading | None:
    """A check that names one argument compares the others with the first one.

    `d1` is the device of the named argument (`arg`), `d2` that of the others.
    """
    arg, named, common = fields.get("arg"), fields.get("d1"), fields.get("d2")
    if not arg or not named or not common:
        return None
    method = find_method(fields.get("method", ""))
    role = method.roles.get(arg) if method else None
    first = (method.first if method else None) or _FIRST
    words = {
        "arg": T(f"`{arg}`", f"`{arg}`")
        if role is None
        else T(f"`{arg}` ({role.en})", f"`{arg}` ({role.de})"),
        "called": method.called if method else T("", ""),
        "first": first,
        "named": T(named, named),
        "common": T(common, common),
    }

    def say(en: str, de: str) -> T:
        if method is not None:
            en, de = "Raised by {called}: " + en, "Kommt von {called}: " + de
        else:
            en, de = en[0].upper() + en[1:], de[0].upper() + de[1:]
        return T(
            en.format(**{k: v.en for k, v in words.items()}), de.format(**{k: v.de for k, v in words.items()})
        )

    if two_gpus({"d1": named, "d2": common}):
        return Reading(
            say(
                "{arg} is on {named}, {first} is on {common}. Both are GPUs, so neither is wrong in itself: look where the two parts of the model meet",
                "{arg} liegt auf {named}, {first} auf {common}. Beide sind GPUs, keiner ist für sich falsch: nachsehen, wo die zwei Teile des Modells aufeinandertreffen",
            ),
            _SEVERAL_GPUS,
        )
    if is_host(named):
        return Reading(
            say(
                "{arg} is on {named} while {first} is on {common}, so the named one is very likely the one out of place",
                "{arg} liegt auf {named}, {first} auf {common}; falsch liegt also sehr wahrscheinlich das genannte",
            ),
            method.causes if method else (),
        )
    if is_host(common):
        module_first = method is not None and any(w in first.en for w in ("weight", "bias"))
        return Reading(
            say(
                "the message names {arg}, but that one is on {named}. The check compares with another argument, {first}, which is on {common}: look there, the named tensor is probably the healthy one",
                "die Meldung nennt {arg}, doch dieses Argument liegt auf {named}. Verglichen wird mit einem anderen ({first}), und das liegt auf {common}: dort nachsehen, der genannte Tensor ist vermutlich der gesunde",
            ),
            _MODULE if module_first else (),
        )
    return None


def read_pair(fields: Fields) -> Reading | None:
    """An elementwise operation names two devices and no operand."""
    if two_gpus(fields):
        return Reading(
            T(
                f"Both devices are GPUs ({fields['d1']} and {fields['d2']}): two parts of a split model, or data of another rank, meet here",
                f"Beide Geräte sind GPUs ({fields['d1']} und {fields['d2']}): hier treffen zwei Teile eines verteilten Modells aufeinander oder Daten eines anderen Rangs",
            ),
            _SEVERAL_GPUS,
        )
    return None


def read_either_release(fields: Fields) -> Reading | None:
    """As `read_argument`, for every release: up to 2.7 the common device comes first."""
    if "t1" in fields:
        expected, got = ("CUDA" if _kind_of_type(fields[t])[0] != "cpu" else "CPU" for t in ("t1", "t2"))
        return read_argument({"arg": fields["arg"], "d1": got, "d2": expected, "method": "?"})
    return read_argument(fields)


def read_conv(fields: Fields) -> Reading | None:
    """A convolution's texts name types or devices."""
    return read_types(fields) if "t1" in fields else read_rnn(fields)


def read_index(fields: Fields) -> Reading | None:
    """`table[index]`: the message tells the table's device."""
    device = fields.get("d1", "")
    if is_host(device):
        return Reading(
            T(
                f"The indexed tensor is on {device} and the index is on a GPU. The index is usually right: the *table* never moved",
                f"Der indizierte Tensor liegt auf {device}, der Index auf einer GPU. Der Index ist meist richtig: die *Tabelle* ist nie umgezogen",
            ),
            ("unregistered-tensor", "factory-without-device", "target-not-moved", "index-on-other-device"),
        )
    if device:
        return Reading(
            T(
                f"The indexed tensor is on {device} and the index is on another GPU (an index on the CPU would be accepted)",
                f"Der indizierte Tensor liegt auf {device}, der Index auf einer anderen GPU (ein Index auf der CPU wäre erlaubt)",
            ),
            _SEVERAL_GPUS,
        )
    return None


def _kind_of_type(name: str) -> tuple[str, str]:
    """(device kind, dtype) of a tensor type's name: "torch.cuda.HalfTensor", "MPSFloatType"."""
    low = name.lower().removeprefix("torch.")
    for device in ("cuda", "mps", "xpu", "cpu", "hpu", "npu"):
        if low.startswith(device):
            rest = low[len(device) :].strip(".")
            return device, rest.removesuffix("tensor").removesuffix("type")
    return "cpu", low.removesuffix("tensor").removesuffix("type")


def types_on_other_devices(fields: Fields) -> bool:
    """Two tensor types differ in their device."""
    return _kind_of_type(fields["t1"])[0] != _kind_of_type(fields["t2"])[0]


def types_of_other_dtypes(fields: Fields) -> bool:
    """Two tensor types are on the same device and differ in dtype."""
    return not types_on_other_devices(fields) and fields["t1"] != fields["t2"]


def read_types(fields: Fields) -> Reading | None:
    """A convolution compares input with weight, then with bias."""
    host = _kind_of_type(fields["t1"])[0] == "cpu"
    if host:
        return Reading(
            T(
                "The input is on the CPU, the layer is on the GPU: the batch was not moved",
                "Die Eingabe liegt auf der CPU, die Schicht auf der GPU: der Batch wurde nicht verschoben",
            ),
            ("batch-not-moved", "discarded-move", "nested-tensor-missed", "factory-without-device"),
        )
    return Reading(
        T(
            "The input is on the GPU, the layer is on the CPU: the layer (or the whole model) was not moved",
            "Die Eingabe liegt auf der GPU, die Schicht auf der CPU: die Schicht (oder das ganze Modell) wurde nicht verschoben",
        ),
        ("module-not-moved", "module-in-container", "module-built-in-forward", "module-added-after-move"),
    )


def read_rnn(fields: Fields) -> Reading | None:
    """Which of input, parameter, hidden is on the CPU."""
    if two_gpus(fields):
        return Reading(T("Both are GPUs", "Beide sind GPUs"), _SEVERAL_GPUS)
    if is_host(fields["d1"]):
        return Reading(
            T(
                "The input is on the CPU, the other one on the GPU: the batch was not moved",
                "Die Eingabe liegt auf der CPU, der andere Tensor auf der GPU: der Batch wurde nicht verschoben",
            ),
            ("batch-not-moved", "discarded-move"),
        )
    return None


def devices_differ(fields: Fields) -> bool:
    """The two devices are not the same."""
    return fields["d1"] != fields["d2"]
