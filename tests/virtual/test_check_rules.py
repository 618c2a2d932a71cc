"""The device rules by themselves: no mode, no virtual GPU, devices told by a dictionary."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from samedevice.torch_facts import op_rules  # noqa: E402
from samedevice.virtual import check  # noqa: E402
from samedevice.virtual.check import calls, plans, wording  # noqa: E402
from samedevice.virtual.tags import CPU, META, UNSETTLED  # noqa: E402

pytestmark = pytest.mark.torch

aten = torch.ops.aten
EXACT = (
    "Expected all tensors to be on the same device, but got {} is on {}, different from other tensors on {}"
)
METHOD = " (when checking argument in method {})"
ITERATOR = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"


class Devices:
    """Tensors and where they claim to be."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, int]] = {}

    def new(self, device: int, *shape: int, dtype: Any = None) -> Any:
        tensor = torch.ones(shape, dtype=dtype)
        self.known[id(tensor)] = (tensor, device)
        return tensor

    def where(self, tensor: Any) -> int:
        return self.known[id(tensor)][1]


@pytest.fixture
def devices() -> Devices:
    return Devices()


def judged(devices: Devices, func: Any, *args: Any, **kwargs: Any) -> Any:
    return check.check_op(func, args, kwargs, devices.where)


def message(refusal: Any) -> str:
    assert refusal is not None
    return str(refusal.error())


# -- what a refusal carries --------------------------------------------------------------------------


def test_a_refusal_names_the_operands_as_the_schema_does(devices: Devices) -> None:
    bias, x, w = devices.new(0, 3), devices.new(CPU, 2, 3), devices.new(0, 3, 3)

    refusal = judged(devices, aten.addmm.default, bias, x, w)

    assert refusal.family == "exact"
    assert [name for name, _, _ in refusal.operands] == ["self", "mat1", "mat2"]
    assert [device for _, _, device in refusal.operands] == [0, CPU, 0]
    assert refusal.operands[refusal.blamed][1] is x
    assert refusal.common == 0
    assert refusal.exception is RuntimeError
    assert message(refusal) == EXACT.format("mat1", "cpu", "cuda:0") + METHOD.format("wrapper_CUDA_addmm")


def test_the_generated_check_looks_at_out_first(devices: Devices) -> None:
    a, b, out = devices.new(CPU, 2, 2), devices.new(CPU, 2, 2), devices.new(0, 2, 2)

    refusal = judged(devices, aten.mm.out, a, b, out=out)

    assert message(refusal) == EXACT.format("self", "cpu", "cuda:0") + METHOD.format(
        "wrapper_CUDA_mm_out_out"
    )


def test_an_iterator_names_the_first_device_that_is_not_the_cpu(devices: Devices) -> None:
    a, b = devices.new(CPU, 3), devices.new(1, 3)

    assert message(judged(devices, aten.add.Tensor, a, b)) == ITERATOR.format("cuda:1", "cpu")
    assert message(judged(devices, aten.add.Tensor, devices.new(0, 3), b)) == ITERATOR.format(
        "cuda:0", "cuda:1"
    )


def test_the_shape_error_of_an_iterator_comes_before_the_devices(devices: Devices) -> None:
    assert judged(devices, aten.add.Tensor, devices.new(0, 3), devices.new(CPU, 4)) is None
    assert judged(devices, aten.add_.Tensor, devices.new(0), devices.new(CPU, 3)) is None


def test_the_device_error_of_the_generated_check_comes_before_the_shapes(devices: Devices) -> None:
    assert judged(devices, aten.mm.default, devices.new(0, 2, 3), devices.new(CPU, 2, 3)) is not None


@pytest.mark.parametrize(
    ("left", "right", "accepted"),
    [((0, 3), (CPU,), True), ((CPU,), (0, 3), True), ((0, 3), (CPU, 1), False), ((0, 3), (1,), False)],
)
def test_only_a_cpu_scalar_may_join(devices: Devices, left: Any, right: Any, accepted: bool) -> None:
    refusal = judged(devices, aten.mul.Tensor, devices.new(*left), devices.new(*right))

    assert (refusal is None) == accepted


