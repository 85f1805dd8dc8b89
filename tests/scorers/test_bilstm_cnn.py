"""BiLSTM-CNN: scores that do not depend on the batch, and learning of what should be learned."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from gspen_ner import Labels
from gspen_ner.polytopes import Chain, Simplex
from gspen_ner.scorers import BiLSTMCNN, Vocabulary, WordVectors, spell_out

LABELS = Labels(("O", "B-PER", "I-PER", "E-PER", "S-PER"), "BIOES")
SENTENCES = [
    ["Rome"],
    ["Ann", "met", "unknown", "Bob", "in", "Rome", "."],
    ["a"],
    ["Incomprehensibilities", "!"],
    ["Ann", "", "met", "0", "Rome"],
    ["Bob", "met", "Ann"],
]
VOCABULARY = Vocabulary.of_sentences(
    [["Ann", "met", "Bob", "."]], known=["rome", "in", "x", "y"], minimum_count=1
)
kinds = pytest.mark.parametrize("transitions", ["none", "shared", "bigram"])


def scorer(transitions="shared", *, labels=LABELS, **options):
    sizes = {"word_size": 6, "character_size": 5, "filters": 4, "hidden": 7, "projection": 8} | options
    fixed = len(VOCABULARY.words) - VOCABULARY.trained
    characters = len(VOCABULARY.characters)
    return BiLSTMCNN(labels, VOCABULARY.trained, fixed, characters, transitions=transitions, **sizes)


def batch(sentences, *, extra=0):
    """A batch's tensors; `extra` positions of rubbish behind its longest sentence."""
    lengths = torch.tensor([len(tokens) for tokens in sentences])
    spellings, where = spell_out(sentences, VOCABULARY)
    words = torch.zeros_like(where)
    for row, tokens in enumerate(sentences):
        words[row, : len(tokens)] = torch.tensor(VOCABULARY.word_numbers(tokens))
    if extra:
        words = nn.functional.pad(words, (0, extra), value=3)
        where = nn.functional.pad(where, (0, extra), value=len(spellings) - 1)
        spellings = nn.functional.pad(spellings, (0, extra))
    return words, spellings, where, lengths


def table_before(parts, row, position):
    """The scores of the pairs (position, position + 1) of a row."""
    edges = parts.edges
    return edges[row % edges.shape[0], position % edges.shape[1]]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@kinds
@pytest.mark.parametrize("extra", [0, 3])
@pytest.mark.parametrize("width", [3, 4])
def test_potentials_depend_neither_on_batch_mates_nor_on_padding(transitions, extra, width):
    model = scorer(transitions, width=width).eval()
    together, _ = model(*batch(SENTENCES, extra=extra))
    for row, tokens in enumerate(SENTENCES):
        alone, _ = model(*batch([tokens]))
        torch.testing.assert_close(together.nodes[row, : len(tokens)], alone.nodes[0])
        for position in range(len(tokens) - 1 if transitions != "none" else 0):
            torch.testing.assert_close(
                table_before(together, row, position), table_before(alone, 0, position)
            )


@kinds
def test_what_is_inferred_depends_neither_on_batch_mates_nor_on_padding(transitions):
    model = scorer(transitions).eval()
    theta, polytope = model(*batch(SENTENCES, extra=2))
    log_z, labels = polytope.log_partition(theta), polytope.argmax(theta)
    for row, tokens in enumerate(SENTENCES):
        alone, own = model(*batch([tokens]))
        torch.testing.assert_close(own.log_partition(alone)[0], log_z[row])
        assert labels[row].tolist() == own.argmax(alone)[0].tolist() + [-1] * (9 - len(tokens))


@kinds
def test_large_batches_of_very_different_lengths_are_scored_like_their_sentences(transitions):
    model = scorer(transitions).eval()
    words = [word for tokens in SENTENCES for word in tokens]
    sentences = [[words[(row + at) % len(words)] for at in range(1 + row * row % 37)] for row in range(80)]
    together, polytope = model(*batch(sentences))
    log_z = polytope.log_partition(together)
    for row, tokens in enumerate(sentences):
        alone, own = model(*batch([tokens]))
        torch.testing.assert_close(together.nodes[row, : len(tokens)], alone.nodes[0])
        torch.testing.assert_close(log_z[row], own.log_partition(alone)[0])


def test_gradients_do_not_depend_on_padding():
    model = scorer("bigram").eval()
    grads = []
    for extra in (0, 4):
        model.zero_grad()
        theta, chain = model(*batch(SENTENCES, extra=extra))
        chain.log_partition(theta).sum().backward()
        grads.append([p.grad.clone() for p in model.parameters() if p.requires_grad])
    for plain, padded in zip(*grads, strict=True):
        torch.testing.assert_close(plain, padded)


