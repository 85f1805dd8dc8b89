"""Requests that come at about the same time are inferred together, by the one thread that uses the model.

Documents of different requests stay different documents, so that no request changes what another is told.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gspen_ner.ner.predictions import Prediction, SentenceTagger, predict_all

GATHER = 0.003  # seconds for which the first request of a batch waits for others
MOST_SENTENCES = 512  # of a batch, the first request excepted
MOST_WAITING = 256


class BusyError(Exception):
    """More requests are waiting than the server takes."""


@dataclass(frozen=True)
class _Job:
    sentences: Sequence[Sequence[str]]
    documents: Sequence[int]
    k_best: int
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[list[Prediction]]

    def settle(self, result: list[Prediction] | Exception) -> None:
        """Called by the thread; whoever has given up waiting is not told."""

        def tell() -> None:
            if self.answer.done():
                return
            if isinstance(result, Exception):
                self.answer.set_exception(result)
            else:
                self.answer.set_result(result)

        self.loop.call_soon_threadsafe(tell)


class Batcher:
    """Tags for many at once.

    Args:
        tagger: used by one thread only.
        most_waiting: requests that may wait.
    """

    def __init__(self, tagger: SentenceTagger, most_waiting: int = MOST_WAITING) -> None:
        self.tagger = tagger
        self._jobs: queue.Queue[_Job | None] = queue.Queue(most_waiting)
        self._thread = threading.Thread(target=self._work, name="inference", daemon=True)

    def start(self) -> None:
        """Begin to work; the first inference, which may have to compile, is done before anyone asks."""
        self._predict([["Halden", "left"], ["."]], [0, 0], 2)
        self._thread.start()

    def stop(self) -> None:
        """Finish what is waiting."""
        self._jobs.put(None)
        self._thread.join()

    async def tag(
        self, sentences: Sequence[Sequence[str]], documents: Sequence[int], k_best: int
    ) -> list[Prediction]:
        """What the tagger says of a request; raises `BusyError` if too many are waiting."""
        loop = asyncio.get_running_loop()
        job = _Job(sentences, documents, k_best, loop, loop.create_future())
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise BusyError from None
        return await job.answer

    def _work(self) -> None:
        while (first := self._jobs.get()) is not None:
            jobs, last = self._gather(first)
            jobs = [job for job in jobs if not job.answer.cancelled()]
            if jobs:
                self._answer(jobs)
            if last:
                return

    def _gather(self, first: _Job) -> tuple[list[_Job], bool]:
        """What comes within a few milliseconds, and whether that was the end."""
        jobs, total, end = [first], len(first.sentences), time.monotonic() + GATHER
        while total < MOST_SENTENCES:
            try:
                job = self._jobs.get(timeout=max(end - time.monotonic(), 0))
            except queue.Empty:
                break
            if job is None:
                return jobs, True
            jobs.append(job)
            total += len(job.sentences)
        return jobs, False

    def _answer(self, jobs: list[_Job]) -> None:
        try:
            found = self._together(jobs)
        except Exception as error:  # whatever it is, it is one request's: the others shall not suffer
            if len(jobs) == 1:
                jobs[0].settle(error)
                return
            for job in jobs:
                self._answer([job])
            return
        for job in jobs:
            job.settle(found[: len(job.sentences)])
            del found[: len(job.sentences)]

    def _together(self, jobs: list[_Job]) -> list[Prediction]:
        sentences = [tokens for job in jobs for tokens in job.sentences]
        numbers: dict[tuple[int, int], int] = {}
        documents = [
            numbers.setdefault((place, document), len(numbers))
            for place, job in enumerate(jobs)
            for document in job.documents
        ]
        return self._predict(sentences, documents, max(job.k_best for job in jobs))

    def _predict(
        self, sentences: Sequence[Sequence[str]], documents: Sequence[int], k_best: int
    ) -> list[Prediction]:
        # Not under torch.inference_mode: inference with a global term needs gradients.
        return predict_all(sentences, self.tagger.scores(sentences, documents), self.tagger.labels, k_best)
