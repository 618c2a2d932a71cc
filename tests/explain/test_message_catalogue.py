"""The message catalogue: every known text finds its family, in every language."""

import re

import pytest

from samedevice.live.sentences import all_sentences
from samedevice.model.scene import Kind
from samedevice.torch_facts.messages import Family, Text, families, match_message
from samedevice.torch_facts.messages.causes import CAUSES
from samedevice.torch_facts.messages.methods import METHODS

WORDINGS = [(family, wording) for family in families() for wording in family.wordings]


@pytest.mark.parametrize(
    ("family", "wording"), WORDINGS, ids=[f"{f.name}-{i}" for i, (f, _) in enumerate(WORDINGS)]
)
def test_every_wording_matches_its_example(family: Family, wording) -> None:
    found = match_message(f"RuntimeError: {wording.example}")

    assert found is not None
    assert found.family.name == family.name


def test_the_catalogue_covers_what_pytorch_refuses() -> None:
    kinds = {family.kind for family in families()}

    # of a kernel on another GPU no message says so: an illegal access may be anything
    assert kinds >= set(Kind) - {Kind.KERNEL}


def test_every_family_names_causes_that_exist() -> None:
    for family in families():
        assert family.causes, family.name
        assert set(family.causes) <= set(CAUSES), family.name


def _texts(thing: object) -> list[Text]:
    if isinstance(thing, Text):
        return [thing]
    fields = getattr(type(thing), "__dataclass_fields__", None)
    if fields is None:
        if isinstance(thing, dict):
            return [t for value in thing.values() for t in _texts(value)]
        return [t for value in thing for t in _texts(value)] if isinstance(thing, tuple) else []
    return [t for name in fields for t in _texts(getattr(thing, name))]


def test_every_sentence_is_there_in_english_and_german() -> None:
    """No sentence is missing, the same code stands in both, and German is not the English text."""
    texts = _texts(
        (families(), tuple(CAUSES.values()), tuple(METHODS.values()), tuple(all_sentences().values()))
    )
    for example in (w.example for _, w in WORDINGS):
        found = match_message(example)
        if found and found.reading:
            texts.append(found.reading.text)
    assert len(texts) > 300
    for text in texts:
        assert text.en.strip() and text.de.strip()
        code = re.compile(r"\{\w+\}")
        assert sorted(code.findall(text.en)) == sorted(code.findall(text.de)), text.en
        if len(text.en) > 45:
            assert text.en != text.de, text.en


def test_sentences_follow_the_house_style() -> None:
    """No full stop at the end, no "please", no exclamation mark."""
    for text in _texts((families(), tuple(CAUSES.values()))):
        for words in (text.en, text.de):
            assert not words.rstrip().endswith((".", "!")), words
            assert "please" not in words.lower()


def test_code_of_the_causes_is_python() -> None:
    for cause in CAUSES.values():
        if cause.code:
            compile(cause.code.replace("…", "..."), cause.rule, "exec")


