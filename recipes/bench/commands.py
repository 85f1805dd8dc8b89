"""`gspen-ner bench`: ours beside a peer's, in one process, as a ratio."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, track

from gspen_ner.cli.shared import JsonFile, check_writable, clear_errors, console, write_json

bench = typer.Typer(help="Measure: ours beside a peer's, in one process, as a ratio.", no_args_is_help=True)
Seconds = Annotated[float, typer.Option(min=0.0, help="How long each row is measured, at least.")]


@bench.command("chain")
@clear_errors
def bench_chain(
    json_file: JsonFile = None,
    seconds: Seconds = 1.0,
    quick: Annotated[bool, typer.Option("--quick", help="Only the case with the bars, briefly.")] = False,
) -> None:
    """Marginals, likelihood and Viterbi beside torch-struct, pytorch-crf, Flair and a plain torch loop.

    Each row first checks that both sides give the same result. The ratio says how many times as long the
    peer takes. Peers come with the extra `bench`; one that is missing is said to be.

    Examples:
        gspen-ner bench chain

        gspen-ner bench chain --quick

        gspen-ner bench chain --json chain.json --seconds 5
    """
    from recipes.bench import chain, timing

    check_writable(json_file, "--json")
    seconds = min(seconds, 0.3) if quick else seconds
    rows: list[timing.Row] = []
    for reason in chain.missing_peers():
        console.print(f"left out: {reason}", style="yellow")
    pairs = chain.contests((chain.MAIN,) if quick else chain.CASES)
    for problem, peer in track(pairs, "measuring", console=console, transient=True):
        rows += chain.run_contest(problem, peer, seconds)
    if not quick:
        rows += [*chain.run_per_position(seconds), *chain.run_scaling(seconds)]
    console.print(timing.as_table("chain inference, (batch, length, labels), float32", rows, chain.BARS))
    write_json(json_file, timing.entries(rows))


@bench.command("graph")
@clear_errors
def bench_graph(
    json_file: JsonFile = None,
    seconds: Seconds = 1.0,
    quick: Annotated[bool, typer.Option("--quick", help="Only the complete graph, briefly.")] = False,
    pgmax_python: Annotated[
        Path | None,
        typer.Option(
            help="An interpreter that has PGMax 0.6.1, which needs an old JAX.", envvar="GSPEN_PGMAX_PYTHON",
            exists=True, dir_okay=False, show_default="this one, if it has it",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Message passing on factor graphs beside a plain numpy loop and PGMax: 128 examples, 100 sweeps.

    Each row first checks that both sides give the same beliefs (with PGMax, whose objective is another where
    there are loops, on trees only). The numpy loop is timed on few examples and sweeps, and scaled up.

    Examples:
        gspen-ner bench graph

        gspen-ner bench graph --json graph.json --seconds 5

        gspen-ner bench graph --quick --pgmax-python ~/pgmax/bin/python
    """
    from recipes.bench import graph, timing

    check_writable(json_file, "--json")
    seconds = min(seconds, 0.3) if quick else seconds
    rows: list[timing.Row] = []
    peers, missing = graph.find_peers(pgmax_python)
    for reason in missing:
        console.print(f"left out: {reason}", style="yellow")
    pairs = [(problem, peer) for problem in ((graph.MAIN,) if quick else graph.CASES) for peer in peers]
    for problem, peer in track(pairs, "measuring", console=console, transient=True):
        rows += graph.run_contest(problem, peer, seconds)
    console.print(timing.as_table("message passing, batch 128, float32", rows, graph.BARS))
    write_json(json_file, timing.entries(rows))


@bench.command("inference")
@clear_errors
def bench_inference(json_file: JsonFile = None, seconds: Seconds = 1.0) -> None:
    """One GSPEN inference (500 hidden units, 10 steps) beside forward + backward of a 256-unit BiLSTM.

    Examples:
        gspen-ner bench inference

        gspen-ner bench inference --json inference.json
    """
    from recipes.bench import inference, timing

    check_writable(json_file, "--json")
    with console.status("measuring"):
        row, parts = inference.run(seconds)
    console.print(timing.as_table("GSPEN inference, (batch, length, labels)", [row], inference.BARS))
    console.print(
        f"of {parts.total:.1f} ms in {parts.steps:.1f} steps: chain kernel {parts.kernel:.1f}, "
        f"global term {parts.term:.1f}, rest {parts.rest:.1f}"
    )
    write_json(json_file, timing.entries([row]))


