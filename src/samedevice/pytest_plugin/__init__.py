"""The pytest plugin: `pytest --virtual-gpus 2` runs tests for CUDA on a machine without a GPU.

Nothing but pytest's own modules is imported until somebody asks for virtual GPUs.
"""

import argparse
from collections.abc import Generator
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from samedevice.model.errors import MISSING_TORCH, UserError
from samedevice.model.sizes import size_of
from samedevice.pytest_plugin.asked import asked_by, number_of

if TYPE_CHECKING:
    from samedevice.pytest_plugin.gpus import Gpus, VirtualGpus

MARKER = """\
virtual_gpus(n): give the test n virtual GPUs, whatever `--virtual-gpus` says; 0 takes them away \
(without n: as many as `--virtual-gpus`, else 1)"""

_GPUS = pytest.StashKey["Gpus"]()
_MISSING = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--virtual-gpus N` and its ini option."""
    group = parser.getgroup("samedevice", "virtual GPUs (samedevice)")
    group.addoption(
        "--virtual-gpus",
        type=_number,
        default=None,
        metavar="N",
        help="collect and run all tests on N virtual GPUs: on the CPU, with CUDA's device rules (0: none)",
    )
    group.addoption(
        "--virtual-gpu-memory",
        type=_size,
        default=None,
        metavar="SIZE",
        help="memory of each virtual GPU, as 24GB (default: 80GB)",
    )
    parser.addini("virtual_gpus", "number of virtual GPUs, as `--virtual-gpus`", default="")
    parser.addini("virtual_gpu_memory", "memory of each, as `--virtual-gpu-memory`", default="")


def _number(text: str) -> int:
    try:
        return number_of(text, "`--virtual-gpus`")
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _size(text: str) -> int:
    try:
        return size_of(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Virtual GPUs are there before the first conftest file is imported."""
    options = early_config.known_args_namespace
    try:
        count = options.virtual_gpus
        if count is None:
            count = number_of(
                early_config.getini("virtual_gpus") or "0", "`virtual_gpus` in the configuration"
            )
        if count and not options.help and not options.version:
            _gpus(early_config, count).start()
    except UserError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)
    config.pluginmanager.register(Summary(), "samedevice-summary")


def _gpus(config: pytest.Config, count: int = 0) -> "Gpus":
    """The session's virtual GPUs; `count` of them are there from the start."""
    if _GPUS not in config.stash:
        try:
            from samedevice.pytest_plugin.gpus import Gpus
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise UserError(MISSING_TORCH) from None

        memory = config.known_args_namespace.virtual_gpu_memory
        if memory is None and config.getini("virtual_gpu_memory"):
            memory = size_of(config.getini("virtual_gpu_memory"))
        config.stash[_GPUS] = gpus = Gpus(count, memory)
        config.add_cleanup(gpus.stop)
    return config.stash[_GPUS]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Give the test its GPUs, from the first fixture to the last finalizer."""
    gpus = item.config.stash.get(_GPUS, None)
    asked: int | None = None
    around: Any = nullcontext()
    try:
        asked = asked_by(item, 0 if gpus is None else gpus.count)
        if asked is not None:
            gpus = _gpus(item.config)
        if gpus is not None:
            around = gpus.test(asked)
            around.__enter__()
    except UserError as error:
        around = nullcontext()
        item.stash[_MISSING] = str(error)
    try:
        return (yield)
    finally:
        around.__exit__(None, None, None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that cannot have what it asks for fails with the reason."""
    if _MISSING in item.stash:
        pytest.fail(item.stash[_MISSING], pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """The GPU that a test's body makes the current one is so for this test only."""
    gpus = item.config.stash.get(_GPUS, None)
    with nullcontext() if gpus is None else gpus.current_device_kept():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what is known of the cause to the report of a failure."""
    gpus = item.config.stash.get(_GPUS, None)
    if gpus is not None and call.excinfo is not None:
        gpus.hide_own_frames(call.excinfo.value)
    report = yield
    if gpus is not None:
        gpus.note_on(report, call, _width(item.config))
    return report


def pytest_exception_interact(node: Any, call: pytest.CallInfo[Any], report: Any) -> None:
    """A mistake in what a module does when it is imported."""
    gpus = node.config.stash.get(_GPUS, None)
    if gpus is not None and isinstance(report, pytest.CollectReport):
        gpus.note_on(report, call, _width(node.config))


def _width(config: pytest.Config) -> int:
    """Columns for the explanation: those of the terminal, which a worker of xdist is told."""
    told = getattr(config, "workerinput", {}).get("samedevice_width")
    if told is not None:
        return int(told)
    return max(60, min(int(config.get_terminal_writer().fullwidth), 120))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """pytest-xdist starts a worker."""
    node.workerinput["samedevice_width"] = _width(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker of pytest-xdist has ended."""
    notes = getattr(node, "workeroutput", {}).get("samedevice_notes", ())
    if notes:
        _gpus(node.config).notes.update(dict.fromkeys(notes))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What a worker has to say of the whole run goes to the process that prints."""
    gpus = session.config.stash.get(_GPUS, None)
    output = getattr(session.config, "workeroutput", None)
    if gpus is not None and output is not None:
        output["samedevice_notes"] = list(gpus.all_notes())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Generator[None, None, None]:
    """Colour the explanations before pytest prints them."""
    if _on_gpus(terminalreporter):
        from samedevice.pytest_plugin.display import prepare

        prepare(terminalreporter)
    return (yield)


class Summary:
    """The causes and the numbers, between the failures and pytest's short summary."""

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Each cause once."""
        gpus = config.stash.get(_GPUS, None)
        if _on_gpus(terminalreporter):
            from samedevice.pytest_plugin.display import summarise

            summarise(() if gpus is None else tuple(gpus.all_notes()), terminalreporter)


def _on_gpus(terminal: Any) -> bool:
    """Some test ran on virtual GPUs."""
    return any(hasattr(report, "samedevice") for kept in terminal.stats.values() for report in kept)


@pytest.fixture
def virtual_gpus(request: pytest.FixtureRequest) -> "Generator[VirtualGpus]":
    """The test's virtual GPUs: `.count`, `.devices`; the devices also by index and in a `for` loop.

    There are as many as the `virtual_gpus(n)` marker says, or a parameter
    (`@pytest.mark.parametrize("virtual_gpus", [1, 2], indirect=True)`), else as many as
    `--virtual-gpus`, else one.
    """
    with ExitStack() as stack:
        try:
            gpus = stack.enter_context(_gpus(request.config).given())
        except UserError as error:
            pytest.fail(str(error), pytrace=False)
        yield gpus
