"""LinearChainCRF: pytorch-crf's equal, its masks with gaps, constraints, partial labels, refusals."""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call

from gspen_ner import Labels, LinearChainCRF, spans_of_tags
from gspen_ner.labels import tags_of_spans
from tests.oracle import Enumeration

REDUCTIONS = ["none", "sum", "mean", "token_mean"]
BIO = Labels(("O", "B-X", "I-X", "B-Y", "I-Y"), "BIO")
BIOES = Labels(("O", "B-X", "I-X", "E-X", "S-X"), "BIOES")
on_both_backends = pytest.mark.usefixtures("backend")
both_schemes = pytest.mark.parametrize("labels", [BIO, BIOES], ids=["BIO", "BIOES"])


def make_crf(num_labels=4, batch_first=True, constraints=None):
    crf = LinearChainCRF(num_labels, batch_first, constraints).double()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf


def prefix_mask(lengths, length):
    return torch.arange(length) < torch.tensor(lengths)[:, None]


def truth_of(crf, emissions):
    """All labellings of one sentence, its emissions [T, L], under the CRF."""
    nodes = emissions.detach().clone().double()
    nodes[0] += crf.start_transitions.detach()
    nodes[-1] += crf.end_transitions.detach()
    table = crf.transitions.detach().double().numpy()
    return Enumeration(nodes.numpy(), np.broadcast_to(table, (len(nodes) - 1, *table.shape)))


# A drop-in for pytorch-crf


def twins(batch_first):
    """Both CRFs with equal parameters, and a ragged batch for them."""
    torchcrf = pytest.importorskip("torchcrf")
    theirs, ours = torchcrf.CRF(4, batch_first).double(), LinearChainCRF(4, batch_first).double()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    emissions = 2 * torch.randn(5, 6, 4, dtype=torch.float64)
    tags, mask = torch.randint(4, (5, 6)), prefix_mask([6, 3, 1, 5, 2], 6)
    if not batch_first:
        emissions, tags, mask = (tensor.transpose(0, 1).contiguous() for tensor in (emissions, tags, mask))
    return theirs, ours, emissions, tags, mask


def value_and_grads(crf, emissions, *arguments):
    emissions = emissions.clone().requires_grad_()
    value = crf(emissions, *arguments)
    weights = torch.arange(1.0, value.numel() + 1, dtype=value.dtype).reshape(value.shape)
    names, parameters = zip(*sorted(crf.named_parameters()), strict=True)
    grads = torch.autograd.grad((value * weights).sum(), [emissions, *parameters])
    return value.detach(), dict(zip(["emissions", *names], grads, strict=True))


@on_both_backends
@pytest.mark.filterwarnings("ignore:where received a uint8 condition")  # theirs, without a mask
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("batch_first", [True, False])
def test_likelihood_and_gradients_are_those_of_pytorch_crf(batch_first, reduction):
    theirs, ours, emissions, tags, mask = twins(batch_first)
    for arguments in ((tags, mask, reduction), (tags, None, reduction)):
        expected, expected_grads = value_and_grads(theirs, emissions, *arguments)
        actual, grads = value_and_grads(ours, emissions, *arguments)
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(grads, expected_grads)


@on_both_backends
@pytest.mark.parametrize("batch_first", [True, False])
def test_decoding_is_that_of_pytorch_crf(batch_first):
    theirs, ours, emissions, _, mask = twins(batch_first)
    assert ours.decode(emissions, mask) == theirs.decode(emissions, mask)
    assert ours.decode(emissions) == theirs.decode(emissions)


def test_the_default_reduction_and_layout_are_those_of_pytorch_crf():
    torchcrf = pytest.importorskip("torchcrf")
    theirs, ours = torchcrf.CRF(3), LinearChainCRF(3)
    ours.load_state_dict(theirs.state_dict())
    emissions, tags = torch.randn(5, 2, 3), torch.randint(3, (5, 2))
    torch.testing.assert_close(ours(emissions, tags), theirs(emissions, tags))
    assert ours.decode(emissions) == theirs.decode(emissions)


def test_pytorch_crf_loads_our_state_too():
    theirs, ours, emissions, tags, mask = twins(True)
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    torch.testing.assert_close(ours(emissions, tags, mask), theirs(emissions, tags, mask))


