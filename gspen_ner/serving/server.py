"""Running the server: a socket, uvicorn, and a shutdown that answers pending requests."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from gspen_ner.hosts.loading import find_model, load_tagger
from gspen_ner.serving.app import make_app

LOOPBACK = ("localhost", "127.0.0.1")
GRACE = 10
"""Seconds to answer pending requests at shutdown."""
MOST_CONNECTIONS = 1000


def serve(model: str, host: str, port: int, seconds: float, announce: Callable[[str], object]) -> None:
    """Serve a model until interrupted.

    Args:
        model: folder of a model or of a run.
        host: address to listen on.
        port: port to listen on; 0 chooses a free one.
        seconds: time limit, in seconds, to receive a request and to answer it.
        announce: called with the URL of the page before the server starts.
    """
    everywhere = host in ("0.0.0.0", "::", "") or ":" in host
    hosts = ("*",) if everywhere else (*LOOPBACK, host)
    find_model(model)
    with _listen(host, port) as listening:
        app = make_app(load_tagger(model), Path(model).absolute().name, seconds=seconds, hosts=hosts)
        config = uvicorn.Config(
            app,
            log_level="warning",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=GRACE,
        )
        shown = f"[{host}]" if ":" in host else host
        announce(f"http://{shown}:{listening.getsockname()[1]}/")
        with suppress(KeyboardInterrupt):  # uvicorn raises it again after the shutdown
            uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ValueError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
