"""What a virtual GPU says of itself: an H100-like device of compute capability 9.0."""

from dataclasses import dataclass

NAME = "Virtual GPU"
CAPABILITY = (9, 0)
ARCHITECTURES = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
CUDA_VERSION = "13.0"
CUDNN_VERSION = 92400


@dataclass(frozen=True)
class DeviceProperties:
    """Attribute for attribute `torch.cuda.get_device_properties`."""

    name: str = NAME
    major: int = CAPABILITY[0]
    minor: int = CAPABILITY[1]
    total_memory: int = 0
    multi_processor_count: int = 132
    uuid: str = "00000000-0000-0000-0000-000000000000"
    pci_bus_id: int = 0
    pci_device_id: int = 0
    pci_domain_id: int = 0
    L2_cache_size: int = 50 << 20
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    max_threads_per_block: int = 1024
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    warp_size: int = 32
    gcnArchName: str = NAME  # noqa: N815 - torch's own name
    clock_rate: int = 1980000
    memory_clock_rate: int = 2619000
    memory_bus_width: int = 5120
    shared_memory_per_block: int = 49152
    shared_memory_per_block_optin: int = 232448
    shared_memory_per_multiprocessor: int = 233472

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count}, "
            f"uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size >> 20}MB)"
        )


def properties_of(index: int, total_memory: int) -> DeviceProperties:
    """The properties of one virtual GPU; its bus number and uuid tell it from the others."""
    return DeviceProperties(
        total_memory=total_memory,
        uuid=f"00000000-0000-0000-0000-{index:012x}",
        pci_bus_id=index + 1,
    )
