"""What is said of ranks, from their records alone."""

import os
import pickle
from dataclasses import replace

import pytest

from samedevice.model.diagnostic import Confidence, Diagnostic, Location, Raised, Severity
from samedevice.processes import record as records
from samedevice.processes.merging import merged
from samedevice.processes.record import ProcessRecord
from samedevice.processes.settings import Settings
from samedevice.processes.summary import summarise
from samedevice.report import render


def problem(gpu: int, line: int = 3, count: int = 1) -> Diagnostic:
    at = Location("train.py", line)
    return Diagnostic(
        "device-mismatch",
        Severity.ERROR,
        Confidence.CERTAIN,
        f"`x` is on cpu, `w` on cuda:{gpu}",
        at,
        raised=Raised(at, "RuntimeError", "…", count),
        count=count,
    )


def rank(number: int, **fields) -> ProcessRecord:
    fields = {"ended": "finished", "ended_at": 1.0} | fields
    return ProcessRecord(10**9 + number, float(number), rank=number, member=True, **fields)


def told(*members: ProcessRecord, **options):
    return summarise(members, gpus=2, world=len(members), **options)


def test_a_mistake_of_several_ranks_is_one_whatever_their_gpus_are():
    first = rank(0, findings=((problem(0, count=2), ()),))
    second = rank(1, findings=((problem(1), ()), (problem(1, line=9), ())))
    both, other = (diagnostic for diagnostic, _ in merged((), [first, second]))

    assert (both.count, both.raised.count, both.ranks, both.processes) == (3, 3, (0, 1), 2)
    assert both.message == "`x` is on cpu, `w` on cuda:0"
    assert (other.count, other.ranks, other.processes) == (1, (1,), 1)


def test_children_without_a_rank_are_counted():
    child = ProcessRecord(5, 1.0, findings=((problem(0), ()),))
    ((diagnostic, _),) = merged([(problem(0), ())], [child, replace(child, pid=6)])

    assert (diagnostic.count, diagnostic.ranks, diagnostic.processes) == (3, (), 3)


def test_ranks_that_finish_have_finished():
    summary = told(rank(0), rank(1))

    assert (summary.outcome.program, summary.status, summary.outcome.notes) == ("finished", 0, ())
    text = render(summary.outcome, "text").replace("\n", " ")
    assert "on 2 virtual GPUs in 2 ranks; the program finished" in text


def test_the_first_rank_to_die_is_the_one_that_is_named():
    lost = rank(0, ended="raised RuntimeError: Connection closed by peer", status=1, ended_at=3.0)
    summary = told(lost, rank(1, ended="raised ValueError: bad", status=1, ended_at=2.0))

    assert (summary.outcome.program, summary.status) == ("raised ValueError: bad in rank 1", 2)
    assert "rank 1 was the first to end; its own traceback is above" in summary.outcome.notes


def test_a_rank_that_was_killed_has_nothing_to_say_for_itself():
    lost = rank(0, ended="raised RuntimeError: Connection closed by peer", status=1, ended_at=3.0)
    summary = told(lost, rank(1, ended=None), exits={0: 1, 1: -9})

    assert (summary.outcome.program, summary.status) == ("was killed by SIGKILL in rank 1", 2)


def test_a_rank_that_dies_of_a_device_mistake_is_a_problem_found():
    died = rank(1, ended="raised RuntimeError: …", status=1, by_mistake=True, findings=((problem(1), ()),))

    assert told(rank(0, ended="ended by SIGTERM", status=143), died).status == 1


def test_ranks_whose_time_was_up_tell_where_they_stood():
    waiting = rank(0, ended="stopped after 5 s", stood="train.py:9, `dist.barrier()`", ended_at=7.0)
    lost = rank(1, ended="raised RuntimeError: …", status=1, stood="train.py:8", ended_at=7.1)
    summary = told(waiting, lost)

    assert (summary.outcome.program, summary.status) == ("stopped after 5 s", 0)
    assert summary.outcome.notes[0] == "rank 0 was stopped at train.py:9, `dist.barrier()`"


def test_ranks_that_never_started_are_no_clean_run():
    summary = told(trouble="torch's launcher failed: no port")

    assert (summary.outcome.program, summary.status) == ("did not start", 2)


def test_a_rank_that_was_started_again_counts_once():
    summary = told(rank(0, status=1, ended="raised ValueError: x"), replace(rank(0), started=5.0))

    assert summary.outcome.program == "finished"


def test_records_are_read_back_and_strangers_files_are_not(tmp_path):
    folder = tmp_path / "run"
    records.write(str(folder), "one", rank(0))
    (folder / "torn.record").write_bytes(pickle.dumps(rank(1))[:20])
    (folder / "other.record").write_bytes(pickle.dumps("other"))

    assert [r.rank for r in records.read(str(folder))] == [0]
    folder.chmod(0o777)
    assert records.read(str(folder)) == []


def test_a_process_that_has_ended_is_not_alive():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    assert not records.is_alive(pid)
    os.waitpid(pid, 0)
    assert not records.is_alive(pid)
    assert records.is_alive(os.getpid())


@pytest.mark.parametrize("text", ["", "1", "[]", '{"count": 1, "unknown": 2}', "{"])
def test_settings_that_make_no_sense_are_none(text):
    assert Settings.read(text) is None


def test_settings_are_read_as_they_were_written():
    settings = Settings(2, "report", 1 << 30, 3, True, "/a folder", 7, "/start")

    assert Settings.read(str(settings)) == settings
