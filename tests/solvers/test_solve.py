"""What `solve` promises for any term: monotone ascent, the best iterate, convergence of each by itself."""

from dataclasses import replace

import pytest
import torch

from gspen_ner import (
    Chain,
    Context,
    DocumentConsistency,
    FrankWolfe,
    MirrorDescent,
    Objective,
    PaddedMLP,
    Parts,
    Simplex,
    solve,
)
from tests.solvers.problems import LABELS, LENGTHS, Concave, EdgeConcave, grid, objective, random_mlp

NON_CONCAVE = grid(scale=[1.0, 4.0, 10.0], dropout=[0.0])
MONOTONE = [MirrorDescent(), MirrorDescent(step_size=20.0), FrankWolfe(), FrankWolfe(oracle="vertex")]


def document_problem(strength, temperature=1.0):
    """Six sentences of three documents whose words repeat; a strong term, attractive or repulsive."""
    random = torch.Generator().manual_seed(2)
    lengths = torch.tensor([4, 3, 2, 4, 1, 4])
    term = DocumentConsistency(LABELS, ["word"]).double()
    with torch.no_grad():
        term.agreement.copy_(strength * torch.eye(LABELS))
        term.support.copy_(strength * torch.randn(LABELS, LABELS, generator=random))
    documents = torch.tensor([0, 0, 1, 1, 2, 1])
    mentions = documents[:, None] * 3 + torch.randint(0, 3, (6, 4), generator=random)
    context = Context(torch.arange(4) < lengths[:, None], documents, mentions[..., None])
    nodes = torch.randn(6, 4, LABELS, generator=random, dtype=torch.float64)
    edges = torch.randn(LABELS, LABELS, generator=random, dtype=torch.float64)
    return Objective(Parts(nodes, edges), Chain(lengths), term, context, temperature)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("solver", MONOTONE, ids=repr)
@pytest.mark.parametrize("options", NON_CONCAVE, ids=str)
def test_with_backtracking_the_objective_never_falls(solver, temperature, dtype, options):
    problem = objective(random_mlp(**options).to(dtype), temperature, dtype)
    solution = solve(problem, solver, max_steps=25, tolerance=0.0, record_trace=True)
    rises = solution.trace.value.diff(dim=0)
    assert (rises >= 0).all()
    torch.testing.assert_close(solution.value, solution.trace.value[-1])


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0])
def test_a_mirror_step_is_the_exact_proximal_step(temperature):
    """argmax_q <g, q> + tau H(q) - KL(q, p) / eta on a simplex: logits (log p + eta g) / (1 + eta tau)."""
    problem = objective(random_mlp(3.0), temperature)
    problem = replace(
        problem, potentials=Parts(problem.potentials.nodes), polytope=Simplex(problem.context.mask)
    )
    solver = MirrorDescent(step_size=0.7, schedule="sqrt")
    state = solver.init(problem)
    for number in (1, 2, 3):
        eta, before = 0.7 / number**0.5, state.marginals
        gradient = problem.linear.nodes + problem.term_value_and_grad(before)[1].nodes
        logits = (before.nodes.log() + eta * gradient) / (1 + eta * temperature)
        state = solver.step(problem, state, number)
        present = problem.context.mask
        torch.testing.assert_close(state.marginals.nodes[present], logits.softmax(-1)[present])


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0])
def test_harmonic_steps_average_the_targets(temperature):
    solver = FrankWolfe("harmonic")
    problem = solver.prepare(objective(random_mlp(3.0), temperature))
    state, targets = solver.init(problem), []
    for number in (1, 2, 3):
        slope = problem.linear + problem.term_value_and_grad(state.marginals)[1]
        if temperature > 0:
            targets.append(problem.polytope.marginals(slope * (1 / temperature)).nodes)
        else:
            targets.append(problem.polytope.maximiser(slope).nodes)
        state = solver.step(problem, state, number)
        torch.testing.assert_close(state.marginals.nodes, torch.stack(targets).mean(0))


@pytest.mark.parametrize("strength", [3.0, -3.0, -30.0])
@pytest.mark.parametrize("solver", MONOTONE, ids=repr)
def test_documents_rise_as_a_whole(solver, strength):
    """Full parallel steps on a repulsive document term fall into a cycle; backtracking does not."""
    problem = document_problem(strength)
    trace = solve(problem, solver, max_steps=30, tolerance=0.0, record_trace=True).trace
    by_document = torch.stack([problem.pool(value) for value in trace.value])
    assert (by_document.diff(dim=0) >= -1e-12).all()


def test_a_repulsive_document_term_converges():
    solution = solve(document_problem(-3.0), MirrorDescent(), max_steps=200, tolerance=1e-6)
    assert solution.converged.all()


