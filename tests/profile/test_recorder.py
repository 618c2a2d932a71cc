"""The recorder and the cost model, without torch."""

import subprocess
import sys

import pytest

from samedevice.model.errors import UserError
from samedevice.profile.cost import cost_model
from samedevice.profile.findings import diagnostics, findings
from samedevice.profile.recorder import MOST_EVENTS, Origin, Recorder
from samedevice.profile.stacks import stack
from samedevice.profile.summary import Profile, summarise


class Machine:
    """Stands for torch in a program below."""

    def __init__(self) -> None:
        self.now = 0.0
        self.births = 0
        self.recorder = Recorder(self.clock, stack, self.seq)

    def clock(self) -> float:
        self.now += 1.0
        return self.now

    def seq(self) -> int:
        self.births += 1
        return self.births

    def move(self, nbytes: int = 1000, content: object = None, made: bool = False) -> None:
        origin = Origin("created", "torch.zeros", seq=self.seq(), factory=True) if made else None
        self.recorder.transfer(
            "h2d",
            nbytes,
            pinned=True,
            non_blocking=False,
            function="Tensor.to",
            content=content,
            origin=origin,
        )

    def read(self) -> None:
        self.recorder.sync("item", 4)


def summary(machine: Machine) -> Profile:
    return summarise(machine.recorder, cost_model())


def rules(machine: Machine) -> list[str]:
    return [d.rule for d in diagnostics(summary(machine).by_caller)]


def test_a_step_is_an_iteration_of_the_loop_that_fetches_batches() -> None:
    m = Machine()
    for _ in range(3):  # epochs
        for _ in range(4):
            m.recorder.step_begins()
            m.recorder.batch()
            m.move()
        m.read()

    found = summary(m)
    (loop,) = found.loops
    assert (loop.kind, loop.steps, loop.nbytes["h2d"], loop.syncs) == ("batches", 12, 1000.0, 0.0)
    assert found.totals["sync"]["count"] == 3
    assert rules(m) == [], "what happens once an epoch is not reported"


def test_a_loop_inside_the_step_belongs_to_it() -> None:
    m = Machine()
    for _ in range(5):
        for _ in range(3):
            m.read()
        m.recorder.optimizer_step()

    (traffic,) = summary(m).traffic
    assert traffic.steps == 5 and traffic.per_step == 3 and traffic.training


def test_a_comprehension_is_a_loop() -> None:
    m = Machine()

    [m.read() for _ in range(12)]

    (traffic,) = summary(m).traffic
    assert traffic.steps == 12 and not traffic.training


def test_fetching_the_next_item_belongs_to_the_loop_and_making_the_iterator_does_not() -> None:
    m = Machine()

    def batches() -> object:
        for i in range(4):
            m.recorder.batch()
            yield i

    for _ in batches():
        m.move()

    loops = {loop.location.line: loop.steps for loop in summary(m).loops}
    assert set(loops.values()) == {4}


def test_what_happens_now_and_then_is_not_reported() -> None:
    m = Machine()
    for step in range(20):
        m.recorder.optimizer_step()
        if step % 5 == 0:
            m.read()

    assert rules(m) == []


def test_a_comment_silences_a_cost() -> None:
    m = Machine()
    for _ in range(5):
        m.recorder.optimizer_step()
        m.recorder.sync("item", 4)  # samedevice: ignore[sync-in-loop] wanted here

    told = findings(summary(m).by_caller)
    assert (told.diagnostics, told.suppressed) == ((), 1)


def test_two_steps_are_too_few_to_say_anything() -> None:
    m = Machine()
    for _ in range(2):
        m.recorder.optimizer_step()
        m.read()

    assert rules(m) == []


def test_the_same_bytes_in_every_step_are_reported_and_new_ones_are_not() -> None:
    m = Machine()
    for step in range(6):
        m.recorder.optimizer_step()
        m.move(content="constant")
        m.move(content=step)

    assert rules(m) == ["transfer-in-loop"]


def test_a_list_of_batches_moved_in_every_epoch_is_no_constant() -> None:
    m = Machine()
    for _ in range(5):
        for batch in range(4):
            m.move(content=batch)
            m.recorder.optimizer_step()

    assert rules(m) == []


def test_what_was_made_before_the_loop_is_not_made_in_the_step() -> None:
    m = Machine()
    early = Origin("created", "torch.zeros", seq=m.seq(), factory=True)
    for step in range(6):
        m.recorder.optimizer_step()
        m.recorder.transfer(
            "h2d", 8, pinned=False, non_blocking=False, function="to", content=step, origin=early
        )
        m.move(made=True)

    assert rules(m) == ["create-then-move"]


def test_what_belongs_to_a_print_is_told_as_one() -> None:
    m = Machine()
    m.recorder.sync("print", 100)
    m.recorder.enter()
    m.read()
    m.move()
    m.recorder.leave()
    m.read()

    assert [t.what for t in summary(m).traffic] == ["print", "item"]


def test_events_beyond_the_limit_are_counted() -> None:
    m = Machine()
    m.recorder.events = [m.recorder.events[0]] * MOST_EVENTS if m.recorder.events else []
    for _ in range(3):
        m.read()
    m.recorder.events *= MOST_EVENTS

    m.read()

    assert m.recorder.dropped == 1 and m.recorder.sites[-1].count >= 1


def test_the_cost_of_a_copy_follows_the_link() -> None:
    slow, fast = cost_model("gen3x16"), cost_model("gen5x16")

    assert slow.link == "PCIe 3.0 x16" and slow.pinned == pytest.approx(12.6e9, rel=0.01)
    megabyte = slow.transfer(10**6, pinned=True, blocking=False)
    assert megabyte == pytest.approx(5e-6 + 1e6 / 12.6e9, rel=0.01)
    assert fast.transfer(10**6, pinned=True, blocking=False) < megabyte
    assert slow.transfer(10**6, pinned=False, blocking=True) > 1.5 * megabyte
    assert cost_model("gen4x16", pageable=3).pageable == 3e9


@pytest.mark.parametrize("link", ["agp", "gen9x16", "gen4x3", ""])
def test_a_link_that_does_not_exist_is_refused(link: str) -> None:
    with pytest.raises(UserError, match="gen4x16"):
        cost_model(link)


def test_recording_and_reporting_do_not_import_torch() -> None:
    modules = "samedevice.profile.summary, samedevice.profile.findings, samedevice.report.html, samedevice.cli.profile"

    code = f"import sys, {modules}; sys.exit('torch' in sys.modules or 'jinja2' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