@pytest.mark.parametrize("batch_first", [True, False])
def test_byte_masks_do_what_boolean_masks_do(batch_first):
    _, crf, emissions, tags, mask = twins(batch_first)
    byte = mask.to(torch.uint8)
    torch.testing.assert_close(crf(emissions, tags, byte), crf(emissions, tags, mask))
    torch.testing.assert_close(crf.marginals(emissions, byte), crf.marginals(emissions, mask))
    assert crf.decode(emissions, byte) == crf.decode(emissions, mask)


def test_batch_first_only_swaps_the_axes():
    first, second = make_crf(4, True), make_crf(4, False)
    second.load_state_dict(first.state_dict())
    emissions, tags = torch.randn(3, 5, 4, dtype=torch.float64), torch.randint(4, (3, 5))
    allowed, mask = (
        torch.rand(3, 5, 4) < 0.9,
        torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1], [1] * 5]).bool(),
    )
    allowed[..., 0] = True
    swapped = [tensor.transpose(0, 1) for tensor in (emissions, tags, allowed, mask)]
    for gold, other in ((tags, swapped[1]), (allowed, swapped[2])):
        values = first(emissions, gold, mask, "none")
        torch.testing.assert_close(second(swapped[0], other, swapped[3], "none"), values)
    expected = first.marginals(emissions, mask)
    torch.testing.assert_close(second.marginals(swapped[0], swapped[3]).transpose(0, 1), expected)
    assert second.k_best(swapped[0], 3, swapped[3]) == first.k_best(emissions, 3, mask)
    assert second.decode(swapped[0], swapped[3]) == first.decode(emissions, mask)
    draws = [torch.Generator().manual_seed(3) for _ in range(2)]
    expected = first.sample(emissions, 4, mask, draws[0])
    assert second.sample(swapped[0], 4, swapped[3], draws[1]) == expected


def test_entropy_with_the_length_first():
    crf, emissions = make_crf(4, batch_first=False), torch.randn(5, 3, 4, dtype=torch.float64)
    expected = [truth_of(crf, emissions[:, row]).entropy for row in range(3)]
    assert crf.entropy(emissions).tolist() == pytest.approx(expected)


# Masks with gaps

GAPS = torch.tensor(
    [
        [1, 1, 1, 1, 1, 1],
        [0, 1, 0, 1, 1, 0],  # [CLS], sub-tokens, [SEP]
        [0, 0, 0, 1, 1, 1],  # padding on the left
        [1, 0, 0, 0, 0, 1],
        [0, 0, 1, 0, 0, 0],
    ]
).bool()


@pytest.fixture
def gapped():
    """A CRF, emissions with NaN where masked and tags with -100, and both with the gaps squeezed out."""
    crf = make_crf(4)
    emissions, tags = torch.randn(5, 6, 4, dtype=torch.float64), torch.randint(4, (5, 6))
    squeezed = [(emissions[row, GAPS[row]], tags[row, GAPS[row]]) for row in range(5)]
    return crf, emissions.masked_fill(~GAPS[..., None], torch.nan), tags.masked_fill(~GAPS, -100), squeezed


@on_both_backends
def test_the_likelihood_with_gaps_is_that_of_the_squeezed_rows(gapped):
    crf, emissions, tags, squeezed = gapped
    expected = torch.cat([crf(scores[None], gold[None], reduction="none") for scores, gold in squeezed])
    torch.testing.assert_close(crf(emissions, tags, GAPS, "none"), expected)
    torch.testing.assert_close(crf(emissions, tags, GAPS, "sum"), expected.sum())
    torch.testing.assert_close(crf(emissions, tags, GAPS, "mean"), expected.mean())
    torch.testing.assert_close(crf(emissions, tags, GAPS, "token_mean"), expected.sum() / GAPS.sum())


@on_both_backends
def test_gradients_with_gaps_are_those_of_the_squeezed_rows(gapped):
    crf, emissions, tags, squeezed = gapped
    _, grads = value_and_grads(crf, emissions, tags, GAPS)
    assert (grads["emissions"][~GAPS] == 0).all()
    apart = [value_and_grads(crf, scores[None], gold[None])[1] for scores, gold in squeezed]
    for row in range(5):
        torch.testing.assert_close(grads["emissions"][row, GAPS[row]], apart[row]["emissions"][0])
    for name, _ in crf.named_parameters():
        torch.testing.assert_close(grads[name], sum(own[name] for own in apart))