def test_the_two_lstms_are_one_bidirectional_lstm():
    model = scorer("none").eval()
    both = nn.LSTM(6 + 4, 7, batch_first=True, bidirectional=True)
    for ours, suffix in ((model.forward_lstm, ""), (model.backward_lstm, "_reverse")):
        for name, weight in ours.named_parameters():
            getattr(both, name + suffix).data.copy_(weight.data)
    words, spellings, where, lengths = batch(SENTENCES)
    trained = VOCABULARY.trained + 1
    table = torch.cat([model.trained_words.weight, model.fixed_words.weight])
    assert len(table) == trained + model.fixed_words.num_embeddings
    read = torch.stack(
        [
            model.convolution(model.characters(row[row != 0]).T).amax(1).tanh()  # each word by itself
            for row in spellings
        ]
    )
    inputs = torch.cat([table[words], read[where]], -1)
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    encoded, _ = pad_packed_sequence(both(packed)[0], batch_first=True)
    expected = model.emissions(nn.functional.elu(model.projection(encoded)))
    actual, _ = model(words, spellings, where, lengths)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(actual.nodes[row, :length], expected[row, :length])


@pytest.mark.parametrize("length", [1, 2, 5])
def test_shapes(length):
    tensors = batch([["Ann"] * length, ["Bob"]])
    theta, simplex = scorer("none")(*tensors)
    assert isinstance(simplex, Simplex)
    assert (theta.nodes.shape, theta.edges) == ((2, length, 5), None)
    theta, chain = scorer("shared")(*tensors)
    assert isinstance(chain, Chain)
    assert (theta.nodes.shape, theta.edges.shape) == ((2, length, 5), (1, 1, 5, 5))
    theta, chain = scorer("bigram")(*tensors)
    assert isinstance(chain, Chain)
    assert (theta.nodes.shape, theta.edges.shape) == ((2, length, 5), (2, length - 1, 5, 5))


@kinds
def test_sentences_of_one_word_can_be_learned_from_and_decoded(transitions):
    model = scorer(transitions)
    theta, polytope = model(*batch([["Ann"], ["Rome"]]))
    polytope.log_partition(theta).sum().backward()
    assert model.emissions.weight.grad.isfinite().all()
    labels = polytope.argmax(theta)
    assert labels.shape == (2, 1)
    if transitions != "none":
        assert set(labels.flatten().tolist()) <= {0, 4}  # O and S-PER


@pytest.mark.parametrize("transitions", ["shared", "bigram"])
def test_forbidden_transitions_are_minus_infinity_and_no_others(transitions):
    theta, _ = scorer(transitions)(*batch([["Ann", "met", "Bob"], ["Rome", "met"]]))
    forbidden = ~LABELS.legal.table
    for position in range(2):
        for row in range(2):
            assert (table_before(theta, row, position).isneginf() == forbidden).all()
    assert (theta.nodes[:, 0].isneginf() == ~LABELS.legal.start).all()
    assert (theta.nodes[0, 2].isneginf() == ~LABELS.legal.end).all()
    assert (theta.nodes[1, 1].isneginf() == ~LABELS.legal.end).all()
    assert theta.nodes[0, 1].isfinite().all()


def test_independent_labels_are_never_forbidden():
    theta, _ = scorer("none")(*batch([["Ann", "met"]]))
    assert theta.nodes.isfinite().all()


def test_a_bigram_table_depends_on_the_words():
    model = scorer("bigram").eval()
    theta, _ = model(*batch([["Ann", "met", "Bob"], ["Ann", "met", "Rome"]]))
    legal = LABELS.legal.table
    assert not torch.allclose(theta.edges[0, 0][legal], theta.edges[0, 1][legal])
    assert not torch.allclose(theta.edges[0, 1][legal], theta.edges[1, 1][legal])


def test_a_bigram_table_is_read_from_its_second_word():
    model = scorer("bigram", labels=Labels(("O", "B-PER"), "BIO")).eval()
    tensors = batch([["Ann", "met", "Bob"]])
    theta, _ = model(*tensors)
    tables = model.crf.transitions + model.bigram(model.encode(*tensors)).unflatten(-1, (2, 2))
    torch.testing.assert_close(theta.edges[0], tables[1:])


def test_gradients_reach_trained_words_and_never_fixed_ones():
    model = scorer("bigram")
    tokens = ["Ann", "never-seen", "Rome", "in", "Bob"]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    fixed, before = model.fixed_words.weight.clone(), model.trained_words.weight.clone()
    theta, chain = model(*batch([tokens]))
    chain.log_partition(theta).sum().backward()
    optimizer.step()
    assert model.fixed_words.weight.grad is None
    assert torch.equal(model.fixed_words.weight, fixed)
    changed = (model.trained_words.weight != before).any(1).nonzero().flatten().tolist()
    assert changed == sorted(number for number in VOCABULARY.word_numbers(tokens) if number <= 4)
    assert 0 in changed  # the vector that unknown words share


