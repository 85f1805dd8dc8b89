"""The command `gspen-ner`. Thin: each verb parses, calls, and prints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

app = typer.Typer(
    help="Global scores over whole label sequences for NER taggers, with the exact structure of a CRF.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(help="Measure: ours beside a peer's, in one process, as a ratio.", no_args_is_help=True)
app.add_typer(bench, name="bench")
console = Console(width=None if sys.stdout.isatty() else 120)

JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the rows as a JSON list.", dir_okay=False),
]
Seconds = Annotated[float, typer.Option(min=0.0, help="How long each row is measured, at least.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from gspen_ner import __version__

        console.print(f"gspen-ner {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before the verb."""


@bench.command("chain")
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
    from gspen_ner.bench import chain, timing

    _check_writable(json_file)
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
    if json_file is not None:
        timing.write_json(rows, json_file)


@bench.command("inference")
def bench_inference(json_file: JsonFile = None, seconds: Seconds = 1.0) -> None:
    """One GSPEN inference (500 hidden units, 10 steps) beside forward + backward of a 256-unit BiLSTM.

    Examples:
        gspen-ner bench inference

        gspen-ner bench inference --json inference.json
    """
    from gspen_ner.bench import inference, timing

    _check_writable(json_file)
    with console.status("measuring"):
        row, parts = inference.run(seconds)
    console.print(timing.as_table("GSPEN inference, (batch, length, labels)", [row], inference.BARS))
    console.print(
        f"of {parts.total:.1f} ms in {parts.steps:.1f} steps: chain kernel {parts.kernel:.1f}, "
        f"global term {parts.term:.1f}, rest {parts.rest:.1f}"
    )
    if json_file is not None:
        timing.write_json([row], json_file)


def _check_writable(file: Path | None) -> None:
    """Refuse a folder that does not exist before minutes are spent on measuring."""
    if file is not None and not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"{file.parent} is not a directory", param_hint="--json")


def main() -> None:
    """Entry point of the command."""
    app()


if __name__ == "__main__":
    main()
