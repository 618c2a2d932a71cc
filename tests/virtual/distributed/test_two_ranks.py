"""Two ranks with nccl on virtual GPUs compute what two ranks with gloo on the CPU compute, bit for bit."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="needs gloo"),
]

SCRIPT = Path(__file__).parent / "rank.py"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What both ranks found, by rank."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(rank), str(folder)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=240)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], outputs
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(2)]


@pytest.mark.parametrize("tier", ["fast", "exact"])
@pytest.mark.parametrize("part", [0, 1, 2], ids=["DDP", "FSDP2 and tensor parallel", "messages"])
def test_the_numbers_are_those_of_gloo_on_the_cpu(ranks, tier, part):
    for found in ranks:
        assert found[tier][part] == found["plain"][part]


def test_sync_batch_norm_normalises_over_all_ranks(ranks):
    for found in ranks:
        assert found["fast"][3]
        assert found["exact"][3]


def test_all_ranks_report_their_mistakes_and_go_on_together(ranks):
    messages = [[message for _, message, _ in found["diagnostics"]] for found in ranks]

    for found in ranks:
        assert found["mistaken"] == [[2.0, 2.0], [2.0]]
        assert {rule for rule, _, _ in found["diagnostics"]} == {"collective-on-wrong-device"}
    assert [message.partition(" but ")[0] for message in messages[0]] == ["`count` is on cpu,"]
    assert ranks[1]["diagnostics"][0][2] == "Choose the process's own GPU"
    assert messages[1][0] == "`x` is on cuda:0, but this process's GPU is cuda:1"
    assert messages[1][1].startswith("`count` is on cpu, but `dist.all_reduce` needs it on")
    assert messages[1][2].startswith("`torch.ones(2)")


def test_ranks_may_exchange_their_gpus_when_all_do(ranks):
    for found in ranks:
        assert found["exchanged"] == [[[2.0, 2.0]] * 3]


def test_a_rank_that_works_on_anothers_gpu_alone_is_told(ranks):
    assert [found["strayed"][0] for found in ranks] == [[[4.0, 4.0], [2.0, 2.0]]] * 2
    assert ranks[0]["strayed"][1:] == []
    assert ranks[1]["strayed"][1:] == ["`count` is on cuda:0, but this process's GPU is cuda:1"]


def test_ranks_that_share_a_gpu_are_refused_in_nccls_words(ranks):
    shared = (
        "Multiple Ranks are using the same GPU/Partition"
        if tuple(int(p) for p in torch.__version__.split(".")[:2]) >= (2, 14)
        else "Duplicate GPU detected : rank {} and rank {} both on CUDA device 1000"
    )

    for rank, found in enumerate(ranks):
        assert "ncclInvalidUsage: This usually reflects invalid usage of NCCL library." in found["sharing"]
        assert shared.format(rank, 1 - rank) in found["sharing"]
