"""Device errors are found in whatever a terminal, launcher or framework made of a traceback."""

import json
import random

import pytest
import tracebacks as samples
from tracebacks import CPYTHON, MESSAGE, PAIR, prefixed

from samedevice.live.found import FoundError
from samedevice.live.search import find_errors


def only(data: str | bytes) -> FoundError:
    """The one error of the text."""
    found = find_errors(data)
    assert len(found) == 1, found
    return found[0]


def places(error: FoundError) -> list[tuple[str, int]]:
    return [(frame.path, frame.line) for frame in error.frames if frame.is_user]


PLAIN = [
    ("/home/u/project/train.py", 30),
    ("/home/u/project/train.py", 12),
    ("/home/u/project/model.py", 7),
]


def test_a_bare_message_is_enough() -> None:
    error = only(MESSAGE)

    assert error.match.family.name == "argument-on-other-device"
    assert error.match.fields == {"arg": "mat1", "d1": "cpu", "d2": "cuda:0", "method": "wrapper_CUDA_addmm"}
    assert error.exception is None


def test_a_message_inside_a_question_is_found() -> None:
    assert only(f"Hi, I get the error {PAIR} when I train, what do I do?").match.fields["d2"] == "cpu"


def test_a_plain_traceback_gives_its_frames() -> None:
    error = only(CPYTHON)

    assert error.exception == "RuntimeError"
    assert places(error) == PLAIN
    assert error.place is not None and error.place.source == "return self.fc(x)"


@pytest.mark.parametrize(
    "text",
    [
        CPYTHON.replace("\n", "\r\n"),
        prefixed(CPYTHON, "2026-05-01 12:00:00,123 - ERROR - "),
        prefixed(CPYTHON, "[2026-05-01 12:00:00] "),
        prefixed(CPYTHON, "2026-05-01T12:00:00.1234567Z "),
        prefixed(CPYTHON, "05/01/2026 12:00:00 - "),
        prefixed(CPYTHON, "May  1 12:00:00 node17 slurmstepd[77]: "),
        prefixed(CPYTHON, "E0501 12:00:00.123456  4711 launcher.py:99] "),
        prefixed(CPYTHON, "trainer-1  | "),
        prefixed(CPYTHON, "ERROR: "),
        "  0%|          | 0/10 [00:00<?, ?it/s]\r 10%|#         | 1/10 [00:00<?, ?it/s]\r" + CPYTHON,
        "  0%|          | 0/10 [00:00<?, ?it/s]" + CPYTHON,
        "\x1b[31m" + CPYTHON.replace("RuntimeError", "\x1b[1;35mRuntimeError\x1b[0m"),
        "noise\n" * 5000 + CPYTHON + "more\n" * 5000,
    ],
    ids=["crlf", "logging", "brackets", "iso", "us", "syslog", "glog", "compose", "level", "tqdm", "tqdm-same-line", "ansi", "long"],
)  # fmt: skip
def test_what_stands_around_the_lines_does_not_matter(text: str) -> None:
    error = only(text)

    assert (error.exception, places(error)) == ("RuntimeError", PLAIN)


@pytest.mark.parametrize(
    "prefixes",
    [
        ["[rank0]: ", "[rank1]: ", "[rank3]: "],
        ["[default0]:", "[default1]:", "[default3]:"],
        ["0: ", "1: ", "3: "],
        ["[1,0]<stderr>:", "[1,1]<stderr>:", "[1,3]<stderr>:"],
        ["(RayTrainWorker pid=0, ip=10.0.0.1) ", "(RayTrainWorker pid=1) ", "(RayTrainWorker pid=3) "],
        ["worker-1: [rank0]: ", "worker-1: [rank1]: ", "worker-2: [rank3]: "],
        [
            "2026-05-01 12:00:00 [rank: 0] ",
            "2026-05-01 12:00:01 [rank: 1] ",
            "2026-05-01 12:00:01 [rank: 3] ",
        ],
    ],
    ids=["torchrun", "tee", "srun", "mpirun", "ray", "deepspeed", "lightning"],
)
def test_interleaved_ranks_become_one_error(prefixes: list[str]) -> None:
    error = only(prefixed(CPYTHON, *prefixes))

    assert (error.ranks, error.count) == ((0, 1, 3), 3)
    assert places(error) == PLAIN


def test_ranks_on_other_gpus_still_have_the_same_mistake() -> None:
    log = "".join(prefixed(CPYTHON.replace("cuda:0", f"cuda:{rank}"), f"[rank{rank}]: ") for rank in range(4))

    assert only(log).ranks == (0, 1, 2, 3)


def test_ranks_that_write_over_each_other_without_a_prefix_are_read() -> None:
    assert places(only("".join(f"{line}\n{line}\n" for line in CPYTHON.splitlines()))) == PLAIN


