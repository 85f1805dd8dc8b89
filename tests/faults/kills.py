"""Kills a command at random moments, and looks at what is left.

    python -m tests.faults.kills --kills 30           training, prediction and tagging, each killed 30 times
    python -m tests.faults.kills --only predict       one of them

The moments are drawn evenly from the time that the command takes, once it has begun to do its work. Commands
are forks of a small server that has only loaded the libraries: whoever calls this may have threads, which a
fork of its own would lack and wait for. Another command is one more `Case` in CASES.
"""

import argparse
import json
import os
import random
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tqdm import tqdm

from gspen_ner.cli import app
from gspen_ner.ner.newswire import generate_newswire
from tests.tiny import content_of, make_model, metrics_of, results_of, write_recipe

CHANGES = {
    "base_training": {"epochs": 3, "average": 0.5, "learning_rate": 0.06},
    "term_training": {"epochs": 3, "average": 0.5, "learning_rate": 0.3, "dropout_draws": 2},
}
OLD = "what was there before"
LIBRARIES = ["gspen_ner.corpora.tagging", "gspen_ner.runs.huggingface_run", "tests.tiny"]
LONGEST = 120  # seconds that a command may take to begin, and then to end
SERVER = get_context("forkserver")
SERVER.set_forkserver_preload(LIBRARIES)


class Case(ABC):
    """A command that is killed.

    Args:
        folder: where it works; the case may keep there what it needs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)

    @abstractmethod
    def command(self, again: bool) -> list[object]:
        """Arguments of `gspen-ner`; `again` after a kill."""

    @abstractmethod
    def begun(self) -> bool:
        """Whether the command has begun to do its work: to load libraries is none."""

    @abstractmethod
    def check_killed(self) -> None:
        """What must hold whenever it was killed."""

    @abstractmethod
    def outcome(self) -> object:
        """What it ends in, equal for all runs."""

    def finished(self) -> bool:
        """Whether it was killed when all was done."""
        return False

    @abstractmethod
    def reset(self) -> None:
        """Begin anew, once the command has ended by itself."""


class Training(Case):
    """`train`, then `train --resume`: ends like an unbroken run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.recipe, self.runs = write_recipe(folder / "recipe.yaml", **CHANGES), 0

    @property
    def run(self) -> Path:
        return self.folder / f"run-{self.runs}"

    def command(self, again: bool) -> list[object]:
        resume = ["--resume"] if (self.run / "recipe.yaml").exists() else []
        assert bool(resume) <= again
        return ["train", self.recipe, "--output", self.run, *resume]

    def begun(self) -> bool:
        return (self.run / "recipe.yaml").exists()

    def check_killed(self) -> None:
        """Nothing: what is left is looked at by resuming."""

    def outcome(self) -> object:
        weights = content_of(self.run / "model")[Path("model.safetensors")]
        return results_of(self.run), metrics_of(self.run), weights

    def reset(self) -> None:
        self.runs += 1


