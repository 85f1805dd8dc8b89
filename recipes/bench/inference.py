"""One GSPEN inference beside one forward and backward of the encoder it usually stands on."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gspen_ner.head import GSPENHead
from gspen_ner.objective import Objective
from gspen_ner.polytopes.chain import Chain
from gspen_ner.terms import Context, PaddedMLP
from recipes.bench.timing import Row, compare

BATCH, LENGTH, LABELS, HIDDEN, STEPS = 32, 50, 17, 500, 10
CASE, PEER = f"({BATCH}, {LENGTH}, {LABELS})", "BiLSTM 256, forward + backward"
BARS = {(CASE, "inference", PEER): 1.0}


@dataclass(frozen=True)
class Breakdown:
    """Where the time of one inference goes, in milliseconds."""

    total: float
    kernel: float
    term: float
    steps: float

    @property
    def rest(self) -> float:
        """Everything that is neither chain kernel nor global term."""
        return self.total - self.kernel - self.term


def run(seconds: float) -> tuple[Row, Breakdown]:
    """Time the inference, the encoder, and the inference's parts."""
    torch.manual_seed(0)
    term = PaddedMLP(LABELS, LENGTH, HIDDEN)
    torch.nn.init.normal_(term.output.weight, std=2.0)  # strong enough to need all steps
    head = GSPENHead(term, max_steps=STEPS, tolerance=0.0).eval()
    chain = Chain(torch.full((BATCH,), LENGTH))
    potentials = chain.potentials(2 * torch.randn(BATCH, LENGTH, LABELS), torch.randn(LABELS, LABELS))
    encoder = torch.nn.LSTM(130, 256, batch_first=True, bidirectional=True)
    inputs = torch.randn(BATCH, LENGTH, 130, requires_grad=True)

    def encode() -> None:
        encoder(inputs)[0].sum().backward()

    total, peer = compare(lambda: head.infer(potentials, chain), encode, seconds)
    objective = Objective(potentials, chain, term, Context.of_lengths(chain.lengths, LENGTH))
    marginals = chain.marginals(potentials)
    sums, gap = compare(
        lambda: chain.sums(potentials, with_edges=False), lambda: chain.log_partition(potentials), seconds
    )
    with torch.no_grad():
        value_and_grad, _ = compare(lambda: objective.term_value_and_grad(marginals), lambda: None, seconds)
    steps = head.infer(potentials, chain).steps.double().mean().item()
    breakdown = Breakdown(total, (steps + 1) * (sums + gap), (steps + 1) * value_and_grad, steps)
    return Row(CASE, "inference", total, PEER, peer), breakdown
