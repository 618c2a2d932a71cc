"""Back from a device expression to where the device was decided."""

import ast
import runpy

from samedevice.program.frames import Spot, source_of
from samedevice.program.origins import Where, trace_device, trace_value


def device_of(code, tmp_path, function="torch.zeros", callers=(), names=None, device="cpu"):
    """The turns from the `device=` of the one call of `function`."""
    file = tmp_path / "program.py"
    file.write_text(code)
    tree = source_of(str(file)).tree
    call = next(n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == function)
    wanted = next(k.value for k in call.keywords if k.arg == "device")
    return trace_device(wanted, Where(str(file), callers, names or {}), device)


def test_a_literal_is_its_own_decision(tmp_path):
    turns = device_of('x = torch.zeros(3, device="cpu")\n', tmp_path)

    assert [(t.how, t.location.line) for t in turns] == [("literal", 1)]


def test_a_name_leads_to_its_last_assignment_above(tmp_path):
    code = 'def f():\n    d = "cuda"\n    d = "cpu"\n    return torch.zeros(3, device=d)\n'

    assert [(t.how, t.location.line) for t in device_of(code, tmp_path)] == [("assigned", 3), ("literal", 3)]


def test_of_several_global_choices_the_one_that_came_out_is_named(tmp_path):
    code = 'if ok:\n    d = torch.device("mps")\nelse:\n    d = torch.device("cpu")\nx = torch.zeros(3, device=d)\n'

    assert device_of(code, tmp_path)[-1].location.line == 4


def test_a_call_that_leaves_the_parameter_out_has_decided(tmp_path):
    code = 'def make(n, device="cpu"):\n    return torch.zeros(n, device=device)\n\n\nx = make(4)\n'
    (turn,) = device_of(code, tmp_path)

    assert (turn.how, turn.location.line, turn.function, turn.default) == ("omitted", 5, "make", '"cpu"')


def test_none_as_default_counts_as_left_out(tmp_path):
    code = (
        "def make(n, device=None):\n    if device is None:\n        device = torch.device('cpu')\n"
        "    return torch.zeros(n, device=device)\n\n\nx = make(4)\n"
    )

    assert device_of(code, tmp_path)[-1].how == "omitted"


def test_the_recorded_callers_decide_which_call_it_was(tmp_path):
    code = (
        "def make(device='cpu'):\n    return torch.zeros(3, device=device)\n\n\n"
        "def outer(where):\n    return make(where)\n\n\n"
        "x = make('cuda:1')\ny = outer('cpu')\n"
    )
    file = tmp_path / "program.py"
    file.write_text(code)
    recorded = []

    class Recorder:
        @staticmethod
        def zeros(n, device):
            import sys

            frames, frame = [], sys._getframe(1)
            while frame is not None and frame.f_code.co_filename == str(file):
                frames.append(Spot(frame.f_code, frame.f_lasti))
                frame = frame.f_back
            recorded.append(tuple(reversed(frames))[:-1])

    runpy.run_path(str(file), {"torch": Recorder})
    turns = device_of(code, tmp_path, callers=recorded[1])

    assert [t.location.line for t in turns if t.how in ("argument", "literal")] == [6, 10, 10]


def test_an_attribute_leads_through_the_constructor_to_a_subclass_that_lost_the_argument(tmp_path):
    file = tmp_path / "agents.py"
    code = (
        "class Base:\n    def __init__(self, size, log=False, device='cpu'):\n        self.device = device\n\n"
        "    def make(self):\n        return torch.zeros(3, device=self.device)\n\n\n"
        "class Agent(Base):\n    def __init__(self, device):\n        super().__init__(3, device)\n"
    )
    file.write_text(code)
    import importlib.util
    import sys

    spec = importlib.util.spec_from_file_location("agents_under_test", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["agents_under_test"] = module
    try:
        spec.loader.exec_module(module)
        call = next(n for n in ast.walk(source_of(str(file)).tree) if isinstance(n, ast.Call) and n.keywords)
        where = Where(str(file), names={"self": module.Agent("cuda")})
        turns = trace_device(call.keywords[0].value, where, "cpu")
    finally:
        del sys.modules["agents_under_test"]

    assert (turns[-1].how, turns[-1].location.line, turns[-1].function) == ("omitted", 11, "Base")


def test_an_object_leads_to_the_statement_that_made_it(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("net = Net()\nnet = net.to(d).eval()\nfor x in enumerate(net):\n    pass\n")
    loop = source_of(str(file)).tree.body[2]

    assert trace_value(loop.iter, Where(str(file))).line == 1