@on_both_backends
def test_inference_with_gaps_is_that_of_the_squeezed_rows(gapped):
    crf, emissions, _, squeezed = gapped
    decoded, entropy = crf.decode(emissions, GAPS), crf.entropy(emissions, GAPS)
    marginals, best = crf.marginals(emissions, GAPS), crf.k_best(emissions, 5, GAPS)
    assert (marginals[~GAPS] == 0).all()
    for row, (scores, _) in enumerate(squeezed):
        assert decoded[row] == crf.decode(scores[None])[0]
        torch.testing.assert_close(entropy[row], crf.entropy(scores[None])[0])
        torch.testing.assert_close(marginals[row, GAPS[row]], crf.marginals(scores[None])[0])
        alone = crf.k_best(scores[None], 5)[0]
        assert [actual.labels for actual in best[row]] == [actual.labels for actual in alone]
        assert [actual.score for actual in best[row]] == pytest.approx([actual.score for actual in alone])


@on_both_backends
def test_samples_with_gaps_are_those_of_the_squeezed_rows(gapped):
    crf, emissions, _, squeezed = gapped
    packed = torch.nn.utils.rnn.pad_sequence([scores for scores, _ in squeezed], batch_first=True)
    mask = prefix_mask([len(scores) for scores, _ in squeezed], 6)
    expected = crf.sample(packed, 20, mask, torch.Generator().manual_seed(7))
    actual = crf.sample(emissions, 20, GAPS, torch.Generator().manual_seed(7))
    assert actual == expected
    assert [len(draws[0]) for draws in actual] == GAPS.sum(1).tolist()


def test_partial_labels_with_gaps_are_those_of_the_squeezed_rows(gapped):
    crf, emissions, _, squeezed = gapped
    allowed = torch.rand(5, 6, 4) < 0.5
    allowed[..., 2] = True
    allowed[~GAPS] = False  # nothing fits where nothing counts
    actual = crf(emissions, allowed, GAPS, "none")
    for row, (scores, _) in enumerate(squeezed):
        torch.testing.assert_close(actual[row], crf(scores[None], allowed[row, GAPS[row]][None]))


# Against enumeration


@on_both_backends
@pytest.mark.parametrize("lengths", [[4, 2, 1], [4, 4, 4], [1, 1, 1]])
def test_everything_that_can_be_asked_agrees_with_enumeration(lengths):
    crf, emissions = make_crf(3), torch.randn(3, 4, 3, dtype=torch.float64)
    mask, tags = prefix_mask(lengths, 4), torch.randint(3, (3, 4))
    likelihood, decoded = crf(emissions, tags, mask, "none"), crf.decode(emissions, mask)
    marginals, entropy = crf.marginals(emissions, mask), crf.entropy(emissions, mask)
    best = crf.k_best(emissions, 7, mask)
    for row, length in enumerate(lengths):
        truth = truth_of(crf, emissions[row, :length])
        gold = truth.probability_of(lambda y, row=row: y == tags[row, : len(y)].tolist())
        assert likelihood[row].item() == pytest.approx(np.log(gold))
        np.testing.assert_allclose(marginals[row, :length].detach(), truth.node_marginals(), atol=1e-12)
        assert (marginals[row, length:] == 0).all()
        assert entropy[row].item() == pytest.approx(truth.entropy)
        order = np.argsort(-truth.scores)[:7]
        assert decoded[row] == truth.paths[order[0]].tolist()
        assert [actual.labels for actual in best[row]] == truth.paths[order].tolist()
        assert [actual.score for actual in best[row]] == pytest.approx(truth.scores[order].tolist())


@on_both_backends
def test_samples_come_as_often_as_they_are_likely():
    crf, emissions, count = make_crf(3), torch.randn(2, 3, 3, dtype=torch.float64), 20_000
    draws = crf.sample(emissions, count, prefix_mask([3, 2], 3), torch.Generator().manual_seed(0))
    for row, length in enumerate((3, 2)):
        assert len(draws[row]) == count
        truth = truth_of(crf, emissions[row, :length])
        paths, counts = np.unique(np.array(draws[row]), axis=0, return_counts=True)
        seen = dict(zip(map(tuple, paths.tolist()), counts / count, strict=True))
        frequencies = [seen.get(tuple(path), 0.0) for path in truth.paths.tolist()]
        np.testing.assert_allclose(frequencies, truth.probabilities, atol=0.015)


