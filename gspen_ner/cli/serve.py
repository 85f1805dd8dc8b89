"""`gspen-ner serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from gspen_ner.cli.shared import Model, clear_errors, console


@clear_errors
def serve(
    model: Model,
    host: Annotated[
        str, typer.Option(help="Address to bind to; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="For a request to arrive, and for it to be answered.")
    ] = 30.0,
) -> None:
    """A page to try a model on, and a JSON endpoint, on this machine.

    The page shows entities, their probabilities, the best labellings of each sentence and what the global
    term changed. POST /tag takes {"text": ..., "k_best": ...} (20,000 characters at most); /openapi.json
    describes it. Requests that come at the same time are inferred together; their documents are not mixed.
    There is no login: think before you bind to anything but this machine. Comes with the extra `serve`.

    Examples:
        gspen-ner serve runs/quickstart

        gspen-ner serve runs/quickstart --port 8080

        curl -d '{"text": "Halden left."}' -H 'Content-Type: application/json' localhost:8000/tag
    """
    from gspen_ner.serving import server

    def told(address: str) -> None:
        console.print(f"{model} at {address} (Ctrl-C ends it)", highlight=False, soft_wrap=True)
        console.file.flush()

    server.serve(model, host, port, seconds, told)
