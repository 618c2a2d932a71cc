"""`pytest --virtual-gpus N`: tests for CUDA run, fail as on CUDA, and say why."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from samedevice.live import postmortem  # noqa: E402, F401 - inner runs would import and drop them again
from samedevice.pytest_plugin import display, gpus  # noqa: E402, F401
from samedevice.report import crash, terminal  # noqa: E402, F401
from samedevice.virtual import virtual_gpus  # noqa: E402

pytestmark = pytest.mark.torch

with virtual_gpus(1):
    pass  # imports what an inner run would import

MISTAKE = """
import pytest
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.full((4,), 2.0)
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x) * self.scale

@pytest.fixture
def net():
    return Net().to("cuda")
"""


@pytest.fixture
def run(pytester: pytest.Pytester):
    """Run pytest on the text of a test module, in this process."""

    def run(text: str, *words: str) -> pytest.RunResult:
        pytester.makepyfile(text)
        done = pytester.runpytest_inprocess("-p", "no:cacheprovider", *words)

        assert not torch.cuda.is_available() and torch._C._len_torch_function_stack() == 0
        return done

    return run


# -- where the GPUs are ------------------------------------------------------------------------------


def test_every_test_and_its_module_see_the_gpus(run, pytester):
    pytester.makeconftest(
        "import torch\nSEEN = torch.cuda.device_count()\ndef pytest_report_header():\n    return f'conftest saw {SEEN}'"
    )
    done = run(
        """
        import unittest
        import pytest, torch

        @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
        def test_skipif_at_import():
            assert torch.ones(2, device="cuda").is_cuda

        @pytest.mark.parametrize("index", range(torch.cuda.device_count()))
        def test_parameters(index):
            assert torch.ones(1).to(index).device == torch.device("cuda", index)

        @unittest.skipUnless(torch.cuda.device_count() > 1, "needs two GPUs")
        class TestCase(unittest.TestCase):
            def setUp(self):
                self.x = torch.ones(2, device="cuda:1")

            def test_it(self):
                for i in range(2):
                    with self.subTest(i=i):
                        self.assertEqual(self.x.device.index, 1)

        def double(x):
            '''
            >>> double(torch.ones(1).cuda())
            tensor([2.], device='cuda:0')
            '''
            return x * 2

        @pytest.mark.anyio
        async def test_async():
            assert torch.ones(1).cuda().is_cuda

        @pytest.fixture
        def anyio_backend():
            return "asyncio"
        """,
        "--virtual-gpus=2",
        "--doctest-modules",
    )

    done.assert_outcomes(
        passed=6 if "anyio" in sys.modules else 5, skipped=0 if "anyio" in sys.modules else 1
    )
    done.stdout.fnmatch_lines(
        ["conftest saw 2", "* tests ran with 2 virtual GPUs, * used one; no device mistakes"]
    )


def test_without_the_option_nothing_is_different(run):
    done = run(
        """
        import pytest, sys, torch

        @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
        def test_it():
            pass
        """
    )

    done.assert_outcomes(skipped=1)
    assert "virtual GPU" not in done.stdout.str()


def test_the_configuration_gives_the_number_and_the_option_has_the_last_word(run, pytester):
    pytester.makeini("[pytest]\nvirtual_gpus = 3\n")
    text = "import torch\ndef test_it(): assert torch.cuda.device_count() == 3"

    run(text).assert_outcomes(passed=1)
    run(text, "--virtual-gpus=2").assert_outcomes(failed=1)
    run(text, "--virtual-gpus=0").assert_outcomes(failed=1)


def test_the_memory_of_a_gpu_can_be_small_enough_to_fill_it(run, pytester):
    pytester.makeini("[pytest]\nvirtual_gpu_memory = 2MB\n")
    text = """
        import pytest, torch

        @pytest.mark.virtual_gpus(1)
        def test_it():
            with pytest.raises(torch.cuda.OutOfMemoryError):
                torch.ones(1 << 20, device="cuda")
        """

    run(text).assert_outcomes(passed=1)
    run(text, "--virtual-gpu-memory=1GB").assert_outcomes(failed=1)
    assert run(text, "--virtual-gpu-memory=much").ret == pytest.ExitCode.USAGE_ERROR


# -- the marker and the fixture ----------------------------------------------------------------------

MARKED = """
import pytest, torch

