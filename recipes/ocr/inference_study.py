"""The study of inference: GSPEN from both Structs, by both solvers, with and without entropy, by steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from gspen_ner.recipe import Inference

_BASES = ("struct", "struct_without_entropy")
_SCHEDULES = {
    ("mirror_descent", "ours"): "backtracking",
    ("mirror_descent", "paper"): "sqrt",
    ("frank_wolfe", "ours"): "line_search",
    ("frank_wolfe", "paper"): "harmonic",
}


@dataclass(frozen=True)
class StudyCase:
    """A GSPEN of the study, but for its number of steps."""

    base: str
    solver: str
    entropy: bool
    steps: str
    """Whose rule of step sizes: `"ours"` or `"paper"`."""

    def name(self, max_steps: int) -> str:
        """What the system is called that takes so many steps.

        Example:
            >>> name = StudyCase("struct", "mirror_descent", True, "ours").name(30)
            >>> name, StudyCase.of_name(name)[1]
            ('study-struct-mirror_descent-entropy-ours-30', 30)
        """
        entropy = "entropy" if self.entropy else "none"
        return f"study-{self.base}-{self.solver}-{entropy}-{self.steps}-{max_steps}"

    @classmethod
    def of_name(cls, name: str) -> tuple[StudyCase, int]:
        """The case of a system, and its number of steps."""
        _, base, solver, entropy, steps, max_steps = name.split("-")
        return cls(base, solver, entropy == "entropy", steps), int(max_steps)

    def inference(self, like: Inference, max_steps: int) -> Inference:
        """How it infers: in what the study does not vary, like another."""
        solver = {"name": self.solver, "schedule": _SCHEDULES[self.solver, self.steps]}
        if self.solver == "frank_wolfe" and self.steps == "paper":
            solver["oracle"] = "vertex"
        changed = {"solver": solver, "temperature": float(self.entropy), "max_steps": max_steps}
        return Inference.model_validate(like.model_dump() | changed)


def study_cases(max_steps: Sequence[int], inference: Inference) -> Iterator[tuple[str, str, Inference]]:
    """Name, base and inference of each GSPEN of the study."""
    for base, solver, entropy, steps_of in product(
        _BASES, ("mirror_descent", "frank_wolfe"), (True, False), ("ours", "paper")
    ):
        case = StudyCase(base, solver, entropy, steps_of)
        for steps in max_steps:
            yield case.name(steps), base, case.inference(inference, steps)
