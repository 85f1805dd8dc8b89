"""Which rows of a dataset make a batch: sentences of similar length, or whole documents.

Where several processes train together, a batch is divided among them: each has its share, a document is never
divided, and none is left without rows. (accelerate's sampler would drop or repeat uneven batches.)
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence

from torch.utils.data import DataLoader, Sampler

MOST_TOKENS = 8192  # of a batch in prediction


class EpochBatches(Sampler[list[int]]):
    """Batches of an epoch: of similar length, or of whole documents; the same for the same seed and epoch.

    Args:
        groups: for each row what must stay together (its document), or None if nothing must.
        lengths: tokens of each row.
        batch_size: rows of a batch; with groups, about so many.
        seed: of the order.
        draws: versions of the rows that the dataset holds, one behind the other; each epoch takes the next.
        rank, world: which of how many processes gets its share of each batch.
    """

    def __init__(
        self,
        groups: Sequence[int] | None,
        lengths: Sequence[int],
        batch_size: int,
        seed: int = 0,
        draws: int = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.lengths, self.batch_size, self.seed, self.draws = lengths, batch_size, seed, draws
        self.rank, self.world = rank, world
        self.epoch = 0
        self.together = None if groups is None else _together(groups)
        parts = len(lengths) if self.together is None else len(self.together)
        if parts < world or batch_size < world:
            what = "sentences" if self.together is None else "documents"
            raise ValueError(
                f"{parts} {what} in batches of {batch_size} cannot be divided among {world} processes"
            )

    @property
    def drop_last(self) -> bool:
        """Whether rows are left out; never. Asked by accelerate."""
        return False

    def set_epoch(self, epoch: int) -> None:
        """Called by Trainer before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.lengths), self.batch_size)
        batches = whole + (rest >= self.world) if whole else 1
        return batches if self.together is None else min(batches, len(self.together) // self.world)

    def __iter__(self) -> Iterator[list[int]]:
        chance = random.Random(f"{self.seed}/{self.epoch}")
        batches = self._similar(chance) if self.together is None else self._grouped(chance, self.together)
        first = len(self.lengths) * (self.epoch % self.draws)
        chance.shuffle(batches)
        return iter([[first + row for row in batch[self.rank]] for batch in batches])

    def _similar(self, chance: random.Random) -> list[list[list[int]]]:
        """Sorted by length, with some noise so that batches differ from epoch to epoch."""
        order = sorted(range(len(self.lengths)), key=lambda row: self.lengths[row] + 2 * chance.random())
        starts = [number * self.batch_size for number in range(len(self))]
        batches = [order[start:end] for start, end in zip(starts, [*starts[1:], len(order)], strict=True)]
        return [[batch[rank :: self.world] for rank in range(self.world)] for batch in batches]

    def _grouped(self, chance: random.Random, together: list[list[int]]) -> list[list[list[int]]]:
        """Groups in random order, each put where there are fewest rows so far."""
        shares: list[list[int]] = [[] for _ in range(len(self) * self.world)]
        fewest = [(0, number) for number in range(len(shares))]
        for group in chance.sample(together, len(together)):
            rows, number = heapq.heappop(fewest)
            shares[number] += group
            heapq.heappush(fewest, (rows + len(group), number))
        return [shares[start : start + self.world] for start in range(0, len(shares), self.world)]


class EpochLoader(DataLoader):
    """Loads the batches of each epoch; Trainer says which it is."""

    batch_sampler: EpochBatches

    def set_epoch(self, epoch: int) -> None:
        """Called by Trainer before each epoch."""
        self.batch_sampler.set_epoch(epoch)


def in_order(groups: Sequence[int] | None, lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Batches for prediction: by length, or whole documents in their order.

    A batch has at most `batch_size` rows and MOST_TOKENS tokens, padding included, or is a single group.
    """
    if groups is None:
        together = [[row] for row in sorted(range(len(lengths)), key=lambda row: lengths[row])]
    else:
        together = _together(groups)
    return _filled(together, lengths, batch_size)


def in_row_order(groups: Sequence[int] | None, lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """The same without a change of order, for which the rows of a group must follow each other."""
    together = _together(range(len(lengths)) if groups is None else groups)
    if [row for group in together for row in group] != list(range(len(lengths))):
        raise ValueError("the sentences of a document must follow each other; sort the data by document")
    return _filled(together, lengths, batch_size)


def _filled(together: list[list[int]], lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Batches of whole groups in their order, as large as they may be."""
    batches: list[list[int]] = []
    for group in together:
        rows = (batches[-1] if batches else []) + group
        fits = len(rows) <= batch_size and len(rows) * max(lengths[row] for row in rows) <= MOST_TOKENS
        if not batches or not fits:
            batches.append([])
        batches[-1] += group
    return batches


def _together(groups: Sequence[int]) -> list[list[int]]:
    """The rows of each group."""
    rows_of: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        rows_of.setdefault(group, []).append(row)
    return list(rows_of.values())