RULES = [
    # (release, message, family)
    ("1.4", "Expected object of device type cuda but got device type cpu for argument #1 'self' in call to _th_mm", "argument-on-other-device"),
    ("1.4", "expected device cuda:0 but got device cpu", "elementwise-devices"),
    ("1.7", "Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0!", "elementwise-devices"),
    ("1.7", "Trying to pass too many CPU scalars to CUDA kernel!", "cpu-scalar"),
    ("1.9", "Expected all tensors to be on the same device, but found at least two devices, cpu and cuda:0! (when checking arugment for argument mat1 in method wrapper_addmm)", "argument-on-other-device"),
    ("1.10", "Expected condition, x and y to be on the same device, but condition is on cpu and x and y are on cuda:0 and cuda:0 respectively", "elementwise-devices"),
    ("1.13", "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when checking argument for argument index in method wrapper__index_select)", "argument-on-other-device"),
    ("2.0", "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when checking argument for argument weight in method wrapper_CUDA__cudnn_batch_norm)", "argument-on-other-device"),
    ("2.7", "attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'. Please ensure that the gradient and the tensor are on the same device", "gradient-assigned"),
    ("2.8", "Expected all tensors to be on the same device, but got target is on cpu, different from other tensors on cuda:0 (when checking argument in method wrapper_CUDA_nll_loss_forward)", "argument-on-other-device"),
    ("2.13", "Expected all tensors to be on the same device, but got exp_avgs is on cpu, different from other tensors on cuda:0 (when checking argument in method wrapper_CUDA___fused_adam_)", "argument-on-other-device"),
    ("2.14", "Expected all tensors to be on the same device, but got self is on xpu:0, different from other tensors on cpu (when checking argument in method wrapper_XPU_Tensor_bucketize)", "argument-on-other-device"),
    ("2.14", "torch.linalg.matrix_rank: Expected rtol and input tensors to be on the same device, but got rtol on cpu and input on cuda:0", "function-operands"),
    ("2.2", "Input and parameter tensors are not at the same device, found input tensor at cuda:0 and parameter tensor at cpu", "rnn-devices"),
    ("2.5", "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor", "convolution-types"),
    ("2.5", "Input type (CPUBFloat16Type) and weight type (CUDABFloat16Type) should be the same or input should be a MKLDNN tensor and weight is a dense tensor", "convolution-types"),
    ("2.5", "Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.HalfTensor) should be the same", "operand-dtypes"),
    ("2.6", "can't convert mps:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.", "numpy-conversion"),
    ("2.1", "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:1 Long tensor", "lengths-on-host"),
    ("2.1", "Function SigmoidBackward0 returned an invalid gradient at index 0 - expected device cuda:1 but got cuda:0", "gradient-device"),
    ("2.9", "Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 1. Please use torch.load with map_location to map your storages to an existing device.", "load-on-missing-device"),
    ("2.9", "CUDA error: invalid device ordinal", "device-ordinal"),
    ("2.9", "Expected tensor to have cuda DeviceType, but got tensor with cpu DeviceType (while checking arguments for inner())", "function-operands"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("release", "message", "family"), RULES, ids=[f"{r}-{f}-{i}" for i, (r, _, f) in enumerate(RULES)]
)
def test_real_messages_of_each_release_find_their_family(release: str, message: str, family: str) -> None:
    found = match_message(message)

    assert found is not None
    assert found.family.name == family


def test_the_named_argument_on_the_gpu_is_called_healthy() -> None:
    """`mat1 is on cuda:0, others on cpu` means the layer is on the CPU, not that the input is wrong."""
    found = match_message(
        "Expected all tensors to be on the same device, but got mat1 is on cuda:0, different from other tensors"
        " on cpu (when checking argument in method wrapper_CUDA_addmm)"
    )

    assert found is not None and found.reading is not None
    assert "healthy" in found.reading.text.en
    assert "the layer's bias" in found.reading.text.en
    assert found.causes[0].rule == "module-not-moved"


def test_the_old_and_the_new_text_of_one_mistake_are_read_alike() -> None:
    new = match_message(
        "Expected all tensors to be on the same device, but got index is on cpu, different from other tensors"
        " on cuda:0 (when checking argument in method wrapper_CUDA__index_select)"
    )
    old = match_message(
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
        " (when checking argument for argument index in method wrapper__index_select)"
    )

    assert new is not None and old is not None
    assert new.reading == old.reading


def test_two_gpus_bring_the_causes_of_several_gpus_to_the_front() -> None:
    found = match_message(
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!"
    )

    assert found is not None
    assert found.causes[0].rule == "cross-gpu-operands"


@pytest.mark.parametrize(
    "text",
    [
        "all tests passed on the same device",
        "Using device cuda:0",
        "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "KeyError: 'device'",
        "Expected all ten",
        "",
    ],
)
def test_other_texts_match_nothing(text: str) -> None:
    assert match_message(text) is None
