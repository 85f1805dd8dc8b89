"""One GSPEN inference against one forward and backward pass of a typical encoder."""

from __future__ import annotations

import torch

from gspen_ner.head import GSPENHead
from gspen_ner.objective import Objective
from gspen_ner.polytopes.chain import Chain
from gspen_ner.terms import Context, PaddedMLP
from recipes.bench.timing import Row, compare

BATCH, LENGTH, LABELS, HIDDEN, STEPS = 32, 50, 17, 500, 10
CASE, PEER = f"({BATCH}, {LENGTH}, {LABELS})", "BiLSTM 256, forward + backward"
TARGETS = {(CASE, "inference", PEER): 1.0}


def run(seconds: float) -> tuple[Row, str]:
    """Time the inference, the encoder and the parts of the inference.

    Returns:
        The row, and a sentence about where the time of the inference goes.
    """
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
    kernel, global_term = (steps + 1) * (sums + gap), (steps + 1) * value_and_grad
    breakdown = (
        f"of {total:.1f} ms in {steps:.1f} steps: chain kernel {kernel:.1f}, "
        f"global term {global_term:.1f}, rest {total - kernel - global_term:.1f}"
    )
    return Row(CASE, "inference", total, PEER, peer), breakdown
