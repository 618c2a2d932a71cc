"""The notebook extension in a real kernel: explanations under tracebacks, `%%samedevice check`."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

pytestmark = pytest.mark.torch

MODEL = """\
import torch

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.scale = torch.linspace(0, 1, 4)

    def forward(self, x):
        return self.fc(x) * self.scale
"""

CELLS = [
    "%load_ext samedevice",
    MODEL,
    "from samedevice import virtual_gpus\ngpus = virtual_gpus(1, on_mismatch='raise'); engine = gpus.__enter__()",
    "net = Scaled().to('cuda')\nnet(torch.rand(2, 4, device='cuda'))",
    "gpus.__exit__(None, None, None)",
    "1 / 0",
    "%%samedevice check\nnet = Scaled().to('cuda')\nprint('shape', net(torch.rand(2, 4, device='cuda')).shape)",
    "%%samedevice check\nnet = Scaled()\nprint(net(torch.rand(2, 4)).shape)",
    "%%samedevice check --gpus many\npass",
    "%samedevice explain indices should be either on cpu or on the same device as the indexed tensor (cpu)",
    "%unload_ext samedevice\n%load_ext samedevice\n%unload_ext samedevice",
    "print('%s' % ('samedevice' in get_ipython().magics_manager.magics['cell']))",
    "import samedevice; samedevice.install()\nprint('%s' % ('samedevice' in get_ipython().magics_manager.magics['cell']))",
]


@pytest.fixture(scope="module")
def outputs() -> list[list]:
    """What each cell put out, in a kernel of its own."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    client = nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3", allow_errors=True)
    client.execute(env={**__import__("os").environ, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"})
    return [cell.outputs for cell in notebook.cells]


def rich(cell: list) -> dict:
    """The rich output of a cell."""
    found = [o.data for o in cell if o.output_type == "display_data"]
    assert len(found) == 1, cell
    return found[0]


def test_a_device_error_is_explained_under_its_traceback(outputs: list) -> None:
    kinds = [o.output_type for o in outputs[3]]
    data = rich(outputs[3])

    assert kinds == ["error", "display_data"] or sorted(kinds) == ["display_data", "error"]
    assert "unregistered-tensor" in data["text/plain"]
    assert "In[2]:7" in data["text/plain"]
    assert "self.scale = torch.linspace(0, 1, 4)" in data["text/plain"]
    assert '<div class="samedevice"' in data["text/html"] and "ipykernel" not in data["text/html"]


def test_other_errors_are_left_alone(outputs: list) -> None:
    assert [o.output_type for o in outputs[5]] == ["error"]


def test_a_cell_is_checked_on_virtual_gpus(outputs: list) -> None:
    text = rich(outputs[6])["text/plain"]

    assert "unregistered-tensor" in text and "In[2]:7" in text
    assert "shape torch.Size([2, 4])" in "".join(o.get("text", "") for o in outputs[6])


def test_a_clean_cell_is_all_clear(outputs: list) -> None:
    assert "all clear" in rich(outputs[7])["text/plain"]


def test_wrong_options_are_told(outputs: list) -> None:
    assert "invalid int value: 'many'" in "".join(o.get("text", "") for o in outputs[8])


def test_a_message_is_explained(outputs: list) -> None:
    assert "never moved" in rich(outputs[9])["text/plain"]


def test_unloading_takes_everything_back(outputs: list) -> None:
    assert outputs[11][0]["text"] == "False\n"


def test_install_in_a_notebook_loads_the_extension(outputs: list) -> None:
    assert outputs[12][0]["text"] == "True\n"
