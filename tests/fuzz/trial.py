"""One broken file given to one reader, with limits on memory and time."""

import resource
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.fuzz.mutations import broken
from tests.fuzz.targets import Target

SECONDS = 10  # of the processor that a small file may take
MEMORY = 3 << 30  # bytes that may come on top of what is there before


class Hung(BaseException):
    """Nobody catches it."""


def check(target: Target, name: str, seed: int, number: int, folder: Path) -> str | None:
    """What is wrong with a reader, given the broken file of a number; None if it does what it should."""
    content = broken(
        Random(f"{name} {seed} {number}").choice(target.valid), Random(f"{seed} {name} {number}")
    )
    file = folder / target.file
    file.write_bytes(content)
    for other, kept in target.others.items():
        if other != target.file and not (folder / other).exists():
            (folder / other).write_bytes(kept)
    try:
        with _time_limit():
            target.read(file)
    except ValueError as error:
        named = (target.named or target.file).split("|")
        if type(error) is not ValueError:
            return f"{type(error).__name__}, not our ValueError: {error!s:.200}"
        if not any(word in str(error) for word in named):
            return f"the error does not name {' or '.join(named)}: {error!s:.200}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error!s:.200}"
    return None


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Hung(f"took more than {SECONDS} seconds")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def memory_limit() -> Iterator[None]:
    """Absurd sizes become a MemoryError instead of a machine without memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
