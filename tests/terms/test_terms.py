"""Global terms against their formulas, written out slowly; padding, noise, sums of terms."""

import jaxtyping
import pytest
import torch
from torch.nn.functional import pad, softplus

from gspen_ner import Chain, Context, Convolution, DocumentConsistency, PaddedMLP, Parts
from gspen_ner.terms import RELATIONS, Sharpness, TermSum
from gspen_ner.terms.term import GlobalTerm, select_noise
from tests.terms.batches import LENGTHS, awake, make_batch, make_documents

EDGE_INPUTS = ["none", "counts", "positions"]
every_reading = pytest.mark.parametrize("read_potentials", [False, True], ids=["marginals", "potentials too"])
every_edge_input = pytest.mark.parametrize("edge_inputs", EDGE_INPUTS)


@pytest.fixture
def unchecked():
    """Without run-time checks of types: beartype cannot resolve the alias `Noise` inside itself."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def row_alone(row, potentials, marginals, context):
    """One example of a batch, without its padding."""
    length = int(context.mask[row].sum())
    edges = marginals.edges[row : row + 1]
    alone = marginals.nodes[row : row + 1, :length]
    return (
        Parts(potentials.nodes[row : row + 1, :length]),
        Parts(alone, edges if edges.shape[1] == 1 else edges[:, : length - 1]),
        Context(context.mask[row : row + 1, :length]),
    )


def make_mlp(max_length=10, edge_inputs="none", read_potentials=False, dropout=0.0):
    return awake(PaddedMLP(3, max_length, 6, dropout, edge_inputs, read_potentials))


def mlp_by_hand(term, potentials, marginals, context, noise=None):
    """The header's formula, sentence by sentence and window by window, on inputs padded with zeros."""
    scores = []
    for row in range(len(marginals.nodes)):
        length = int(context.mask[row].sum())
        positions = []
        for t in range(length):
            inputs = [marginals.nodes[row, t]]
            if term.read_potentials:
                inputs.append(torch.nan_to_num(potentials.nodes[row, t], nan=0.0, neginf=0.0))
            if term.edge_inputs == "positions":
                last = t == length - 1
                inputs.append(torch.zeros(9).double() if last else marginals.edges[row, t].flatten())
            inputs = torch.cat(inputs)
            positions.append(inputs if noise is None else inputs * noise[row, t])
        score = 0.0
        for start in range(0, length, term.max_length):
            window = torch.cat(positions[start : start + term.max_length])
            hidden = term.input(pad(window, (0, term.input.in_features - len(window))))
            if term.edge_inputs == "counts":
                hidden = hidden + term.counts(marginals.edges[row].sum(0).flatten())
            score = score + (term.output.weight[0] * softplus(hidden)).sum()
        scores.append(score)
    return torch.stack(scores)


# PaddedMLP


@every_edge_input
@every_reading
@pytest.mark.parametrize("max_length", [10, 7, 3, 1])
def test_the_mlp_is_a_two_layer_perceptron_on_padded_inputs(max_length, read_potentials, edge_inputs):
    term, batch = make_mlp(max_length, edge_inputs, read_potentials), make_batch(edge_inputs=edge_inputs)
    torch.testing.assert_close(term(*batch), mlp_by_hand(term, *batch))


@every_edge_input
@every_reading
def test_the_gradient_of_the_mlp_is_that_of_the_formula(read_potentials, edge_inputs):
    term = make_mlp(3, edge_inputs, read_potentials)
    potentials, marginals, context = make_batch(edge_inputs=edge_inputs)
    nodes, edges = marginals.nodes.clone().requires_grad_(), marginals.edges.clone().requires_grad_()
    inputs = [nodes, *term.parameters()] + ([] if edge_inputs == "none" else [edges])
    grads = []
    for score in (term, lambda *batch: mlp_by_hand(term, *batch)):
        value = (score(potentials, Parts(nodes, edges), context) * torch.arange(5)).sum()
        grads.append(torch.autograd.grad(value, inputs))
    inside = context.mask[..., None]
    assert (grads[0][0] * inside != 0).any()
    torch.testing.assert_close(grads[0][0] * inside, grads[1][0])
    for actual, expected in zip(grads[0][1:-1], grads[1][1:-1], strict=True):
        torch.testing.assert_close(actual, expected)


@every_edge_input
@every_reading
@pytest.mark.parametrize("max_length", [10, 3])
def test_a_row_scores_the_same_in_a_batch_of_longer_ones(max_length, read_potentials, edge_inputs):
    term, batch = make_mlp(max_length, edge_inputs, read_potentials), make_batch(edge_inputs=edge_inputs)
    together = term(*batch)
    for row in range(len(LENGTHS)):
        torch.testing.assert_close(term(*row_alone(row, *batch))[0], together[row])