def test_a_generator_makes_samples_repeatable():
    crf, emissions = make_crf(4), torch.zeros(3, 6, 4, dtype=torch.float64)
    first, second, other = (
        crf.sample(emissions, 5, None, torch.Generator().manual_seed(n)) for n in (1, 1, 2)
    )
    assert first == second != other


def test_potentials_are_what_the_crf_scores_by():
    crf, emissions, tags = make_crf(4), torch.randn(2, 5, 4, dtype=torch.float64), torch.randint(4, (2, 5))
    mask = torch.tensor([[0, 1, 1, 0, 1], [1, 1, 1, 1, 1]]).bool()
    theta, chain = crf.potentials(emissions, mask)
    assert chain.lengths.tolist() == [3, 5]
    packed = torch.nn.utils.rnn.pad_sequence([tags[row, mask[row]] for row in range(2)], batch_first=True)
    torch.testing.assert_close(chain.log_likelihood(theta, packed), crf(emissions, tags, mask, "none"))


@pytest.mark.parametrize("batch_first", [True, False])
def test_packing_needs_a_mask_of_the_same_shape(batch_first):
    crf = LinearChainCRF(3, batch_first)
    with pytest.raises(ValueError, match=r"mask must be \[2, 5\], got \[2, 4\]"):
        crf.pack(torch.zeros(2, 5, dtype=torch.long), torch.ones(2, 4, dtype=torch.bool))


# Constraints


def is_legal(path, labels):
    tags = [labels.names[label] for label in path]
    return tags_of_spans(spans_of_tags(tags, labels.scheme), len(tags), labels.scheme) == tags


def legal_paths(labels, length):
    paths = itertools.product(range(len(labels.names)), repeat=length)
    return [list(path) for path in paths if is_legal(path, labels)]


@on_both_backends
@both_schemes
def test_a_constrained_crf_labels_legally(labels):
    crf, mask = make_crf(5, constraints=labels), prefix_mask([1, 2, 4, 6] * 3, 6)
    emissions = 5 * torch.randn(12, 6, 5, dtype=torch.float64)
    free = make_crf(5)
    free.load_state_dict(crf.state_dict())
    assert not all(is_legal(path, labels) for path in free.decode(emissions, mask)), "nothing to constrain"
    assert all(is_legal(path, labels) for path in crf.decode(emissions, mask))
    for row in crf.sample(emissions, 20, mask):
        assert all(is_legal(path, labels) for path in row)
    for row in crf.k_best(emissions, 10, mask):
        assert all(is_legal(actual.labels, labels) for actual in row)


@on_both_backends
@both_schemes
def test_a_constrained_crf_is_the_free_one_among_legal_labellings(labels):
    crf, emissions = make_crf(5, constraints=labels), torch.randn(2, 4, 5, dtype=torch.float64)
    mask, paths = prefix_mask([4, 2], 4), [legal_paths(labels, 4), legal_paths(labels, 2)]
    best, entropy = crf.k_best(emissions, 5**4, mask), crf.entropy(emissions, mask)
    marginals, decoded = crf.marginals(emissions, mask), crf.decode(emissions, mask)
    for row, legal in enumerate(paths):
        truth = truth_of(crf, emissions[row, : len(legal[0])])
        weights = np.where([path in legal for path in truth.paths.tolist()], truth.probabilities, 0.0)
        weights /= weights.sum()
        assert len(best[row]) == len(legal)
        assert sorted(actual.labels for actual in best[row]) == sorted(legal)
        assert decoded[row] == truth.paths[weights.argmax()].tolist()
        expected = truth.node_marginals(weights)
        np.testing.assert_allclose(marginals[row, : len(legal[0])].detach(), expected, atol=1e-12)
        likely = weights[weights > 0]
        assert entropy[row].item() == pytest.approx(-(likely * np.log(likely)).sum())
        for path in legal[::7]:
            at = (truth.paths == path).all(1)
            value = crf(emissions[row : row + 1, : len(path)], torch.tensor([path]))
            assert value.item() == pytest.approx(np.log(weights[at].item()))


@both_schemes
def test_training_on_legal_gold_learns_it(labels):
    crf = LinearChainCRF(5, batch_first=True, constraints=labels)
    gold = torch.tensor([legal_paths(labels, 4)[at] for at in (3, 17, 29)])
    emissions = torch.zeros(3, 4, 5, requires_grad=True)
    optimizer = torch.optim.SGD([emissions, *crf.parameters()], lr=0.5)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = -crf(emissions, gold, reduction="mean")
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
    assert all(torch.isfinite(parameter).all() for parameter in crf.parameters())
    assert crf.decode(emissions) == gold.tolist()


