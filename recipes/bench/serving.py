"""`gspen-ner bench serve`: requests a second and waiting times of the server, with many clients at once.

The server is a process of its own; clients are threads of this one, each with a connection that it keeps.
Every answer is compared with the one that the same text got while nobody else asked.
"""

from __future__ import annotations

import http.client
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gspen_ner.ner.newswire import generate_newswire

TEXTS = 64  # different ones; each is a document of 6 to 12 sentences
TOLERANCE = 1e-3  # of confidences: batches of other sizes round otherwise


@dataclass(frozen=True)
class ServeRun:
    """One measurement; `lost` got no answer, `wrong` another than when asked alone."""

    clients: int
    requests: int
    lost: int
    wrong: int
    per_second: float
    median_ms: float
    p99_ms: float


def run_serving(model: str, clients: Sequence[int], requests: int) -> Iterator[ServeRun]:
    """Ask a server that is started for it.

    Args:
        model: folder of a model or of a run.
        clients: how many ask at once, in turns.
        requests: of all clients together.
    """
    texts = [
        "\n".join(" ".join(sentence.tokens) for sentence in document)
        for _, document in groupby(generate_newswire(TEXTS, seed=13), key=lambda sentence: sentence.document)
    ]
    with _server(model) as port:
        alone = _Client(port)
        expected = [alone.ask(text)[0] for text in texts]
        if None in expected:
            raise ValueError("the server does not answer a single client")
        for count in clients:
            yield _measure(port, texts, expected, count, requests)


@contextmanager
def _server(model: str) -> Iterator[int]:
    """The port of a server that runs inside the block."""
    command = [sys.executable, "-m", "gspen_ner.cli", "serve", model, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            found = re.search(r":(\d+)/", process.stdout.readline())
            if found is None:
                raise ValueError(f"the server did not start: {process.stderr.read()[-500:]}")
            yield int(found[1])
        finally:
            process.terminate()


class _Client:
    """A client with one connection."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, text: str) -> tuple[Any, float]:
        """The answer, None if there is none, and the seconds it took."""
        begun = time.perf_counter()
        try:
            self.connection.request(
                "POST", "/tag", json.dumps({"text": text}), {"Content-Type": "application/json"}
            )
            response = self.connection.getresponse()
            body = response.read()
            answer = json.loads(body) if response.status == 200 else None
        except (OSError, http.client.HTTPException):
            self.connection.close()
            answer = None
        return answer, time.perf_counter() - begun


def _measure(
    port: int, texts: Sequence[str], expected: Sequence[Any], clients: int, requests: int
) -> ServeRun:
    def work(client: int) -> list[tuple[int, Any, float]]:
        mine = _Client(port)
        numbers = range(client, requests, clients)
        return [(number % len(texts), *mine.ask(texts[number % len(texts)])) for number in numbers]

    begun = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        answers = [answer for some in pool.map(work, range(clients)) for answer in some]
    seconds = time.perf_counter() - begun
    waits = sorted(wait for _, _, wait in answers)
    lost = sum(answer is None for _, answer, _ in answers)
    wrong = sum(answer is not None and not _same(answer, expected[place]) for place, answer, _ in answers)
    p99 = waits[math.ceil(0.99 * len(waits)) - 1]
    return ServeRun(
        clients, requests, lost, wrong, requests / seconds, 1e3 * waits[len(waits) // 2], 1e3 * p99
    )


def _same(first: Any, second: Any) -> bool:
    """Equal but for what rounding does to numbers."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_same(first[name], second[name]) for name in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, float) or isinstance(second, float):
        return abs(first - second) <= TOLERANCE
    return first == second
