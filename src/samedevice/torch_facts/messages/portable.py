"""Families: the device is not there, or the operation is not there on it."""

from samedevice.torch_facts.messages.family import Family, T, wording

FAMILIES = (
    Family(
        "no-cuda",
        None,
        T("CUDA was asked for where there is none", "CUDA wurde verlangt, wo es keins gibt"),
        T("Either this build of PyTorch is for the CPU only, or no GPU is visible to the process", "Entweder ist dieses PyTorch nur für die CPU gebaut, oder der Prozess sieht keine GPU"),
        ("unguarded-cuda", "hardcoded-device"),
        (
            wording("Torch not compiled with CUDA enabled", "Torch not compiled with CUDA enabled", "0.4"),
            wording("PyTorch is not linked with support for {d1:device} devices", "PyTorch is not linked with support for cuda devices", "2.1"),
            wording("Found no NVIDIA driver on your system.", "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx", "0.4"),
            wording("No CUDA GPUs are available", "No CUDA GPUs are available", "1.6"),
            wording("CUDA error: no CUDA-capable device is detected", "CUDA error: no CUDA-capable device is detected", "1.0"),
        ),
        T("`CUDA_VISIBLE_DEVICES` set to nothing or to a wrong number hides the GPUs, too", "Auch ein leeres oder falsches `CUDA_VISIBLE_DEVICES` versteckt die GPUs"),
        placement=False,
    ),
    Family(
        "device-ordinal",
        None,
        T("A GPU index does not exist", "Ein GPU-Index existiert nicht"),
        T("Indices count the GPUs that the process *sees*, from 0: with `CUDA_VISIBLE_DEVICES=3` that GPU is `cuda:0`", "Indizes zählen die GPUs, die der Prozess *sieht*, ab 0: mit `CUDA_VISIBLE_DEVICES=3` heißt diese GPU `cuda:0`"),
        ("hardcoded-device", "load-without-map-location", "bare-cuda-in-multi-gpu"),
        (
            wording("CUDA error: invalid device ordinal", "CUDA error: invalid device ordinal\nCUDA kernel errors might be asynchronously reported at some other API call", "1.0"),
            wording("cuda runtime error (10) : invalid device ordinal", "cuda runtime error (10) : invalid device ordinal at /pytorch/torch/csrc/cuda/Module.cpp:59", "0.3", "1.4"),
            wording("cuda runtime error (101) : invalid device ordinal", "cuda runtime error (101) : invalid device ordinal at /pytorch/torch/csrc/cuda/Module.cpp:59", "1.1", "1.4"),
            wording("Invalid device id", "Invalid device id", "0.4"),
            wording("device >= 0 && device < num_gpus INTERNAL ASSERT FAILED", "device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at \"../aten/src/ATen/cuda/CUDAContext.cpp\":50, please report a bug to PyTorch. device=1, num_gpus=1", "2.0"),
            wording("Expected one of cpu, cuda,", "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: gpu", "1.0"),
            wording("Invalid device string: '{device}'", "Invalid device string: 'cuda0'", "1.0"),
            wording("Device index must not be negative", "Device index must not be negative", "1.0"),
        ),
        code='device = torch.device("cuda", local_rank % torch.cuda.device_count())',
        placement=False,
    ),
    Family(
        "operator-not-on-backend",
        None,
        T("The operator does not exist on this device", "Den Operator gibt es auf diesem Gerät nicht"),
        T("The kernel is missing for the backend of the inputs. Before you blame the build, look whether an input is on another device than you think", "Der Kernel fehlt für das Backend der Eingaben. Bevor Sie den Build verdächtigen: nachsehen, ob eine Eingabe auf einem anderen Gerät liegt als gedacht"),
        ("batch-not-moved", "module-not-moved"),
        (
            wording("Could not run '{operator}' with arguments from the '{backend:name}' backend.", "Could not run 'torchvision::nms' with arguments from the 'CUDA' backend. This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom build process", "1.5"),
            wording("The operator '{operator}' is not currently implemented for the MPS device.", "The operator 'aten::_linalg_eigh.eigenvalues' is not currently implemented for the MPS device. If you want this op to be added in priority during the prototype phase of this feature", "1.12"),
            wording("The operator '{operator}' is not current implemented for the MPS device.", "The operator 'aten::cumsum.out' is not current implemented for the MPS device.", "1.12", "2.0"),
            wording("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.", "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 instead.", "1.12"),
        ),
        T("A CPU input with a CUDA mask or weight gives this text for some operators (attention, 3-D convolution, custom operators)", "Eine CPU-Eingabe mit CUDA-Maske oder -Gewicht ergibt bei einigen Operatoren diesen Text (Attention, 3-D-Faltung, eigene Operatoren)"),
        "x = x.cpu()  # or PYTORCH_ENABLE_MPS_FALLBACK=1 in the environment, for MPS",
        placement=False,
    ),
    Family(
        "device-side-assert",
        None,
        T("A CUDA kernel failed; the message says nothing about where", "Ein CUDA-Kernel ist gescheitert; wo, sagt die Meldung nicht"),
        T("A device-side assert is nearly always an index or a label out of range, not a placement mistake; an illegal access can be a custom kernel on another GPU than its tensors", "Ein „device-side assert“ ist fast immer ein Index oder Label außerhalb des Bereichs, kein Platzierungsfehler; ein „illegal memory access“ kann ein eigener Kernel auf einer anderen GPU als seine Tensoren sein"),
        ("kernel-on-other-gpu",),
        (
            wording("CUDA error: device-side assert triggered", "CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.", "0.4"),
            wording("CUDA error: an illegal memory access was encountered", "CUDA error: an illegal memory access was encountered", "0.4"),
            wording("Triton Error [CUDA]: an illegal memory access was encountered", "Triton Error [CUDA]: an illegal memory access was encountered"),
        ),
        T("Kernels run later than the line that starts them: the line in the traceback is often the next one that waits. Run once on the CPU, or with `CUDA_LAUNCH_BLOCKING=1`", "Kernels laufen später als die Zeile, die sie startet: im Traceback steht oft die nächste, die wartet. Einmal auf der CPU laufen lassen oder mit `CUDA_LAUNCH_BLOCKING=1`"),
        placement=False,
    ),
    Family(
        "half-on-cpu",
        None,
        T("An operation has no half-precision kernel on the CPU", "Eine Operation hat auf der CPU keinen Kernel für halbe Genauigkeit"),
        T("The model or the data is in half precision *and on the CPU*, usually because it was meant to be on the GPU", "Modell oder Daten sind in halber Genauigkeit *und auf der CPU*, meist weil sie auf die GPU sollten"),
        ("module-not-moved", "unguarded-cuda", "batch-not-moved"),
        (
            wording("\"{operator}\" not implemented for '{dtype:name}'", "\"addmm_impl_cpu_\" not implemented for 'Half'", "1.5", None, lambda f: f["dtype"] in ("Half", "BFloat16") and "cuda" not in f["operator"]),
            wording("\"{operator}\" not implemented for '{dtype:name}'", "\"slow_conv2d_cpu\" not implemented for 'Half'", "1.5", None, lambda f: f["dtype"] in ("Half", "BFloat16") and "cuda" not in f["operator"]),
        ),
        code="model = model.to(device)  # or model.float() to stay on the CPU",
        placement=False,
    ),
)  # fmt: skip
