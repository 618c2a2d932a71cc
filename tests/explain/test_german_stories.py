"""Stories in German: every sentence that a rule can put into a story has its translation."""

import ast
from pathlib import Path

import samedevice.rules
from samedevice.live.german import EVIDENCE, LABELS
from samedevice.live.translation import UNKNOWN, german_evidence, translated
from samedevice.model.diagnostic import Confidence, Diagnostic, Evidence, Location, Severity, TensorFact
from samedevice.report.explanation import in_language
from samedevice.report.layout import plain
from samedevice.report.text import diagnostic_lines
from samedevice.rules import all_rules
from samedevice.torch_facts.messages.causes import CAUSES
from samedevice.torch_facts.messages.template import Template

#: rules that no crash leads to: they speak of cost, of loops and of the source text
NO_CRASH = {
    "device-mismatch",
    "missing-zero-grad",
    "step-without-backward",
    "syntax-error",
    "unused-suppression",
}


def texts(node: ast.AST) -> list[str]:
    """The texts that an expression may give, `X` in the place of what is filled in."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.IfExp):
        return texts(node.body) + texts(node.orelse)
    if isinstance(node, ast.BinOp):
        return [a + b for a in texts(node.left) for b in texts(node.right)]
    if isinstance(node, ast.JoinedStr):
        found = [""]
        for part in node.values:
            choices = texts(part) if isinstance(part, ast.Constant) else ["cuda:0"]
            if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.IfExp):
                choices = [text or "cuda:0" for text in texts(part.value)] or ["cuda:0"]
            found = [a + b for a in found for b in choices]
        return found
    return []


def evidence_sentences() -> list[tuple[str, str]]:
    """(module, sentence) of every step that rules give to `story` when a program crashed."""
    found = []
    for path in sorted(Path(samedevice.rules.__file__).parent.glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef) or function.name in ("lint", "traffic"):
                continue
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "story":
                    pairs = [
                        t
                        for a in call.args
                        for t in ast.walk(a)
                        if isinstance(t, ast.Tuple) and len(t.elts) == 2
                    ]
                    found += [
                        (path.stem, text) for pair in pairs for text in texts(pair.elts[1]) if text.strip()
                    ]
    return found


def test_every_step_of_a_story_has_a_translation() -> None:
    sentences = evidence_sentences()
    missing = [
        (module, text)
        for module, text in sentences
        if german_evidence(text) is None and text != "cuda:0 cuda:0 here"
    ]

    assert len(sentences) > 40
    assert missing == []


def test_translations_keep_the_places_of_the_sentence() -> None:
    for english, german in EVIDENCE.items():
        names = {name for name, _ in Template.parse(english).places}
        assert names == {name for name, _ in Template.parse(german).places}, english


def test_every_rule_that_a_crash_leads_to_has_its_words_in_the_catalogue() -> None:
    crashes = {
        name
        for name, rule in all_rules().items()
        if rule.category == "correctness" and "check" in rule.engines
    }

    assert crashes - NO_CRASH <= set(CAUSES)


def test_births_and_meetings_are_translated_with_their_source_text() -> None:
    assert german_evidence("`torch.zeros(2 * n)` is created on cpu here: it names no device") == (
        "`torch.zeros(2 * n)` entsteht hier auf cpu: es wird kein Gerät genannt"
    )
    assert german_evidence("they meet here: `a`, `b` are on cuda:0; `c` is on cpu (inside timm)") == (
        "hier treffen sie aufeinander: `a`, `b` auf cuda:0; `c` auf cpu (in timm)"
    )


def test_a_german_report_has_no_english_left() -> None:
    place = Location("model.py", 3, 5)
    diagnostic = Diagnostic(
        "unregistered-tensor",
        Severity.ERROR,
        Confidence.LIKELY,
        "`self.mask` stays on cpu",
        place,
        tensors=(TensorFact("self.mask", "cpu", at_fault=True), TensorFact("x", "cuda:0")),
        evidence=(
            Evidence(place, "kept as a plain attribute of `Net` here"),
            Evidence(place, "who knows what"),
        ),
        help="Register it",
        lesson="A lesson.",
        notes=("a note",),
    )
    lines = in_language(
        diagnostic_lines(translated(diagnostic, "de"), "explain", width=90, read=lambda path, cell: None),
        "de",
    )
    text = plain(lines)

    assert "hier `self.mask` auf cpu, gebraucht auf cuda:0" in " ".join(text.split())
    assert "hier als einfaches Attribut von `Net` aufgehoben" in text and UNKNOWN in text
    for english in (*LABELS, "stays on", "Register it", "lesson", "a note", " on cpu", "error["):
        assert english not in text