@every_reading
@pytest.mark.parametrize("length", [6, 7, 8])
def test_a_long_sentence_scores_the_sum_of_its_windows(length, read_potentials):
    term, (potentials, marginals, context) = make_mlp(3, "none", read_potentials), make_batch([length])
    windows = [slice(start, min(start + 3, length)) for start in range(0, length, 3)]
    apart = [
        term(Parts(potentials.nodes[:, at]), Parts(marginals.nodes[:, at]), Context(context.mask[:, at]))
        for at in windows
    ]
    torch.testing.assert_close(term(potentials, marginals, context), sum(apart))


def test_an_mlp_of_edges_per_position_needs_them():
    potentials, marginals, context = make_batch()
    term, counts = make_mlp(10, "positions"), marginals.edges.sum(1, keepdim=True)
    for edges in (None, counts):
        with pytest.raises(ValueError, match=r"per_position\(\)"):
            term(potentials, Parts(marginals.nodes, edges), context)


def test_edge_marginals_matter_only_to_a_term_that_reads_them():
    for edge_inputs in EDGE_INPUTS:
        potentials, marginals, context = make_batch(edge_inputs=edge_inputs)
        term = make_mlp(10, edge_inputs)
        other = Parts(marginals.nodes, marginals.edges.mT)
        same = torch.equal(term(potentials, other, context), term(potentials, marginals, context))
        assert same == (edge_inputs == "none")
        assert term.edge_inputs == edge_inputs


def test_potentials_matter_only_to_a_term_that_reads_them():
    potentials, marginals, context = make_batch()
    for read_potentials in (False, True):
        term = make_mlp(10, "none", read_potentials)
        same = torch.equal(term(potentials * 2.0, marginals, context), term(potentials, marginals, context))
        assert same != read_potentials


def test_forbidden_labels_read_as_zero():
    potentials, marginals, context = make_batch()
    term = make_mlp(4, "none", read_potentials=True)
    forbidden = torch.rand(potentials.nodes.shape) < 0.4
    nodes = potentials.nodes.masked_fill(forbidden, -torch.inf).requires_grad_()
    scores = term(Parts(nodes), marginals, context)
    torch.testing.assert_close(scores, term(Parts(nodes.masked_fill(forbidden, 0.0)), marginals, context))
    assert torch.isfinite(scores).all()
    scores.sum().backward()
    assert torch.isfinite(nodes.grad).all()
    assert (nodes.grad[forbidden | ~context.mask[..., None]] == 0).all()
    assert (nodes.grad != 0).any()


def test_an_mlp_without_dropout_draws_no_noise():
    potentials, _, context = make_batch()
    assert make_mlp(dropout=0.0).draw_noise(potentials, context) is None


@every_edge_input
@every_reading
def test_noise_keeps_each_input_at_the_right_rate(read_potentials, edge_inputs):
    term = make_mlp(10, edge_inputs, read_potentials, dropout=0.25)
    potentials, _, context = make_batch([50] * 40)
    noise = term.draw_noise(potentials, context)
    assert noise.shape == (40, 50, term.width)
    dropped = noise == 0
    assert (dropped | (noise == 1 / 0.75)).all()
    assert dropped.double().mean().item() == pytest.approx(0.25, abs=0.025)
    for axis in ((1, 2), (0, 2), (0, 1)):  # no row, position or input is dropped as a whole
        assert 0 < dropped.double().mean(axis).min() < dropped.double().mean(axis).max() < 1
    assert not torch.equal(term.draw_noise(potentials, context), noise)


@every_edge_input
@every_reading
@pytest.mark.parametrize("max_length", [10, 3])
def test_the_same_noise_gives_the_same_score(max_length, read_potentials, edge_inputs):
    term = make_mlp(max_length, edge_inputs, read_potentials, dropout=0.5)
    batch = make_batch(edge_inputs=edge_inputs)
    noise, other = (term.draw_noise(batch[0], batch[2]) for _ in range(2))
    scores = term(*batch, noise)
    assert torch.equal(term(*batch, noise), scores)
    assert not torch.equal(term(*batch, other), scores)
    torch.testing.assert_close(scores, mlp_by_hand(term, *batch, noise))
    rows = torch.tensor([3, 0])
    few = batch[0].select(rows), batch[1].select(rows), batch[2].select(rows)
    torch.testing.assert_close(term(*few, noise[rows]), scores[rows])


def test_the_mode_of_the_module_does_not_drop_anything():
    """Randomness comes in as noise only, in training as in evaluation."""
    term, batch = make_mlp(dropout=0.5), make_batch()
    assert torch.equal(term.train()(*batch), term.eval()(*batch))


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 1.5])
def test_a_dropout_that_is_no_probability_is_refused(dropout):
    with pytest.raises(ValueError, match=f"dropout must be at least 0 and less than 1, got {dropout}"):
        PaddedMLP(3, 10, dropout=dropout)


