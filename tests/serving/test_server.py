"""The server as clients meet it: real requests to a real uvicorn on a free port of this machine."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")

from gspen_ner.hosts.huggingface.tagger import Tagger  # noqa: E402
from gspen_ner.ner.plain_text import read_text  # noqa: E402
from gspen_ner.serving.app import MOST_BYTES, make_app  # noqa: E402
from gspen_ner.serving.messages import MOST_CHARACTERS  # noqa: E402
from tests.hosts.test_piece_scorer import make_sharp  # noqa: E402
from tests.tiny import gspen_ner, make_model, stir  # noqa: E402

TEXTS = [
    "Ms. Anna Halden spoke in Graz 😀. Halden left.\n\nTwo people were seen near Accra, police said.",
    "Halden closed its offices.\nHalden Holdings gave no reason.",
    "Camden Lines employs 22,800 people. Nobody at Belcanto would comment on Camden.",
]


class Slow:
    """A tagger that takes its time, and stumbles over some words."""

    def __init__(self, tagger):
        self.tagger, self.labels, self.system = tagger, tagger.labels, tagger.system
        self.seconds, self.batches = 0.0, []

    def scores(self, sentences, documents=None):
        self.batches.append(len(sentences))
        time.sleep(self.seconds)
        if any("stumble" in tokens for tokens in sentences):
            raise RuntimeError("stumbled")
        return self.tagger.scores(sentences, documents)


class Running:
    """A server in a thread."""

    def __init__(self, tagger, **options):
        self.tagger = Slow(tagger)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        config = uvicorn.Config(make_app(self.tagger, "tiny", **options), log_level="error")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))
        self.thread.start()

    def stop(self):
        self.server.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read(), response.headers
        finally:
            connection.close()

    def tag(self, **request):
        headers = {"Content-Type": "application/json"}
        status, body, _ = self.request("POST", "/tag", json.dumps(request), headers)
        return status, json.loads(body)


@pytest.fixture(scope="module")
def tagger():
    return Tagger(stir(make_model(), 3.0))


@pytest.fixture(scope="module")
def server(tagger):
    running = Running(tagger, seconds=240, hosts=("127.0.0.1",))
    yield running
    running.stop()


def expected(tagger, text):
    """Type, text and probability of what the tagger itself finds."""
    sentences = read_text(text.split("\n"))
    predictions = tagger.tag([s.tokens for s in sentences], [s.document for s in sentences])
    return [[(span.type, pytest.approx(p, abs=1e-4)) for span, p in row.entities] for row in predictions]


def told(answer):
    return [[(e["type"], e["confidence"]) for e in row["entities"]] for row in answer["sentences"]]


def test_entities_are_those_of_the_tagger_at_their_characters(server, tagger):
    for text in TEXTS:
        status, answer = server.tag(text=text)
        assert status == 200
        assert told(answer) == expected(tagger, text)
        for row in answer["sentences"]:
            for entity in row["entities"] + row["gone"]:
                assert text[entity["start"] : entity["end"]] == entity["text"]
                assert row["start"] <= entity["start"] < entity["end"] <= row["end"]
            assert row["k_best"] == []


def test_sentences_are_read_with_their_neighbours(tmp_path):
    model = make_sharp(tmp_path, "bert", context_tokens=12)
    running = Running(Tagger(model), seconds=240)
    try:
        with ThreadPoolExecutor(len(TEXTS)) as pool:
            answers = list(pool.map(lambda text: running.tag(text=text)[1], TEXTS))
    finally:
        running.stop()
    for text, answer in zip(TEXTS, answers, strict=True):
        assert told(answer) == expected(Tagger(model), text)


def test_k_best_and_what_the_term_changed(server):
    answer = server.tag(text=TEXTS[0], k_best=3)[1]
    for row in answer["sentences"]:
        chances = [labelling["probability"] for labelling in row["k_best"]]
        assert chances == sorted(chances, reverse=True)
        assert len(chances) == 3
        best = [(e["start"], e["end"], e["type"]) for e in row["k_best"][0]["entities"]]
        assert best == [(e["start"], e["end"], e["type"]) for e in row["entities"]]
    entities = [e for row in answer["sentences"] for e in row["entities"]]
    assert any(e["changed"] for e in entities)
    assert any(row["gone"] for row in answer["sentences"])


def test_requests_at_the_same_time_share_batches_but_not_documents(server, tagger):
    server.tagger.batches.clear()
    server.tagger.seconds = 0.05
    texts = [f"{TEXTS[n % 3]} Number {n} ." for n in range(60)]
    with ThreadPoolExecutor(30) as clients:
        answers = list(clients.map(lambda text: server.tag(text=text, k_best=len(text) % 3), texts))
    server.tagger.seconds = 0.0
    assert len(server.tagger.batches) < 30
    for text, (status, answer) in zip(texts, answers, strict=True):
        assert status == 200
        assert told(answer) == expected(tagger, text)


def test_a_failing_request_does_not_fail_the_others(server):
    server.tagger.seconds = 0.05
    texts = [*TEXTS, "They stumble .", *TEXTS]
    with ThreadPoolExecutor(7) as clients:
        statuses = list(
            clients.map(
                lambda text: server.request(
                    "POST", "/tag", json.dumps({"text": text}), {"Content-Type": "application/json"}
                )[0],
                texts,
            )
        )
    server.tagger.seconds = 0.0
    assert statuses == [200] * 3 + [500] + [200] * 3
    assert server.tag(text="Rome")[0] == 200


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ('{"text": "a", "k_best": 21}', 422, "less than or equal to 20"),
        ('{"text": "a", "k_best": "1"}', 422, "valid integer"),
        ('{"text": "\\ud800"}', 422, "unicode"),
        ('{"text": "a", "\\ud800": 1}', 422, "unicode"),
        ('{"text": "a", "more": 1}', 422, "Extra inputs"),
        ('{"text": NaN}', 422, "valid string"),
        ('{"k_best": 1}', 422, "Field required"),
        ("{", 422, "JSON decode error"),
        ("9" * 5000, 400, "error parsing the body"),
        ("[" * 100_000, 400, "error parsing the body"),
        (json.dumps({"text": "a" * (MOST_CHARACTERS + 1)}), 422, "at most 20000 characters"),
        (json.dumps({"text": "a" * MOST_BYTES}), 413, "bytes at most"),
    ],
)
def test_invalid_requests_get_an_explanation(server, body, status, message):
    code, answer, _ = server.request("POST", "/tag", body, {"Content-Type": "application/json"})
    assert code == status
    assert message in json.dumps(json.loads(answer))


def test_a_body_of_unknown_size_is_bounded_too(server):
    chunks = (b"x" * 10_000 for _ in range(MOST_BYTES // 10_000 + 5))
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
    try:
        connection.request("POST", "/tag", chunks, {"Content-Type": "application/json"}, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (ConnectionResetError, BrokenPipeError):
        pass  # it may hang up while we still talk
    finally:
        connection.close()
    assert server.tag(text="Rome")[0] == 200


def test_an_empty_text_and_the_longest_text(server):
    assert server.tag(text="") == (200, {"sentences": []})
    assert server.tag(text="A. " * (MOST_CHARACTERS // 3))[0] == 200


def test_slow_and_too_many_requests_are_refused(tagger):
    running = Running(tagger, seconds=0.5)
    try:
        assert running.tag(text="Rome")[0] == 200
        running.tagger.seconds = 2.0
        with ThreadPoolExecutor(2) as clients:
            answers = list(clients.map(lambda text: running.tag(text=text), ["Rome", "Graz"]))
        assert [status for status, _ in answers] == [503, 503]
        assert "no answer within 0.5 s" in answers[0][1]["detail"]
        running.tagger.seconds = 0.0
        with socket.create_connection(("127.0.0.1", running.port)) as slow:
            slow.sendall(b"POST /tag HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{")
            assert slow.recv(100).startswith(b"HTTP/1.1 408")
    finally:
        running.stop()


def test_the_page_loads_nothing_from_other_sites(server):
    status, page, headers = server.request("GET", "/")
    assert status == 200
    assert "default-src 'self'" in headers["content-security-policy"]
    linked = re.findall(r'(?:src|href)="([^"]+)"', page.decode())
    assert {"page/style.css", "page/script.js"} <= set(linked)
    for name in ("style.css", "script.js"):
        status, content, _ = server.request("GET", f"/page/{name}")
        assert status == 200
        assert b"http://" not in content
        assert b"https://" not in content
        assert b"innerHTML" not in content
    assert f'maxlength="{MOST_CHARACTERS}"'.encode() in page
    assert server.request("GET", "/page/../app.py")[0] == 404
    assert server.request("GET", "/health", headers={"Host": "elsewhere.org"})[0] == 400


def test_openapi_describes_tag(server):
    described = json.loads(server.request("GET", "/openapi.json")[1])
    assert set(described["paths"]) == {"/tag", "/health"}
    assert {"200", "400", "408", "413", "422", "503"} <= set(described["paths"]["/tag"]["post"]["responses"])
    health = json.loads(server.request("GET", "/health")[1])
    assert health["model"] == "tiny"
    assert health["system"] == "gspen"


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    make_model().save_pretrained(tmp_path / "model")
    command = [sys.executable, "-m", "gspen_ner.cli", "serve", str(tmp_path / "model"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        taken = gspen_ner("serve", tmp_path / "model", "--port", port)
        assert taken.exit_code == 1
        assert f"cannot listen on 127.0.0.1:{port}" in taken.output
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "Traceback" not in errors
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_schemathesis_finds_nothing(server, tmp_path):
    """Every request that the description allows, and many that it does not."""
    pytest.importorskip("schemathesis")
    command = ["schemathesis", "run", f"http://127.0.0.1:{server.port}/openapi.json"]
    code = "from schemathesis.cli import schemathesis; schemathesis()"
    process = subprocess.run(
        [sys.executable, "-c", code, *command[1:], "--checks", "all", "--max-examples", "100", "--seed", "1"],
        capture_output=True,
        text=True,
        cwd=tmp_path,  # where it leaves its cache
    )
    assert process.returncode == 0, process.stdout + process.stderr
