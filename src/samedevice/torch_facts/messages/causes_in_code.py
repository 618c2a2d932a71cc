"""Usual causes: how tensors and modules are made, kept and handed on."""

from samedevice.torch_facts.messages.family import Cause, T

CAUSES = (
    Cause(
        "batch-not-moved",
        T(
            "The batch comes from the DataLoader on the CPU and is used before it is moved",
            "Der Batch kommt auf der CPU aus dem DataLoader und wird benutzt, bevor er verschoben ist",
        ),
        T(
            "the tensor out of place is the input of the whole model, in a loop over a loader; often only the evaluation loop forgets it",
            "der falsch liegende Tensor ist die Eingabe des ganzen Modells, in einer Schleife über einen Loader; oft vergisst es nur die Auswertungsschleife",
        ),
        T(
            "move every tensor of the batch at the head of the loop",
            "jeden Tensor des Batches am Anfang der Schleife verschieben",
        ),
        "for x, y in loader:\n    x, y = x.to(device), y.to(device)",
    ),
    Cause(
        "discarded-move",
        T(
            "`x.to(device)` or `x.cuda()` stands alone: on a tensor it returns a moved copy, which is thrown away here",
            "`x.to(device)` oder `x.cuda()` steht für sich allein: bei einem Tensor entsteht eine verschobene Kopie, die hier verloren geht",
        ),
        T(
            "a line with `.to(…)` or `.cuda()` and nothing in front of it; for a module such a line is right, for a tensor it does nothing",
            "eine Zeile mit `.to(…)` oder `.cuda()`, vor der nichts steht; bei einem Modul ist sie richtig, bei einem Tensor wirkungslos",
        ),
        T("keep the result", "das Ergebnis behalten"),
        "x = x.to(device)",
    ),
    Cause(
        "target-not-moved",
        T(
            "The inputs are moved, the labels (or a mask, or lengths) are not",
            "Die Eingaben werden verschoben, die Labels (oder eine Maske oder Längen) nicht",
        ),
        T(
            "the error is raised in the loss or metric, after the forward pass went well",
            "der Fehler kommt im Loss oder in der Metrik, nachdem der Vorwärtslauf gut ging",
        ),
        T(
            "move the labels where the inputs are moved",
            "die Labels dort verschieben, wo die Eingaben verschoben werden",
        ),
        "y = y.to(logits.device)",
    ),
    Cause(
        "nested-tensor-missed",
        T(
            "The batch is a dict, list or object, and the code that moves it does not reach every tensor inside",
            "Der Batch ist ein Dict, eine Liste oder ein Objekt, und der Code, der ihn verschiebt, erreicht nicht jeden Tensor darin",
        ),
        T(
            "the tensor out of place is an item or attribute of the batch; the batch has its own `.to` or a helper moves only the top level",
            "der falsch liegende Tensor ist ein Element oder Attribut des Batches; der Batch hat ein eigenes `.to`, oder ein Helfer verschiebt nur die oberste Ebene",
        ),
        T(
            "move the whole tree, whatever it is made of",
            "den ganzen Baum verschieben, woraus er auch besteht",
        ),
        "batch = samedevice.to_device(batch, device)",
    ),
    Cause(
        "module-not-moved",
        T(
            "A model, loss, metric, teacher or second model was never moved to the GPU, or was built anew and not moved again",
            "Ein Modell, Loss, eine Metrik, ein Lehrer- oder zweites Modell wurde nie auf die GPU verschoben oder neu gebaut und nicht erneut verschoben",
        ),
        T(
            "all parameters of that module are on the CPU: `print(next(module.parameters()).device)`",
            "alle Parameter dieses Moduls liegen auf der CPU: `print(next(module.parameters()).device)`",
        ),
        T("move it where it is made", "das Modul dort verschieben, wo es entsteht"),
        "model = Net().to(device)",
    ),
    Cause(
        "module-in-container",
        T(
            "Submodules are kept in a plain list or dict, so `model.to(device)` does not know them",
            "Untermodule liegen in einer einfachen Liste oder einem Dict, deshalb kennt `model.to(device)` sie nicht",
        ),
        T(
            "the module is missing in `print(model)`, its parameters are missing in `model.parameters()`, so they are not trained either",
            "das Modul fehlt in `print(model)`, seine Parameter fehlen in `model.parameters()`, trainiert werden sie also auch nicht",
        ),
        T("use `nn.ModuleList` or `nn.ModuleDict`", "`nn.ModuleList` oder `nn.ModuleDict` benutzen"),
        "self.blocks = nn.ModuleList([Block() for _ in range(n)])",
    ),
    Cause(
        "module-built-in-forward",
        T(
            "A layer is built in `forward`: every call makes a new, untrained one on the CPU",
            "Eine Schicht wird in `forward` gebaut: jeder Aufruf erzeugt eine neue, untrainierte auf der CPU",
        ),
        T(
            "`nn.Something(…)(x)` in `forward`",
            "`nn.Irgendwas(…)(x)` in `forward`",
        ),
        T(
            "build it in `__init__`, so that it is moved and trained with the model",
            "die Schicht in `__init__` bauen, damit sie mit dem Modell verschoben und trainiert wird",
        ),
        "self.norm = nn.BatchNorm2d(channels)",
    ),
    Cause(
        "module-added-after-move",
        T(
            "Layers (an adapter, a new head) were added after `model.to(device)` and stayed on the CPU",
            "Schichten (ein Adapter, ein neuer Kopf) kamen nach `model.to(device)` dazu und blieben auf der CPU",
        ),
        T(
            "some parameters of the model are on the GPU, those of the added layers are not",
            "einige Parameter des Modells liegen auf der GPU, die der neuen Schichten nicht",
        ),
        T(
            "move the model after the change, or build the layer on the device of its neighbour",
            "das Modell nach dem Umbau verschieben oder die Schicht auf dem Gerät ihres Nachbarn bauen",
        ),
        "layer = nn.Linear(n, m, device=base.weight.device)",
    ),
    Cause(
        "loss-weight-not-moved",
        T(
            "The `weight` or `pos_weight` tensor of the loss was made on the CPU, and the loss was never moved",
            "Der Tensor `weight` oder `pos_weight` des Loss entstand auf der CPU, und der Loss wurde nie verschoben",
        ),
        T(
            "the error is raised in the loss although logits and labels are both on the GPU",
            "der Fehler kommt im Loss, obwohl Logits und Labels beide auf der GPU liegen",
        ),
        T(
            "the loss is a module: move it like the model",
            "der Loss ist ein Modul: wie das Modell verschieben",
        ),
        "criterion = nn.CrossEntropyLoss(weight=weight).to(device)",
    ),
    Cause(
        "metric-state-not-moved",
        T(
            "A metric keeps its counts on the CPU and is updated with GPU tensors",
            "Eine Metrik hält ihre Zähler auf der CPU und wird mit GPU-Tensoren aktualisiert",
        ),
        T(
            "the error is raised in the metric's `update`, often only in evaluation",
            "der Fehler kommt im `update` der Metrik, oft erst in der Auswertung",
        ),
        T(
            "move the metric, or make it an attribute of the model",
            "die Metrik verschieben oder zum Attribut des Modells machen",
        ),
        "metric = Accuracy(…).to(device)",
    ),
    Cause(
        "unregistered-tensor",
        T(
            "A tensor is a plain attribute of a module: `model.to(device)` moves parameters and buffers only",
            "Ein Tensor ist ein einfaches Attribut eines Moduls: `model.to(device)` verschiebt nur Parameter und Puffer",
        ),
        T(
            "the operand is `self.something`, set as `self.something = torch.…` in `__init__`",
            "der Operand ist `self.etwas`, in `__init__` als `self.etwas = torch.…` gesetzt",
        ),
        T("register it as a buffer", "als Puffer registrieren"),
        'self.register_buffer("mask", torch.ones(n), persistent=False)',
    ),
    Cause(
        "carried-state",
        T(
            "A hidden state or a cache is kept from an earlier call, made before the move or for another device",
            "Ein versteckter Zustand oder Cache stammt aus einem früheren Aufruf, vor dem Umzug oder für ein anderes Gerät",
        ),
        T(
            "the operand is a state that one call hands to the next (`self.hidden`, `past_key_values`)",
            "der Operand ist ein Zustand, den ein Aufruf an den nächsten gibt (`self.hidden`, `past_key_values`)",
        ),
        T(
            "make the state from the input, at the start of each sequence",
            "den Zustand zu Beginn jeder Folge aus der Eingabe bilden",
        ),
        "hidden = x.new_zeros(layers, x.size(0), dim)",
    ),
    Cause(
        "stale-alias",
        T(
            "A list or attribute still holds the tensor from before the move: `.to` gave buffers a new tensor, the alias keeps the old one",
            "Eine Liste oder ein Attribut hält noch den Tensor von vor dem Umzug: `.to` gab den Puffern einen neuen Tensor, der Alias behält den alten",
        ),
        T(
            "the same tensor is registered under another name, and that one is on the GPU",
            "derselbe Tensor ist unter anderem Namen registriert, und dieser liegt auf der GPU",
        ),
        T(
            "reach the tensor through its registered name each time",
            "den Tensor jedes Mal über seinen registrierten Namen holen",
        ),
        'for i in range(n):\n    taps = getattr(self, f"taps_{i}")',
    ),
    Cause(
        "cached-on-first-device",
        T(
            "A table is computed once and cached; it stays on the device of the first call",
            "Eine Tabelle wird einmal berechnet und gemerkt; sie bleibt auf dem Gerät des ersten Aufrufs",
        ),
        T(
            "the first call works, and it fails after a move, on the second GPU or in evaluation; look for `if self._cache is None` or `lru_cache`",
            "der erste Aufruf gelingt, es scheitert nach einem Umzug, auf der zweiten GPU oder in der Auswertung; nach `if self._cache is None` oder `lru_cache` suchen",
        ),
        T(
            "take the device into the question whether the cache is still good",
            "das Gerät in die Frage aufnehmen, ob der Cache noch gilt",
        ),
        "if self._cache is None or self._cache.device != x.device:\n    self._cache = self.build(x.device)",
    ),
    Cause(
        "factory-without-device",
        T(
            "A tensor is created without `device=` (`torch.zeros`, `torch.arange`, `torch.tensor`, …): it is on the CPU",
            "Ein Tensor wird ohne `device=` erzeugt (`torch.zeros`, `torch.arange`, `torch.tensor`, …): er liegt auf der CPU",
        ),
        T(
            "a factory call in `forward`, in a loss or in a helper that the failing line calls",
            "ein Fabrikaufruf in `forward`, in einem Loss oder in einem Helfer, den die Fehlerzeile aufruft",
        ),
        T(
            "create it where the other operand is",
            "den Tensor dort erzeugen, wo der andere Operand liegt",
        ),
        "positions = torch.arange(n, device=x.device)",
    ),
    Cause(
        "hardcoded-device",
        T(
            'A device is written out (`"cuda"`, `.cuda()`, `"cuda:0"`) where the data is on another one',
            'Ein Gerät ist fest hingeschrieben (`"cuda"`, `.cuda()`, `"cuda:0"`), wo die Daten auf einem anderen liegen',
        ),
        T(
            "it works on one machine and fails on the CPU, on MPS or on the second GPU",
            "es läuft auf einer Maschine und scheitert auf der CPU, auf MPS oder auf der zweiten GPU",
        ),
        T(
            "follow a tensor that is there already",
            "einem Tensor folgen, der schon da ist",
        ),
        "mask = torch.ones(n, device=x.device)",
    ),
    Cause(
        "device-argument-dropped",
        T(
            'A helper has `device="cpu"` as its default, and the call does not pass the device on',
            'Ein Helfer hat `device="cpu"` als Vorgabe, und der Aufruf reicht das Gerät nicht durch',
        ),
        T(
            "the wrong tensor or model comes out of a function or class that takes a `device`",
            "der falsch liegende Tensor oder das Modell kommt aus einer Funktion oder Klasse mit einem Parameter `device`",
        ),
        T("pass it on, by keyword", "das Gerät durchreichen, als Schlüsselwort"),
        "model = build(config, device=device)",
    ),
    Cause(
        "index-on-other-device",
        T(
            "A CPU table is indexed with a GPU tensor, or an index of an exact operation is on the CPU",
            "Eine CPU-Tabelle wird mit einem GPU-Tensor indiziert, oder der Index einer strengen Operation liegt auf der CPU",
        ),
        T(
            "the failing line is `table[index]`; usually the *table* is the one that should move",
            "die Fehlerzeile ist `table[index]`; verschoben gehört meist die *Tabelle*",
        ),
        T(
            "keep the table on the GPU (as a buffer), or index on the CPU and move the result",
            "die Tabelle auf der GPU halten (als Puffer) oder auf der CPU indizieren und das Ergebnis verschieben",
        ),
        "value = table.to(index.device)[index]",
    ),
    Cause(
        "default-device-leak",
        T(
            "`torch.set_default_device` or `with torch.device(…)` changed where unrelated tensors are created",
            "`torch.set_default_device` oder `with torch.device(…)` hat geändert, wo unbeteiligte Tensoren entstehen",
        ),
        T(
            "the program calls one of them, and the error comes from a DataLoader, a sampler or NumPy data",
            "das Programm ruft eins davon auf, und der Fehler kommt aus DataLoader, Sampler oder NumPy-Daten",
        ),
        T(
            "give the loader a generator of the default device, or name devices where tensors are made",
            "dem Loader einen Generator des Vorgabegeräts geben oder Geräte dort nennen, wo Tensoren entstehen",
        ),
        "loader = DataLoader(data, shuffle=True, generator=torch.Generator(device=device))",
    ),
    Cause(
        "accumulator-on-cpu",
        T(
            "A running sum or buffer was made on the CPU and collects GPU results",
            "Eine laufende Summe oder ein Sammelpuffer entstand auf der CPU und sammelt GPU-Ergebnisse",
        ),
        T(
            "the failing line is `total += …`, `confusion += …` or `torch.cat`",
            "die Fehlerzeile ist `total += …`, `confusion += …` oder `torch.cat`",
        ),
        T(
            "create it on the device of what it collects, or collect on the CPU on purpose",
            "den Sammler auf dem Gerät dessen erzeugen, was er sammelt, oder mit Absicht auf der CPU sammeln",
        ),
        "total = torch.zeros(n, device=device)",
    ),
)