@pytest.mark.parametrize("solver", [MirrorDescent(5.0, "sqrt"), FrankWolfe("harmonic")], ids=repr)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_best_iterate_is_given_back_the_start_included(solver, temperature):
    problem = objective(Concave(strength=8.0), temperature)
    solution = solve(problem, solver, max_steps=9, tolerance=0.0, record_trace=True)
    torch.testing.assert_close(solution.value, solution.trace.value.amax(0))
    if isinstance(solver, FrankWolfe) and temperature > 0:
        problem = solver.prepare(problem)
    value = problem.linear.dot(solution.marginals) + problem.term_value(solution.marginals)
    if temperature > 0:
        per_position = problem.polytope.marginals(solution.theta.per_position())
        marginals = solution.marginals if isinstance(solver, FrankWolfe) else per_position
        value = value + temperature * problem.polytope.entropy(marginals)
    torch.testing.assert_close(value, solution.value)


@pytest.mark.parametrize("solver", [MirrorDescent(), FrankWolfe()], ids=repr)
@pytest.mark.parametrize("temperature", [0.0, 1.0, 0.25])
def test_a_zero_term_is_the_base_model_at_once(solver, temperature):
    problem = objective(PaddedMLP(LABELS, 4).double(), temperature, masks=True)
    solution = solve(problem, solver, tolerance=1e-9, max_steps=0 if temperature else 200)
    assert (problem.polytope.argmax(solution.theta) == problem.polytope.argmax(problem.potentials)).all()
    if temperature == 0:
        return
    assert solution.converged.all()
    assert (solution.steps == 0).all()
    scaled = problem.potentials * (1 / temperature)
    log_z, marginals = problem.polytope.sums(scaled)
    torch.testing.assert_close(solution.marginals.nodes, marginals.nodes)
    torch.testing.assert_close(solution.value, temperature * log_z)


def test_frank_wolfe_may_start_at_the_best_labelling():
    problem = objective(PaddedMLP(LABELS, 4).double(), 0.0)
    solution = solve(problem, FrankWolfe(start="maximiser"), tolerance=1e-9)
    assert (solution.steps == 0).all()
    assert solution.converged.all()
    best = problem.polytope.maximiser(problem.potentials)
    torch.testing.assert_close(solution.marginals.nodes, best.nodes)
    smooth, same = (
        solve(objective(None, 1.0), FrankWolfe(start=start)) for start in ("marginals", "maximiser")
    )
    torch.testing.assert_close(smooth.marginals.nodes, same.marginals.nodes)


@pytest.mark.parametrize("solver", [MirrorDescent(), FrankWolfe(), MirrorDescent(schedule="sqrt")], ids=repr)
@pytest.mark.parametrize("stop", ["gap", "change"])
def test_results_do_not_depend_on_batch_mates(solver, stop):
    problem = objective(random_mlp(3.0), 1.0)
    together = solve(problem, solver, max_steps=15, tolerance=1e-2, stop=stop)
    assert len(together.steps.unique()) > 1, "examples should need different numbers of steps"
    for row in range(len(LENGTHS)):
        alone = solve(problem.select(torch.tensor([row])), solver, max_steps=15, tolerance=1e-2, stop=stop)
        assert alone.steps.item() == together.steps[row]
        torch.testing.assert_close(alone.marginals.nodes[0], together.marginals.nodes[row], atol=1e-6, rtol=0)
        torch.testing.assert_close(alone.value[0], together.value[row])
        torch.testing.assert_close(alone.theta.nodes[0], together.theta.nodes[row], atol=1e-6, rtol=0)


def test_documents_do_not_depend_on_each_other():
    problem = document_problem(2.0)
    together = solve(problem, MirrorDescent(), max_steps=40, tolerance=1e-4)
    for document in range(3):
        rows = (problem.context.documents == document).nonzero().flatten()
        assert len(together.steps[rows].unique()) == 1, "a document converges as one"
        alone = solve(problem.select(rows), MirrorDescent(), max_steps=40, tolerance=1e-4)
        torch.testing.assert_close(alone.marginals.nodes, together.marginals.nodes[rows], atol=1e-6, rtol=0)


def test_noise_stays_with_its_example():
    term = random_mlp(3.0, dropout=0.5)
    problem = objective(term, 1.0)
    noise = term.draw_noise(problem.potentials, problem.context)
    problem = replace(problem, noise=noise)
    together = solve(problem, MirrorDescent(), max_steps=30, tolerance=1e-3)
    for row in range(len(LENGTHS)):
        alone = solve(problem.select(torch.tensor([row])), MirrorDescent(), max_steps=30, tolerance=1e-3)
        torch.testing.assert_close(alone.value[0], together.value[row])