def test_two_mistakes_stay_two() -> None:
    other = CPYTHON.replace("line 7", "line 9").replace(MESSAGE, PAIR)

    assert [e.match.family.name for e in find_errors(CPYTHON + other)] == [
        "argument-on-other-device",
        "elementwise-devices",
    ]


def test_a_notebook_traceback_gives_cells_and_lines() -> None:
    error = only(samples.IPYTHON)

    assert [(f.path, f.line, f.cell, f.source) for f in error.frames if f.is_user] == [
        ("cell 5", 3, 5, "out = net(x)"),
        ("cell 2", 9, 2, "return x + y"),
    ]


def test_an_old_notebook_traceback_is_read() -> None:
    error = only(samples.OLD_IPYTHON)

    assert error.match.family.name == "convolution-types"
    assert [(f.line, f.source) for f in error.frames if f.is_user] == [
        (2, "out = model(x)"),
        (8, "return self.conv(x)"),
    ]


def test_a_rich_traceback_is_read_though_it_wraps_paths_and_messages() -> None:
    error = only(samples.RICH)

    assert error.match.fields == {"d1": "cuda:0", "d2": "cpu"}
    assert places(error) == [
        ("/home/user/project/train.py", 42),
        ("/home/user/.cache/a/very/long/path/to/some/directory/with/many/parts/model.py", 31),
    ]


def test_pytest_output_is_read_and_its_summary_is_no_second_error() -> None:
    error = only(samples.PYTEST)

    assert places(error) == [("tests/test_model.py", 12), ("src/net.py", 9)]
    assert error.place is not None and error.place.source == "return self.fc(x)"


def test_an_error_from_a_worker_says_which() -> None:
    error = only(samples.WORKER)

    assert error.match.family.name == "fork-after-cuda"
    assert error.wrapper == "DataLoader worker process 0"
    assert error.place is not None and error.place.path == "/home/u/project/data.py"


def test_structured_logs_are_unescaped() -> None:
    log = "".join(json.dumps({"level": "info", "step": i}) + "\n" for i in range(500))
    log += json.dumps({"level": "error", "exc": CPYTHON}) + "\n"

    assert places(only(log)) == PLAIN


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_any_encoding_is_read(encoding: str) -> None:
    assert places(only(CPYTHON.encode(encoding))) == PLAIN


def test_bytes_that_are_no_text_are_survived() -> None:
    assert places(only(b"\xff\xfe"[:1] + b"\x80\x81\n" + CPYTHON.encode())) == PLAIN


@pytest.mark.parametrize(
    "line",
    [
        '        raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices, {} and {}!")',
        '    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):',
        "# RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "INFO all workers use the same device",
        "expected scalar type is float32",
        "Values and keys need to be on the shelf.",
    ],
)
def test_sources_and_prose_in_a_log_are_no_errors(line: str) -> None:
    assert find_errors(f"{line}\n" * 400) == []


def test_mutilated_tracebacks_never_crash_and_never_find_another_family() -> None:
    """Cut, doubled, shuffled, overwritten: 200 mutations of each sample, the families stay the same."""
    chance = random.Random(7)
    kinds = {"argument-on-other-device", "elementwise-devices", "convolution-types", "fork-after-cuda"}
    for text in (CPYTHON, samples.IPYTHON, samples.OLD_IPYTHON, samples.RICH, samples.PYTEST, samples.WORKER):
        for _ in range(200):
            mutated = list(text)
            for _ in range(chance.randrange(1, 8)):
                at = chance.randrange(len(mutated) + 1)
                span = chance.randrange(1, 60)
                what = chance.randrange(5)
                if what == 0:
                    del mutated[at : at + span]
                elif what == 1:
                    mutated[at:at] = mutated[at : at + span]
                elif what == 2:
                    mutated[at:at] = chance.choice(
                        ["\n", "\r", "\x1b[31m", "\0", "│", "é", " " * 200, '"', "{", "\\n"]
                    )
                elif what == 3:
                    mutated[at : at + span] = reversed(mutated[at : at + span])
                else:
                    mutated = mutated[:at] or mutated
            for error in find_errors("".join(mutated)):
                assert error.match.family.name in kinds


def test_a_log_of_one_endless_line_is_read() -> None:
    assert (
        find_errors("x" * 3_000_000 + f" RuntimeError: {MESSAGE}")[0].match.family.name
        == "argument-on-other-device"
    )


def test_a_message_repeated_at_each_step_is_one_error() -> None:
    error = only("".join(f"step {i} failed\nRuntimeError: {PAIR}\n" for i in range(3000)))

    assert error.count >= 2000
