"""The command; see the package's header."""

import argparse
import collections
import faulthandler
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from tqdm import tqdm

from tests.fuzz.targets import Target, make_targets
from tests.fuzz.trial import check, memory_limit


def main() -> None:
    """Try all readers, say what was found, and end with 1 if it was anything."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Broken files for every reader."
    )
    parser.add_argument("--inputs", type=int, default=10_000, help="how many in all")
    parser.add_argument("--seed", type=int, default=0, help="other seeds give other files")
    parser.add_argument("--only", help="the name of one reader")
    parser.add_argument("--keep", type=Path, help="a folder for the files that were not dealt with")
    options = parser.parse_args()
    os.environ["HF_DATASETS_CACHE"] = tempfile.mkdtemp()
    with tempfile.TemporaryDirectory() as place:
        targets = make_targets(Path(place))
        if options.only is not None:
            targets = {options.only: targets[options.only]}
        whole = sum(target.share for target in targets.values())
        total, wrong = 0, 0
        for name, target in targets.items():
            inputs = max(1, round(options.inputs * target.share / whole))
            start = time.time()
            found = _in_a_process(name, target, options.seed, inputs, Path(place), options.keep)
            total, wrong = total + inputs, wrong + sum(found.values())
            print(
                f"{name}: {inputs} inputs, {sum(found.values())} failures, {time.time() - start:.0f} s",
                flush=True,
            )
            for message, count in found.most_common(12):
                print(f"    {count} x {message}", flush=True)
    print(f"{total} inputs, {wrong} failures")
    sys.exit(wrong > 0)


def _in_a_process(
    name: str, target: Target, seed: int, inputs: int, place: Path, keep: Path | None
) -> collections.Counter[str]:
    """A reader that brings its process down is found out, too."""
    report = place / "report.json"
    report.write_text("{}")
    child = os.fork()
    if child == 0:
        faulthandler.enable()
        folder = Path(tempfile.mkdtemp(dir=place))
        found: dict[str, list[int]] = {}
        with memory_limit():
            for number in tqdm(range(inputs), name, disable=None, leave=False):
                message = check(target, name, seed, number, folder)
                if message is not None:
                    found.setdefault(message.replace(str(folder), ""), []).append(number)
                    if keep is not None:
                        keep.mkdir(parents=True, exist_ok=True)
                        (keep / f"{name}-{number}-{target.file}").write_bytes(
                            (folder / target.file).read_bytes()
                        )
        report.write_text(
            json.dumps({f"{text} (number {numbers[0]})": len(numbers) for text, numbers in found.items()})
        )
        os._exit(0)
    _, status = os.waitpid(child, 0)
    found_there = collections.Counter(json.loads(report.read_text()))
    if status:
        found_there[f"the process ended with status {status}"] += 1
    return found_there


if __name__ == "__main__":
    main()