def test_what_is_written_to_is_never_a_cpu_scalar(devices: Devices) -> None:
    assert judged(devices, aten.add_.Tensor, devices.new(CPU), devices.new(0)) is not None


def test_two_cpu_scalars_are_too_many(devices: Devices) -> None:
    refusal = judged(devices, aten.add.out, devices.new(CPU), devices.new(CPU), out=devices.new(0, 3))

    assert message(refusal) == "Trying to pass too many CPU scalars to non-CPU kernel!"


def test_a_number_counts_as_a_cpu_scalar(devices: Devices) -> None:
    refusal = judged(devices, aten.add.out, devices.new(CPU), 1, out=devices.new(0, 3))

    assert message(refusal) == "Trying to pass too many CPU scalars to non-CPU kernel!"


def test_indices_may_stay_on_the_cpu_but_not_on_a_gpu_of_their_own(devices: Devices) -> None:
    on_cpu, on_gpu = devices.new(CPU, 2, dtype=torch.int64), devices.new(0, 2, dtype=torch.int64)

    assert judged(devices, aten.index.Tensor, devices.new(0, 5), [on_cpu]) is None
    refusal = judged(devices, aten.index.Tensor, devices.new(CPU, 5), [None, on_gpu])
    assert message(refusal) == (
        "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
    )


def test_a_masked_fill_wants_its_mask_in_place(devices: Devices) -> None:
    refusal = judged(
        devices, aten.masked_fill.Scalar, devices.new(0, 3), devices.new(CPU, 3, dtype=torch.bool), 0.0
    )

    assert message(refusal) == (
        "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0"
    )


def test_a_copy_goes_anywhere(devices: Devices) -> None:
    for one, other in itertools.permutations((CPU, 0, 1), 2):
        assert judged(devices, aten.copy_.default, devices.new(one, 3), devices.new(other, 3)) is None


def test_lengths_on_a_gpu_are_refused_even_when_all_is_there(devices: Devices) -> None:
    func = aten._pack_padded_sequence.default
    refusal = judged(devices, func, devices.new(0, 3, 2, 4), devices.new(0, 2, dtype=torch.int64), False)

    assert func in check.always_check
    assert message(refusal) == (
        "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"
    )


def test_what_has_no_kernel_for_cuda_is_refused_there(devices: Devices) -> None:
    refusal = judged(devices, aten.histogram.bin_ct, devices.new(0, 5), 4)

    assert refusal.exception is NotImplementedError
    assert message(refusal).startswith(
        "Could not run 'aten::histogram.bin_ct' with arguments from the 'CUDA' backend. "
    )


def test_lists_are_judged_pair_by_pair(devices: Devices) -> None:
    g, h, c, scalar = devices.new(0, 3), devices.new(1, 3), devices.new(CPU, 3), devices.new(CPU)

    assert judged(devices, aten._foreach_add.List, [g, h], [g, h]) is None
    assert judged(devices, aten._foreach_add.List, [g], [scalar]) is None
    assert message(judged(devices, aten._foreach_add.List, [g, h], [g, c])) == ITERATOR.format(
        "cuda:1", "cpu"
    )


def test_a_meta_tensor_cannot_be_stepped_over(devices: Devices) -> None:
    meta = torch.ones(3, device="meta")
    devices.known[id(meta)] = (meta, META)

    refusal = judged(devices, aten.add.Tensor, devices.new(0, 3), meta)

    assert not refusal.recoverable
    assert message(refusal) == "Tensor on device meta is not on the expected device cuda:0!"


def test_what_nobody_settled_joins_everything(devices: Devices) -> None:
    unsettled = devices.new(UNSETTLED, 3)

    for device in (CPU, 0):
        assert judged(devices, aten.add.Tensor, devices.new(device, 3), unsettled) is None
        assert judged(devices, aten.cat.default, [unsettled, devices.new(device, 3)]) is None


def test_operators_of_others_are_not_judged(devices: Devices) -> None:
    library = torch.library.Library("samedevice_test_rules", "DEF")
    library.define("mix(Tensor a, Tensor b) -> Tensor")

    func = torch.ops.samedevice_test_rules.mix.default
    assert judged(devices, func, devices.new(0, 3), devices.new(CPU, 3)) is None


# -- functions ---------------------------------------------------------------------------------------