@pytest.mark.virtual_gpus(3)
def test_more():
    assert torch.cuda.device_count() == 3 == len(torch.cuda.default_generators)
    torch.cuda.manual_seed_all(1)
    assert torch.ones(1, device="cuda:2").device.index == 2

@pytest.mark.virtual_gpus(0)
def test_none():
    assert not torch.cuda.is_available()

@pytest.mark.virtual_gpus
def test_as_many_as_all_have():
    assert torch.cuda.device_count() == NUMBER

@pytest.mark.virtual_gpus(1)
class TestWithClassFixture:
    @pytest.fixture(scope="class")
    def weights(self):
        return torch.ones(2, device="cuda")

    def test_one(self, weights, virtual_gpus):
        assert virtual_gpus.count == len(virtual_gpus) == 1 and weights.is_cuda

    @pytest.mark.virtual_gpus(2)
    def test_two(self, weights, virtual_gpus):
        assert [str(d) for d in virtual_gpus] == ["cuda:0", "cuda:1"]
        assert weights.to(virtual_gpus[1]).device == virtual_gpus.devices[1]

@pytest.mark.parametrize("virtual_gpus", [1, 4], indirect=True)
def test_parameter(virtual_gpus):
    assert torch.cuda.device_count() == virtual_gpus.count

def test_asked_for_late(request):
    assert request.getfixturevalue("virtual_gpus").count == NUMBER
    assert torch.cuda.device_count() == NUMBER
"""


@pytest.mark.parametrize("number", [0, 2])
def test_a_test_has_the_gpus_that_it_asks_for(run, number):
    words = [f"--virtual-gpus={number}"] if number else []
    text = MARKED.replace("NUMBER", str(number or 1)) + (
        f"def test_last():\n    assert torch.cuda.device_count() == {number}\n"
    )
    done = run(text, *words, "--strict-markers")

    done.assert_outcomes(passed=9)


def test_a_test_leaves_the_current_device_to_the_next_one_as_it_was(run):
    done = run(
        """
        import pytest, torch

        @pytest.fixture(scope="module", autouse=True)
        def chosen():
            torch.cuda.set_device(1)

        @pytest.mark.parametrize("turn", range(2))
        def test_it(turn):
            assert torch.cuda.current_device() == 1
            torch.cuda.set_device(0)
        """,
        "--virtual-gpus=2",
    )

    done.assert_outcomes(passed=2)


# -- what cannot be ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["-1", "two", "1000"])
def test_a_number_that_is_none_is_an_error_of_use(run, number):
    done = run("def test_it(): pass", f"--virtual-gpus={number}")

    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert number in done.stderr.str() and "GPUs" in done.stderr.str()


def test_a_number_in_the_configuration_that_is_none_is_an_error_of_use(run, pytester):
    pytester.makeini("[pytest]\nvirtual_gpus = many\n")
    done = run("def test_it(): pass")

    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*`virtual_gpus` in the configuration takes a number of GPUs*not 'many'*"])


def test_a_marker_that_says_nothing_sensible_fails_its_test_only(run):
    done = run(
        """
        import pytest

        @pytest.mark.virtual_gpus("two")
        def test_word(): pass

        @pytest.mark.virtual_gpus(1, 2)
        def test_two_numbers(): pass

        def test_other(): pass
        """
    )

    done.assert_outcomes(errors=2, passed=1)
    done.stdout.fnmatch_lines(
        ["the marker `virtual_gpus` takes a number of GPUs*", "*takes one number of GPUs*"]
    )


def test_a_missing_torch_is_said(pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.virtual_gpus(1)
        def test_it(): pass

        def test_late(request):
            request.getfixturevalue("virtual_gpus")
        """
    )
    start = "import sys; sys.modules['torch'] = None; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    words = [sys.executable, "-c", start, "-p", "no:cacheprovider"]

    with_option = pytester.run(*words, "--virtual-gpus=1")
    assert with_option.ret == pytest.ExitCode.USAGE_ERROR
    with_option.stderr.fnmatch_lines(["ERROR: virtual GPUs need PyTorch in this environment*"])

    without = pytester.run(*words)
    without.assert_outcomes(errors=1, failed=1)
    without.stdout.fnmatch_lines(["virtual GPUs need PyTorch in this environment*"] * 2)


