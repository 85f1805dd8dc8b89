"""The study of inference: GSPEN on top of both Structs, with both solvers, with and without entropy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from gspen_ner.recipe import Inference

SOLVERS = {"mirror_descent": "mirror descent", "frank_wolfe": "Frank-Wolfe"}
"""Names of the solvers for people."""
STEP_SIZES = {"ours": "our step sizes", "paper": "the paper's step sizes"}
_SCHEDULES = {
    ("mirror_descent", "ours"): "backtracking",
    ("mirror_descent", "paper"): "sqrt",
    ("frank_wolfe", "ours"): "line_search",
    ("frank_wolfe", "paper"): "harmonic",
}


@dataclass(frozen=True)
class StudyCase:
    """A GSPEN of the study, on top of a Struct (`base`), with a rule of step sizes (`steps`)."""

    base: str
    solver: str
    entropy: bool
    steps: str

    def name(self, max_steps: int) -> str:
        """Return the name of the system with a number of inference steps.

        Example:
            >>> name = StudyCase("struct", "mirror_descent", True, "ours").name(30)
            >>> name, StudyCase.of_name(name)[1]
            ('study-struct-mirror_descent-entropy-ours-30', 30)
        """
        entropy = "entropy" if self.entropy else "none"
        return f"study-{self.base}-{self.solver}-{entropy}-{self.steps}-{max_steps}"

    @classmethod
    def of_name(cls, name: str) -> tuple[StudyCase, int]:
        """Return the case of a system, and its number of inference steps."""
        _, base, solver, entropy, steps, max_steps = name.split("-")
        return cls(base, solver, entropy == "entropy", steps), int(max_steps)

    def inference(self, like: Inference, max_steps: int) -> Inference:
        """Return the inference of the case, with all other options of another inference."""
        solver = {"name": self.solver, "schedule": _SCHEDULES[self.solver, self.steps]}
        if self.solver == "frank_wolfe" and self.steps == "paper":
            solver["oracle"] = "vertex"
        changed = {"solver": solver, "temperature": float(self.entropy), "max_steps": max_steps}
        return Inference.model_validate(like.model_dump() | changed)


def study_cases(max_steps: Sequence[int], inference: Inference) -> Iterator[tuple[str, str, Inference]]:
    """Yield name, base and inference of each GSPEN of the study."""
    bases = ("struct", "struct_without_entropy")
    for base, solver, entropy, steps, count in product(bases, SOLVERS, (True, False), STEP_SIZES, max_steps):
        case = StudyCase(base, solver, entropy, steps)
        yield case.name(count), base, case.inference(inference, count)
