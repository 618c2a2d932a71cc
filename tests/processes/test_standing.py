"""A process tells where it stands, also when it waits in C, and no other process is disturbed by the question."""

import os
import subprocess
import sys

import pytest

from samedevice.cli.ending import notes_of
from samedevice.processes import record as records
from samedevice.processes import standing

PROGRAM = """\
import sys
from samedevice.processes import standing

def waits():
    standing.answer(sys.argv[1])
    print("ready", flush=True) or sys.stdin.read()

waits()
"""


@pytest.mark.skipif(standing.SIGNAL is None, reason="there are no real-time signals here")
def test_only_processes_that_listen_are_asked(tmp_path):
    folder = str(tmp_path / "records")
    assert records.make(folder)
    script = tmp_path / "wäits.py"
    script.write_text(PROGRAM)
    deaf = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    listens = subprocess.Popen(
        [sys.executable, str(script), folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert listens.stdout is not None and listens.stdout.readline() == b"ready\n"
        (tmp_path / "records" / f"{deaf.pid}.standing").touch()
        places = standing.ask(folder)

        assert places == {listens.pid: f'{script}:6, `print("ready", flush=True) or sys.stdin.read()`'}
        assert (deaf.poll(), listens.poll()) == (None, None)
    finally:
        for process in (deaf, listens):
            process.communicate(b"\n")


def test_a_worker_that_waits_for_work_stands_nowhere():
    library = os.path.join(os.path.dirname(os.__file__), "multiprocessing")
    text = f"""Current thread 0x00007f (most recent call first):
  File "{library}/queues.py", line 103 in get
  File "{library}/process.py", line 314 in _bootstrap
  File "/home/me/train.py", line 3 in <module>
"""

    assert standing.place_in(text) is None
    assert (
        standing.place_in(text.replace(f"{library}/queues.py", "/home/me/data.py")) == "/home/me/data.py:103"
    )


def test_processes_at_one_place_share_a_sentence():
    told = notes_of({7: "a.py:1", 8: "a.py:1", 9: "b.py:2"}, {7: "Process-1", 8: "Process-2"}, {9: 1})

    assert told == [
        "process `Process-1` and process `Process-2` were stopped at a.py:1",
        "rank 1 was stopped at b.py:2",
    ]