# -- failures ----------------------------------------------------------------------------------------


def test_a_mistake_fails_as_on_cuda_and_is_explained_with_its_fix(run):
    done = run(MISTAKE + "def test_net(net):\n    net(torch.ones(1, 4, device='cuda'))\n", "--virtual-gpus=1")

    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "E *RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
            "*.py:11: RuntimeError",
            "*- samedevice: why it failed -*",
            "error[[]unregistered-tensor[]] `self.scale` stays on cpu when `Net` moves*",
            "*how it came about",
            "*fix: Register it as a buffer*",
            "-        self.scale = torch.full((4,), 2.0)",
            '+        self.register_buffer("scale", torch.full((4,), 2.0), persistent=False)',
            "*= virtual GPUs =*",
            "error[[]unregistered-tensor[]]*",
            "*::test_net",
            "1 test ran with 1 virtual GPU, 1 used it; 1 test failed by 1 device mistake",
        ]
    )
    assert "samedevice/virtual" not in done.stdout.str()


def test_one_cause_of_many_failures_is_told_once(run):
    text = MISTAKE + (
        "@pytest.mark.parametrize('turn', range(7))\n"
        "def test_net(net, turn):\n    net(torch.ones(1, 4, device='cuda'))\n"
        "def test_other(net):\n    net.cpu()(torch.ones(1, 4, device='cuda'))\n"
        "def test_in_setup(used): pass\n"
        "@pytest.fixture\ndef used(net):\n    return net(torch.ones(1, 4, device='cuda'))\n"
    )
    done = run(text, "--virtual-gpus=1")

    done.assert_outcomes(failed=8, errors=1)
    shown = done.stdout.str()
    assert shown.count("how it came about") == 2
    done.stdout.fnmatch_lines(["*explained above, at *test_in_setup*", "    and 3 more"])
    done.stdout.fnmatch_lines(
        ["8 tests ran with 1 virtual GPU, 8 used it; 9 tests failed by 2 device mistakes"]
    )
    assert run(text, "--virtual-gpus=1", "-v").stdout.str().count("how it came about") == 9


def test_an_expected_mismatch_passes_and_is_not_counted(run):
    done = run(
        """
        import pytest, torch

        def test_words():
            with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
                torch.ones(2).cuda() + torch.ones(2)

        def test_other_words():
            with pytest.raises(RuntimeError, match="something else"):
                torch.ones(2).cuda() + torch.ones(2)

        @pytest.mark.xfail(strict=True)
        def test_known():
            torch.ones(2).cuda() + torch.ones(2)
        """,
        "--virtual-gpus=1",
    )

    done.assert_outcomes(passed=1, failed=1, xfailed=1)
    assert "why it failed" not in done.stdout.str()
    done.stdout.fnmatch_lines(["*no device mistakes"])


def test_a_gpu_that_is_not_there_names_the_number_to_ask_for(run):
    done = run("import torch\ndef test_it():\n    torch.ones(1, device='cuda:3')", "--virtual-gpus=2")

    done.stdout.fnmatch_lines(["*uses cuda:3 and ran with 2 virtual GPUs: it needs `--virtual-gpus 4`*"])