def test_the_papers_stop_rule():
    problem = objective(random_mlp(2.0), 1.0)
    solution = solve(
        problem, MirrorDescent(schedule="sqrt"), max_steps=50, tolerance=0.1, stop="change", record_trace=True
    )
    assert solution.converged.all()
    changes = solution.trace.value.diff(dim=0).abs()
    for row, steps in enumerate(solution.steps.tolist()):
        assert changes[steps - 1, row] <= 0.1
        assert (changes[: steps - 1, row] > 0.1).all()


def test_not_converging_is_no_error():
    solution = solve(objective(random_mlp(5.0), 1.0), MirrorDescent(), max_steps=1, tolerance=1e-12)
    assert not solution.converged.any()
    assert (solution.steps == 1).all()
    assert (solution.residual > 1e-12).all()


@pytest.mark.parametrize("edges", ["counts", "positions"])
@pytest.mark.parametrize("solver", [MirrorDescent(), FrankWolfe()], ids=repr)
def test_terms_that_read_edges(edges, solver):
    term = random_mlp(2.0, edge_inputs=edges)
    problem = objective(term, 0.0, per_position=edges == "positions")
    solution = solve(problem, solver, max_steps=10, tolerance=0.0, record_trace=True)
    assert (solution.trace.value.diff(dim=0) >= 0).all()
    assert (solution.value > solution.trace.value[0]).any()


def test_masks_never_leak_into_the_solution():
    for solver in (
        MirrorDescent(),
        FrankWolfe(),
        FrankWolfe(oracle="vertex"),
        MirrorDescent(schedule="sqrt"),
    ):
        for temperature in (0.0, 1.0):
            for term in (random_mlp(3.0), EdgeConcave()):
                solution = solve(objective(term, temperature, masks=True), solver, max_steps=10)
                assert torch.isfinite(solution.marginals.nodes).all()
                assert torch.isfinite(solution.value).all()
                assert (solution.marginals.nodes[:, 0, 1] == 0).all()
                assert torch.isneginf(solution.theta.nodes[:, 0, 1]).all()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("solver", [MirrorDescent(), FrankWolfe()], ids=repr)
def test_marginals_are_the_iterate_also_on_a_simplex_with_unused_edges(solver, temperature):
    problem = objective(random_mlp(3.0), temperature)
    problem = replace(problem, polytope=Simplex(problem.polytope.mask(4)))
    solution = solve(problem, solver, max_steps=6)
    bare = Parts(problem.potentials.nodes)
    value = bare.dot(solution.marginals) + problem.term_value(solution.marginals)
    value = value + temperature * problem.polytope.entropy(solution.marginals)
    torch.testing.assert_close(value, solution.value)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_steps_stay_finite(temperature, dtype):
    for term in (None, Concave(0.5)):
        solution = solve(objective(term, temperature, dtype), MirrorDescent(), max_steps=300, tolerance=0.0)
        assert torch.isfinite(solution.value).all()
        assert torch.isfinite(solution.theta.nodes).all()


def test_autocast_does_not_reach_the_term():
    problem = objective(random_mlp(3.0).float(), 1.0, torch.float32)
    expected = solve(problem, MirrorDescent(), max_steps=30, tolerance=1e-4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = solve(problem, MirrorDescent(), max_steps=30, tolerance=1e-4)
    torch.testing.assert_close(actual.value, expected.value, atol=1e-3, rtol=0)
    assert actual.converged.all()


def test_under_no_grad_and_inference_mode():
    problem = objective(random_mlp(3.0), 1.0)
    expected = solve(problem, MirrorDescent()).value
    with torch.no_grad():
        torch.testing.assert_close(solve(problem, MirrorDescent()).value, expected)
    with torch.inference_mode():
        fresh = objective(problem.term, 1.0)  # made of inference tensors
        torch.testing.assert_close(solve(fresh, MirrorDescent()).value, expected)
    assert not expected.requires_grad


def test_settings_are_checked():
    problem = objective(None)
    with pytest.raises(ValueError, match=r"step_size must be greater than 0, got 0\.0"):
        MirrorDescent(step_size=0.0)
    with pytest.raises(ValueError, match="schedule must be"):
        MirrorDescent(schedule="linear")
    with pytest.raises(ValueError, match="schedule must be"):
        FrankWolfe(schedule="exact")
    with pytest.raises(ValueError, match="oracle must be"):
        FrankWolfe(oracle="lp")
    with pytest.raises(ValueError, match="start must be"):
        FrankWolfe(start="zero")
    with pytest.raises(ValueError, match="stop must be"):
        solve(problem, MirrorDescent(), stop="gaps")
    with pytest.raises(ValueError, match="must be at least 0, got -1"):
        solve(problem, MirrorDescent(), max_steps=-1)
    with pytest.raises(ValueError, match=r"temperature must be at least 0, got -1\.0"):
        objective(None, temperature=-1.0)
