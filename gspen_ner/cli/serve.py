"""The command `gspen-ner serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from gspen_ner.cli.shared import Model, clear_errors, console


@clear_errors
def serve(
    model: Model,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")
    ] = 8000,
    seconds: Annotated[
        float,
        typer.Option(min=0.1, help="Time limit, in seconds, to receive a request and to answer it."),
    ] = 30.0,
) -> None:
    """Serve a model on this machine: a web page to try it, and a JSON endpoint.

    The page shows entities, their probabilities, the best labellings of each sentence, and what the global
    term changed. POST /tag takes {"text": ..., "k_best": ...} (at most 20,000 characters); /openapi.json
    describes it. Requests that arrive at the same time are inferred in one batch; documents of different
    requests do not influence each other. There is no login: listen on other addresses only in networks that
    you trust. Needs the extra `serve`.

    Examples:
        gspen-ner serve runs/quickstart

        gspen-ner serve runs/quickstart --port 8080

        curl -d '{"text": "Halden left."}' -H 'Content-Type: application/json' localhost:8000/tag
    """
    from gspen_ner.serving import server

    def announce(address: str) -> None:
        console.print(f"{model} at {address} (Ctrl-C ends it)", highlight=False, soft_wrap=True)
        console.file.flush()

    server.serve(model, host, port, seconds, announce)