def test_an_ordinary_function_has_no_judge() -> None:
    assert check.check_function(torch.relu, (), {}, lambda tensor: 0) is None


def test_functions_are_known_by_every_name_they_have(devices: Devices) -> None:
    a, b = devices.new(0, 3), devices.new(CPU, 3)

    for func in (torch.inner, torch.Tensor.inner):
        refusal = check.check_function(func, (a, b), {}, devices.where)
        assert message(refusal) == (
            "Expected tensor to have cuda DeviceType, but got tensor with cpu DeviceType (while checking "
            "arguments for inner())"
        )


def test_the_hidden_state_is_compared_before_the_weights(devices: Devices) -> None:
    x, hidden = devices.new(CPU, 5, 2, 3), devices.new(0, 1, 2, 4)
    weights = [devices.new(0, 4, 3), devices.new(0, 4, 4)]

    refusal = check.check_function(
        torch.rnn_tanh, (x, hidden, weights, False, 1, 0.0, True, False, False), {}, devices.where
    )

    assert message(refusal) == (
        "Input and hidden tensors are not at the same device, found input tensor at cpu and hidden tensor at cuda:0"
    )


def test_a_generator_must_be_of_the_tensors_type() -> None:
    assert check.check_generator("cuda", "cuda") is None
    assert message(check.check_generator("cpu", "cuda")) == (
        "Expected a 'cuda' device type for generator but found 'cpu'"
    )


# -- results -----------------------------------------------------------------------------------------


def test_results_are_on_the_first_device_that_is_not_the_cpu(devices: Devices) -> None:
    tensors = [devices.new(CPU), devices.new(1, 3), devices.new(0)]

    assert check.common_device(tensors, devices.where) == 1
    assert check.common_device([devices.new(UNSETTLED), devices.new(CPU)], devices.where) == CPU
    assert check.common_device([devices.new(META), devices.new(CPU)], devices.where) == META


def test_an_indexed_tensor_keeps_its_device(devices: Devices) -> None:
    written, value = devices.new(CPU, 5), devices.new(0)
    args = (written, [devices.new(0, 2, dtype=torch.int64)], value)

    assert check.result_device(aten.index_put.default, args, {}, devices.where) == CPU


def test_each_result_of_a_list_has_its_own_device(devices: Devices) -> None:
    args = ([devices.new(0, 3), devices.new(CPU, 3)], [devices.new(0, 3), devices.new(CPU, 3)])

    assert check.result_device(aten._foreach_add.List, args, {}, devices.where) == (0, CPU)


# -- wording by release ------------------------------------------------------------------------------


def test_releases_before_2_8_word_the_generated_check_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wording, "RELEASE", (2, 7))

    assert wording.generated_check("mat2", CPU, 0, "wrapper_CUDA_mm") == (
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
        "(when checking argument for argument mat2 in method wrapper_CUDA_mm)"
    )


@pytest.mark.parametrize(
    ("dtype", "device", "name"),
    [
        ("float32", 0, "torch.cuda.FloatTensor"),
        ("int64", CPU, "torch.LongTensor"),
        ("bfloat16", 1, "CUDABFloat16Type"),
        ("bool", CPU, "CPUBoolType"),
    ],
)
def test_types_are_written_as_exceptions_write_them(dtype: str, device: int, name: str) -> None:
    assert wording.type_name(torch.ones(1, dtype=getattr(torch, dtype)), device) == name


# -- every operator there is -------------------------------------------------------------------------

_SIMPLE = {
    "int": 1, "SymInt": 1, "float": 1.0, "bool": False, "number": 1, "str": "none", "List[int]": [1],
    "List[SymInt]": [1], "List[float]": [1.0], "List[bool]": [True], "Optional[List[int]]": None,
}  # fmt: skip


def every_operator() -> list[Any]:
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::"):
            base, _, overload = name.removeprefix("aten::").partition(".")
            try:
                found.append(getattr(getattr(aten, base), overload or "default"))
            except AttributeError:
                continue
    return found


OPERATORS = every_operator()