@both_schemes
def test_what_is_forbidden_gets_no_gradient(labels):
    crf, gold = make_crf(5, constraints=labels), torch.zeros(2, 3, dtype=torch.long)
    _, grads = value_and_grads(crf, torch.randn(2, 3, 5, dtype=torch.float64), gold)
    start, table, end = labels.legal
    for name, allowed in (("start_transitions", start), ("transitions", table), ("end_transitions", end)):
        assert (grads[name][~allowed] == 0).all()
        assert (grads[name][allowed] != 0).any()
    crf.entropy(torch.randn(2, 3, 5, dtype=torch.float64)).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in crf.parameters())


@on_both_backends
@pytest.mark.parametrize(
    ("labels", "tags"),
    [
        (BIO, [2, 2, 0]),  # starts inside
        (BIO, [1, 4, 0]),  # goes on as another type
        (BIOES, [0, 0, 1]),  # never ends
        (BIOES, [0, 3, 0]),  # ends what did not begin
    ],
)
def test_illegal_gold_is_refused_by_its_row(labels, tags):
    crf = LinearChainCRF(5, batch_first=True, constraints=labels)
    gold = torch.tensor([[0, 0, 0], [0, 0, 0], tags])
    emissions = torch.randn(3, 3, 5)
    with pytest.raises(ValueError, match="row 2: the gold labels contain a forbidden label"):
        crf(emissions, gold)
    allowed = torch.nn.functional.one_hot(gold, 5).bool()
    with pytest.raises(ValueError, match="row 2"):
        crf(emissions, allowed)
    assert torch.isfinite(LinearChainCRF(5, batch_first=True)(emissions, gold))


def test_tags_that_do_not_count_may_be_illegal():
    crf, mask = LinearChainCRF(5, batch_first=True, constraints=BIO), torch.tensor([[1, 0, 1, 0]]).bool()
    emissions = torch.randn(1, 4, 5)
    value = crf(emissions, torch.tensor([[1, 0, 2, 4]]), mask)  # without the gap: B-X I-X
    torch.testing.assert_close(value, crf(emissions[:, [0, 2]], torch.tensor([[1, 2]])))


@both_schemes
def test_the_state_of_a_constrained_crf_goes_round(labels, tmp_path):
    crf, fresh = make_crf(5, constraints=labels), make_crf(5, constraints=labels)
    torch.save(crf.state_dict(), tmp_path / "crf.pt")
    fresh.load_state_dict(torch.load(tmp_path / "crf.pt"), strict=True)
    emissions = 3 * torch.randn(4, 6, 5, dtype=torch.float64)
    torch.testing.assert_close(fresh.marginals(emissions), crf.marginals(emissions))
    assert copy.deepcopy(crf).decode(emissions) == crf.decode(emissions)
    assert set(crf.state_dict()) == {"start_transitions", "transitions", "end_transitions"}


def test_constraints_for_another_number_of_labels_are_refused():
    with pytest.raises(ValueError, match="constraints must be for 4 labels, got 5"):
        LinearChainCRF(4, constraints=BIO)


# Partial labels


def test_labels_that_may_be_anything_are_certain():
    crf, emissions = make_crf(4), torch.randn(3, 5, 4, dtype=torch.float64)
    allowed, mask = torch.ones(3, 5, 4, dtype=torch.bool), prefix_mask([5, 1, 3], 5)
    torch.testing.assert_close(
        crf(emissions, allowed, mask, "none"), torch.zeros(3).double(), atol=1e-12, rtol=0
    )


@on_both_backends
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_one_label_allowed_at_each_position_is_the_ordinary_likelihood(reduction):
    crf, emissions, tags = make_crf(4), torch.randn(3, 5, 4, dtype=torch.float64), torch.randint(4, (3, 5))
    mask, allowed = prefix_mask([5, 1, 3], 5), torch.nn.functional.one_hot(tags, 4).bool()
    expected, expected_grads = value_and_grads(crf, emissions, tags, mask, reduction)
    actual, grads = value_and_grads(crf, emissions, allowed, mask, reduction)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(grads, expected_grads)