@bench.command("training")
@clear_errors
def bench_training(
    json_file: JsonFile = None,
    documents: Annotated[
        int | None, typer.Option(min=2, help="Train on so many documents only.", show_default="all")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Epochs that are measured, in turns.")] = 3,
) -> None:
    """One epoch of GSPEN beside one of its CRF, and that beside the same tagger with pytorch-crf.

    On CoNLL-2003 if GSPEN_DATA names the folder that holds it, else on generated documents. The ratio is the
    CRF's time over GSPEN's: 4x means that an epoch of GSPEN takes a quarter of the time.

    Examples:
        gspen-ner bench training --documents 200

        GSPEN_DATA=/data gspen-ner bench training --json training.json
    """
    check_writable(json_file, "--json")
    from recipes.bench import timing, training

    with console.status("measuring; with all documents this takes a quarter of an hour"):
        case, rows, steps = training.run_training(documents, rounds)
    console.print(timing.as_table("training, one epoch", rows, training.bars(case)))
    for name, mean in steps.items():
        console.print(f"{name}: {mean:.1f} steps of inference a sentence", highlight=False)
    write_json(json_file, timing.entries(rows))


@bench.command("flair")
@clear_errors
def bench_flair(
    json_file: JsonFile = None,
    sentences: Annotated[int, typer.Option(min=64, help="Sentences of the training slice.")] = 2000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that are measured, in turns.")] = 3,
) -> None:
    """A training epoch and prediction of stock Flair, accelerated Flair and GSPENTagger.

    GloVe and character embeddings on a slice of CoNLL-2003 if GSPEN_DATA names the folder that holds them,
    else character embeddings on generated documents. The ratio says how many times as long stock Flair takes.

    Examples:
        gspen-ner bench flair --sentences 500

        GSPEN_DATA=/data gspen-ner bench flair --json flair.json
    """
    check_writable(json_file, "--json")
    with console.status("measuring"):
        from recipes.bench import flair_taggers, timing

        case, rows, confidences = flair_taggers.run_flair(sentences, rounds)
    console.print(timing.as_table("Flair taggers", rows, flair_taggers.bars(case)))
    console.print(
        f"confidences of entities are off by {confidences.stock:.1f} % on average (ECE), "
        f'with confidences="marginal" by {confidences.marginal:.1f} %',
        highlight=False,
    )
    write_json(json_file, timing.entries(rows))


@bench.command("table")
@clear_errors
def bench_table(
    json_file: JsonFile = None,
    rows: Annotated[
        int, typer.Option(min=2, help="Training examples of each task that are used; times are scaled up.")
    ] = 2048,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that are measured, in turns.")] = 3,
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
    """The paper's table of run times: an epoch of every system on every task, as a multiple of Struct's.

    Struct is timed as recipes run it, exactly, and by message passing with the paper's number of sweeps.
    Systems are those of --runs, trained to the end; of tasks without a run there, they are trained for a few
    updates, so that terms say little and inference takes few steps. Where GSPEN_DATA does not name the data,
    generated ones of the published size stand in.

    Examples:
        gspen-ner bench table --quick

        GSPEN_DATA=/data gspen-ner train bibtex --output runs/table/bibtex

        GSPEN_DATA=/data gspen-ner bench table --runs runs/table --rounds 5 --json table.json
    """
    check_writable(json_file, "--json")
    with console.status("loading libraries"):
        from recipes.bench import epochs, run_times

    rows, rounds = (384, 1) if quick else (rows, rounds)
    found: list[run_times.EpochRow] = []
    for task in epochs.timed_tasks(runs):
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task(f"{task.name}, {task.data}", total=rounds + 1)
            found += run_times.time_task(task, rows, rounds, partial(progress.advance, bar))
    if not quick:
        with console.status("NER"):
            found += run_times.time_ner(rows, rounds)
    console.print(run_times.as_table(found))
    if json_file is not None:
        run_times.write_json(found, json_file)
