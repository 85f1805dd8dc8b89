"""The paper's term for graphs of a fixed size: a perceptron over all marginals at once.

    T(f, p) = w' softplus(W [p_nodes; p_edges; f_nodes] + b)

Potentials of edges that do not depend on the example are no input: the bias takes their part. The output
weights start at zero, so a new term leaves its base model's predictions as they are.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gspen_ner.components import Count
from gspen_ner.parts import Parts
from gspen_ner.terms.term import TERMS, Context, GlobalTerm, Noise


class SoftplusMLP(nn.Module):
    """A scalar function of a vector: w' softplus(W x + b).

    Args:
        size: length of the vector.
        hidden: number of hidden units.

    Example:
        >>> SoftplusMLP(4, hidden=3)(torch.ones(2, 4))  # a new one has output weights of zero
        tensor([0., 0.], grad_fn=<SqueezeBackward1>)
    """

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        if min(size, hidden) < 1:
            raise ValueError(f"sizes must be positive, got {size=}, {hidden=}")
        self.input = nn.Linear(size, hidden)
        self.output = nn.Linear(hidden, 1, bias=False)
        nn.init.zeros_(self.output.weight)

    def forward(self, inputs: Float[Tensor, "B size"]) -> Float[Tensor, " B"]:
        """Return the value of each row."""
        return self.output(nn.functional.softplus(self.input(inputs))).squeeze(-1)

    @torch.no_grad()
    def value_and_grad(
        self, inputs: Float[Tensor, "B size"]
    ) -> tuple[Float[Tensor, " B"], Float[Tensor, "B size"]]:
        """Return the values and their gradients in the inputs, in closed form."""
        hidden = self.input(inputs)
        value = self.output(nn.functional.softplus(hidden)).squeeze(-1)
        return value, (torch.sigmoid(hidden) * self.output.weight) @ self.input.weight


@TERMS.register("region_mlp", given=["num_labels", "num_nodes", "num_edges"])
class RegionMLP(GlobalTerm):
    """Score the marginals of all nodes, and of all edges if there are any, by an MLP.

    Args:
        num_labels: number of labels of each node.
        num_nodes: number of nodes.
        num_edges: number of edges whose marginals are read; 0 reads nodes only (as a SPEN does).
        hidden: number of hidden units.
        read_potentials: whether the node potentials are also read.
        last_label_only: whether only the last label of each node is read; with two labels nothing is lost.

    Example:
        >>> term = RegionMLP(num_labels=3, num_nodes=2, num_edges=1, hidden=8)
        >>> marginals = Parts(torch.full((4, 2, 3), 1 / 3), torch.full((4, 1, 3, 3), 1 / 9))
        >>> term(marginals, marginals, Context(torch.ones(4, 2, dtype=torch.bool))).shape
        torch.Size([4])
    """

    def __init__(
        self,
        num_labels: int,
        num_nodes: int,
        num_edges: int = 0,
        hidden: Count = 500,
        read_potentials: bool = True,
        last_label_only: bool = False,
    ) -> None:
        super().__init__()
        self.first = num_labels - 1 if last_label_only else 0
        cells = num_nodes * (num_labels - self.first)
        self.cells, self.entries, self.read_potentials = cells, num_edges * num_labels**2, read_potentials
        self.edge_inputs = "positions" if num_edges else "none"
        self.mlp = SoftplusMLP(cells + self.entries + cells * read_potentials, hidden)

    def forward(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> Float[Tensor, " B"]:
        return self.mlp(self._inputs(potentials, marginals))

    @torch.no_grad()
    def value_and_grad(
        self, potentials: Parts, marginals: Parts, context: Context, noise: Noise = None
    ) -> tuple[Float[Tensor, " B"], Parts]:
        value, grad = self.mlp.value_and_grad(self._inputs(potentials, marginals))
        nodes = grad[:, : self.cells].unflatten(1, marginals.nodes[..., self.first :].shape[1:])
        nodes = nn.functional.pad(nodes, (self.first, 0))
        if not self.entries or marginals.edges is None:
            return value, Parts(nodes)
        edges = grad[:, self.cells : self.cells + self.entries]
        return value, Parts(nodes, edges.reshape(marginals.edges.shape))

    def _inputs(self, potentials: Parts, marginals: Parts) -> Float[Tensor, "B size"]:
        inputs = [marginals.nodes[..., self.first :].flatten(1)]
        if self.entries:
            if marginals.edges is None:
                raise ValueError("the term needs edge marginals, got marginals without edges")
            inputs.append(marginals.edges.flatten(1))
        if self.read_potentials:
            nodes = potentials.nodes[..., self.first :]
            inputs.append(torch.where(torch.isfinite(nodes), nodes, 0.0).flatten(1))
        joined = torch.cat(inputs, 1)
        if joined.shape[1] != self.mlp.input.in_features:
            raise ValueError(
                f"the term needs {self.mlp.input.in_features} inputs, got {joined.shape[1]}: "
                f"nodes {list(marginals.nodes.shape)}, edges "
                f"{None if marginals.edges is None else list(marginals.edges.shape)}"
            )
        return joined
