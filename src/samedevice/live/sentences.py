"""The sentences of explanations that belong to no family and no rule, in every language."""

from samedevice.torch_facts.messages.family import Text

_SENTENCES: dict[str, Text] = {
    "means": Text("what it means", "was es heißt"),
    "names": Text("which tensor it names", "welchen Tensor die Meldung nennt"),
    "here": Text("in this message", "in dieser Meldung"),
    "look": Text("the lines to look at", "die Zeilen, die anzusehen sind"),
    "causes": Text("usual causes, the most frequent first", "übliche Ursachen, die häufigste zuerst"),
    "tell": Text("how to tell", "woran erkennbar"),
    "write": Text("write it right", "so ist es richtig"),
    "more": Text("{count} rarer causes are not shown; `--all` shows them", "{count} seltenere Ursachen sind nicht gezeigt; `--all` zeigt sie"),
    "frame": Text("in `{function}`", "in `{function}`"),
    "wording": Text("PyTorch {releases} words it so", "so lautet es in PyTorch {releases}"),
    "line": Text("line {number} of the text", "Zeile {number} des Textes"),
    "count": Text("{count} times", "{count}-mal"),
    "rank": Text("rank {ranks}", "Rang {ranks}"),
    "ranks": Text("ranks {ranks}", "Ränge {ranks}"),
    "wrapper": Text("raised in {wrapper}, shown by the main process", "ausgelöst in {wrapper}, gezeigt vom Hauptprozess"),
    "no-placement": Text(
        "this is no placement mistake: moving tensors will not repair it",
        "das ist kein Platzierungsfehler: Verschieben von Tensoren behebt ihn nicht",
    ),
    "no-sources": Text(
        "the sources are not here, so this is what the message alone tells; `--root DIR` names the folder that holds them",
        "die Quellen liegen hier nicht vor, dies sagt also die Meldung allein; `--root ORDNER` nennt den Ordner mit ihnen",
    ),
    "not-found": Text(
        "the sources are here, but they do not show which of these causes it is; `samedevice check` runs the program on virtual GPUs and tells",
        "die Quellen liegen vor, zeigen aber nicht, welche dieser Ursachen es ist; `samedevice check` führt das Programm auf virtuellen GPUs aus und zeigt es",
    ),
    "first-error": Text(
        "the first of {count} different device errors; later ones are often its consequences",
        "der erste von {count} verschiedenen Gerätefehlern; spätere sind oft seine Folgen",
    ),
    "nothing": Text("no device error found in {where}", "kein Gerätefehler in {where} gefunden"),
    "nothing-help": Text(
        "a message, a traceback or a log is looked for; `samedevice check SCRIPT` finds mistakes without one",
        "gesucht wird eine Meldung, ein Traceback oder ein Log; `samedevice check SKRIPT` findet Fehler auch ohne",
    ),
    "found": Text("{count} device errors found in {where}", "{count} Gerätefehler in {where} gefunden"),
    "found-one": Text("1 device error found in {where}", "1 Gerätefehler in {where} gefunden"),
    "why": Text("samedevice: why this happened", "samedevice: warum das geschah"),
    "why-rank": Text("samedevice: why this happened (rank {rank})", "samedevice: warum das geschah (Rang {rank})"),
    "often": Text("often", "oft"),
    "trace": Text(
        "nothing was recorded while the program ran; `samedevice run --trace …` notes where every tensor is made and moved, and can say more",
        "beim Lauf wurde nichts aufgezeichnet; `samedevice run --trace …` merkt sich, wo jeder Tensor entsteht und verschoben wird, und kann mehr sagen",
    ),
    "meant": Text("the message", "die Meldung"),
}  # fmt: skip


def say(key: str) -> Text:
    """The sentence called `key`."""
    return _SENTENCES[key]


def all_sentences() -> dict[str, Text]:
    """Every sentence by its key, for the test that holds the languages level."""
    return dict(_SENTENCES)


def language_from(chosen: str | None, environment: dict[str, str]) -> str:
    """Either "en" or "de": what was chosen, else what the locale says."""
    if chosen:
        return chosen
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = environment.get(name, "")
        if value:
            return "de" if value.lower().startswith("de") else "en"
    return "en"
