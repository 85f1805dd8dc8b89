"""What CONTRIBUTING.md shows: its code is run as it stands there, and does what the text says."""

import re
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from gspen_ner import Chain, Context, Convolution, GSPENHead, Labels, MirrorDescent, Objective, Parts, solve
from gspen_ner.head import make_head
from gspen_ner.polytopes import POLYTOPES
from gspen_ner.solvers import SOLVERS, Solver
from gspen_ner.terms import TERMS
from tests.polytope_suite import PolytopeCase, PolytopeSuite

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^## An? (\w+)\n.*?^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE))


def run(block):
    """The names that a block of code defines; what it registers is taken out again by `_registries`."""
    names = {"__name__": "contributed"}
    exec(compile(BLOCKS[block], f"CONTRIBUTING.md, a {block}", "exec", dont_inherit=True), names)
    return names


@pytest.fixture(autouse=True)
def _registries():
    with mock.patch.dict(TERMS.classes), mock.patch.dict(SOLVERS.classes), mock.patch.dict(POLYTOPES.classes):
        yield


@pytest.fixture
def chains():
    """A batch of chains with scores, and the context of its terms."""
    chain = Chain(torch.tensor([5, 3, 1]))
    return chain.potentials(torch.randn(3, 5, 4), torch.randn(4, 4)), chain, Context(chain.mask(5))


def test_all_four_are_shown_briefly():
    assert list(BLOCKS) == ["term", "polytope", "solver", "host"]
    for name, code in BLOCKS.items():
        lines = [line for line in code.splitlines() if line and not line.startswith(("import", "from"))]
        assert len(lines) < 30, name


def test_term(chains):
    potentials, chain, context = chains
    run("term")
    term = TERMS.make({"name": "label_counts"}, num_labels=4)
    head = GSPENHead(term, max_steps=50, tolerance=1e-4)
    assert head.decode(potentials, chain) == [row[row >= 0].tolist() for row in chain.argmax(potentials)]
    used = chain.marginals(potentials).nodes.sum((0, 1))
    with torch.no_grad():
        term.weights[2] = -3.0  # the label becomes dear
    solution = head.infer(potentials, chain, context)
    assert solution.converged.all()
    assert solution.marginals.nodes.sum((0, 1))[2] < 0.8 * used[2]


class TestPolytope(PolytopeSuite):
    @pytest.fixture
    def case(self):
        mask = torch.tensor([[True, True, True], [True, False, False]])
        theta = Parts(torch.randn(2, 3, 4, dtype=torch.float64))
        labellings = [[[label] * length for label in range(4)] for length in (3, 1)]
        run("polytope")
        return PolytopeCase(POLYTOPES.make({"name": "one_label"}, mask=mask), theta, labellings)


def test_solver(chains):
    potentials, chain, context = chains
    run("solver")
    term = Convolution(4, hidden=6, width=3)
    torch.nn.init.normal_(term.output.weight, std=0.1)
    objective = Objective(potentials, chain, term, context)
    solver = make_head([{"name": "convolution"}], {"solver": {"name": "fixed_point"}}, num_labels=4).solver
    assert isinstance(solver, Solver)
    found, expected = (
        solve(objective, way, max_steps=100, tolerance=1e-5) for way in (solver, MirrorDescent())
    )
    assert found.converged.all()
    assert found.steps.max() > 0
    torch.testing.assert_close(found.value, expected.value, atol=1e-4, rtol=0)
    torch.testing.assert_close(found.marginals.nodes, expected.marginals.nodes, atol=1e-2, rtol=0)


def tags_of(kinds):
    """1 is no name, 2 begins one, 3 continues one where it can."""
    tags = []
    for kind in kinds:
        inside = kind == 3 and tags and tags[-1] != "O"
        tags.append("O" if kind == 1 else "I-PER" if inside else "B-PER")
    return tags


def test_host():
    pytest.importorskip("sklearn")
    short, long = (list(product((1, 2, 3), repeat=length)) for length in (3, 4))
    classifier = run("host")["SequenceClassifier"](Labels.of_types(["PER"], "BIO"), epochs=100)
    assert classifier.get_params()["epochs"] == 100
    classifier.fit([np.eye(4)[list(kinds)] for kinds in short], [tags_of(kinds) for kinds in short])
    predicted = classifier.predict([np.eye(4)[list(kinds)] for kinds in long])
    assert predicted == [tags_of(kinds) for kinds in long]
