"""Families: operands of one call on different devices."""

from samedevice.model.scene import Kind
from samedevice.torch_facts.messages import readings as read
from samedevice.torch_facts.messages.family import Family, T, wording

FAMILIES = (
    Family(
        "argument-on-other-device",
        Kind.OPERANDS,
        T("One argument of an operator is on another device than the rest", "Ein Argument eines Operators liegt auf einem anderen Gerät als die übrigen"),
        T(
            "PyTorch never copies between devices on its own: all tensors of one operator must be on the same one, down to the index of the GPU, and tensors without dimensions or elements count too",
            "PyTorch kopiert nie von selbst zwischen Geräten: alle Tensoren eines Operators müssen auf demselben liegen, bis auf den Index der GPU; auch Tensoren ohne Dimensionen oder Elemente zählen",
        ),
        (
            "batch-not-moved", "factory-without-device", "module-not-moved", "unregistered-tensor", "target-not-moved",
            "discarded-move", "module-in-container", "carried-state", "device-argument-dropped", "load-without-map-location",
            "cross-gpu-operands",
        ),
        (
            wording(
                "Expected all tensors to be on the same device, but got {arg:name} is on {d1:device}, different from other tensors on {d2:device} (when checking argument in method {method:name})",
                "Expected all tensors to be on the same device, but got mat1 is on cuda:0, different from other tensors on cpu (when checking argument in method wrapper_CUDA_addmm)",
                "2.8",
            ),
            wording(
                "Expected all tensors to be on the same device, but found at least two devices, {d2:device} and {d1:device}! (when checking argument for argument {arg:name} in method {method:name})",
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when checking argument for argument mat2 in method wrapper_CUDA_mm)",
                "1.10", "2.7",
            ),
            wording(
                "Expected all tensors to be on the same device, but found at least two devices, {d2:device} and {d1:device}! (when checking arugment for argument {arg:name} in method {method:name})",
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when checking arugment for argument index in method wrapper_index_select)",
                "1.9", "1.9",
            ),
            wording(
                "Expected object of device type {d2:Device} but got device type {d1:Device} for argument #{number:int} '{arg}' in call to {method}",
                "Expected object of device type cuda but got device type cpu for argument #2 'mat2' in call to _th_bmm",
                "1.4", "1.9",
            ),
            wording(
                "Expected object of backend {d2:Device} but got backend {d1:Device} for argument #{number:int} '{arg}'",
                "Expected object of backend CPU but got backend CUDA for argument #4 'mat1'",
                "1.0", "1.3",
                read.devices_differ,
            ),
            wording(
                "Expected object of type {t1:type} but found type {t2:type} for argument #{number:int} '{arg}'",
                "Expected object of type torch.FloatTensor but found type torch.cuda.FloatTensor for argument #2 'mat2'",
                None, "0.4",
                read.types_on_other_devices,
            ),
            wording(
                "Expected object of type Variable[{t1:type}] but found type Variable[{t2:type}] for argument #{number:int} '{arg}'",
                "Expected object of type Variable[torch.cuda.FloatTensor] but found type Variable[torch.FloatTensor] for argument #1 'mat1'",
                None, "0.3",
                read.types_on_other_devices,
            ),
            wording(
                "Tensor for 'out' is on {d0:Device}, Tensor for argument #{number:int} '{arg}' is on {d1:Device}, but expected them to be on {d2:Device} (while checking arguments for {method:name})",
                "Tensor for 'out' is on CPU, Tensor for argument #1 'self' is on CPU, but expected them to be on GPU (while checking arguments for addmm)",
                "1.6", "1.8",
            ),
            wording(
                "Tensor for argument #{number:int} '{arg}' is on {d1:Device}, but expected it to be on GPU (while checking arguments for {method:name})",
                "Tensor for argument #3 'mat2' is on CPU, but expected it to be on GPU (while checking arguments for addmm)",
                "1.6",
            ),
            wording(
                "Expected tensor for argument #{n1:int} '{arg}' to have the same device as tensor for argument #{n2:int} '{other}'; but device {i1:int} does not equal {i2:int} (while checking arguments for {method:name})",
                "Expected tensor for argument #1 'input' to have the same device as tensor for argument #2 'weight'; but device 1 does not equal 0 (while checking arguments for cudnn_convolution)",
                "1.0",
            ),
            wording("Input, output and indices must be on the current device", "Input, output and indices must be on the current device", "1.5", "1.8"),
            wording("arguments are located on different GPUs at {place}", "arguments are located on different GPUs at /pytorch/aten/src/THC/generic/THCTensorMathBlas.cu:253", "0.3", "1.4"),
        ),
        T(
            "The check takes the first argument as the measure and names the first that differs. When the *first* one is out of place, a healthy argument is named: compare the devices in the message. The check counts the function's own `out` first and skips arguments that are None",
            "Die Prüfung nimmt das erste Argument als Maß und nennt das erste, das abweicht. Liegt das *erste* falsch, wird ein gesundes genannt: die Geräte in der Meldung vergleichen. Ein eigenes `out` zählt zuerst, fehlende Argumente (None) werden übersprungen",
        ),
        read=read.read_either_release,
    ),
    Family(
        "elementwise-devices",
        Kind.OPERANDS,
        T("Tensors of an elementwise operation are on different devices", "Tensoren einer elementweisen Operation liegen auf verschiedenen Geräten"),
        T(
            "An operation like `+`, `*`, `==`, `torch.where`, `mse_loss` or an optimizer's step met tensors of two devices. Only a CPU tensor without dimensions may join GPU tensors; one element in a dimension (`shape [1]`) may not",
            "Eine Operation wie `+`, `*`, `==`, `torch.where`, `mse_loss` oder der Schritt eines Optimierers traf auf Tensoren zweier Geräte. Nur ein CPU-Tensor ohne Dimensionen darf zu GPU-Tensoren; einer mit einem Element (`shape [1]`) nicht",
        ),
        (
            "factory-without-device", "unregistered-tensor", "accumulator-on-cpu", "target-not-moved", "copy-left-behind",
            "metric-state-not-moved", "carried-state", "optimizer-state-left-behind", "cross-gpu-operands", "stale-alias",
            "load-without-map-location", "unreplicated-attribute",
        ),
        (
            wording(
                "Expected all tensors to be on the same device, but found at least two devices, {d1:device} and {d2:device}!",
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
                "1.7",
            ),
            wording(
                "expected device {d1:device} but got device {d2:device}",
                "expected device cuda:0 but got device cpu",
                "1.3", "1.6",
            ),
            wording(
                "Expected condition, x and y to be on the same device, but condition is on {d1:device} and x and y are on {d2:device} and {d3:device} respectively",
                "Expected condition, x and y to be on the same device, but condition is on cuda:0 and x and y are on cpu and cpu respectively",
                "1.2", "1.10",
            ),
            wording(
                "Unhandled FakeTensor Device Propagation for {method:name}, found two different devices {d1:device}, {d2:device}",
                "Unhandled FakeTensor Device Propagation for aten.add.Tensor, found two different devices cuda:0, cpu",
                "2.0",
            ),
            wording("Tensors of the same index must be on the same device", "Tensors of the same index must be on the same device and the same dtype except `step` tensors that can be CPU and float32 notwithstanding", "2.1"),
            wording("Expected all tensors to be on the same device", "Expected all tensors to be on the same device"),
            wording("tensors to be on the same device, but found at least two devices", "all tensors to be on the same device, but found at least two devices"),
        ),
        T(
            "The message names devices only, the GPU first whichever operand it is; with two GPUs the first operand's device comes first. Print `.device` of every operand of the failing line, the ones inside `self` too",
            "Die Meldung nennt nur Geräte, die GPU zuerst, welcher Operand es auch ist; bei zwei GPUs kommt das Gerät des ersten Operanden zuerst. `.device` jedes Operanden der Fehlerzeile ausgeben, auch derer in `self`",
        ),
        read=read.read_pair,
    ),
    Family(
        "cpu-scalar",
        Kind.OPERANDS,
        T("More CPU scalars than an operation takes", "Mehr CPU-Skalare, als eine Operation annimmt"),
        T(
            "One CPU tensor without dimensions may stand among GPU tensors as a number; here are two, or one in a place that does not take it",
            "Ein CPU-Tensor ohne Dimensionen darf als Zahl unter GPU-Tensoren stehen; hier sind es zwei, oder einer steht an einer Stelle, die ihn nicht annimmt",
        ),
        ("factory-without-device", "unregistered-tensor"),
        (
            wording("Trying to pass too many CPU scalars to non-CPU kernel!", "Trying to pass too many CPU scalars to non-CPU kernel!", "1.9"),
            wording("Trying to pass too many CPU scalars to CUDA kernel!", "Trying to pass too many CPU scalars to CUDA kernel!", "1.7", "1.8"),
            wording(
                "CPU Scalar support for {arg:name} argument is not supported when calling {method:name} on CUDA tensors.",
                "CPU Scalar support for tensor1 argument is not supported when calling addcmul on CUDA tensors. However, CPU Scalar support for tensor2 is supported, please swap your tensor1 and tensor2 terms.",
                "2.6",
            ),
            wording("argument {number:int}: expected a CUDA device but found cpu", "iter.device(arg).is_cuda() INTERNAL ASSERT FAILED at \"../aten/src/ATen/native/cuda/Loops.cuh\":118, please report a bug to PyTorch. argument 1: expected a CUDA device but found cpu", "1.8"),
            wording("scalar tensor expected to be on cpu but is on {d1:device}", "scalar tensor expected to be on cpu but is on cuda:0", "2.1"),
            wording("Expected scalars to be on CPU, got {d1:device} instead.", "Expected scalars to be on CPU, got cuda:0 instead.", "2.0"),
        ),
        code="scale = torch.tensor(0.1, device=x.device)  # or a plain number: 0.1",
    ),
    Family(
        "index-device",
        Kind.INDEX,
        T("An index is on a device that the indexed tensor does not accept", "Ein Index liegt auf einem Gerät, das der indizierte Tensor nicht annimmt"),
        T(
            "`x[index]` takes an index from the device of `x` or from the CPU. A CPU tensor cannot be indexed with a GPU tensor",
            "`x[index]` nimmt einen Index vom Gerät von `x` oder von der CPU. Ein CPU-Tensor lässt sich nicht mit einem GPU-Tensor indizieren",
        ),
        ("unregistered-tensor", "factory-without-device", "target-not-moved", "index-on-other-device", "carried-state"),
        (
            wording("indices should be either on cpu or on the same device as the indexed tensor ({d1:device})", "indices should be either on cpu or on the same device as the indexed tensor (cpu)", "1.11"),
            wording("indices should be either on CPU or on the same device as the indexed tensor ({d1:device})", "indices should be either on CPU or on the same device as the indexed tensor (cpu)", "2.5"),
            wording("indices should be either on cpu or on the same device as the indexed tensor", "indices should be either on cpu or on the same device as the indexed tensor"),
        ),
        T("The message tells the device of the indexed tensor, not that of the index", "Die Meldung nennt das Gerät des indizierten Tensors, nicht das des Index"),
        read=read.read_index,
    ),
    Family(
        "convolution-types",
        Kind.OPERANDS,
        T("Input and weight of a convolution are on different devices", "Eingabe und Gewicht einer Faltung liegen auf verschiedenen Geräten"),
        T(
            "A convolution compares the *types*: `torch.cuda.FloatTensor` is on a GPU, `torch.FloatTensor` on the CPU. It is about the device, not about the dtype",
            "Eine Faltung vergleicht die *Typen*: `torch.cuda.FloatTensor` liegt auf einer GPU, `torch.FloatTensor` auf der CPU. Es geht um das Gerät, nicht um den dtype",
        ),
        ("batch-not-moved", "module-not-moved", "discarded-move", "module-in-container", "module-built-in-forward", "module-added-after-move"),
        (
            wording("Input type ({t1:type}) and weight type ({t2:type}) should be the same or input should be a MKLDNN tensor and weight is a dense tensor", "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor", "1.5", None, read.types_on_other_devices),
            wording("Input type ({t1:type}) and weight type ({t2:type}) should be the same", "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same", "0.4", None, read.types_on_other_devices),
            wording("Input type ({t1:type}) and bias type ({t2:type}) should be the same", "Input type (torch.cuda.FloatTensor) and bias type (torch.FloatTensor) should be the same", "0.4", None, read.types_on_other_devices),
            wording("Input type ({t1:type}) and weight type ({t2:type}) should be the same", "Input type (MPSFloatType) and weight type (torch.FloatTensor) should be the same", "1.12", None, read.types_on_other_devices),
            wording("{method:name}: input(device='{d1:device}') and weight(device={d2:device}') must be on the same device", "slow_conv2d_forward_mps: input(device='cpu') and weight(device=mps:0')  must be on the same device", "2.0"),
        ),
        read=read.read_conv,
    ),
    Family(
        "rnn-devices",
        Kind.OPERANDS,
        T("Input, parameters and hidden state of an RNN, LSTM or GRU are on different devices", "Eingabe, Parameter und Zustand eines RNN, LSTM oder GRU liegen auf verschiedenen Geräten"),
        T(
            "Recurrent layers compare the input with every parameter, then with the hidden state",
            "Rekurrente Schichten vergleichen die Eingabe mit jedem Parameter, dann mit dem versteckten Zustand",
        ),
        ("carried-state", "factory-without-device", "batch-not-moved", "module-not-moved"),
        (
            wording("Input and hidden tensors are not at the same device, found input tensor at {d1:device} and hidden tensor at {d2:device}", "Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu", "1.0"),
            wording("Input and parameter tensors are not at the same device, found input tensor at {d1:device} and parameter tensor at {d2:device}", "Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor at cuda:0", "1.0"),
        ),
        T("Input and counterpart are named with their devices; the one on the CPU is the one to look at", "Eingabe und Gegenstück werden mit ihren Geräten genannt; nachzusehen ist bei dem auf der CPU"),
        "hidden = x.new_zeros(layers, x.size(0), dim)",
        read=read.read_rnn,
    ),
    Family(
        "attention-devices",
        Kind.OPERANDS,
        T("Query, key, value or mask of an attention are on different devices", "Query, Key, Value oder Maske einer Attention liegen auf verschiedenen Geräten"),
        T(
            "`scaled_dot_product_attention` and its kin compare the devices of their inputs before anything else",
            "`scaled_dot_product_attention` und Verwandte vergleichen zuerst die Geräte ihrer Eingaben",
        ),
        ("carried-state", "factory-without-device", "unregistered-tensor", "module-not-moved"),
        (
            wording(
                "Expected query, key, and value to have the same device type, but got query.device: {d1:device} key.device: {d2:device} and value.device: {d3:device} instead.",
                "Expected query, key, and value to have the same device type, but got query.device: cuda:0 key.device: cpu and value.device: cpu instead.",
                "2.0",
            ),
            wording("Attention bias and Query/Key/Value should be on the same device", "Attention bias and Query/Key/Value should be on the same device"),
            wording("Could not run 'aten::_scaled_dot_product_flash_attention_for_cpu' with arguments from the '{backend:name}' backend.", "Could not run 'aten::_scaled_dot_product_flash_attention_for_cpu' with arguments from the 'CUDA' backend. This could be because", "2.1"),
        ),
        T("Key and value often come from a cache, the mask from a factory without `device=`", "Key und Value kommen oft aus einem Cache, die Maske aus einer Fabrik ohne `device=`"),
    ),
    Family(
        "function-operands",
        Kind.OPERANDS,
        T("A function checked its own arguments and found two devices", "Eine Funktion hat ihre Argumente selbst geprüft und zwei Geräte gefunden"),
        T(
            "Some functions compare the devices themselves, each in its own words; the rule is the same: all on one device",
            "Einige Funktionen vergleichen die Geräte selbst, jede mit eigenen Worten; die Regel ist dieselbe: alle auf einem Gerät",
        ),
        ("factory-without-device", "unregistered-tensor", "batch-not-moved", "cached-on-first-device"),
        (
            wording("Expected tensor to have {d2:Device} Device, but got tensor with {d1:Device} Device (while checking arguments for {method})", "Expected tensor to have cuda:0 Device, but got tensor with cpu Device (while checking arguments for torch.take_along_dim():)", "1.9"),
            wording("Expected tensor to have {d2:Device} DeviceType, but got tensor with {d1:Device} DeviceType (while checking arguments for {method})", "Expected tensor to have cuda DeviceType, but got tensor with cpu DeviceType (while checking arguments for inner())", "1.8"),
            wording("multi_dot(): all tensors must be on the same device but tensor 0 is on {d1:device} and tensor {number:int} on {d2:device}", "multi_dot(): all tensors must be on the same device but tensor 0 is on cuda:0 and tensor 1 on cpu", "1.8"),
            wording("X1 and X2 must have the same device type. X1: {d1:name} X2: {d2:name}", "X1 and X2 must have the same device type. X1: cuda X2: cpu"),
            wording("Expected b and A to be on the same device, but found b on {d1:device} and A on {d2:device} instead.", "Expected b and A to be on the same device, but found b on cpu and A on cuda:0 instead.", "1.3"),
            wording("{method:name}: Expected {arg:name} and input tensors to be on the same device, but got {arg2:name} on {d1:device} and input on {d2:device}", "torch.linalg.matrix_rank: Expected atol and input tensors to be on the same device, but got atol on cpu and input on cuda:0", "1.11"),
            wording("weight_norm: expected v_in and g_in to be on the same device, but v_in is on {d1:device} and g_in is on {d2:device}", "weight_norm: expected v_in and g_in to be on the same device, but v_in is on cuda:0 and g_in is on cpu", "1.7"),
            wording("sorter and boundary tensors should have same device type, but got sorter tensor device type {d1:name} and input value tensor device type {d2:name}", "torch.searchsorted(): sorter and boundary tensors should have same device type, but got sorter tensor device type cpu and input value tensor device type cuda", "1.11"),
            wording("boundaries and input value tensors should have same device type, but we got boundaries tensor device type {d1:name} and input value tensor device type {d2:name}", "torch.searchsorted(): boundaries and input value tensors should have same device type, but we got boundaries tensor device type cpu and input value tensor device type cuda", "1.6", "1.10"),
            wording(
                "expected self and mask to be on the same device, but got mask on {d1:device} and self on {d2:device}",
                "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
                "1.13",
            ),
            wording("masked_fill_: Expected inputs to be on same device", "masked_fill_: Expected inputs to be on same device", "1.13"),
            wording("quantile() {arg:name} tensor must be on the same device as the input tensor", "quantile() q tensor must be on the same device as the input tensor", "1.7"),
            wording("stft input and window must be on the same device but got self on {d1:device} and window on {d2:device}", "stft input and window must be on the same device but got self on cuda:0 and window on cpu", "1.9"),
            wording("meshgrid expects all tensors to have the same device", "meshgrid expects all tensors to have the same device", "1.4"),
            wording("input tensors must all be on the same device. Input 0 is on device {d1:device} and input {number:int} is on device {d2:device}", "torch.block_diag: input tensors must all be on the same device. Input 0 is on device cuda:0 and input 1 is on device cpu", "1.7"),
            wording("torch.gradient expected each tensor to be on the same device, but got devices {d1:device} and {d2:device}!", "torch.gradient expected each tensor to be on the same device, but got devices cuda:0 and cpu!", "1.8"),
            wording("Expected data.get_device() == lengths_value.get_device() to be true, but got false.", "Expected data.get_device() == lengths_value.get_device() to be true, but got false.  (Could this error message be improved? If so, please report an enhancement request to PyTorch.)", "1.10"),
            wording("Values and {arg:name} need to be on the same device.", "Values and crow_indices need to be on the same device.", "1.8"),
            wording("When constructing a nested tensor, all tensors in list must be on the same device", "When constructing a nested tensor, all tensors in list must be on the same device", "2.3"),
            wording("Tensors must be on the same device", "Tensors must be on the same device"),
            wording("All input tensors need to be on the same GPU, but found some tensors to not be on a GPU", "All input tensors need to be on the same GPU, but found some tensors to not be on a GPU:\n [(torch.Size([4, 4]), device(type='cpu'))]"),
        ),
        T("The texts name the two tensors in the function's words, not in yours", "Die Texte nennen die zwei Tensoren mit den Worten der Funktion, nicht mit Ihren"),
    ),
    Family(
        "out-argument",
        Kind.OPERANDS,
        T("The tensor given as `out=` is on another device than the inputs", "Der als `out=` übergebene Tensor liegt auf einem anderen Gerät als die Eingaben"),
        T("`out=` must be where the result is computed, which is where the inputs are", "`out=` muss dort liegen, wo das Ergebnis entsteht, also bei den Eingaben"),
        ("accumulator-on-cpu", "factory-without-device"),
        (
            wording("Expected out tensor to have device {d1:device}, but got {d2:device} instead", "Expected out tensor to have device cuda:0, but got cpu instead", "1.8"),
            wording("CUDAGuardImpl initialized with non-CUDA DeviceType: {d1:device}", "CUDAGuardImpl initialized with non-CUDA DeviceType: cpu", "2.8"),
            wording("device type {d1:device} does not match device type of out parameter ({d2:device})", "device type cpu does not match device type of out parameter (cuda)", "1.0"),
            wording("Expected self.device() == out.device() to be true, but got false.", "Expected self.device() == out.device() to be true, but got false.  (Could this error message be improved?", "1.8"),
        ),
        code="out = x.new_empty(shape)",
    ),
    Family(
        "mps-cpu-operand",
        Kind.OPERANDS,
        T("An operation on Apple's GPU (MPS) got a tensor from the CPU", "Eine Operation auf Apples GPU (MPS) bekam einen Tensor von der CPU"),
        T(
            "MPS has no general check: the CPU tensor is found late, by the operation or by the storage that it misses",
            "MPS hat keine allgemeine Prüfung: der CPU-Tensor fällt spät auf, der Operation oder dem Speicher, der ihr fehlt",
        ),
        ("batch-not-moved", "factory-without-device", "hardcoded-device", "module-not-moved", "unregistered-tensor"),
        (
            wording("Placeholder storage has not been allocated on MPS device!", "Placeholder storage has not been allocated on MPS device!", "1.12"),
            wording("Passed CPU tensor to MPS op", "Passed CPU tensor to MPS op", "2.7"),
            wording("Tensor for argument {arg:name} is on {d1:device} but expected on mps", "Tensor for argument weight is on cpu but expected on mps", "2.1"),
        ),
        T("Only the third of these texts names an operand; print `.device` of all operands of the failing line", "Nur der dritte dieser Texte nennt einen Operanden; `.device` aller Operanden der Fehlerzeile ausgeben"),
        'device = torch.device("mps" if torch.backends.mps.is_available() else "cpu")\nmodel, x = model.to(device), x.to(device)',
    ),
    Family(
        "metric-devices",
        Kind.OPERANDS,
        T("A torchmetrics metric is on another device than its inputs", "Eine torchmetrics-Metrik liegt auf einem anderen Gerät als ihre Eingaben"),
        T("A metric keeps its state in tensors of its own; they must be where the predictions are", "Eine Metrik hält ihren Zustand in eigenen Tensoren; sie müssen bei den Vorhersagen liegen"),
        ("metric-state-not-moved",),
        (
            wording("Encountered different devices in metric calculation", "Encountered different devices in metric calculation (see stacktrace for details). This could be due to the metric class not being on the same device as input. Instead of `metric=BinaryAccuracy(...)` try to do `metric=BinaryAccuracy(...).to(device)` where device corresponds to the device of the input."),
        ),
        T("torchmetrics keeps the original error underneath; it is the one above in the log", "torchmetrics behält den ursprünglichen Fehler; er steht im Log darüber"),
    ),
    Family(
        "generate-inputs",
        Kind.OPERANDS,
        T("`generate()` got input ids on another device than the model", "`generate()` bekam Eingabe-Ids auf einem anderen Gerät als das Modell"),
        T("The tokenizer returns CPU tensors; transformers warns, and the first embedding raises", "Der Tokenizer liefert CPU-Tensoren; transformers warnt, und das erste Embedding wirft den Fehler"),
        ("batch-not-moved",),
        (
            wording("You are calling .generate() with the `input_ids` being on a device type different than your model's device. `input_ids` is on {d1:device}, whereas the model is on {d2:device}", "You are calling .generate() with the `input_ids` being on a device type different than your model's device. `input_ids` is on cpu, whereas the model is on cuda. You may experience unexpected behaviors or slower generation."),
        ),
        code='inputs = tokenizer(text, return_tensors="pt").to(model.device)\nmodel.generate(**inputs)',
    ),
)  # fmt: skip
