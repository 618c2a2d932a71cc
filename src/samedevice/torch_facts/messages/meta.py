"""Families: meta tensors, offloading, quantised models."""

from samedevice.model.scene import Kind
from samedevice.torch_facts.messages.family import Family, T, wording

FAMILIES = (
    Family(
        "meta-without-data",
        Kind.META,
        T("A meta tensor was to be copied, but it has no data", "Ein Meta-Tensor sollte kopiert werden, hat aber keine Daten"),
        T("Tensors on the meta device have a shape and a dtype only; something was never filled with weights", "Tensoren auf dem Meta-Gerät haben nur Form und dtype; etwas wurde nie mit Gewichten gefüllt"),
        ("meta-left", "offload-hook-bypassed"),
        (
            wording("Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to()", "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module from meta to a different device.", "2.1"),
            wording("Cannot copy out of meta tensor; no data!", "Cannot copy out of meta tensor; no data!", "1.9"),
            wording("Tensor.item() cannot be called on meta tensors", "Tensor.item() cannot be called on meta tensors", "2.1"),
            wording("Cannot inplace into non-meta tensor with meta tensor argument", "Cannot inplace into non-meta tensor with meta tensor argument", "1.9"),
        ),
        T("The message names no tensor. `to_empty` allocates memory, it does not bring values: load the weights afterwards", "Die Meldung nennt keinen Tensor. `to_empty` legt nur Speicher an, Werte bringt es nicht: die Gewichte danach laden"),
    ),
    Family(
        "meta-among-real",
        Kind.META,
        T("A meta tensor met one with data", "Ein Meta-Tensor traf auf einen mit Daten"),
        T("Part of the model is still without weights while the rest computes", "Ein Teil des Modells ist noch ohne Gewichte, während der Rest rechnet"),
        ("meta-left", "offload-hook-bypassed"),
        (
            wording("Tensor on device {d1:device} is not on the expected device {d2:device}!", "Tensor on device cuda:0 is not on the expected device meta!", "2.0"),
            wording("{name:name} is on the meta device, we need a `value` to put in on {d2}", "weight is on the meta device, we need a `value` to put in on 0."),
            wording("doesn't have any device set.", "model.layers.0.self_attn.q_proj.weight doesn't have any device set."),
        ),
        T("\"expected device meta\" names the healthy tensor: the one on meta is the other one", "„expected device meta“ nennt den gesunden Tensor: auf Meta liegt der andere"),
    ),
    Family(
        "offloaded-model-moved",
        Kind.OFFLOAD,
        T("A model that accelerate or bitsandbytes placed was moved again", "Ein Modell, das accelerate oder bitsandbytes platziert hat, wurde erneut verschoben"),
        T("With `device_map` or quantisation the library owns the placement; `.to` and `.cuda` would tear it apart", "Mit `device_map` oder Quantisierung bestimmt die Bibliothek die Platzierung; `.to` und `.cuda` würden sie zerreißen"),
        ("offload-hook-bypassed", "split-without-move"),
        (
            wording("You can't move a model that has some modules offloaded to cpu or disk.", "You can't move a model that has some modules offloaded to cpu or disk."),
            wording("`.to` is not supported for `{bits}` or `{bits2}` bitsandbytes models.", "`.to` is not supported for `4-bit` or `8-bit` bitsandbytes models. Please use the model as it is, since the model has already been set to the correct devices and casted to the correct `dtype`."),
            wording("`.to` is not supported for `{bits}` bitsandbytes models.", "`.to` is not supported for `8-bit` bitsandbytes models. Please use the model as it is"),
            wording("Calling `cuda()` is not supported for `{bits}` quantized models.", "Calling `cuda()` is not supported for `8-bit` quantized models.  Please use the model as it is, since the model has already been set to the correct devices."),
            wording("precision on a different device than the one you're training on.", "You can't train a model that has been loaded in 8-bit or 4-bit precision on a different device than the one you're training on."),
            wording("you have activated sequential model offloading", "It seems like you have activated sequential model offloading by calling `enable_sequential_cpu_offload`, but are now attempting to move the pipeline to GPU. This is not compatible with offloading."),
            wording("You are trying to offload the whole model to the disk.", "You are trying to offload the whole model to the disk. Please use the `disk_offload` function instead."),
        ),
        code='model = AutoModel.from_pretrained(name, device_map={"": local_rank})\n# no model.to(…) afterwards; move the inputs: x.to(model.device)',
    ),
)  # fmt: skip
