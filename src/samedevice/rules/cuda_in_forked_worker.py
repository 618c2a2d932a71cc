"""The rule `cuda-in-forked-worker`."""

from collections.abc import Iterator

from samedevice.model.diagnostic import Confidence
from samedevice.model.fix import Fix
from samedevice.model.meeting import Meeting
from samedevice.model.scene import Kind, Scene, Step
from samedevice.rules import mending_workers
from samedevice.rules.questions import story
from samedevice.rules.reading import told
from samedevice.rules.rule import Recognition, Rule
from samedevice.rules.sites import Sites


class CudaInForkedWorker(Rule):
    """Checks for CUDA in a forked process, as in a DataLoader's worker.

    ## Why is this bad?
    A process that has used CUDA cannot hand it to a fork: the child raises "Cannot re-initialize CUDA in forked
    subprocess". The usual case is a data set that moves its samples to the GPU while the loader runs with
    `num_workers > 0`.

    ## Example
    ```python
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return torch.full((2,), float(i)).to("cuda")

    model = torch.nn.Linear(2, 1).to("cuda")
    for batch in DataLoader(Rows(), batch_size=2, num_workers=1):
        print(model(batch).sum().item())
    ```

    Use instead:
    ```python
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return torch.full((2,), float(i))

    model = torch.nn.Linear(2, 1).to("cuda")
    for batch in DataLoader(Rows(), batch_size=2, num_workers=1):
        print(model(batch.to("cuda")).sum().item())
    ```

    ## Fix safety
    Reading alone gives no fix. `check --fix` tries an unsafe one and keeps it when a run proves it.
    Workers hand out CPU tensors and the loop moves them; where that is not plain, the processes are spawned,
    or the main process loads (`num_workers=0`).
    """

    name = "cuda-in-forked-worker"
    group = "offload, meta, tools"
    engines = ("check", "lint")
    #: a process that died of it did nothing of what it does now
    alters_results = True
    specificity = 90
    lesson = "Workers prepare data on the CPU; the training loop moves it. CUDA does not survive a fork."

    def recognise(self, scene: Scene) -> Recognition | None:
        """CUDA's refusal in a forked child."""
        if scene.kind is not Kind.FORK:
            return None
        inside = scene.extra.get("worker_line")
        step = inside if isinstance(inside, Step) else None
        return Recognition(
            message="CUDA is used in a forked process, where it cannot work",
            location=step.location if step is not None and step.location is not None else scene.raised,
            confidence=Confidence.CERTAIN,
            evidence=story(
                scene, (step, f"`{step.function if step else ''}` uses CUDA here, in a worker process")
            ),
            help="Keep the worker's tensors on the CPU and move them in the main process, or use the `spawn` start method",
        )

    def repairs(self, scene: Scene, found: Recognition, sites: Sites) -> Iterator[Fix]:
        """The edits that may take it out, the best first."""
        inside = scene.extra.get("worker_line")
        worker = inside.location if isinstance(inside, Step) else None
        yield from mending_workers.in_main_process(scene, worker, sites)
        yield from mending_workers.spawned(scene, sites)
        yield from mending_workers.without_workers(scene, sites)

    def lint(self, meeting: Meeting) -> Recognition | None:
        """What reading the code shows."""
        return told(
            meeting,
            "the loader's workers are forked, and their dataset uses CUDA: a forked process cannot",
            help="Keep the dataset on the CPU and move the batches, or use no workers",
        )