def test_a_mistake_at_import_is_explained_too(run):
    done = run("import torch\nx = torch.ones(2, device='cuda')\ny = torch.ones(2) + x", "--virtual-gpus=1")

    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*samedevice: why it failed*", "error[[]*"])


def test_mistakes_of_subtests_and_doctests_are_explained(run):
    done = run(
        """
        import torch

        def test_parts(subtests):
            for size in (2, 3):
                with subtests.test(size=size):
                    torch.ones(size).cuda() + torch.ones(size)

        def add(a, b):
            '''
            >>> add(torch.ones(2).cuda(), torch.ones(2))
            tensor([2., 2.], device='cuda:0')
            '''
            return a + b
        """,
        "--virtual-gpus=1",
        "--doctest-modules",
        "-v",
    )

    assert done.stdout.str().count("samedevice: why it failed") == 3


def test_an_error_without_a_device_mistake_is_left_alone(run):
    done = run("import torch\ndef test_it():\n    assert torch.ones(2).cuda().sum() == 3", "--virtual-gpus=1")

    done.assert_outcomes(failed=1)
    assert "why it failed" not in done.stdout.str()


def test_the_example_of_a_library_shows_its_mistake(pytester):
    folder = Path(__file__).parents[2] / "examples" / "cuda_tests"
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--virtual-gpus=1", str(folder))

    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["error[[]cached-on-first-device[]]*"])


def test_gpus_of_somebody_else_change_for_a_test_and_stay(pytester):
    """`samedevice check -m pytest`: the GPUs are there already, and mistakes are reported."""
    pytester.makepyfile(
        """
        import pytest, torch

        @pytest.mark.virtual_gpus(3)
        def test_more():
            assert torch.cuda.device_count() == 3

        def test_as_it_is():
            assert torch.cuda.device_count() == 1
            torch.ones(2).cuda() + torch.ones(2)
        """
    )
    with virtual_gpus(1, "report") as machine:
        done = pytester.runpytest_inprocess("-p", "no:cacheprovider")

        assert torch.cuda.device_count() == 1
        assert [d.rule for d in machine.diagnostics()] == ["factory-without-device"]
    done.assert_outcomes(passed=2)


# -- other plugins, other processes ------------------------------------------------------------------


def test_workers_of_xdist_have_the_gpus_and_report_to_one_summary(pytester):
    pytester.makepyfile(
        MISTAKE
        + "@pytest.mark.parametrize('turn', range(2))\n"
        + "def test_net(net, turn):\n    net(torch.ones(1, 4, device='cuda'))\n"
        + "@pytest.mark.virtual_gpus(3)\ndef test_more():\n    assert torch.cuda.device_count() == 3\n"
    )
    done = pytester.runpytest_subprocess(
        "-n", "1", "--virtual-gpus=1", "--timeout=60", "-p", "no:cacheprovider"
    )

    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(
        [
            "*explained above, at *",
            "3 tests ran with virtual GPUs, * used one; 2 tests failed by 1 device mistake",
        ]
    )


def test_the_coloured_explanation_is_for_the_terminal_only(run, pytester):
    text = MISTAKE + "def test_net(net):\n    net(torch.ones(1, 4, device='cuda'))\n"
    done = run(text, "--virtual-gpus=1", "--color=yes", "--junitxml=out.xml")

    assert "\x1b[1;31merror[unregistered-tensor]" in done.stdout.str()
    written = (pytester.path / "out.xml").read_text()
    assert "\nerror[unregistered-tensor] `self.scale`" in written


def test_tests_that_ask_for_nothing_import_nothing_heavy(pytester):
    """A whole run in a process of its own, with a test, a failure and the fixture unused."""
    pytester.makepyfile(
        """
        import sys

        def test_it():
            heavy = {"torch", "rich", "jinja2", "executing", "samedevice.virtual", "samedevice.report"}
            assert heavy & set(sys.modules) == set()
            assert "samedevice.pytest_plugin" in sys.modules
        """
    )

    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:anyio").assert_outcomes(passed=1)
