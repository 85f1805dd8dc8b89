"""NLStruct (Graber et al. 2018): a nonlinear function of the products of scores and marginals.

    F(p) = T'(f * p)          *: entry by entry                          (the paper's section 2, NLStruct)

The term is `T(f, p) = T'(f * p) - <f, p>`, because solvers add the linear score; so each of them can be used,
and starts at the base model's marginals. `SaddlePoint` is NLStruct's own solver. T' is a perceptron that
starts, as its authors propose, as sum softplus(f * p).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gspen_ner.components import Count
from gspen_ner.parts import Parts
from gspen_ner.terms.region_mlp import SoftplusMLP
from gspen_ner.terms.term import TERMS, Context, GlobalTerm, Noise


@TERMS.register("nlstruct", given=["num_labels", "num_nodes", "num_edges"])
class NLStruct(GlobalTerm):
    """Score nodes and edges by `T'(f * p) - <f, p>`.

    Args:
        num_labels: number of labels of each node.
        num_nodes: number of nodes.
        num_edges: number of edges.
        hidden: number of hidden units; by default the number of inputs.

    Example:
        >>> term = NLStruct(num_labels=2, num_nodes=1)
        >>> f = Parts(torch.tensor([[[1.0, -1.0]]]))
        >>> term(f, Parts(torch.tensor([[[1.0, 0.0]]])), Context(torch.ones(1, 1, dtype=torch.bool)))
        tensor([1.0064], grad_fn=<SubBackward0>)
    """

    def __init__(
        self, num_labels: int, num_nodes: int, num_edges: int = 0, hidden: Count | None = None
    ) -> None:
        super().__init__()
        size = num_nodes * num_labels + num_edges * num_labels**2
        self.edge_inputs = "positions" if num_edges else "none"
        self.mlp = SoftplusMLP(size, hidden or size)
        nn.init.eye_(self.mlp.input.weight)
        nn.init.zeros_(self.mlp.input.bias)
        nn.init.ones_(self.mlp.output.weight)

    def forward(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> Float[Tensor, " B"]:
        collected = self.collect(potentials, marginals)
        return self.mlp(self.flatten(collected)) - sum(part.flatten(1).sum(1) for part in collected.tensors())

    @torch.no_grad()
    def value_and_grad(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> tuple[Float[Tensor, " B"], Parts]:
        collected = self.collect(potentials, marginals)
        value, slopes = self.transform_and_grad(collected)
        linear = sum(part.flatten(1).sum(1) for part in collected.tensors())
        return value - linear, self.collect(potentials, slopes.map(lambda slope: slope - 1))

    def collect(self, potentials: Parts, marginals: Parts) -> Parts:
        """Return the product f * p, zero for forbidden entries (-inf)."""
        scores = potentials.map(lambda tensor: torch.where(torch.isneginf(tensor), 0.0, tensor))
        if marginals.edges is None or scores.edges is None:
            return Parts(scores.nodes * marginals.nodes)
        return Parts(scores.nodes * marginals.nodes, scores.edges * marginals.edges)

    def transform_and_grad(self, collected: Parts) -> tuple[Float[Tensor, " B"], Parts]:
        """Return T' and its gradient at any values, not only at f * p."""
        value, grad = self.mlp.value_and_grad(self.flatten(collected))
        pieces = iter(grad.split([part[0].numel() for part in collected.tensors()], 1))
        return value, collected.map(lambda part: next(pieces).reshape(part.shape))

    def flatten(self, parts: Parts) -> Float[Tensor, "B size"]:
        """Return nodes and edges in one row per example."""
        flat = torch.cat([part.flatten(1) for part in parts.tensors()], 1)
        if flat.shape[1] != self.mlp.input.in_features:
            raise ValueError(f"the term needs {self.mlp.input.in_features} entries, got {flat.shape[1]}")
        return flat