def operands_of(func: Any, placement: list[int], devices: Devices) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by the schema, small tensors on the devices given, in turn."""
    letters = itertools.cycle(placement)
    args, kwargs = [], {}
    for argument in func._schema.arguments:
        text = str(argument.type)
        value: Any
        if "Tensor" in text and "List[" in text:
            value = [devices.new(next(letters), 2, 2), devices.new(next(letters), 2, 2)]
        elif "Tensor" in text:
            value = devices.new(next(letters), 2, 2)
        elif argument.has_default_value():
            continue
        else:
            value = _SIMPLE.get(text)
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs


def test_nothing_on_the_cpu_is_ever_refused() -> None:
    devices = Devices()
    for func in OPERATORS:
        args, kwargs = operands_of(func, [CPU], devices)
        assert check.check_op(func, args, kwargs, devices.where) is None, func


def test_on_one_gpu_only_what_belongs_to_the_host_is_refused() -> None:
    devices = Devices()
    for func in OPERATORS:
        args, kwargs = operands_of(func, [0], devices)
        if check.check_op(func, args, kwargs, devices.where) is not None:
            assert func in check.always_check, func


@settings(max_examples=25)
@given(placement=st.lists(st.sampled_from([CPU, 0, 1]), min_size=1, max_size=5))
def test_exchanging_two_gpus_exchanges_their_names_and_nothing_else(placement: list[int]) -> None:
    exchanged = [{0: 1, 1: 0}.get(device, device) for device in placement]
    for func in OPERATORS[:: max(1, len(OPERATORS) // 400)]:
        devices = Devices()
        args, kwargs = operands_of(func, placement, devices)
        first = check.check_op(func, args, kwargs, devices.where)
        swapped = Devices()
        args, kwargs = operands_of(func, exchanged, swapped)
        second = check.check_op(func, args, kwargs, swapped.where)

        assert (first is None) == (second is None), func
        if first is not None and second is not None:
            renamed = first.message.replace("cuda:0", "cuda:?").replace("cuda:1", "cuda:0")
            # `cdist` prints indices as characters and ends at the first zero.
            assert first.family == "cdist" or second.message == renamed.replace("cuda:?", "cuda:1"), func
            assert first.blamed == second.blamed, func


def test_operands_that_agree_are_not_laid_out(devices: Devices, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = devices.new(0, 3), devices.new(0, 3)
    assert judged(devices, aten.add.Tensor, a, b) is None
    monkeypatch.setattr(calls.Call, "of", None)

    assert judged(devices, aten.add.Tensor, a, b) is None
    assert plans.plan_of(aten.add.Tensor) is plans.plan_of(aten.add.Tensor)


# -- the table ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overload", "is_out", "method"),
    [
        ("addmm", False, "wrapper_CUDA_addmm"),
        ("mm.out", True, "wrapper_CUDA_mm_out_out"),
        ("clamp_.Tensor", False, "wrapper_CUDA_clamp__Tensor"),
        ("index_select", False, "wrapper_CUDA__index_select"),
        ("sort.values_stable", True, "wrapper_CUDA_sort_out_values_stable"),
        ("_prelu_kernel", False, "wrapper_CUDA___prelu_kernel"),
        ("add.Tensor", False, None),
    ],
)
def test_methods_are_named_as_the_generator_names_them(
    overload: str, is_out: bool, method: str | None
) -> None:
    assert op_rules.load((2, 13)).method(overload, is_out) == method


def test_a_later_release_differs_by_what_it_changed() -> None:
    earlier, later = op_rules.load((2, 13)), op_rules.load((2, 14))

    assert earlier.kind("linalg_polar") is None
    assert later.kind("linalg_polar") == "exact"
    assert op_rules.load((2, 99)).groups == later.groups
    assert op_rules.load((2, 8)).groups == earlier.groups


@pytest.mark.skipif(wording.RELEASE not in [(2, 13), (2, 14)], reason="the table has 2.13 and 2.14")
def test_the_table_is_what_the_generator_writes(pytestconfig: pytest.Config) -> None:
    import importlib.util

    file = pytestconfig.rootpath / "scripts" / "op_table.py"
    spec = importlib.util.spec_from_file_location("op_table", file)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    written = op_rules.load(wording.RELEASE).groups
    for kind, names in script.groups_of_this_torch().items():
        assert written[kind] == set(names), kind
