"""Families: what must stay on the host, generators, loading, forked processes."""

from samedevice.model.scene import Kind
from samedevice.torch_facts.messages.family import Family, T, wording

FAMILIES = (
    Family(
        "numpy-conversion",
        Kind.HOST_ONLY,
        T("A GPU tensor was given to NumPy", "Ein GPU-Tensor wurde NumPy gegeben"),
        T(
            "NumPy reads host memory only. PyTorch refuses to copy silently, because such a copy waits for the GPU",
            "NumPy liest nur den Hauptspeicher. PyTorch kopiert nicht stillschweigend, weil eine solche Kopie auf die GPU wartet",
        ),
        ("numpy-on-gpu",),
        (
            wording("can't convert {d1:device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.", "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.", "1.4"),
            wording("can't convert CUDA tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.", "can't convert CUDA tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.", "1.0", "1.5"),
            wording("can't convert CUDA tensor to numpy (it doesn't support GPU arrays). Use .cpu() to move the tensor to host memory first.", "can't convert CUDA tensor to numpy (it doesn't support GPU arrays). Use .cpu() to move the tensor to host memory first.", None, "0.4"),
            wording("unsupported operand type(s) for {operator}: 'numpy.ndarray' and 'Tensor'", "unsupported operand type(s) for *: 'numpy.ndarray' and 'Tensor'"),
            wording("Unsupported device in DLTensor.", "Unsupported device in DLTensor."),
            wording("device type tensor to numpy", "can't convert cuda device type tensor to numpy"),
        ),
        T(
            "The tensor is not named; it may be inside a list (`np.mean(losses)`, `plt.plot(losses)`). A loss kept for plotting is better kept as `loss.item()`",
            "Der Tensor wird nicht genannt; er kann in einer Liste stecken (`np.mean(losses)`, `plt.plot(losses)`). Ein Loss fürs Zeichnen wird besser als `loss.item()` aufgehoben",
        ),
    ),
    Family(
        "lengths-on-host",
        Kind.HOST_ONLY,
        T("`pack_padded_sequence` got its lengths on the GPU", "`pack_padded_sequence` bekam seine Längen auf der GPU"),
        T("The lengths are read on the host: they must be a CPU tensor (or a list), also when the batch is on the GPU", "Die Längen werden auf der CPU gelesen: sie müssen ein CPU-Tensor (oder eine Liste) sein, auch wenn der Batch auf der GPU liegt"),
        ("lengths-on-gpu",),
        (
            wording("'lengths' argument should be a 1D CPU int64 tensor, but got {dims:name} {d1:device} {dtype:name} tensor", "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor", "1.7"),
            wording("'lengths' argument should be a 1D CPU int64 tensor", "'lengths' argument should be a 1D CPU int64 tensor", "1.5"),
        ),
    ),
    Family(
        "split-indices-on-host",
        Kind.HOST_ONLY,
        T("`tensor_split` got its indices on the GPU", "`tensor_split` bekam seine Indizes auf der GPU"),
        T("Where to split is read on the host: a list or a CPU tensor", "Wo geteilt wird, wird auf der CPU gelesen: eine Liste oder ein CPU-Tensor"),
        ("index-on-other-device",),
        (wording("tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {d1:device}", "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on cuda:0", "1.8"),),
        code="parts = x.tensor_split(where.cpu())",
    ),
    Family(
        "pinned-memory",
        Kind.PIN,
        T("A GPU tensor was to be pinned", "Ein GPU-Tensor sollte gepinnt werden"),
        T("Pinned memory is host memory from which a copy to the GPU is fast; a tensor that is on the GPU already has nothing to pin", "Gepinnter Speicher ist Hauptspeicher, aus dem schnell auf die GPU kopiert wird; ein Tensor, der schon auf der GPU liegt, hat nichts zu pinnen"),
        ("pinning-gpu-tensor",),
        (
            wording("cannot pin '{t1:type}' only dense CPU tensors can be pinned", "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned", "1.0"),
            wording("cannot pin '{t1:type}' only CPU memory can be pinned", "cannot pin 'torch.cuda.FloatTensor' only CPU memory can be pinned", None, "1.4"),
        ),
        T("With `pin_memory=True` the error comes from the loader's pin-memory thread, far from the dataset that made the tensor", "Mit `pin_memory=True` kommt der Fehler aus dem Pin-Thread des Loaders, weit weg vom Dataset, das den Tensor erzeugt hat"),
    ),
    Family(
        "generator-device",
        Kind.GENERATOR,
        T("A random generator is of another device type than the tensor it fills", "Ein Zufallsgenerator gehört zu einem anderen Gerätetyp als der Tensor, den er füllt"),
        T("The type must agree (CPU or CUDA), the index of the GPU need not", "Der Typ muss übereinstimmen (CPU oder CUDA), der Index der GPU nicht"),
        ("generator-on-other-device", "default-device-leak"),
        (
            wording("Expected a '{d2:device}' device type for generator but found '{d1:device}'", "Expected a 'cuda' device type for generator but found 'cpu'", "1.8"),
            wording("Expected a '{d2:device}' generator device but found '{d1:device}'", "Expected a 'cuda:0' generator device but found 'cpu'", "1.5", "1.7"),
            wording("Cannot generate a {d2:device} tensor from a generator of type {d1:device}.", "Cannot generate a cpu tensor from a generator of type cuda."),
            wording("CUDA_tensor_apply2: Expected tensors to have CUDA DeviceType, but got tensors with type cpu and cpu", "CUDA_tensor_apply2: Expected tensors to have CUDA DeviceType, but got tensors with type cpu and cpu"),
            wording("RNG state must be a torch.ByteTensor", "RNG state must be a torch.ByteTensor", "1.0"),
        ),
        T("In a DataLoader with `shuffle=True` the generator is the sampler's own: then `torch.set_default_device` is the usual reason", "In einem DataLoader mit `shuffle=True` ist es der Generator des Samplers: dann ist `torch.set_default_device` der übliche Grund"),
    ),
    Family(
        "load-on-missing-device",
        Kind.LOAD,
        T("A checkpoint was saved from a device that this machine does not have", "Ein Checkpoint wurde von einem Gerät gespeichert, das diese Maschine nicht hat"),
        T("`torch.load` puts every tensor back where it was saved from, unless `map_location` says otherwise", "`torch.load` legt jeden Tensor dorthin zurück, von wo er gespeichert wurde, wenn `map_location` nichts anderes sagt"),
        ("load-without-map-location",),
        (
            wording("Attempting to deserialize object on a {d1:Device} device but torch.{backend:name}.is_available() is False.", "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU.", "1.0"),
            wording("Attempting to deserialize object on {d1:Device} device {number:int} but torch.{backend:name}.device_count() is {count:int}.", "Attempting to deserialize object on CUDA device 5 but torch.cuda.device_count() is 2. Please use torch.load with map_location to map your storages to an existing device.", "1.0"),
        ),
    ),
    Family(
        "fork-after-cuda",
        Kind.FORK,
        T("CUDA was used in a forked process", "CUDA wurde in einem geforkten Prozess benutzt"),
        T("A process that used CUDA cannot hand it to a fork; DataLoader workers are forks on Linux", "Ein Prozess, der CUDA benutzt hat, kann es nicht an einen Fork weitergeben; DataLoader-Worker sind unter Linux Forks"),
        ("cuda-in-forked-worker",),
        (
            wording("Cannot re-initialize CUDA in forked subprocess.", "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method", "0.4"),
            wording("CUDA error: initialization error", "CUDA error: initialization error\nCUDA kernel errors might be asynchronously reported at some other API call", "1.0"),
            wording("Cannot re-initialize XPU in forked subprocess.", "Cannot re-initialize XPU in forked subprocess. To use XPU with multiprocessing, you must use the 'spawn' start method", "2.3"),
        ),
    ),
    Family(
        "legacy-constructor",
        Kind.OPERANDS,
        T("A legacy constructor got a tensor of another device", "Ein alter Konstruktor bekam einen Tensor eines anderen Geräts"),
        T("`torch.FloatTensor(x)`, `torch.cuda.FloatTensor(x)` and `x.new(y)` take tensors of their own device only", "`torch.FloatTensor(x)`, `torch.cuda.FloatTensor(x)` und `x.new(y)` nehmen nur Tensoren des eigenen Geräts"),
        ("hardcoded-device",),
        (wording("expected TensorOptions(dtype={dt1:name}, device={d2:device}", "expected TensorOptions(dtype=float, device=cpu, layout=Strided, requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt)) (got TensorOptions(dtype=float, device=cuda:0, layout=Strided))", "1.0"),),
        code="y = x.float()  # or torch.as_tensor(x, device=device)",
    ),
)  # fmt: skip
