"""Who holds a tensor, by a walk over live frames."""

import sys
from collections import OrderedDict
from dataclasses import dataclass

import pytest

from samedevice.model.scene import Holder
from samedevice.program import files
from samedevice.program.owners import Census

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch


@dataclass
class Sample:
    ids: object
    parts: dict


def seats(**variables):
    """(path, owner, kind of place) of each tensor that this function's variables reach."""
    frame = sys._getframe()
    files.kinds[frame.f_code.co_filename] = files.USER
    census = Census.of([frame])
    return {
        s.path.removeprefix("variables['").replace("']", "", 1): (s.owner, s.holder)
        for s in census.tensors
        if s.path.startswith("variables")
    }, census


def test_a_module_holds_parameters_buffers_and_plain_attributes():
    net = torch.nn.Linear(2, 2)
    net.register_buffer("scale", torch.ones(2))
    net.mask = torch.ones(2)
    net.tables = [torch.ones(1)]

    found, _ = seats(net=net)

    assert found["net.weight"] == ("Linear.weight", Holder.PARAMETER)
    assert found["net.scale"] == ("Linear.scale", Holder.BUFFER)
    assert found["net.mask"] == ("Linear.mask", Holder.ATTRIBUTE)
    assert found["net.tables[0]"] == ("Linear.tables[0]", Holder.CONTAINER)


def test_records_containers_and_optimizers_are_opened():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adagrad([weight])

    found, census = seats(
        sample=Sample(torch.ones(1), {"mask": [torch.ones(1)]}),
        items=OrderedDict(a=(torch.ones(1),)),
        optimizer=optimizer,
    )

    assert {"sample.ids", "sample.parts['mask'][0]", "items['a'][0]"} <= set(found)
    assert found["optimizer.state[…]['sum']"][1] is Holder.OPTIMIZER_STATE
    assert [s.value for s in census.optimizers] == [optimizer]


def test_modules_in_a_plain_list_are_held_but_not_registered():
    outer = torch.nn.Module()
    outer.kept = torch.nn.Linear(1, 1)
    outer.loose = [torch.nn.Linear(1, 1)]

    _, census = seats(outer=outer)

    assert id(outer.kept) in census.registered
    assert id(outer.loose[0]) not in census.registered
    assert [s.attribute for s in census.loose[id(outer.loose[0])]] == ["loose"]


def test_no_code_of_the_program_runs():
    class Trap:
        @property
        def tensor(self):
            raise AssertionError("a property was asked")

        def __getattr__(self, name):
            raise AssertionError("an attribute was asked")

        def __len__(self):
            raise AssertionError("the length was asked")

    found, _ = seats(trap=Trap(), x=torch.ones(1))

    assert "x" in found


def test_cycles_and_large_containers_end():
    loop: list = [torch.ones(1)]
    loop.append(loop)

    found, _ = seats(loop=loop, many=[object() for _ in range(100_000)])

    assert "loop[0]" in found
