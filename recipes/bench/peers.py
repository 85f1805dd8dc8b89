"""Other people's linear-chain CRFs behind one interface, each beside ours on the very same problem.

A peer says what it can do (`contests`): for each of marginals, likelihood and viterbi, a function of its
own and ours, and how to compare what they return. What a peer needs to be given (its own layout of scores)
is prepared beforehand and not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gspen_ner.parts import Parts
from gspen_ner.polytopes.chain import Chain
from gspen_ner.scorers.crf import LinearChainCRF
from recipes.bench.contests import Contest, Peer, Problem, What, as_tensor, as_they_are, grad_of, our_sums
from recipes.bench.torch_loop import TorchLoop


class TorchStruct(Peer):
    """Marginals by differentiating a parallel scan; it has a table per position by design."""

    name = "torch-struct"
    package, wanted_version = "torch-struct", "0.5"

    def contests(self, problem: Problem) -> dict[What, Contest]:
        import torch_struct

        emissions, transitions = problem.scores()
        chain, theta = Chain(problem.lengths), Parts(emissions, transitions)
        scores = transitions.mT[None, None] + emissions[:, 1:, :, None]  # [to, from]
        scores[:, 0] += emissions[:, 0, None, :]

        def marginals() -> Tensor:
            return torch_struct.LinearChainCRF(scores, problem.lengths).marginals

        def nodes_and_counts(pairs: Tensor) -> Sequence[Tensor]:
            nodes = torch.cat([pairs[:, :1].sum(2), pairs.sum(3)], 1)
            log_z = torch_struct.LinearChainCRF(scores, problem.lengths).partition
            return log_z, nodes, pairs.sum(1, keepdim=True).mT

        return {"marginals": Contest(lambda: chain.sums(theta), marginals, our_sums, nodes_and_counts)}


class PytorchCRF(Peer):
    """pytorch-crf, whose place `LinearChainCRF` takes."""

    name = "pytorch-crf"
    package, wanted_version = "pytorch-crf", "0.7.2"

    def contests(self, problem: Problem) -> dict[What, Contest]:
        import torchcrf

        emissions, transitions = problem.scores()
        tags = problem.tags(problem.labels)
        leaf = emissions.clone().requires_grad_()
        peer = torchcrf.CRF(problem.labels, batch_first=True).to(problem.dtype)
        with torch.no_grad():
            peer.transitions.copy_(transitions)
        ours = LinearChainCRF(problem.labels, batch_first=True).to(problem.dtype)
        ours.load_state_dict(peer.state_dict())

        def train(crf: torch.nn.Module) -> Tensor:
            leaf.grad = None
            crf.zero_grad()
            loss = -crf(leaf, tags)
            loss.backward()
            return loss

        def with_gradients(crf: torch.nn.Module) -> Callable[[Tensor], Sequence[Tensor]]:
            parameters = [parameter for _, parameter in sorted(crf.named_parameters())]
            return lambda loss: [loss, grad_of(leaf), *map(grad_of, parameters)]

        return {
            "likelihood": Contest(
                lambda: train(ours), lambda: train(peer), with_gradients(ours), with_gradients(peer)
            ),
            "viterbi": Contest(
                lambda: ours.decode(emissions), lambda: peer.decode(emissions), as_tensor, as_tensor
            ),
        }


class FlairCRF(Peer):
    """Flair's CRF: two of its labels are START and STOP, forbidden by scores of -10,000."""

    name = "Flair"
    package, wanted_version = "flair", "0.15.1"

    def contests(self, problem: Problem) -> dict[What, Contest]:
        from flair.data import Dictionary
        from flair.models.sequence_tagger_utils.crf import CRF
        from flair.models.sequence_tagger_utils.viterbi import ViterbiDecoder, ViterbiLoss

        emissions, transitions = problem.scores()
        start, stop = problem.labels - 2, problem.labels - 1
        items = [*(f"tag{k}" for k in range(start)), "<START>", "<STOP>"]
        dictionary = Dictionary(add_unk=False)
        for name in items:
            dictionary.add_item(name)
        crf = CRF(dictionary, problem.labels, init_from_state_dict=True).to(problem.dtype)
        with torch.no_grad():
            crf.transitions.copy_(transitions)
            crf.transitions[start, :] = -10_000.0
            crf.transitions[:, stop] = -10_000.0
        tags, chain = problem.tags(start), Chain(problem.lengths)
        loss, decoder, flat = ViterbiLoss(dictionary), ViterbiDecoder(dictionary), tags.flatten()
        leaf = emissions.clone().requires_grad_()

        def flair_loss() -> tuple[Tensor, ...]:
            leaf.grad = crf.transitions.grad = None
            value = loss((crf(leaf), problem.lengths, crf.transitions), flat)
            value.backward()
            return value, grad_of(leaf), grad_of(crf.transitions)

        def theta(nodes: Tensor) -> Parts:
            table = crf.transitions
            return chain.potentials(nodes, table.mT, start=table[:, start], end=table[stop])

        def our_loss() -> tuple[Tensor, ...]:
            leaf.grad = crf.transitions.grad = None
            value = -chain.log_likelihood(theta(leaf), tags).sum()
            value.backward()
            return value, grad_of(leaf), grad_of(crf.transitions)

        @torch.no_grad()
        def flair_decode() -> list[list[str]]:
            found, _ = decoder.decode((crf(emissions), problem.lengths, crf.transitions), False, [])
            return [[name for name, _ in row] for row in found]

        @torch.no_grad()
        def our_decode() -> list[list[str]]:
            return [[items[k] for k in row] for row in chain.argmax(theta(emissions)).tolist()]

        def numbers(rows: list[list[str]]) -> Sequence[Tensor]:
            index = {name: k for k, name in enumerate(items)}
            return as_tensor([[index[name] for name in row] for row in rows])

        return {
            "likelihood": Contest(our_loss, flair_loss, as_they_are, as_they_are),
            "viterbi": Contest(our_decode, flair_decode, numbers, numbers),
        }


PEERS: tuple[Peer, ...] = (TorchStruct(), TorchLoop(), PytorchCRF(), FlairCRF())
