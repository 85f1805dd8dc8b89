"""Which rows of a dataset make a batch: sentences of similar length, or whole documents."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler

MOST_TOKENS = 8192  # of a batch in prediction


class EpochBatches(Sampler[list[int]]):
    """Batches of an epoch: of similar length, or of whole documents; the same for the same seed and epoch.

    Args:
        groups: for each row what must stay together (its document), or None if nothing must.
        lengths: tokens of each row.
        batch_size: rows of a batch; with groups, about so many.
        seed: of the order.
        draws: versions of the rows that the dataset holds, one behind the other; each epoch takes the next.
    """

    def __init__(
        self,
        groups: Sequence[int] | None,
        lengths: Sequence[int],
        batch_size: int,
        seed: int = 0,
        draws: int = 1,
    ) -> None:
        self.lengths, self.batch_size, self.seed, self.draws = lengths, batch_size, seed, draws
        self.epoch = 0
        self.together: list[list[int]] | None = None
        if groups is not None:
            rows_of: dict[int, list[int]] = {}
            for row, group in enumerate(groups):
                rows_of.setdefault(group, []).append(row)
            self.together = list(rows_of.values())

    @property
    def drop_last(self) -> bool:
        """Whether rows are left out; never. Asked by accelerate."""
        return False

    def set_epoch(self, epoch: int) -> None:
        """Called by Trainer before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        batches = -(-len(self.lengths) // self.batch_size)
        return batches if self.together is None else min(batches, len(self.together))

    def __iter__(self) -> Iterator[list[int]]:
        chance = random.Random(f"{self.seed}/{self.epoch}")
        batches = self._similar(chance) if self.together is None else self._grouped(chance, self.together)
        first = len(self.lengths) * (self.epoch % self.draws)
        chance.shuffle(batches)
        return iter([[first + row for row in batch] for batch in batches])

    def _similar(self, chance: random.Random) -> list[list[int]]:
        """Sorted by length, with some noise so that batches differ from epoch to epoch."""
        order = sorted(range(len(self.lengths)), key=lambda row: self.lengths[row] + 2 * chance.random())
        return [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]

    def _grouped(self, chance: random.Random, together: list[list[int]]) -> list[list[int]]:
        """Groups in random order, each put into the batch that has fewest rows so far."""
        batches: list[list[int]] = [[] for _ in range(len(self))]
        fewest = [(0, number) for number in range(len(batches))]
        for group in chance.sample(together, len(together)):
            rows, number = heapq.heappop(fewest)
            batches[number] += group
            heapq.heappush(fewest, (rows + len(group), number))
        return batches


def in_order(groups: Sequence[int] | None, lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Batches for prediction: by length, or whole documents in their order.

    A batch has at most `batch_size` rows and MOST_TOKENS tokens, padding included, or is a single group.
    """
    if groups is None:
        together = [[row] for row in sorted(range(len(lengths)), key=lambda row: lengths[row])]
    else:
        together = EpochBatches(groups, lengths, batch_size).together or []
    batches: list[list[int]] = []
    for group in together:
        rows = (batches[-1] if batches else []) + group
        fits = len(rows) <= batch_size and len(rows) * max(lengths[row] for row in rows) <= MOST_TOKENS
        if not batches or not fits:
            batches.append([])
        batches[-1] += group
    return batches
