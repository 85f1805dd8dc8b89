"""Batches that terms are tried on."""

import torch

from gspen_ner import Context, DocumentConsistency, Parts
from gspen_ner.terms import RELATIONS

LENGTHS = [7, 2, 5, 1, 3]


def make_batch(lengths=LENGTHS, labels=3, edge_inputs="positions"):
    """Potentials with NaN in the padding and marginals with zeros there, as inference gives them."""
    length = max(lengths)
    mask = torch.arange(length) < torch.tensor(lengths)[:, None]
    nodes = torch.randn(len(lengths), length, labels, dtype=torch.float64)
    pairs = torch.rand(len(lengths), length - 1, labels, labels, dtype=torch.float64)
    edges = pairs / pairs.sum((2, 3), keepdim=True) * mask[:, 1:, None, None]
    if edge_inputs == "counts":
        edges = edges.sum(1, keepdim=True)
    marginals = Parts(nodes.softmax(-1) * mask[..., None], edges)
    return Parts(nodes.masked_fill(~mask[..., None], torch.nan)), marginals, Context(mask)


def awake(term):
    """A term whose output weights are no longer zero, in double precision."""
    for parameter in term.parameters():
        torch.nn.init.normal_(parameter)
    return term.double()


def make_documents():
    """Five sentences of two documents; mentions also twice in a sentence, and (wrongly) in the padding."""
    _, marginals, context = make_batch()
    documents = torch.tensor([4, 4, 0, 0, 4])
    mentions = torch.tensor(
        [
            [0, -1, 1, 0, -1, 2, 1],
            [0, 1, 0, 0, 0, 0, 0],  # from the third on: padding, never a mention
            [5, 5, -1, 7, -1, 5, 5],
            [7, 7, 7, 7, 7, 7, 7],
            [-1, 0, 9, 9, 9, 9, 9],
        ]
    )
    others = [
        torch.where(documents[:, None] == 4, mentions.roll(by, 1), mentions)
        for by in range(1, len(RELATIONS))
    ]
    mentions = torch.stack([mentions, *others], -1)
    return (
        awake(DocumentConsistency(3, tuple(RELATIONS))),
        marginals,
        Context(context.mask, documents, mentions),
    )
