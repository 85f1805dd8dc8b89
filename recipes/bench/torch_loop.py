"""A peer that everybody has written once: chains in torch, a position at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from gspen_ner.parts import Parts
from gspen_ner.polytopes.chain import Chain
from recipes.bench.contests import Contest, Peer, Problem, What, as_tensor, as_they_are, grad_of, our_sums


class TorchLoop(Peer):
    """The recursion as it is usually written: a python loop over positions, log space, float32."""

    name = "torch loop"

    def contests(self, problem: Problem) -> dict[What, Contest]:
        emissions, transitions = problem.scores()
        tags = problem.tags(problem.labels)
        chain, theta = Chain(problem.lengths), Parts(emissions, transitions)
        leaf = emissions.clone().requires_grad_()
        table = transitions.clone().requires_grad_()

        def forward(scores: Tensor, table: Tensor) -> list[Tensor]:
            alphas = [scores[:, 0]]
            for t in range(1, problem.length):
                alphas.append(torch.logsumexp(alphas[-1][:, :, None] + table, 1) + scores[:, t])
            return alphas

        def marginals() -> tuple[Tensor, Tensor, Tensor]:
            alphas, beta = forward(emissions, transitions), torch.zeros_like(emissions[:, 0])
            betas = [beta]
            for t in range(problem.length - 1, 0, -1):
                beta = torch.logsumexp(transitions + (emissions[:, t] + beta)[:, None, :], 2)
                betas.append(beta)
            log_z = torch.logsumexp(alphas[-1], 1)
            alpha, beta = torch.stack(alphas, 1), torch.stack(betas[::-1], 1)
            ahead = (emissions + beta)[:, 1:, None, :] + transitions - log_z[:, None, None, None]
            counts = (alpha[:, :-1, :, None] + ahead).exp().sum(1, keepdim=True)
            return log_z, (alpha + beta - log_z[:, None, None]).exp(), counts

        def likelihood() -> tuple[Tensor, ...]:
            leaf.grad = table.grad = None
            log_z = torch.logsumexp(forward(leaf, table)[-1], 1)
            gold = leaf.gather(2, tags[..., None]).sum() + table[tags[:, :-1], tags[:, 1:]].sum()
            loss = log_z.sum() - gold
            loss.backward()
            return loss, grad_of(leaf), grad_of(table)

        def our_likelihood() -> tuple[Tensor, ...]:
            leaf.grad = table.grad = None
            loss = -chain.log_likelihood(Parts(leaf, table), tags).sum()
            loss.backward()
            return loss, grad_of(leaf), grad_of(table)

        def viterbi() -> list[list[int]]:
            best, origins = emissions[:, 0], []
            for t in range(1, problem.length):
                top, origin = (best[:, :, None] + transitions).max(1)
                best = top + emissions[:, t]
                origins.append(origin)
            tag = best.argmax(1, keepdim=True)
            path = [tag]
            for origin in reversed(origins):
                tag = origin.gather(1, tag)
                path.append(tag)
            return torch.cat(path[::-1], 1).tolist()

        def our_viterbi() -> list[list[int]]:
            return chain.argmax(theta).tolist()

        return {
            "marginals": Contest(lambda: chain.sums(theta), marginals, our_sums, as_they_are),
            "likelihood": Contest(our_likelihood, likelihood, as_they_are, as_they_are),
            "viterbi": Contest(our_viterbi, viterbi, as_tensor, as_tensor),
        }
