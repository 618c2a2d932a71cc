"""Write src/samedevice/torch_facts/op_rules.json from PyTorch's own native_functions.yaml.

    python scripts/op_table.py PYTHON [PYTHON ...]

Each PYTHON is an interpreter with a torch of its own (torchgen and the yaml ship in its wheel). The
first one's release is written in full, the others as differences. `--print` writes one release's
groups to standard output instead; it is what the script runs in each interpreter.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src" / "samedevice" / "torch_facts" / "op_rules.json"

#: backends for whose kernels torchgen writes the same-device check, apart from CUDA itself
OTHER_BACKENDS = ("SparseCUDA", "SparseCsrCUDA", "NestedTensorCUDA", "QuantizedCUDA")


def nocheck_notes(yaml_text: str) -> dict[str, str]:
    """The comment behind each `device_check: NoCheck`, by overload: the yaml parser drops it."""
    notes: dict[str, str] = {}
    overload = ""
    for line in yaml_text.splitlines():
        if match := re.match(r"- func: ([\w.]+)\(", line):
            overload = match.group(1)
        elif match := re.match(r"\s+device_check: NoCheck\s*#?\s*(.*)", line):
            notes[overload] = match.group(1)
    return notes


def groups_of_this_torch() -> dict[str, list[str]]:
    """Overloads by kind, read with the torchgen at hand.

    exact-structured, exact: the generated check stands before the CUDA kernel.
    exact-iterator: those of the two that build a TensorIterator after it.
    iterator: no generated check; a TensorIterator compares the devices.
    foreach: lists that fall back to the plain operation pair by pair.
    structured: no generated check, a structured kernel that is not a TensorIterator itself (reductions
        build one later): it compares the devices of its outputs when it resizes them.
    generated-out: `out=` variants that torchgen writes: the functional one, then a copy.
    host-only: a kernel for the CPU, none for CUDA and no composite one.
    exact-<backend>: the generated check of that backend's own kernel.
    """
    import torchgen
    from torchgen.gen import get_grouped_native_functions, parse_native_yaml
    from torchgen.model import DeviceCheckType, DispatchKey, NativeFunctionsGroup

    folder = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    yaml = folder / "native_functions.yaml"
    parsed = parse_native_yaml(str(yaml), str(folder / "tags.yaml"))
    notes = nocheck_notes(yaml.read_text())
    structured_out = {}
    for group in get_grouped_native_functions(parsed.native_functions):
        if isinstance(group, NativeFunctionsGroup) and group.structured:
            for function in group.functions():
                structured_out[str(function.func.name)] = group.out
    indices = parsed.backend_indices
    cuda = indices[DispatchKey.CUDA]
    groups: dict[str, list[str]] = {}

    def add(kind: str, name: str) -> None:
        groups.setdefault(kind, []).append(name)

    for function in parsed.native_functions:
        name = str(function.func.name)
        out = structured_out.get(name)
        exact = function.device_check is not DeviceCheckType.NoCheck
        manual = function.manual_kernel_registration
        structured = out is not None and cuda.has_kernel(out)
        inherits = bool(out is not None and out.structured_inherits)
        iterator = inherits or (not structured and "TensorIterator" in notes.get(name, ""))
        if exact and not manual and (structured or cuda.has_kernel(function)):
            add("exact-structured" if structured else "exact", name)
            if iterator:
                add("exact-iterator", name)
        elif "foreach" in notes.get(name, "") or name.startswith("_foreach"):
            add("foreach", name)
        elif not exact and iterator:
            add("iterator", name)
        elif not exact and structured:
            add("structured", name)
        elif (
            indices[DispatchKey.CPU].has_kernel(function)
            and not cuda.has_kernel(function)
            and not structured
            and not function.has_composite_kernel
        ):
            add("host-only", name)
        if "generated" in function.tags and function.func.is_out_fn():
            add("generated-out", name)
        for backend in OTHER_BACKENDS:
            index = indices.get(DispatchKey.parse(backend))
            if exact and not manual and index is not None and index.has_kernel(function):
                add(f"exact-{backend}", name)
    return {kind: sorted(set(names)) for kind, names in sorted(groups.items())}


def groups_in(python: str) -> tuple[str, dict[str, list[str]]]:
    """(release as "2.13", its groups), read in the interpreter `python`."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    version = subprocess.run(
        [python, "-c", "import torch.version; print(torch.version.__version__)"],
        check=True, capture_output=True, text=True, env=environment,
    ).stdout.strip()  # fmt: skip
    printed = subprocess.run(
        [python, __file__, "--print"], check=True, capture_output=True, text=True, env=environment
    ).stdout
    return ".".join(version.split(".")[:2]), json.loads(printed)


def difference(base: dict[str, list[str]], other: dict[str, list[str]]) -> dict[str, dict[str, str]]:
    """What to add and to take away, group by group, to get from `base` to `other`."""
    changes = {}
    for kind in sorted(set(base) | set(other)):
        old, new = set(base.get(kind, ())), set(other.get(kind, ()))
        if old != new:
            changes[kind] = {"added": " ".join(sorted(new - old)), "removed": " ".join(sorted(old - new))}
    return changes


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    parser.add_argument("--print", action="store_true", help="write this torch's groups to standard output")
    options = parser.parse_args()
    if options.print:
        json.dump(groups_of_this_torch(), sys.stdout)
        return 0
    if not options.pythons:
        parser.error("name at least one interpreter with a torch")
    releases = [groups_in(python) for python in options.pythons]
    release, base = releases[0]
    table = {
        "release": release,
        "groups": {kind: " ".join(names) for kind, names in base.items()},
        "later": {other: difference(base, groups) for other, groups in releases[1:]},
    }
    TARGET.write_text(json.dumps(table, indent=1) + "\n")
    print(f"{TARGET}: {TARGET.stat().st_size} bytes, {sum(map(len, base.values()))} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
