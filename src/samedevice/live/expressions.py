"""Small questions about expressions: literal devices, what a loop runs over, what is put into a container."""

import ast

from samedevice.live.resolving import called

#: iterate over their first argument
WRAPPERS = (
    "enumerate",
    "tqdm",
    "iter",
    "next",
    "list",
    "tuple",
    "islice",
    "zip",
    "track",
    "cycle",
    "reversed",
    "sorted",
)
#: methods that put their last argument into a container
ADDERS = ("append", "extend", "insert", "add", "appendleft")


def added(scope: ast.AST, name: str) -> list[ast.expr]:
    """What is put into a container: `name.append(x)`, `name[k] = x`, `name += [x]`."""
    found: list[ast.expr] = []
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if (
                isinstance(node.func.value, ast.Name)
                and node.func.value.id == name
                and node.func.attr in ADDERS
            ):
                found.append(node.args[-1])
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if (
                    isinstance(target, ast.Subscript)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == name
                ):
                    found.append(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            found.append(node.value)
    return found


def literal_device(node: ast.expr | None) -> str | None:
    """Either "cpu" or "gpu", when a device expression says it outright."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return "cpu" if node.value.startswith("cpu") else "gpu"
        return "gpu" if isinstance(node.value, int) else None
    if isinstance(node, ast.Call) and called(node.func) == "device" and node.args:
        return literal_device(node.args[0])
    return None


def is_dtype(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return "dtype" in text or text.rpartition(".")[2] in (
        "float32",
        "float16",
        "float64",
        "bfloat16",
        "long",
        "int64",
        "int32",
        "half",
        "float",
        "double",
        "bool",
        "uint8",
    )


def comprehension_source(node: ast.Name) -> ast.expr | None:
    """The iterable of the comprehension whose variable the name is."""
    above: ast.AST | None = getattr(node, "parent", None)
    while above is not None and not isinstance(above, (ast.stmt,)):
        if isinstance(above, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
            for generator in above.generators:
                if any(isinstance(n, ast.Name) and n.id == node.id for n in ast.walk(generator.target)):
                    return generator.iter
        above = getattr(above, "parent", None)
    return None


def item_source(iterable: ast.expr, name: str, binder: ast.AST) -> ast.expr:
    """Of `for a, b in zip(xs, ys)` the iterable that the name runs over."""
    if isinstance(iterable, ast.Call) and called(iterable.func) == "zip":
        target = getattr(binder, "target", None)
        if target is None:
            for generator in getattr(binder, "generators", ()):
                if generator.iter is iterable:
                    target = generator.target
        if isinstance(target, ast.Tuple) and len(target.elts) == len(iterable.args):
            for element, argument in zip(target.elts, iterable.args, strict=True):
                if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(element)):
                    return argument
    if isinstance(iterable, ast.Call) and called(iterable.func) in WRAPPERS and iterable.args:
        return iterable.args[0]
    return iterable


def makes_library_module(name: str) -> bool:
    """A call of this qualified name of an installed package gives an `nn.Module`."""
    last = name.rpartition(".")[2]
    if name.startswith("torch.nn."):
        return last[:1].isupper() and last not in ("Parameter", "Buffer", "UninitializedParameter")
    if last in ("from_pretrained", "from_config", "create_model"):
        return "Tokenizer" not in name and "Processor" not in name and "Config" not in name
    if name.startswith("transformers."):
        return last[:1].isupper() and ("Model" in last or "For" in last) and not last.endswith("Config")
    return name.startswith(("torchvision.models.", "torchmetrics.", "segmentation_models_pytorch."))
