"""From a point of execution to the source around it."""

import sys

from samedevice.program import files
from samedevice.program.frames import Spot, in_loop, line_location, location_of, text_of, tree_of, user_frames
from samedevice.program.values import MISSING, evaluate_in


def spot_here(*_):
    frame = sys._getframe(1)
    return Spot(frame.f_code, frame.f_lasti)


def test_the_running_call_is_found_with_its_statement_and_columns():
    found = [1, spot_here("ä", 2)]
    spot = found[1]

    assert text_of(spot.node, spot.filename) == 'spot_here("ä", 2)'
    assert text_of(spot.statement, spot.filename) == 'found = [1, spot_here("ä", 2)]'
    assert (spot.location.column, spot.location.end_column) == (17, 34)
    assert spot.function == "test_the_running_call_is_found_with_its_statement_and_columns"


class Holder:
    def method(self):
        found = [spot_here() for _ in range(1)]
        return found[0]


def test_a_comprehension_belongs_to_the_method_around_it():
    assert Holder().method().class_name == "Holder"
    assert spot_here().class_name is None


def test_loops_are_those_of_the_same_function(tmp_path):
    file = tmp_path / "loops.py"
    file.write_text("for i in x:\n    a()\n    def f():\n        b()\n")
    tree = tree_of(str(file))
    inside, function = tree.body[0].body

    assert in_loop(inside)
    assert not in_loop(function.body[0])
    assert location_of(tree.body[0], str(file)).end_line is None
    assert line_location(str(file), 4).column == 9


def test_installed_packages_and_the_standard_library_are_not_user_code():
    import json

    import executing

    assert files.kind_of(json.__file__) == files.SKIP
    assert files.kind_of(executing.__file__) == files.PACKAGE
    assert files.package_of(executing.__file__) == "executing"
    assert files.kind_of(__file__) == files.USER
    assert files.kind_of("<frozen runpy>") == files.SKIP
    assert user_frames(sys._getframe())[-1] is sys._getframe()


def test_values_are_looked_up_and_never_computed():
    import ast

    class Box:
        def __init__(self):
            self.items = {"a": (1, 2)}

        @property
        def trap(self):
            raise AssertionError

    box = Box()
    frame = sys._getframe()

    def value(text):
        return evaluate_in(ast.parse(text, mode="eval").body, frame)

    assert value("box.items['a'][-1]") == 2
    assert value("box.trap") is MISSING
    assert value("box.items['b']") is MISSING
    assert value("box.items.get('a')") is MISSING
    assert box is value("box")
