"""Usual causes: state over time, several GPUs, the host, offloading, dtypes."""

from samedevice.torch_facts.messages.family import Cause, T

CAUSES = (
    Cause(
        "optimizer-state-left-behind",
        T(
            "The optimizer's state (momentum, Adagrad's sums) was allocated or loaded before the model moved",
            "Der Zustand des Optimierers (Momentum, Adagrad-Summen) entstand oder wurde geladen, bevor das Modell umzog",
        ),
        T(
            "the error is raised in `optimizer.step()`; an optimizer made before `.to()` that has no state yet is *not* the cause: `Module.to` keeps the Parameter objects",
            "der Fehler kommt in `optimizer.step()`; ein vor `.to()` erzeugter Optimierer ohne Zustand ist *nicht* die Ursache: `Module.to` behält die Parameter-Objekte",
        ),
        T(
            "move the model first; load state with `optimizer.load_state_dict`, which moves it",
            "erst das Modell verschieben; Zustand mit `optimizer.load_state_dict` laden, das verschiebt ihn",
        ),
        "model.to(device)\noptimizer = torch.optim.Adagrad(model.parameters())",
    ),
    Cause(
        "load-without-map-location",
        T(
            "`torch.load` puts tensors back on the device they were saved from",
            "`torch.load` legt Tensoren zurück auf das Gerät, von dem sie gespeichert wurden",
        ),
        T(
            "the tensor comes out of a checkpoint; the file was written on another machine or GPU",
            "der Tensor kommt aus einem Checkpoint; die Datei entstand auf einer anderen Maschine oder GPU",
        ),
        T(
            "load to the CPU or to the model's device",
            "auf die CPU oder auf das Gerät des Modells laden",
        ),
        'state = torch.load(path, map_location="cpu")',
    ),
    Cause(
        "copy-left-behind",
        T(
            "A copy of the model (EMA, `deepcopy`, target network) was made before the model moved, or kept on another device",
            "Eine Kopie des Modells (EMA, `deepcopy`, Zielnetz) entstand vor dem Umzug des Modells oder blieb auf einem anderen Gerät",
        ),
        T(
            "the failing line mixes parameters of two models",
            "die Fehlerzeile mischt Parameter zweier Modelle",
        ),
        T("move first, then copy", "erst verschieben, dann kopieren"),
        "model.to(device)\nema = copy.deepcopy(model)",
    ),
    Cause(
        "moved-behind-your-back",
        T(
            "Something moved the model or a table in between: a trainer's clean-up, a callback, a scheduler",
            "Etwas hat das Modell oder eine Tabelle zwischendurch verschoben: das Aufräumen eines Trainers, ein Callback, ein Scheduler",
        ),
        T(
            "it worked before; it fails after an evaluation, a prediction or a callback",
            "vorher lief es; es scheitert nach einer Auswertung, einer Vorhersage oder einem Callback",
        ),
        T(
            "put things back after a temporary move, or move a copy",
            "nach einem vorübergehenden Umzug zurückstellen oder eine Kopie verschieben",
        ),
        "before = next(model.parameters()).device\n…\nmodel.to(before)",
    ),
    Cause(
        "parameter-lost-by-move",
        T(
            "`nn.Parameter(…).to(device)` is no Parameter any more but a copy that nothing trains",
            "`nn.Parameter(…).to(device)` ist kein Parameter mehr, sondern eine Kopie, die niemand trainiert",
        ),
        T("`.to` or `.cuda` after `nn.Parameter(…)`", "`.to` oder `.cuda` hinter `nn.Parameter(…)`"),
        T(
            "move the data, then make the Parameter",
            "erst die Daten verschieben, dann den Parameter bilden",
        ),
        "self.w = nn.Parameter(torch.zeros(n, device=device))",
    ),
    Cause(
        "cross-gpu-operands",
        T(
            "A model is split over several GPUs, and two parts meet without a move between them",
            "Ein Modell ist über mehrere GPUs verteilt, und zwei Teile treffen ohne Verschiebung aufeinander",
        ),
        T(
            "both devices are GPUs; often a residual connection, shared weights or labels",
            "beide Geräte sind GPUs; oft eine Residualverbindung, geteilte Gewichte oder Labels",
        ),
        T(
            "move the result to where it is used; keep blocks with a residual connection on one GPU",
            "das Ergebnis dorthin verschieben, wo es gebraucht wird; Blöcke mit Residualverbindung auf einer GPU halten",
        ),
        "loss = criterion(out, labels.to(out.device))",
    ),
    Cause(
        "split-without-move",
        T(
            "`device_map` cuts through a block that must stay in one piece",
            "`device_map` zerschneidet einen Block, der zusammenbleiben muss",
        ),
        T(
            "accelerate or transformers dispatched the model; the class is missing in `no_split_module_classes`",
            "accelerate oder transformers hat das Modell verteilt; die Klasse fehlt in `no_split_module_classes`",
        ),
        T(
            "name the blocks that must not be cut",
            "die Blöcke nennen, die nicht zerschnitten werden dürfen",
        ),
        'infer_auto_device_map(model, no_split_module_classes=["DecoderLayer"])',
    ),
    Cause(
        "data-parallel-source-device",
        T(
            "The wrapped model is not on `device_ids[0]`",
            "Das eingehüllte Modell liegt nicht auf `device_ids[0]`",
        ),
        T(
            "`model.to(…)` is missing before DataParallel, or names another GPU",
            "`model.to(…)` fehlt vor DataParallel oder nennt eine andere GPU",
        ),
        T("move it to the first device of the list", "auf das erste Gerät der Liste verschieben"),
        'model = nn.DataParallel(model.to("cuda:0"), device_ids=[0, 1])',
    ),
    Cause(
        "unreplicated-attribute",
        T(
            "DataParallel copies parameters and buffers to every GPU; a plain attribute stays on the first one",
            "DataParallel kopiert Parameter und Puffer auf jede GPU; ein einfaches Attribut bleibt auf der ersten",
        ),
        T(
            "the error comes from replica 1 or later; replica 0 is fine",
            "der Fehler kommt von Replik 1 oder später; Replik 0 läuft",
        ),
        T(
            "make it a Parameter or a buffer; better, use DistributedDataParallel",
            "einen Parameter oder Puffer daraus machen; besser DistributedDataParallel benutzen",
        ),
        "self.alphas = nn.Parameter(torch.zeros(n))",
    ),
    Cause(
        "collective-on-wrong-device",
        T(
            "A collective gets a tensor that its backend cannot reach (NCCL knows the GPU of its own rank only)",
            "Eine kollektive Operation bekommt einen Tensor, den ihr Backend nicht erreicht (NCCL kennt nur die GPU des eigenen Rangs)",
        ),
        T(
            "`dist.all_reduce`, `all_gather` or `broadcast` of a metric, a loss or an object made on the CPU",
            "`dist.all_reduce`, `all_gather` oder `broadcast` einer Metrik, eines Loss oder Objekts von der CPU",
        ),
        T(
            "set the rank's device once and create the tensor there",
            "das Gerät des Rangs einmal setzen und den Tensor dort erzeugen",
        ),
        "torch.cuda.set_device(local_rank)\ndist.all_reduce(value.to(local_rank))",
    ),
    Cause(
        "bare-cuda-in-multi-gpu",
        T(
            '`"cuda"` or `.cuda()` means the *current* GPU, which is 0 in every process that does not set it',
            '`"cuda"` oder `.cuda()` meint die *aktuelle* GPU, in jedem Prozess die 0, der sie nicht setzt',
        ),
        T(
            "the ranks other than 0 fail, or all ranks fill GPU 0",
            "die Ränge außer 0 scheitern, oder alle Ränge füllen GPU 0",
        ),
        T("set the device of the rank first", "zuerst das Gerät des Rangs setzen"),
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
    ),
    Cause(
        "numpy-on-gpu",
        T(
            "A GPU tensor is given to NumPy (or to pandas, matplotlib, scikit-learn, OpenCV)",
            "Ein GPU-Tensor wird NumPy gegeben (oder pandas, matplotlib, scikit-learn, OpenCV)",
        ),
        T(
            "`.numpy()`, `np.asarray(…)`, `plt.plot(…)` or `np.mean([…])` on the failing line",
            "`.numpy()`, `np.asarray(…)`, `plt.plot(…)` oder `np.mean([…])` in der Fehlerzeile",
        ),
        T("bring it to host memory first", "den Tensor zuerst in den Hauptspeicher holen"),
        "values = out.detach().cpu().numpy()",
    ),
    Cause(
        "lengths-on-gpu",
        T(
            "`pack_padded_sequence` gets its lengths on the GPU; it reads them on the host",
            "`pack_padded_sequence` bekommt seine Längen auf der GPU; gelesen werden sie auf der CPU",
        ),
        T(
            "the lengths were moved together with the batch",
            "die Längen wurden mit dem Batch verschoben",
        ),
        T("leave the lengths on the CPU", "die Längen auf der CPU lassen"),
        "packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True)",
    ),
    Cause(
        "pinning-gpu-tensor",
        T(
            "`pin_memory=True`, but the dataset or `collate_fn` returns GPU tensors",
            "`pin_memory=True`, aber das Dataset oder `collate_fn` liefert GPU-Tensoren",
        ),
        T(
            "the dataset moves its data in `__init__` or `__getitem__`",
            "das Dataset verschiebt seine Daten in `__init__` oder `__getitem__`",
        ),
        T(
            "return CPU tensors and move the batch in the loop; or, with all data on the GPU, switch pinning off",
            "CPU-Tensoren liefern und den Batch in der Schleife verschieben; oder, wenn alle Daten auf der GPU liegen, das Pinnen ausschalten",
        ),
        "loader = DataLoader(data, pin_memory=False)",
    ),
    Cause(
        "generator-on-other-device",
        T(
            "A CPU `torch.Generator` is used for a tensor on the GPU, or the other way round",
            "Ein CPU-`torch.Generator` wird für einen Tensor auf der GPU benutzt, oder umgekehrt",
        ),
        T(
            "`generator=` in the failing call, or a DataLoader with `shuffle=True`",
            "`generator=` im scheiternden Aufruf oder ein DataLoader mit `shuffle=True`",
        ),
        T(
            "make the generator on the device of the tensor it fills",
            "den Generator auf dem Gerät des Tensors anlegen, den er füllt",
        ),
        "generator = torch.Generator(device=x.device).manual_seed(seed)",
    ),
    Cause(
        "meta-left",
        T(
            "A parameter or buffer is still on the meta device: it has a shape and no data",
            "Ein Parameter oder Puffer ist noch auf dem Meta-Gerät: er hat eine Form, aber keine Daten",
        ),
        T(
            "the model was built under `torch.device('meta')`, `init_empty_weights` or `low_cpu_mem_usage`, and a name is missing in the checkpoint (often a non-persistent buffer)",
            "das Modell entstand unter `torch.device('meta')`, `init_empty_weights` oder `low_cpu_mem_usage`, und ein Name fehlt im Checkpoint (oft ein nicht gespeicherter Puffer)",
        ),
        T(
            "allocate with `to_empty`, load all weights, recompute what the checkpoint does not hold",
            "mit `to_empty` anlegen, alle Gewichte laden, neu berechnen, was der Checkpoint nicht enthält",
        ),
        "print([n for n, t in model.state_dict(keep_vars=True).items() if t.is_meta])\nmodel.to_empty(device=device)",
    ),
    Cause(
        "offload-hook-bypassed",
        T(
            "accelerate keeps weights elsewhere and fetches them in the module's `forward`; the weight was used around it",
            "accelerate hält Gewichte anderswo und holt sie im `forward` des Moduls; das Gewicht wurde daran vorbei benutzt",
        ),
        T(
            "`module.weight` is read directly, or the model is moved after `dispatch_model`",
            "`module.weight` wird direkt gelesen, oder das Modell wird nach `dispatch_model` verschoben",
        ),
        T(
            "call the module itself; do not move a dispatched model",
            "das Modul selbst aufrufen; ein verteiltes Modell nicht verschieben",
        ),
        "out = layer(x)  # not F.linear(x, layer.weight)",
    ),
    Cause(
        "tool-hook-left",
        T(
            "A hook of a tool (summary, profiler, offloading) is still on the model",
            "Ein Hook eines Werkzeugs (Summary, Profiler, Auslagerung) hängt noch am Modell",
        ),
        T(
            "the stack passes through that tool's hook",
            "der Aufrufstapel läuft durch den Hook dieses Werkzeugs",
        ),
        T("remove the hook, or wrap a copy", "den Hook entfernen oder eine Kopie einhüllen"),
        "handle.remove()",
    ),
    Cause(
        "cpu-gradient",
        T(
            "A custom `autograd.Function` (or a tensor hook) returns a gradient on another device than its input",
            "Eine eigene `autograd.Function` (oder ein Tensor-Hook) liefert einen Gradienten auf einem anderen Gerät als ihre Eingabe",
        ),
        T(
            "the error is raised in `backward()`; look at what your `backward` method creates or brings back from NumPy",
            "der Fehler kommt in `backward()`; nachsehen, was die eigene `backward`-Methode erzeugt oder aus NumPy zurückholt",
        ),
        T(
            "create gradients like the gradient that came in",
            "Gradienten so anlegen wie den hereinkommenden",
        ),
        "noise = torch.randn_like(grad_output)",
    ),
    Cause(
        "cuda-in-forked-worker",
        T(
            "CUDA is used in a DataLoader worker or another forked process",
            "CUDA wird in einem DataLoader-Worker oder einem anderen geforkten Prozess benutzt",
        ),
        T(
            "`num_workers > 0`, and the dataset or `collate_fn` moves tensors or runs a model",
            "`num_workers > 0`, und das Dataset oder `collate_fn` verschiebt Tensoren oder führt ein Modell aus",
        ),
        T(
            "return CPU tensors from workers; where it must be CUDA, start processes by `spawn`",
            "aus Workern CPU-Tensoren liefern; wo es CUDA sein muss, Prozesse mit `spawn` starten",
        ),
        'loader = DataLoader(data, num_workers=4, multiprocessing_context="spawn")',
    ),
    Cause(
        "kernel-on-other-gpu",
        T(
            "A custom kernel (Triton, CuPy, an extension) is started on the current GPU while its tensors are on another one or on the CPU",
            "Ein eigener Kernel (Triton, CuPy, eine Erweiterung) startet auf der aktuellen GPU, seine Tensoren liegen auf einer anderen oder auf der CPU",
        ),
        T(
            "the failing call is no PyTorch operator; it works on GPU 0",
            "der scheiternde Aufruf ist kein PyTorch-Operator; auf GPU 0 läuft er",
        ),
        T(
            "make the tensors' device current around the call",
            "das Gerät der Tensoren um den Aufruf herum zum aktuellen machen",
        ),
        "with torch.cuda.device(x.device):\n    kernel[grid](x, y)",
    ),
    Cause(
        "unguarded-cuda",
        T(
            "CUDA is asked for on a machine (or in a build of PyTorch) that has none",
            "CUDA wird auf einer Maschine (oder in einem PyTorch-Build) verlangt, die keins hat",
        ),
        T(
            '`python -c "import torch; print(torch.__version__, torch.cuda.is_available())"` says `+cpu` or `False`',
            '`python -c "import torch; print(torch.__version__, torch.cuda.is_available())"` sagt `+cpu` oder `False`',
        ),
        T("choose the device once, from what is there", "das Gerät einmal wählen, aus dem, was da ist"),
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    ),
    Cause(
        "dtype-mismatch",
        T(
            "The operands have different dtypes: one half of the code runs in half precision or double, the other does not",
            "Die Operanden haben verschiedene dtypes: ein Teil des Codes rechnet in halber oder doppelter Genauigkeit, der andere nicht",
        ),
        T(
            "the devices are the same; look for `.half()`, `torch_dtype=`, float64 from NumPy, a missing `autocast`",
            "die Geräte sind gleich; nach `.half()`, `torch_dtype=`, float64 aus NumPy, fehlendem `autocast` suchen",
        ),
        T(
            "convert at the border, following a tensor that is right",
            "an der Grenze umwandeln, nach dem Vorbild eines richtigen Tensors",
        ),
        "x = x.to(dtype=model.weight.dtype)",
    ),
    Cause(
        "tied-weights-split",
        T(
            "Two modules share one weight, and moving one of them took the weight away from the other",
            "Zwei Module teilen sich ein Gewicht, und das Verschieben des einen nahm es dem anderen weg",
        ),
        T(
            "`a.weight = b.weight` somewhere, and `a` and `b` are on two GPUs",
            "irgendwo steht `a.weight = b.weight`, und `a` und `b` liegen auf zwei GPUs",
        ),
        T("keep tied modules on one GPU", "gekoppelte Module auf einer GPU halten"),
        'embed.to("cuda:0")\nhead.to("cuda:0")',
    ),
    Cause(
        "traced-constant-device",
        T(
            "A TorchScript trace keeps the device of its example as a constant; moving the graph does not change it",
            "Ein TorchScript-Trace behält das Gerät seines Beispiels als Konstante; den Graphen zu verschieben ändert sie nicht",
        ),
        T(
            "the error is raised in the TorchScript interpreter, and `forward` uses `x.device`",
            "der Fehler kommt aus dem TorchScript-Interpreter, und `forward` benutzt `x.device`",
        ),
        T(
            "trace on the device where the graph will run",
            "auf dem Gerät tracen, auf dem der Graph laufen wird",
        ),
        "traced = torch.jit.trace(model.to(device), example.to(device))",
    ),
    Cause(
        "device-chosen-twice",
        T(
            "Two places of the program choose the device on their own, and they come to different answers",
            "Zwei Stellen des Programms wählen das Gerät für sich, mit verschiedenem Ergebnis",
        ),
        T(
            "`torch.device(…)` stands in several modules, one of them for MPS or by another condition",
            "`torch.device(…)` steht in mehreren Modulen, in einem davon für MPS oder mit anderer Bedingung",
        ),
        T("choose once, and import the choice", "einmal wählen und die Wahl importieren"),
        "from .config import device",
    ),
)