def test_padding_of_spellings_is_never_learned():
    model = scorer()
    theta, chain = model(*batch(SENTENCES))
    chain.log_partition(theta).sum().backward()
    assert (model.characters.weight[0] == 0).all()
    assert (model.characters.weight.grad[0] == 0).all()
    assert (model.characters.weight.grad[1:] != 0).any()


def nodes_of(model, tokens):
    return model(*batch([tokens]))[0].nodes


def test_words_beyond_the_trained_ones_use_the_fixed_table():
    model = scorer().eval()
    rome, x = (VOCABULARY.words.index(word) - VOCABULARY.trained for word in ("rome", "x"))
    before = nodes_of(model, ["Rome", "."])
    model.fixed_words.weight.data[x] += 1
    assert torch.equal(nodes_of(model, ["Rome", "."]), before)
    model.trained_words.weight.data[:-1] += 1  # all but the full stop's
    assert torch.equal(nodes_of(model, ["Rome", "."]), before)
    model.fixed_words.weight.data[rome] += 1
    assert not torch.allclose(nodes_of(model, ["Rome", "."]), before)


def test_a_model_without_fixed_words():
    vocabulary = Vocabulary.of_sentences([["Ann", "Ann"]])
    model = BiLSTMCNN(LABELS, vocabulary.trained, 0, len(vocabulary.characters), hidden=4, projection=4)
    spellings, where = spell_out([["Ann", "Bob"]], vocabulary)
    words = torch.tensor([vocabulary.word_numbers(["Ann", "Bob"])])
    theta, chain = model(words, spellings, where, torch.tensor([2]))
    assert chain.argmax(theta).shape == (1, 2)


def test_pretrained_vectors_go_to_their_words_trained_or_fixed():
    model = scorer()
    trained, fixed = model.trained_words.weight.clone(), model.fixed_words.weight.clone()
    words = ("rome", "absent", "met")
    vectors = WordVectors(words, torch.arange(18.0).reshape(3, 6).numpy())
    model.load_vectors(vectors, VOCABULARY)
    met = VOCABULARY.word_numbers(["met"])[0]
    rome = VOCABULARY.word_numbers(["Rome"])[0] - VOCABULARY.trained - 1
    assert model.trained_words.weight[met].tolist() == [12, 13, 14, 15, 16, 17]
    assert model.fixed_words.weight[rome].tolist() == [0, 1, 2, 3, 4, 5]
    others = torch.arange(len(trained)) != met
    assert torch.equal(model.trained_words.weight[others], trained[others])
    others = torch.arange(len(fixed)) != rome
    assert torch.equal(model.fixed_words.weight[others], fixed[others])


def test_letters_tell_words_without_a_vector_apart():
    model = scorer().eval()
    assert VOCABULARY.word_numbers(["tonB", "Ant"]) == [0, 0]
    assert not torch.allclose(nodes_of(model, ["tonB", "met"]), nodes_of(model, ["Ant", "met"]))


def test_dropout_is_at_work_in_training_only():
    model = scorer()
    tokens = ["Ann", "met", "Bob"]
    assert not torch.equal(nodes_of(model, tokens), nodes_of(model, tokens))
    model.eval()
    assert torch.equal(nodes_of(model, tokens), nodes_of(model, tokens))


def test_word_dropout_leaves_out_whole_word_vectors_and_whole_spellings():
    model = scorer(word_dropout=0.5, input_dropout=0.0, output_dropout=0.0)
    read = []
    model.input_dropout.register_forward_hook(lambda module, inputs, output: read.append(output))
    sentences = [["Ann", "met", "Bob", "."]] * 64
    model(*batch(sentences))
    model.eval()(*batch(sentences))
    words, spellings = (
        (trained, whole) for trained, whole in zip(*(x.split([6, 4], 1) for x in read), strict=True)
    )
    left_out = []
    for trained, whole in (words, spellings):
        gone = (trained == 0).all(1)
        torch.testing.assert_close(trained[~gone], 2 * whole[~gone])
        assert 0.3 < gone.float().mean() < 0.7
        left_out.append(gone)
    assert not torch.equal(*left_out)  # each by itself


def test_an_unknown_kind_of_transitions_is_refused():
    with pytest.raises(ValueError, match=r'"none", "shared" or "bigram", got .trigram.'):
        scorer("trigram")
