"""The commands of `python -m recipes.bench`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress, track

from gspen_ner.cli.shared import EngineName, JsonFile, Model, clear_errors, console, write_json

if TYPE_CHECKING:
    from recipes.bench.timing import Peer, Row, Targets

bench = typer.Typer(
    help="Time ours against peers in one process, as a ratio of medians.", no_args_is_help=True
)
Seconds = Annotated[float, typer.Option(min=0.0, help="Minimum duration of the measurement of each row.")]
Quick = Annotated[bool, typer.Option("--quick", help="Measure the main case only, for 0.3 seconds per row.")]
Rounds = Annotated[int, typer.Option(min=1, help="Number of alternating rounds.")]


def _report(json_file: Path | None, title: str, rows: Sequence[Row], targets: Targets) -> None:
    """Print rows as a table, and write them to the JSON file, if any."""
    from recipes.bench.timing import as_table

    console.print(as_table(title, rows, targets))
    write_json(json_file, [asdict(row) | {"ratio": row.ratio} for row in rows])


def _contests(peers: Sequence[Peer], bench: Any, seconds: float, quick: bool) -> list[Row]:
    """Report missing peers, and measure the others on all cases of a bench, or briefly on its main case."""
    from recipes.bench.timing import run_contests

    problems, seconds = ((bench.MAIN,), min(seconds, 0.3)) if quick else (bench.CASES, seconds)
    reasons = {peer: peer.missing() for peer in peers}
    for reason in filter(None, reasons.values()):
        console.print(f"left out: {reason}", style="yellow")
    pairs = [(peer, problem) for problem in problems for peer in peers if reasons[peer] is None]
    progress = track(pairs, "measuring", console=console, transient=True)
    return [row for peer, problem in progress for row in run_contests(peer, problem, seconds)]


@bench.command("chain")
@clear_errors
def bench_chain(json_file: JsonFile = None, seconds: Seconds = 1.0, quick: Quick = False) -> None:
    """Marginals, likelihood and Viterbi against torch-struct, pytorch-crf, Flair and a plain torch loop.

    Results are first checked to be equal. The ratio is the peer's time divided by ours. Peers come with the
    extra `bench`. Missing peers are reported.

    Examples:
        python -m recipes.bench chain --quick

        python -m recipes.bench chain --json chain.json --seconds 5
    """
    from recipes.bench import chain

    rows = _contests(chain.PEERS, chain, seconds, quick)
    if not quick:
        rows += chain.run_growth(seconds)
    _report(json_file, "chain inference, (batch, length, labels), float32", rows, chain.TARGETS)


@bench.command("graph")
@clear_errors
def bench_graph(
    json_file: JsonFile = None,
    seconds: Seconds = 1.0,
    quick: Quick = False,
    pgmax_python: Annotated[
        Path | None,
        typer.Option(
            help="Python interpreter that has PGMax 0.6.1, which needs an old JAX.",
            envvar="GSPEN_PGMAX_PYTHON",
            exists=True,
            dir_okay=False,
            show_default="this one, if it has PGMax",
        ),
    ] = None,
) -> None:
    """Message passing on factor graphs against a plain numpy loop and PGMax: 128 examples, 100 sweeps.

    Beliefs are first checked to be equal; with PGMax, whose objective differs on graphs with loops, on trees
    only. The numpy loop is timed on few examples and sweeps, and extrapolated. Missing peers are reported.

    Examples:
        python -m recipes.bench graph --json graph.json --seconds 5

        python -m recipes.bench graph --quick --pgmax-python ~/pgmax/bin/python
    """
    from recipes.bench import graph

    rows = _contests((graph.NumpyLoop(), graph.PGMax(pgmax_python)), graph, seconds, quick)
    _report(json_file, "message passing, batch 128, float32", rows, graph.TARGETS)


@bench.command("inference")
@clear_errors
def bench_inference(json_file: JsonFile = None, seconds: Seconds = 1.0) -> None:
    """One GSPEN inference (500 hidden units, 10 steps) against forward + backward of a 256-unit BiLSTM.

    Examples:
        python -m recipes.bench inference --json inference.json
    """
    from recipes.bench import inference

    with console.status("measuring"):
        row, breakdown = inference.run(seconds)
    _report(json_file, "GSPEN inference, (batch, length, labels)", [row], inference.TARGETS)
    console.print(breakdown)


@bench.command("training")
@clear_errors
def bench_training(
    json_file: JsonFile = None,
    documents: Annotated[
        int | None, typer.Option(min=2, help="Number of training documents.", show_default="all")
    ] = None,
    rounds: Rounds = 3,
) -> None:
    """One epoch of GSPEN against one of its CRF, and the CRF against the same tagger with pytorch-crf.

    Data are CoNLL-2003 in the folder named by GSPEN_DATA, otherwise generated documents. The ratio is the
    CRF's time divided by GSPEN's: 4x means that an epoch of GSPEN takes a quarter of the time. With all
    documents this takes a quarter of an hour.

    Examples:
        python -m recipes.bench training --documents 200

        GSPEN_DATA=/data python -m recipes.bench training --json training.json
    """
    with console.status("measuring"):
        from recipes.bench import training

        case, rows, steps = training.run_training(documents, rounds)
    _report(json_file, "training, one epoch", rows, training.targets(case))
    for name, mean in steps.items():
        console.print(f"{name}: {mean:.1f} inference steps per sentence", highlight=False)


@bench.command("flair")
@clear_errors
def bench_flair(
    json_file: JsonFile = None,
    sentences: Annotated[int, typer.Option(min=64, help="Number of training sentences.")] = 2000,
    rounds: Rounds = 3,
) -> None:
    """A training epoch and prediction of stock Flair, accelerated Flair and GSPENTagger.

    Data are CoNLL-2003 and GloVe in the folder named by GSPEN_DATA, otherwise generated documents. All
    taggers also have character embeddings. The ratio is stock Flair's time divided by the other's.

    Examples:
        python -m recipes.bench flair --sentences 500

        GSPEN_DATA=/data python -m recipes.bench flair --json flair.json
    """
    with console.status("measuring"):
        from recipes.bench import flair_taggers

        case, rows, confidences = flair_taggers.run_flair(sentences, rounds)
    _report(json_file, "Flair taggers", rows, flair_taggers.targets(case))
    console.print(confidences, highlight=False)


@bench.command("table")
@clear_errors
def bench_table(
    json_file: JsonFile = None,
    rows: Annotated[
        int, typer.Option(min=2, help="Training examples of each task to time; times are scaled up to all.")
    ] = 2048,
    rounds: Rounds = 3,
    quick: Annotated[bool, typer.Option("--quick", help="384 examples, one round, without NER.")] = False,
    runs: Annotated[
        Path | None,
        typer.Option(
            help="Folder with run folders ocr, tagging, bibtex or bookmarks, whose systems are timed.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
) -> None:
    """The paper's table of run times: an epoch of every system on every task, relative to Struct's.

    Struct is timed with exact inference, as in the recipes, and by message passing with the paper's number of
    sweeps. Systems come fully trained from --runs. Without a run of a task, they are trained for a few
    updates, which means weak terms and few inference steps. Data that are missing in GSPEN_DATA are generated
    in the published size.

    Examples:
        python -m recipes.bench table --quick

        GSPEN_DATA=/data python -m recipes.bench table --runs runs/table --rounds 5 --json table.json
    """
    with console.status("loading libraries"):
        from recipes.bench import table

    rows, rounds = (384, 1) if quick else (rows, rounds)
    timed: list[table.EpochRow] = []
    for task in table.timed_tasks(runs):
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task(f"{task.name}, {task.data}", total=rounds + 1)
            timed += table.time_task(task, rows, rounds, partial(progress.advance, bar))
    if not quick:
        with console.status("NER"):
            timed += table.time_ner(rows, rounds)
    console.print(table.as_table(timed))
    write_json(json_file, [asdict(row) for row in timed])


@bench.command("tag")
@clear_errors
def bench_tag(
    model: Model,
    json_file: JsonFile = None,
    sentences: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Size of a corpus; repeatable.", show_default="10000 and 200000"),
    ] = None,
    workers: Annotated[
        list[int] | None, typer.Option(min=1, help="Number of workers; repeatable.", show_default="1 and 2")
    ] = None,
    engine: Annotated[list[EngineName] | None, typer.Option(help="Repeatable.", show_default="local")] = None,
) -> None:
    """Tag generated corpora of several sizes: memory relative to the smallest, and the gain by more workers.

    Each worker has one thread. Memory is that of the largest process. The gain is in the rate between the
    smallest and the largest corpus, which excludes the time to start.

    Examples:
        python -m recipes.bench tag --json tag.json runs/quickstart

        python -m recipes.bench tag runs/quickstart --sentences 2000 --sentences 10000 --engine ray
    """
    from recipes.bench import tagging

    sizes = sorted(set(sentences or [10_000, 200_000]))
    engines = engine or [EngineName.local]
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
        typer.Option(
            min=1, max=512, help="Number of simultaneous clients; repeatable.", show_default="1 and 32"
        ),
    ] = None,
    requests: Annotated[int, typer.Option(min=1, help="Number of requests of all clients together.")] = 2000,
) -> None:
    """Send requests to a server over loopback: rate, waiting times, lost requests and wrong answers.

    A request is a generated document of 6 to 12 sentences. Clients and server share this machine.

    Examples:
        python -m recipes.bench serve --json serve.json runs/quickstart

        python -m recipes.bench serve runs/quickstart --clients 32 --requests 500
    """
    from recipes.bench import serving

    with console.status("measuring"):
        runs = list(serving.run_serving(model, clients or [1, 32], requests))
    console.print(serving.as_table(runs))
    write_json(json_file, [asdict(run) for run in runs])
    if any(run.lost or run.wrong for run in runs):
        raise ValueError("some requests were lost or answered wrongly")
