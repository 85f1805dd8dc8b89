"""`gspen-ner bench tag` and `bench serve`: a trained model in use."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from gspen_ner.cli.shared import (
    EngineName,
    JsonFile,
    Model,
    check_writable,
    clear_errors,
    console,
    write_json,
)
from recipes.bench.commands import bench


@bench.command("tag")
@clear_errors
def bench_tag(
    model: Model,
    json_file: JsonFile = None,
    sentences: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Size of a corpus; repeat it.", show_default="10000 and 200000"),
    ] = None,
    workers: Annotated[
        list[int] | None, typer.Option(min=1, help="How many; repeat it.", show_default="1 and 2")
    ] = None,
    engine: Annotated[list[EngineName] | None, typer.Option(help="Repeat it.", show_default="local")] = None,
) -> None:
    """Tag generated corpora of several sizes: memory beside the smallest's, and what more workers gain.

    Each worker has one thread. Memory is that of the largest process. The gain is in the rate between the
    smallest and the largest corpus, so that starting does not count.

    Examples:
        gspen-ner bench tag --json tag.json runs/quickstart

        gspen-ner bench tag runs/quickstart --sentences 10000 --sentences 1000000 --workers 1

        gspen-ner bench tag runs/quickstart --sentences 2000 --sentences 10000 --engine local --engine ray
    """
    check_writable(json_file, "--json")
    from recipes.bench import tagging

    sizes = sorted(set(sentences or [10_000, 200_000]))
    engines: list[tagging.EngineName] = [name.value for name in engine or [EngineName.local]]
    runs = []
    with tempfile.TemporaryDirectory() as folder, console.status("measuring"):
        for run in tagging.run_tagging(model, Path(folder), sizes, workers or [1, 2], engines):
            runs.append(run)
            console.print(f"{run.engine}, {run.workers} workers, {run.sentences:,}: {run.seconds:.1f} s")
    console.print(tagging.as_table(runs))
    write_json(json_file, [asdict(run) for run in runs])


@bench.command("serve")
@clear_errors
def bench_serve(
    model: Model,
    json_file: JsonFile = None,
    clients: Annotated[
        list[int] | None,
        typer.Option(min=1, max=512, help="How many ask at once; repeat it.", show_default="1 and 32"),
    ] = None,
    requests: Annotated[int, typer.Option(min=1, help="Of all clients together.")] = 2000,
) -> None:
    """Ask a server over loopback: requests a second, median and 99th percentile, and what was lost or wrong.

    A request is a generated document of 6 to 12 sentences. Clients and server share this machine.

    Examples:
        gspen-ner bench serve --json serve.json runs/quickstart

        gspen-ner bench serve runs/quickstart --clients 32 --requests 500
    """
    check_writable(json_file, "--json")
    from recipes.bench import serving

    with console.status("measuring"):
        runs = list(serving.run_serving(model, clients or [1, 32], requests))
    table = Table(title="server, documents of 6 to 12 sentences")
    for name in ("clients", "requests", "lost", "wrong", "requests/s", "median ms", "p99 ms"):
        table.add_column(name, justify="right")
    for run in runs:
        counts = (run.clients, run.requests, run.lost, run.wrong)
        times = (run.per_second, run.median_ms, run.p99_ms)
        table.add_row(*(f"{count:,}" for count in counts), *(f"{time:.1f}" for time in times))
    console.print(table)
    write_json(json_file, [asdict(run) for run in runs])
    if any(run.lost or run.wrong for run in runs):
        raise ValueError("some requests were lost or answered wrongly")