@on_both_backends
@pytest.mark.parametrize("seed", range(4))
def test_partial_labels_have_the_summed_probability_of_all_that_fits(seed):
    torch.manual_seed(seed)
    crf, emissions, lengths = make_crf(3), torch.randn(3, 4, 3, dtype=torch.float64), [4, 1, 3]
    allowed = torch.rand(3, 4, 3) < 0.5
    allowed |= torch.nn.functional.one_hot(torch.randint(3, (3, 4)), 3).bool()
    values = crf(emissions, allowed, prefix_mask(lengths, 4), "none")
    for row, length in enumerate(lengths):
        fits = allowed[row]
        truth = truth_of(crf, emissions[row, :length])
        summed = truth.probability_of(lambda y, fits=fits: all(fits[t, label] for t, label in enumerate(y)))
        assert values[row].item() == pytest.approx(np.log(summed), abs=1e-12)


def test_partial_labels_obey_the_constraints():
    crf, emissions = make_crf(5, constraints=BIO), torch.randn(1, 3, 5, dtype=torch.float64)
    allowed = torch.tensor([[[1, 1, 0, 1, 0], [0, 0, 1, 0, 0], [1, 1, 1, 1, 1]]]).bool()
    fitting = [path for path in legal_paths(BIO, 3) if all(allowed[0, t, y] for t, y in enumerate(path))]
    expected = torch.logsumexp(torch.stack([crf(emissions, torch.tensor([path])) for path in fitting]), 0)
    assert {path[0] for path in fitting} == {1}
    torch.testing.assert_close(crf(emissions, allowed), expected)


@on_both_backends
def test_a_position_where_nothing_is_allowed_is_refused():
    crf, allowed = make_crf(4), torch.ones(3, 5, 4, dtype=torch.bool)
    allowed[1, 2] = False
    with pytest.raises(ValueError, match=r"row 1: .* position 2"):
        crf(torch.randn(3, 5, 4, dtype=torch.float64), allowed)


# Gradients and precision


@on_both_backends
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("constrained", [False, True])
def test_the_likelihood_passes_gradcheck(partial, constrained):
    crf = make_crf(3, constraints=Labels(("O", "B-X", "I-X"), "BIO") if constrained else None)
    gold, mask = torch.tensor([[1, 2, 0], [1, 0, 2]]), torch.tensor([[1, 1, 1], [1, 0, 1]]).bool()
    if partial:
        gold = torch.nn.functional.one_hot(gold, 3).bool() | (torch.rand(2, 3, 3) < 0.4)
    names = [name for name, _ in crf.named_parameters()]

    def likelihood(emissions, *parameters):
        state = dict(zip(names, parameters, strict=True))
        return functional_call(crf, state, (emissions, gold, mask, "none"))

    inputs = torch.randn(2, 3, 3, dtype=torch.float64), *(p.detach() for p in crf.parameters())
    inputs = [tensor.requires_grad_() for tensor in inputs]
    assert gradcheck(likelihood, inputs)
    assert gradgradcheck(likelihood, inputs)


def test_marginals_and_entropy_pass_gradcheck():
    crf, mask = make_crf(3), torch.tensor([[1, 1, 1], [0, 1, 1]]).bool()
    emissions = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: crf.marginals(x, mask), emissions)
    assert gradcheck(lambda x: crf.entropy(x, mask), emissions)


@on_both_backends
def test_bfloat16_emissions_work():
    crf = LinearChainCRF(4, batch_first=True)
    emissions, tags = torch.randn(3, 5, 4).bfloat16(), torch.randint(4, (3, 5))
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [1, 1, 0, 0, 0]]).bool()
    allowed = torch.nn.functional.one_hot(tags, 4).bool()
    for gold in (tags, allowed):
        narrow, narrow_grads = value_and_grads(crf, emissions, gold, mask, "none")
        wide, wide_grads = value_and_grads(crf, emissions.float(), gold, mask, "none")
        assert narrow.dtype == torch.float32, "as pytorch-crf: the transitions' precision"
        assert narrow_grads["emissions"].dtype == torch.bfloat16
        torch.testing.assert_close(narrow.float(), wide, rtol=0.02, atol=0.02)
        for name, grad in narrow_grads.items():
            torch.testing.assert_close(grad.float(), wide_grads[name], rtol=0.05, atol=0.05)
    actual, expected = crf.marginals(emissions, mask), crf.marginals(emissions.float(), mask)
    torch.testing.assert_close(actual.float(), expected, rtol=0.02, atol=0.02)
    actual, expected = crf.entropy(emissions, mask), crf.entropy(emissions.float(), mask)
    torch.testing.assert_close(actual.float(), expected, rtol=0.02, atol=0.02)
    assert [len(row) for row in crf.decode(emissions, mask)] == [5, 3, 2]
    assert [len(row) for row in crf.sample(emissions, 3, mask)] == [3, 3, 3]