@pytest.mark.parametrize(
    ("sizes", "name"), [((0, 10, 6), "num_labels"), ((3, 0, 6), "max_length"), ((3, 10, 0), "hidden")]
)
def test_an_mlp_without_size_is_refused(sizes, name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        PaddedMLP(*sizes)


def test_an_mlp_for_another_number_of_labels_is_refused():
    with pytest.raises(ValueError, match="needs marginals of 3 labels, got 4"):
        make_mlp()(*make_batch(labels=4))


# New terms, and Convolution


@pytest.mark.parametrize(
    "term",
    [
        PaddedMLP(3, 10),
        PaddedMLP(3, 3, dropout=0.5),
        PaddedMLP(3, 10, edge_inputs="positions", read_potentials=True),
        Convolution(3),
        DocumentConsistency(3),
        Sharpness(3),
    ],
    ids=["mlp", "windowed mlp", "mlp of everything", "convolution", "document", "sharpness"],
)
def test_a_new_term_scores_exactly_zero(term):
    potentials, marginals, context = make_batch()
    context = Context(context.mask, torch.zeros(5).long(), torch.zeros(5, 7, len(RELATIONS)).long())
    noise = term.double().draw_noise(potentials, context)
    scores = term(potentials, marginals, context, noise)
    assert scores.tolist() == [0.0] * 5
    scores.sum().backward()
    assert any((parameter.grad != 0).any() for parameter in term.parameters()), "it could never learn"


def test_a_new_mlp_of_counts_scores_exactly_zero():
    assert (
        PaddedMLP(3, 10, edge_inputs="counts").double()(*make_batch(edge_inputs="counts")).tolist()
        == [0.0] * 5
    )


@pytest.mark.parametrize("width", [1, 3, 5])
def test_a_convolution_is_its_formula(width):
    term, (potentials, marginals, context) = awake(Convolution(3, 4, width)), make_batch()
    weight, bias, reach = term.filters.weight, term.filters.bias, width // 2
    for row, score in enumerate(term(potentials, marginals, context)):
        expected = 0.0
        for t in range(LENGTHS[row]):
            hidden = bias
            for k in range(-reach, reach + 1):
                if 0 <= t + k < LENGTHS[row]:
                    hidden = hidden + weight[:, :, k + reach] @ marginals.nodes[row, t + k]
            expected = expected + term.output.weight[0] @ softplus(hidden)
        torch.testing.assert_close(score, expected)


def test_a_convolution_scores_a_row_the_same_in_a_batch_of_longer_ones():
    term, batch = awake(Convolution(3, 4, 5)), make_batch()
    together = term(*batch)
    for row in range(len(LENGTHS)):
        torch.testing.assert_close(term(*row_alone(row, *batch))[0], together[row])


@pytest.mark.parametrize("width", [-1, 0, 2, 4])
def test_a_window_without_a_middle_is_refused(width):
    with pytest.raises(ValueError, match=f"width must be (odd|at least 1).*got {width}"):
        Convolution(3, width=width)


def test_sharpness_is_the_weighted_sum_of_squares():
    term, (potentials, marginals, context) = awake(Sharpness(3)), make_batch()
    expected = 0.5 * term.weight * (marginals.nodes**2 * context.mask[..., None]).sum((1, 2))
    assert torch.allclose(term(potentials, marginals, context), expected)


# Sums of terms


def make_sum():
    _, marginals, context = make_documents()
    potentials = make_batch()[0]
    terms = make_mlp(3, dropout=0.5), awake(Convolution(3, 4)), awake(DocumentConsistency(3))
    return terms, (potentials, marginals, context)


def test_the_score_of_a_sum_is_the_sum_of_scores():
    (mlp, convolution, document), batch = make_sum()
    expected = mlp(*batch) + convolution(*batch) + document(*batch)
    torch.testing.assert_close(TermSum(mlp, convolution, document)(*batch), expected)
    torch.testing.assert_close((mlp + convolution + document)(*batch), expected)
    torch.testing.assert_close((mlp + (convolution + document))(*batch), expected)


def test_sums_of_sums_are_flat():
    (mlp, convolution, document), _ = make_sum()
    for total in (mlp + (convolution + document), (mlp + convolution) + document):
        assert list(total.terms) == [mlp, convolution, document]
    doubled = (mlp + convolution) + (convolution + document)
    assert list(doubled.terms) == [mlp, convolution, convolution, document]
    assert {id(p) for p in (mlp + document).parameters()} == {
        id(p) for term in (mlp, document) for p in term.parameters()
    }


def test_each_term_of_a_sum_gets_its_own_noise():
    (mlp, convolution, document), batch = make_sum()
    total = mlp + convolution + document + make_mlp(10, read_potentials=True, dropout=0.2)
    noise = total.draw_noise(batch[0], batch[2])
    assert isinstance(noise, tuple)
    assert [part is None for part in noise] == [False, True, True, False]
    expected = sum(term(*batch, own) for term, own in zip(total.terms, noise, strict=True))
    torch.testing.assert_close(total(*batch, noise), expected)
    assert not torch.allclose(total(*batch), expected)


@pytest.mark.usefixtures("unchecked")
def test_a_sum_inside_a_sum_gets_its_noise_as_a_tuple():
    (mlp, convolution, document), batch = make_sum()
    nested = TermSum(document, TermSum(convolution, mlp))
    noise = nested.draw_noise(batch[0], batch[2])
    assert noise[0] is None
    assert noise[1][0] is None
    expected = document(*batch) + convolution(*batch) + mlp(*batch, noise[1][1])
    torch.testing.assert_close(nested(*batch, noise), expected)


@pytest.mark.usefixtures("unchecked")
def test_the_noise_of_some_rows_is_theirs():
    rows, noise = torch.tensor([4, 1]), torch.rand(5, 2, 3)
    chosen = select_noise((noise, None, (noise * 2, None)), rows)
    torch.testing.assert_close(chosen[0], noise[[4, 1]])
    assert chosen[1] is None
    torch.testing.assert_close(chosen[2][0], 2 * noise[[4, 1]])
    assert chosen[2][1] is None
    assert select_noise(None, rows) is None


def test_a_sum_couples_what_its_document_term_couples():
    (mlp, convolution, document), (_, _, context) = make_sum()
    assert torch.equal((mlp + document + convolution).groups(context), context.documents)
    assert (mlp + convolution).groups(context) is None


@pytest.mark.parametrize("layout", ["counts", "positions"])
def test_a_sum_reads_edges_as_its_terms_do(layout):
    reading, other = make_mlp(10, layout), make_mlp(10)
    assert (other + reading + make_mlp(10, layout)).edge_inputs == layout
    assert (other + Convolution(3)).edge_inputs == "none"
    batch = make_batch(edge_inputs=layout)
    torch.testing.assert_close((other + reading)(*batch), other(*batch) + reading(*batch))


def test_terms_that_read_edges_differently_do_not_add():
    counts, positions = make_mlp(10, "counts"), make_mlp(10, "positions")
    with pytest.raises(ValueError, match=r"in the same layout, got .'counts', 'positions'."):
        counts + positions
    with pytest.raises(ValueError, match=r"in the same layout, got .'counts', 'positions'."):
        TermSum(Convolution(3) + counts, positions)


def test_a_sum_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one term"):
        TermSum()


# Context


def test_a_context_of_lengths_masks_the_padding():
    mask = Context.of_lengths(torch.tensor([3, 1]), 4).mask
    assert mask.tolist() == [[True, True, True, False], [True, False, False, False]]


def test_a_context_selects_all_it_knows():
    _, _, context = make_documents()
    few = context.select(torch.tensor([2, 0]))
    assert torch.equal(few.mask, context.mask[[2, 0]])
    assert few.documents.tolist() == [0, 4]
    assert torch.equal(few.mentions, context.mentions[[2, 0]])
    assert Context(context.mask).select(torch.tensor([1])).documents is None


@pytest.mark.parametrize("edge_inputs", ["none", "counts", "positions"])
@pytest.mark.parametrize("max_length", [3, 6, 20])
@pytest.mark.parametrize("read_potentials", [False, True])
def test_the_closed_form_of_the_mlp_is_what_autograd_says(edge_inputs, max_length, read_potentials):
    term = PaddedMLP(4, max_length, 7, 0.5, edge_inputs, read_potentials).double()
    torch.nn.init.normal_(term.output.weight)
    chain = Chain(torch.tensor([6, 1, 4]))
    potentials = chain.potentials(torch.randn(3, 6, 4).double(), torch.randn(3, 5, 4, 4).double())
    marginals, context = chain.marginals(potentials), Context.of_lengths(chain.lengths, 6)
    for noise in (None, term.draw_noise(potentials, context)):
        value, grad = term.value_and_grad(potentials, marginals, context, noise)
        expected_value, expected = GlobalTerm.value_and_grad(term, potentials, marginals, context, noise)
        torch.testing.assert_close(value, expected_value)
        torch.testing.assert_close(grad.nodes, expected.nodes)
        assert (grad.edges is None) == (expected.edges is None)
        if grad.edges is not None:
            torch.testing.assert_close(grad.edges, expected.edges)
