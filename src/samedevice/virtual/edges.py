"""Edges of graphs: where the tensor is that an edge stands for.

A `GradientEdge` is a node and the number of one of its results, without the tensor. Nodes of C++ cannot be referred
to weakly, so it is kept in the dictionary that each node has for anomaly mode.
"""

import functools
from typing import TYPE_CHECKING, Any, Final

import torch

from samedevice.virtual.patches import Patches
from samedevice.virtual.tags import UNSETTLED

if TYPE_CHECKING:
    from samedevice.virtual.engine import Engine

_KEY: Final = "samedevice"
_Edge: Final = torch.autograd.graph.GradientEdge


def remember(node: Any, number: int, device: int) -> None:
    """The result of `node` with this number is on `device`."""
    node.metadata.setdefault(_KEY, {})[number] = device


def device_of(edge: Any) -> int:
    """Where the tensor of an edge is; UNSETTLED when nobody has seen it."""
    found: int = edge.node.metadata.get(_KEY, {}).get(edge.output_nr, UNSETTLED)
    return found


def is_edge(value: Any) -> bool:
    """Whether a root or an input of a backward pass is an edge, not a tensor."""
    return isinstance(value, _Edge)


def shape_of(edge: Any) -> torch.Size:
    """The shape of the tensor of an edge."""
    return torch.Size(edge.node._input_metadata[edge.output_nr].shape)


def install(patches: Patches, engine: "Engine") -> None:
    """Remember where the tensors are that edges are asked for; put the gradients that start there with them."""
    graph, autograd = torch.autograd.graph, torch.autograd
    real = graph.get_gradient_edge

    @functools.wraps(real)
    def get_gradient_edge(tensor: torch.Tensor) -> Any:
        edge = real(tensor)
        if engine.active:
            with torch._C.DisableTorchFunction():
                remember(edge.node, edge.output_nr, engine.device_of(tensor))
        return edge

    patches.set(graph, "get_gradient_edge", get_gradient_edge)
    make = autograd._make_grads

    @functools.wraps(make)
    def make_grads(outputs: Any, grads: Any, *args: Any, **kwargs: Any) -> Any:
        made = make(outputs, grads, *args, **kwargs)
        for output, given, gradient in zip(outputs, grads, made, strict=False):
            if given is None and gradient is not None and is_edge(output) and engine.active:
                with torch._C.DisableTorchFunction():
                    engine.settle(gradient, device_of(output))
        return made

    patches.set(autograd, "_make_grads", make_grads)
