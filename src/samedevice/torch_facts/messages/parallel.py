"""Families: several GPUs, several processes."""

from samedevice.model.scene import Kind
from samedevice.torch_facts.messages.family import Family, T, wording

FAMILIES = (
    Family(
        "data-parallel-source",
        Kind.DATA_PARALLEL,
        T("DataParallel's module is not on its first GPU", "Das Modul in DataParallel liegt nicht auf dessen erster GPU"),
        T("DataParallel copies the module from `device_ids[0]` to the others before each call, so all of it must be there", "DataParallel kopiert das Modul vor jedem Aufruf von `device_ids[0]` auf die anderen, also muss es ganz dort liegen"),
        ("data-parallel-source-device", "bare-cuda-in-multi-gpu"),
        (
            wording("module must have its parameters and buffers on device {d2:device} (device_ids[0]) but found one of them on device: {d1:device}", "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: cpu", "1.0"),
            wording("all tensors must be on devices[0]", "all tensors must be on devices[0]: 0", "0.3", "1.4"),
            wording("Broadcast function not implemented for CPU tensors", "Broadcast function not implemented for CPU tensors", "0.3"),
            wording("Gather function not implemented for CPU tensors", "Gather function not implemented for CPU tensors", "0.4"),
        ),
    ),
    Family(
        "ddp-devices",
        Kind.DATA_PARALLEL,
        T("DistributedDataParallel got a module on a device that does not fit `device_ids`", "DistributedDataParallel bekam ein Modul auf einem Gerät, das nicht zu `device_ids` passt"),
        T("In each process the module must be on the one GPU of its rank before it is wrapped", "In jedem Prozess muss das Modul vor dem Einhüllen auf der einen GPU seines Rangs liegen"),
        ("module-not-moved", "bare-cuda-in-multi-gpu"),
        (
            wording("DistributedDataParallel's input module must be on the same type of devices, but input module parameters locate in {text:text}", "DistributedDataParallel's input module must be on the same type of devices, but input module parameters locate in ['cpu', 'cuda'].", "1.8"),
            wording("DistributedDataParallel's input module must be on the same type of devices", "DistributedDataParallel's input module must be on the same type of devices, but input module parameters locate in {'cpu', 'cuda'}.", "1.8"),
            wording("DistributedDataParallel device_ids and output_device arguments only work with single-device", "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU modules or CPU modules, but got device_ids [0], output_device None, and module parameters {device(type='cpu')}.", "1.5"),
        ),
        code="torch.cuda.set_device(local_rank)\nmodel = DistributedDataParallel(Net().to(local_rank), device_ids=[local_rank])",
    ),
    Family(
        "fsdp-devices",
        Kind.DATA_PARALLEL,
        T("FSDP got parameters on a device that it does not accept", "FSDP bekam Parameter auf einem Gerät, das es nicht annimmt"),
        T("FSDP shards a module whose parameters are on one device; parts on the CPU or on meta need `device_id` or materialisation", "FSDP teilt ein Modul auf, dessen Parameter auf einem Gerät liegen; Teile auf CPU oder Meta brauchen `device_id` oder echte Daten"),
        ("module-not-moved", "meta-left"),
        (
            wording("To support a module with both CPU and GPU params, please pass in device_id argument.", "To support a module with both CPU and GPU params, please pass in device_id argument.", "1.12"),
            wording("FSDP only supports single device modules but got params on", "FSDP only supports single device modules but got params on {device(type='cuda', index=0), device(type='cuda', index=1)}", "1.12"),
            wording("FSDP parameters should be materialized from meta device before training", "FSDP parameters should be materialized from meta device before training, but the following were still on meta device: ['0.weight']", "2.4"),
            wording("FSDP parameters should be materialized on CPU when enabling CPU offloading.", "FSDP parameters should be materialized on CPU when enabling CPU offloading. For example, load a CPU state dict or call module.to_empty(device=\"cpu\").", "2.5"),
        ),
        code="FullyShardedDataParallel(model, device_id=torch.cuda.current_device())",
    ),
    Family(
        "collective-device",
        Kind.COLLECTIVE,
        T("A collective got a tensor that its backend cannot reach", "Eine kollektive Operation bekam einen Tensor, den ihr Backend nicht erreicht"),
        T("NCCL works on GPU tensors only, one GPU a rank; gloo works on CPU tensors", "NCCL arbeitet nur mit GPU-Tensoren, eine GPU je Rang; gloo mit CPU-Tensoren"),
        ("collective-on-wrong-device", "bare-cuda-in-multi-gpu"),
        (
            wording("No backend type associated with device type {d1:device}", "No backend type associated with device type cpu", "2.0"),
            wording("Tensors must be CUDA and dense", "Tensors must be CUDA and dense", "1.0"),
            wording("Tensors must be on distinct GPU devices", "Tensors must be on distinct GPU devices", "1.0"),
            wording("Duplicate GPU detected : rank {r1:int} and rank {r2:int} both on CUDA device {bus}", "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000", "1.11"),
            wording("Expected tensor to be on the same device as the process group", "Expected tensor to be on the same device as the process group"),
        ),
        T("When one rank raises, the others wait and later report a time-out: read the first error of the log", "Wirft ein Rang den Fehler, warten die anderen und melden später eine Zeitüberschreitung: den ersten Fehler des Logs lesen"),
    ),
    Family(
        "kernel-pointer",
        Kind.OPERANDS,
        T("A Triton kernel got a tensor that it cannot reach", "Ein Triton-Kernel bekam einen Tensor, den er nicht erreicht"),
        T("Triton takes raw addresses on the current GPU: a CPU tensor, or one of another GPU, is not there", "Triton nimmt rohe Adressen auf der aktuellen GPU: ein CPU-Tensor oder einer auf einer anderen GPU ist dort nicht"),
        ("kernel-on-other-gpu", "factory-without-device", "module-not-moved"),
        (
            wording("Pointer argument (at {number:int}) cannot be accessed from Triton (cpu tensor?)", "Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)"),
            wording("Pointer argument cannot be accessed from Triton (cpu tensor?)", "Pointer argument cannot be accessed from Triton (cpu tensor?)"),
        ),
        T("`at N` counts the kernel's arguments from 0. In flash-attention, mamba and xformers kernels it is often a tensor of a model spread over several GPUs", "`at N` zählt die Argumente des Kernels von 0 an. In Kernels von flash-attention, mamba und xformers ist es oft ein Tensor eines über mehrere GPUs verteilten Modells"),
    ),
)  # fmt: skip