# What is refused


def test_a_crf_needs_labels():
    with pytest.raises(ValueError, match="num_labels must be at least 1, got 0"):
        LinearChainCRF(0)


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 3), (2, 5, 4, 1)])
def test_emissions_of_another_shape_are_refused(shape):
    crf, emissions = LinearChainCRF(4, batch_first=True), torch.zeros(shape)
    for method in (crf.decode, crf.marginals, crf.entropy, crf.sample, crf.potentials):
        with pytest.raises(ValueError, match="4 labels last"):
            method(emissions)
    with pytest.raises(ValueError, match="4 labels last"):
        crf(emissions, torch.zeros(shape[:2], dtype=torch.long))


@pytest.mark.parametrize(
    "tags",
    [
        torch.zeros(2, 4, dtype=torch.long),
        torch.zeros(5, 2, dtype=torch.long),
        torch.zeros(10, dtype=torch.long),
        torch.ones(2, 5, 3, dtype=torch.bool),
        torch.ones(2, 5, 4, dtype=torch.long),
    ],
)
def test_tags_of_another_shape_are_refused(tags):
    with pytest.raises(ValueError, match=r"tags must be integers \[2, 5\] or booleans \[2, 5, 4\]"):
        LinearChainCRF(4, batch_first=True)(torch.zeros(2, 5, 4), tags)


@pytest.mark.parametrize("tag", [4, -1, -100])
def test_a_tag_that_is_no_label_is_refused_by_its_row(tag):
    tags = torch.zeros(3, 5, dtype=torch.long)
    tags[1, 2] = tag
    with pytest.raises(ValueError, match=r"row 1: a tag is outside 0\.\.3"):
        LinearChainCRF(4, batch_first=True)(torch.zeros(3, 5, 4), tags)


@pytest.mark.parametrize("shape", [(2, 4), (5, 2), (2,), (2, 5, 4)])
def test_a_mask_of_another_shape_is_refused(shape):
    crf, mask = LinearChainCRF(4, batch_first=True), torch.ones(shape, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"mask must be \[2, 5\]"):
        crf.decode(torch.zeros(2, 5, 4), mask)
    with pytest.raises(ValueError, match=r"mask must be \[2, 5\]"):
        crf(torch.zeros(2, 5, 4), torch.zeros(2, 5, dtype=torch.long), mask)


@pytest.mark.parametrize("batch_first", [True, False])
def test_a_row_without_any_position_is_refused_by_its_number(batch_first):
    crf, mask = LinearChainCRF(4, batch_first), prefix_mask([3, 2, 0, 1], 3)
    shape = (4, 3, 4) if batch_first else (3, 4, 4)
    with pytest.raises(ValueError, match="row 2: the mask must keep at least one position"):
        crf.decode(torch.zeros(shape), mask if batch_first else mask.transpose(0, 1))


def test_an_unknown_reduction_is_refused():
    with pytest.raises(ValueError, match="'average'"):
        LinearChainCRF(4, batch_first=True)(
            torch.zeros(2, 5, 4), torch.zeros(2, 5).long(), reduction="average"
        )


@pytest.mark.parametrize("shape", [(0, 5), (2, 0)])
def test_an_empty_batch_is_refused(shape):
    crf, emissions = LinearChainCRF(4, batch_first=True), torch.zeros(*shape, 4)
    with pytest.raises(ValueError, match="non-empty"):
        crf.decode(emissions)
    with pytest.raises(ValueError, match="non-empty"):
        crf(emissions, torch.zeros(shape, dtype=torch.long))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_scores_that_are_no_numbers_are_refused_by_their_row(value):
    crf, emissions = LinearChainCRF(4, batch_first=True), torch.zeros(3, 5, 4)
    emissions[1, 2, 3] = value
    with pytest.raises(ValueError, match="row 1"):
        crf(emissions, torch.zeros(3, 5, dtype=torch.long))
    with pytest.raises(ValueError, match="row 1"):
        crf.decode(emissions)
