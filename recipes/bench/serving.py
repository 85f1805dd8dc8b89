"""Requests per second and waiting times of the server with many simultaneous clients.

The server is a separate process; clients are threads of this one, each with a connection that stays open.
Every answer is compared with the answer to the same text from a single client.
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
from dataclasses import asdict, dataclass
from itertools import groupby

import numpy as np
from rich.table import Table

from gspen_ner.ner.newswire import generate_newswire
from recipes.studies.results import make_table

NUMBER = re.compile(r"\d+\.\d+(?:e-?\d+)?")
TEXTS = 64
"""Number of different texts; each is a document of 6 to 12 sentences."""
TOLERANCE = 1e-3
"""Accepted difference of confidences, which are rounded differently in batches of other sizes."""


@dataclass(frozen=True)
class ServeRun:
    """One measurement; `lost` requests got no answer, `wrong` ones another answer than a single client."""

    clients: int
    requests: int
    lost: int
    wrong: int
    per_second: float
    median_ms: float
    p99_ms: float


def run_serving(model: str, clients: Sequence[int], requests: int) -> Iterator[ServeRun]:
    """Start a server, and send it as many requests with each number of simultaneous clients."""
    texts = [
        "\n".join(" ".join(sentence.tokens) for sentence in document)
        for _, document in groupby(generate_newswire(TEXTS, seed=13), key=lambda sentence: sentence.document)
    ]
    with _server(model) as port:
        connection = _connect(port)
        expected = [answer for text in texts if (answer := _ask(connection, text)[0]) is not None]
        if len(expected) < len(texts):
            raise ValueError("the server does not answer a single client")
        for count in clients:
            yield _measure(port, texts, expected, count, requests)


@contextmanager
def _server(model: str) -> Iterator[int]:
    """Run a server in the block, which gets its port."""
    command = [sys.executable, "-m", "gspen_ner.cli", "serve", model, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            port = re.search(r":(\d+)/", process.stdout.readline())
            if port is None:
                raise ValueError(f"the server did not start: {process.stderr.read()[-500:]}")
            yield int(port[1])
        finally:
            process.terminate()


def _ask(connection: http.client.HTTPConnection, text: str) -> tuple[str | None, float]:
    """Return the answer, None if it is missing, and the milliseconds it took."""
    body, headers = json.dumps({"text": text}), {"Content-Type": "application/json"}
    start = time.perf_counter()
    answer = None
    try:
        connection.request("POST", "/tag", body, headers)
        response = connection.getresponse()
        content = response.read().decode()
        answer = content if response.status == 200 else None
    except (OSError, http.client.HTTPException):
        connection.close()
    return answer, 1e3 * (time.perf_counter() - start)


def _connect(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=120)


def _measure(
    port: int, texts: Sequence[str], expected: Sequence[str], clients: int, requests: int
) -> ServeRun:
    def work(client: int) -> list[tuple[str, str | None, float]]:
        connection = _connect(port)
        numbers = [number % len(texts) for number in range(client, requests, clients)]
        return [(expected[number], *_ask(connection, texts[number])) for number in numbers]

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        answers = [answer for some in pool.map(work, range(clients)) for answer in some]
    seconds = time.perf_counter() - start
    waits = sorted(wait for _, _, wait in answers)
    return ServeRun(
        clients=clients,
        requests=requests,
        lost=sum(answer is None for _, answer, _ in answers),
        wrong=sum(answer is not None and not _same(answer, wanted) for wanted, answer, _ in answers),
        per_second=requests / seconds,
        median_ms=waits[len(waits) // 2],
        p99_ms=waits[math.ceil(0.99 * len(waits)) - 1],
    )


def _same(first: str, second: str) -> bool:
    """Return whether two answers are equal up to the rounding of numbers."""
    numbers, wanted = ([float(number) for number in NUMBER.findall(answer)] for answer in (first, second))
    same_text = NUMBER.sub("", first) == NUMBER.sub("", second)
    return same_text and np.allclose(numbers, wanted, rtol=0, atol=TOLERANCE)


def as_table(runs: Sequence[ServeRun]) -> Table:
    """Return the runs as a table."""
    names = {"per_second": "requests/s", "median_ms": "median ms", "p99_ms": "p99 ms"}
    rows = [
        {
            names.get(name, name): f"{value:.1f}" if isinstance(value, float) else value
            for name, value in asdict(run).items()
        }
        for run in runs
    ]
    return make_table("server, documents of 6 to 12 sentences", rows)