class Prediction(Case):
    """`predict --output`: the output is the old one or the new one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        make_model().save_pretrained(folder / "model")
        (folder / "text.txt").write_text("Ms. Anna Halden left Graz. Halden won!\n\n" * 300)
        self.output = folder / "out" / "found.jsonl"
        self.output.parent.mkdir()
        self.new: bytes | None = None
        self.reset()

    def command(self, again: bool) -> list[object]:
        return ["predict", self.folder / "model", self.folder / "text.txt", "--output", self.output]

    def begun(self) -> bool:
        return True

    def check_killed(self) -> None:
        assert self.output.read_bytes() in (OLD.encode(), self.new)

    def outcome(self) -> object:
        self.new = self.new or self.output.read_bytes()
        assert list(self.output.parent.iterdir()) == [self.output], "nothing else is left"
        return self.output.read_bytes()

    def reset(self) -> None:
        self.output.write_text(OLD)


class Tagging(Case):
    """`tag`, then `tag --resume`: no row is lost, or there twice."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        make_model().save_pretrained(folder / "model")
        sentences = generate_newswire(120, seed=5)
        rows = ({"id": n, "tokens": s.tokens, "document": s.document} for n, s in enumerate(sentences))
        (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.runs = 0

    @property
    def output(self) -> Path:
        return self.folder / f"run-{self.runs}" / "tagged.jsonl"

    def command(self, again: bool) -> list[object]:
        self.output.parent.mkdir(exist_ok=True)
        places = [self.folder / "model", self.folder / "corpus.jsonl", self.output]
        return ["tag", *places, "--part-rows", 20, "--document-column", "document", "--resume"]

    def begun(self) -> bool:
        return any(self.output.parent.iterdir())

    def check_killed(self) -> None:
        """Nothing: what is left is looked at by resuming."""

    def outcome(self) -> object:
        return content_of(self.output.parent)

    def finished(self) -> bool:
        return [self.output] == list(self.output.parent.iterdir())

    def reset(self) -> None:
        self.runs += 1


CASES: dict[str, type[Case]] = {"train": Training, "predict": Prediction, "tag": Tagging}


def kill_often(case: Case, kills: int, seed: int = 0) -> str:
    """Kill a command at random moments until it has been killed often enough; what was done is returned.

    Raises:
        AssertionError: something was lost.
    """
    moments = random.Random(seed)
    start = time.monotonic()
    _finish(case, again=False)  # kernels may have to be compiled: the next run tells how long one takes
    expected, killed, ended = case.outcome(), 0, 0
    case.reset()
    whole = _finish(case, again=False)
    assert case.outcome() == expected, "of two unbroken runs"
    case.reset()
    bar = tqdm(total=kills, desc="kills", disable=None)
    while killed < kills:
        if _killed(case, killed > 0, moments.uniform(0, whole)):
            killed += 1
            bar.update()
            case.check_killed()
            if not case.finished():
                if moments.random() < 0.5:  # it is killed once more
                    continue
                _finish(case, again=True)
        assert case.outcome() == expected, f"after {killed} kills"
        ended += 1
        case.reset()
    bar.close()
    _finish(case, again=True)
    assert case.outcome() == expected
    return f"{killed} kills, {ended + 1} runs ended like the unbroken one, {time.monotonic() - start:.0f} s"


@contextmanager
def _running(case: Case, again: bool) -> Iterator[ForkServerProcess]:
    """The command in a process of its own, from when it has begun to work until the block ends."""
    process = SERVER.Process(target=_run, args=(case.command(again), case.folder / "said.txt"))
    process.start()
    try:
        end = time.monotonic() + LONGEST
        while process.is_alive() and not case.begun():
            assert time.monotonic() < end, f"nothing was done for {LONGEST} s"
            time.sleep(0.002)
        yield process
    finally:
        process.kill()
        process.join()


def _run(arguments: list[object], said: Path) -> None:
    with said.open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    app([str(argument) for argument in arguments])


def _finish(case: Case, again: bool) -> float:
    """Let the command end by itself; the seconds from when it began to work are returned."""
    with _running(case, again) as process:
        start = time.monotonic()
        process.join(LONGEST)
        seconds = time.monotonic() - start
    assert process.exitcode == 0, (case.folder / "said.txt").read_text()[-2000:]
    return seconds


def _killed(case: Case, again: bool, after: float) -> bool:
    """Kill the command some seconds after it has begun to work; False if it ended before."""
    with _running(case, again) as process:
        process.join(after)
    assert process.exitcode in (0, -signal.SIGKILL), (case.folder / "said.txt").read_text()[-2000:]
    return process.exitcode != 0


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kills", description="Kills commands.")
    parser.add_argument("--kills", type=int, default=30, help="how often each is killed")
    parser.add_argument("--only", choices=CASES, help="one command")
    parser.add_argument("--seed", type=int, default=0, help="other seeds, other moments")
    options = parser.parse_args()
    for name, kind in CASES.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                print(
                    f"{name}: {kill_often(kind(Path(folder, name)), options.kills, options.seed)}", flush=True
                )


if __name__ == "__main__":
    main()
