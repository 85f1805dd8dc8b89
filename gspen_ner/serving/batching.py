"""Batching: requests that arrive at about the same time are inferred in one batch, by a single thread.

Documents of different requests stay different documents, so that no request changes the answer to another.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gspen_ner.ner.predictions import Prediction, SentenceTagger, predict_all

BATCH_DELAY = 0.003
"""Seconds for which the first request of a batch waits for others."""
MOST_SENTENCES = 512
"""Number of sentences at which a batch takes no further request."""
MOST_WAITING = 256
"""Default maximum number of waiting requests."""


class BusyError(Exception):
    """Raised when the maximum number of requests is already waiting."""


@dataclass(frozen=True)
class _Job:
    sentences: Sequence[Sequence[str]]
    documents: Sequence[int]
    k_best: int
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[list[Prediction]]

    def settle(self, result: list[Prediction] | Exception) -> None:
        """Set the answer from the inference thread, unless the client has stopped waiting."""

        def set_answer() -> None:
            if self.answer.done():
                return
            if isinstance(result, Exception):
                self.answer.set_exception(result)
            else:
                self.answer.set_result(result)

        self.loop.call_soon_threadsafe(set_answer)


class Batcher:
    """Tags concurrent requests in batches.

    Args:
        tagger: the tagger; only the inference thread uses it.
        most_waiting: maximum number of waiting requests; default 256.
    """

    def __init__(self, tagger: SentenceTagger, most_waiting: int = MOST_WAITING) -> None:
        self.tagger = tagger
        self._jobs: queue.Queue[_Job | None] = queue.Queue(most_waiting)
        self._thread = threading.Thread(target=self._work, name="inference", daemon=True)

    def start(self) -> None:
        """Run one inference, which may compile the kernels, then start the inference thread."""
        self._predict([["Halden", "left"], ["."]], [0, 0], 2)
        self._thread.start()

    def stop(self) -> None:
        """Answer the waiting requests, then stop."""
        self._jobs.put(None)
        self._thread.join()

    async def tag(
        self, sentences: Sequence[Sequence[str]], documents: Sequence[int], k_best: int
    ) -> list[Prediction]:
        """Return the predictions for a request; raises `BusyError` if too many requests are waiting."""
        loop = asyncio.get_running_loop()
        job = _Job(sentences, documents, k_best, loop, loop.create_future())
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise BusyError from None
        return await job.answer

    def _work(self) -> None:
        while (first := self._jobs.get()) is not None:
            jobs, stopped = self._collect(first)
            jobs = [job for job in jobs if not job.answer.cancelled()]
            if jobs:
                self._answer(jobs)
            if stopped:
                return

    def _collect(self, first: _Job) -> tuple[list[_Job], bool]:
        """Return the jobs of a batch, and whether `stop` was called."""
        jobs, total, end = [first], len(first.sentences), time.monotonic() + BATCH_DELAY
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
            predictions = self._predict_jobs(jobs)
        except Exception as error:  # one request must not fail the others: try each alone
            if len(jobs) == 1:
                jobs[0].settle(error)
                return
            for job in jobs:
                self._answer([job])
            return
        for job in jobs:
            job.settle(predictions[: len(job.sentences)])
            del predictions[: len(job.sentences)]

    def _predict_jobs(self, jobs: list[_Job]) -> list[Prediction]:
        sentences = [tokens for job in jobs for tokens in job.sentences]
        numbers: dict[tuple[int, int], int] = {}
        documents = [
            numbers.setdefault((index, document), len(numbers))
            for index, job in enumerate(jobs)
            for document in job.documents
        ]
        return self._predict(sentences, documents, max(job.k_best for job in jobs))

    def _predict(
        self, sentences: Sequence[Sequence[str]], documents: Sequence[int], k_best: int
    ) -> list[Prediction]:
        # Not in torch.inference_mode: inference with a global term needs gradients.
        return predict_all(sentences, self.tagger.scores(sentences, documents), self.tagger.labels, k_best)
