"""Families: gradients, optimizers, and changes of a tensor's data."""

from samedevice.model.scene import Kind
from samedevice.torch_facts.messages import readings as read
from samedevice.torch_facts.messages.family import Family, T, wording

FAMILIES = (
    Family(
        "gradient-device",
        Kind.GRADIENT,
        T("A gradient is on another device than the tensor it belongs to", "Ein Gradient liegt auf einem anderen Gerät als der Tensor, zu dem er gehört"),
        T("Each backward function must return gradients where its inputs were; a gradient without dimensions is moved silently", "Jede Rückwärtsfunktion muss Gradienten dort liefern, wo ihre Eingaben lagen; ein Gradient ohne Dimensionen wird stillschweigend verschoben"),
        ("cpu-gradient",),
        (
            wording("Function {function:name} returned an invalid gradient at index {number:int} - expected device {d2:device} but got {d1:device}", "Function SoftRankBackward returned an invalid gradient at index 0 - expected device cuda:0 but got cpu", "1.5"),
            wording("Function {function:name} returned an invalid gradient at index {number:int} - expected type {t1:type} but got {t2:type}", "Function AddBackward0 returned an invalid gradient at index 1 - expected type torch.FloatTensor but got torch.cuda.FloatTensor", "1.0", "1.4", read.types_on_other_devices),
            wording("invalid gradient at index {number:int} - expected device {d2:device} but got {d1:device}", "invalid gradient at index 0 - expected device cuda:0 but got cpu", "1.5"),
            wording("hook '{function:name}' has changed the type of value (was {t1:type} got {t2:type})", "hook 'clip' has changed the type of value (was torch.cuda.FloatTensor got torch.FloatTensor)", "1.0", None, read.types_on_other_devices),
        ),
        T("`Function X Backward` names the operation: a class of yours with `Backward` behind its name is your `autograd.Function`. The crash line is `backward()`; the mistake is in that class", "`Function X Backward` nennt die Operation: eine eigene Klasse mit `Backward` dahinter ist Ihre `autograd.Function`. Die Fehlerzeile ist `backward()`; der Fehler steckt in jener Klasse"),
    ),
    Family(
        "gradient-assigned",
        Kind.GRADIENT,
        T("A gradient was assigned to a tensor of another device", "Ein Gradient wurde einem Tensor auf einem anderen Gerät zugewiesen"),
        T("`p.grad = g` needs `g` where `p` is", "`p.grad = g` verlangt `g` dort, wo `p` liegt"),
        ("cpu-gradient", "copy-left-behind"),
        (
            wording("attempting to assign a gradient with device type '{d1:device}' to a tensor with device type '{d2:device}'.", "attempting to assign a gradient with device type 'cuda' to a tensor with device type 'cpu'. Please ensure that the gradient and the tensor are on the same device", "2.1"),
            wording("attempting to assign a gradient located on device with index", "attempting to assign a gradient located on device with index '\x01' to a tensor located on device with index '", "2.1"),
            wording("assigned grad has data located on a different device", "assigned grad has data located on a different device", "1.0", "2.0"),
            wording("assigned grad has data of a different type", "assigned grad has data of a different type", "1.0", "2.0"),
        ),
        code="p.grad = g.to(p.device)",
    ),
    Family(
        "data-changed",
        Kind.OPERANDS,
        T("A tensor's storage was to be replaced by one of another device or kind", "Der Speicher eines Tensors sollte durch einen auf anderem Gerät oder anderer Art ersetzt werden"),
        T("`set_` must stay on the device; `.data =` may change it between CPU and CUDA, but not to or from meta, sparse or a subclass", "`set_` muss auf dem Gerät bleiben; `.data =` darf es zwischen CPU und CUDA wechseln, nicht von oder nach Meta, dünn besetzt oder einer Unterklasse"),
        ("meta-left", "parameter-lost-by-move"),
        (
            wording("Attempted to set the storage of a tensor on device \"{d1:device}\" to a storage on different device \"{d2:device}\".", "Attempted to set the storage of a tensor on device \"cpu\" to a storage on different device \"cuda:0\".  This is no longer allowed; the devices must match.", "1.6"),
            wording("Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type.", "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type.", "1.1"),
        ),
        code="with torch.no_grad():\n    p.copy_(new)",
    ),
    Family(
        "optimizer-devices",
        Kind.OPERANDS,
        T("An optimizer's state or learning rate is on a device that it does not accept", "Zustand oder Lernrate eines Optimierers liegen auf einem Gerät, das er nicht annimmt"),
        T("State lives where its parameter lives; `step` counters live on the CPU unless the optimizer is fused or capturable", "Zustand liegt beim Parameter; die `step`-Zähler liegen auf der CPU, außer bei fused oder capturable"),
        ("optimizer-state-left-behind",),
        (
            wording("If capturable=False, state_steps should not be CUDA tensors", "If capturable=False, state_steps should not be CUDA tensors", "1.12", "2.0"),
            wording("lr as a Tensor is not supported for capturable=False and foreach=True", "lr as a Tensor is not supported for capturable=False and foreach=True", "2.1"),
            wording("`fused=True` requires all the params to be", "`fused=True` requires all the params to be floating point Tensors of supported devices: ['mps', 'cuda', 'xpu', 'hpu', 'cpu', 'mtia', 'privateuseone'] but torch.float32 and meta", "2.0"),
            wording("Found two parameters on different devices, this is currently not supported.", "Found two parameters on different devices, this is currently not supported.", "0.4"),
        ),
        T("Loading a checkpoint by hand into `optimizer.state` is the usual way to get here; `load_state_dict` moves the state itself", "Meist wurde ein Checkpoint von Hand nach `optimizer.state` geladen; `load_state_dict` verschiebt den Zustand selbst"),
    ),
    Family(
        "non-leaf-parameter",
        Kind.LEAF,
        T("An optimizer got a tensor that is the result of a move, not a parameter", "Ein Optimierer bekam einen Tensor, der Ergebnis einer Verschiebung ist, kein Parameter"),
        T("`nn.Parameter(…).to(device)` and `tensor.requires_grad_().to(device)` give a copy that was computed: it is no leaf, gets no `.grad`, and cannot be optimised", "`nn.Parameter(…).to(device)` und `tensor.requires_grad_().to(device)` ergeben eine berechnete Kopie: sie ist kein Blatt, bekommt kein `.grad` und lässt sich nicht optimieren"),
        ("parameter-lost-by-move",),
        (
            wording("can't optimize a non-leaf Tensor", "can't optimize a non-leaf Tensor", "0.4"),
            wording("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed.", "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during autograd.backward().", "1.5"),
        ),
        T("It works on the CPU, where `.to` returns the tensor itself: the error shows only with a GPU", "Auf der CPU läuft es, weil `.to` dort den Tensor selbst zurückgibt: der Fehler zeigt sich erst mit GPU"),
    ),
)  # fmt: skip
