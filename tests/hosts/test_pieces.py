"""What a transformer reads: its labels, its windows, its words and its configuration."""

import copy
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from gspen_ner.hosts.huggingface.config import BioView, GSPENConfig
from gspen_ner.hosts.huggingface.encoder import Frame, cut, in_windows
from gspen_ner.hosts.huggingface.model import GSPENForTokenClassification, load_model
from gspen_ner.hosts.huggingface.pieces import (
    IGNORED,
    PieceKind,
    PieceLayout,
    PieceReader,
    find_words,
    load_reader,
    load_tokenizer,
    loses_marks,
    piece_kinds,
    with_marks,
)
from gspen_ner.labels import Labels, spans_of_tags, tags_of_spans
from tests.tiny import SENTENCES
from tests.tiny_transformer import KINDS, NAMES, make_tokenizer, save_encoder

TYPES = ("LOC", "ORG", "PER")
BIO, BIOES = Labels.of_types(TYPES, "BIO"), Labels.of_types(TYPES, "BIOES")
PLAIN = [
    sentence.tokens
    for sentence in SENTENCES
    if all(token.isalnum() or (len(token) == 1 and not token.isspace()) for token in sentence.tokens)
]


@pytest.fixture(scope="module", params=[*KINDS, "qwen"])
def tokenizer(request, tmp_path_factory):
    """As a new model takes it."""
    folder = tmp_path_factory.mktemp("tokenizer")
    make_tokenizer(request.param).save_pretrained(folder)
    return with_marks(load_tokenizer(folder))


@st.composite
def legal_tags(draw):
    parts = draw(st.lists(st.tuples(st.sampled_from(("O", *TYPES)), st.integers(1, 4)), max_size=6))
    opened = [[f"B-{kind}"] + [f"I-{kind}"] * (length - 1) for kind, length in parts]
    return [tag if tag[2:] != "O" else "O" for tags in opened for tag in tags]


def to_chain(view, batch):
    """Names of the chain's labels; behind the rows' ends is what a collator or nobody put there."""
    longest = max(1, *map(len, batch))
    labels = torch.full((len(batch), longest), IGNORED)
    for row, tags in enumerate(batch):
        labels[row, : len(tags)] = torch.tensor([view.names.index(tag) for tag in tags])
    numbers = view.to_chain(labels, torch.tensor(list(map(len, batch))))
    names = [[view.chain.names[number] for number in row] for row in numbers.tolist()]
    assert all(set(row[len(tags) :]) <= {"O"} for row, tags in zip(names, batch, strict=True))
    return [row[: len(tags)] for row, tags in zip(names, batch, strict=True)]


class TestBioView:
    @pytest.mark.parametrize("chain", [BIO, BIOES], ids=["BIO", "BIOES"])
    @given(batch=st.lists(legal_tags(), min_size=1, max_size=4), names=st.permutations(BIO.names))
    def test_gold_labels_become_the_same_spans_in_the_chains_scheme(self, chain, batch, names):
        expected = [tags_of_spans(spans_of_tags(tags, "BIO"), len(tags), chain.scheme) for tags in batch]
        assert to_chain(BioView(chain, names), batch) == expected

    @pytest.mark.parametrize("chain", [BIO, BIOES], ids=["BIO", "BIOES"])
    @given(tags=st.lists(st.sampled_from(BIO.names), max_size=12))
    def test_an_inside_label_that_continues_nothing_opens(self, chain, tags):
        repaired = [
            f"B-{tag[2:]}" if tag[0] == "I" and before[2:] != tag[2:] else tag
            for before, tag in pairwise(["O", *tags])
        ]
        assert to_chain(BioView(chain), [tags]) == to_chain(BioView(chain), [repaired])
        assert to_chain(BioView(BIO), [tags]) == [repaired]

    @pytest.mark.parametrize("wrong", [-1, len(BIO.names), IGNORED])
    def test_a_number_that_is_no_label_is_refused(self, wrong):
        view = BioView(BIOES)
        labels = torch.tensor([[0, 1, 0], [0, wrong, 0]])
        with pytest.raises(ValueError, match=f"from 0 to 6, got {wrong}"):
            view.to_chain(labels, torch.tensor([3, 2]))
        assert view.to_chain(labels, torch.tensor([3, 1])).tolist() == [[0, 4, 0], [0, 0, 0]], "padding"

    def test_a_label_that_the_chain_lacks_is_refused(self):
        view = BioView(Labels(("O", "I-LOC"), "BIO"))
        with pytest.raises(ValueError, match="LOC need a label that is not among"):
            view.to_chain(torch.tensor([[0, 1]]), torch.tensor([2]))

    def test_names_are_in_the_order_wanted_and_no_others(self):
        assert BioView(Labels(("I-X", "O", "B-X"), "BIO")).names == ("I-X", "O", "B-X")
        assert BioView(BIOES, BIO.names[::-1]).names == BIO.names[::-1]
        for names in (BIO.names[1:], (*BIO.names, "B-X"), BIOES.names):
            with pytest.raises(ValueError, match="in any order"):
                BioView(BIOES, names)
        with pytest.raises(ValueError, match="need an 'O'"):
            BioView(Labels(("B-X", "I-X"), "BIO"))

    @given(names=st.permutations(BIO.names), seed=st.integers(0, 99))
    def test_marginals_move_to_what_labels_are_seen_as(self, names, seed):
        view = BioView(BIOES, names)
        chain = torch.rand(2, 3, 13, generator=torch.Generator().manual_seed(seed)).softmax(-1)
        given = dict(zip(BIOES.names, chain.unbind(-1), strict=True))
        found = dict(zip(names, view.marginals(chain).unbind(-1), strict=True))
        torch.testing.assert_close(sum(found.values()), torch.ones(2, 3))
        assert torch.equal(found["O"], given["O"])
        for kind in TYPES:
            torch.testing.assert_close(found[f"B-{kind}"], given[f"B-{kind}"] + given[f"S-{kind}"])
            torch.testing.assert_close(found[f"I-{kind}"], given[f"I-{kind}"] + given[f"E-{kind}"])

    @given(names=st.permutations(BIO.names), seed=st.integers(0, 99))
    def test_later_pieces_agree_with_the_first_on_the_type(self, names, seed):
        first = torch.rand(2, 3, len(names), generator=torch.Generator().manual_seed(seed)).softmax(-1)
        later = BioView(BIOES, names).inside(first)
        torch.testing.assert_close(later.sum(-1), torch.ones(2, 3))
        for before, after in zip(first.flatten(0, 1), later.flatten(0, 1), strict=True):
            best = names[int(before.argmax())]
            assert names[int(after.argmax())] == (best if best == "O" else f"I-{best[2:]}")
            given, found = (dict(zip(names, row.tolist(), strict=True)) for row in (before, after))
            for name in set(names) - {f"{prefix}-{best[2:]}" for prefix in "BI"}:
                assert found[name] == given[name]
            if best != "O":
                assert found[f"B-{best[2:]}"] == 0

    def test_what_opens_stays_where_nothing_continues(self):
        chances = torch.tensor([[[0.3, 0.7]]])
        assert torch.equal(BioView(Labels(("O", "B-X"), "BIO")).inside(chances), chances)


@st.composite
def framed_batches(draw):
    prefix, suffix, room = (draw(st.integers(*limits)) for limits in ((0, 2), (0, 2), (1, 12)))
    frame = Frame(prefix + room + suffix, draw(st.integers(0, room - 1)), prefix, suffix)
    counts = [prefix + draw(st.integers(0, 40)) + suffix for _ in range(draw(st.integers(1, 4)))]
    longest = max(1, *counts)
    mask = torch.zeros(len(counts), longest, dtype=torch.long)
    for row, count in enumerate(counts):
        start = draw(st.sampled_from([0, longest - count]), label="padding")
        mask[row, start : start + count] = 1
    return mask, frame


class TestWindows:
    @given(framed_batches())
    def test_every_piece_is_read_once_from_a_window_that_has_it(self, batch):
        mask, frame = batch
        windows = in_windows(mask, frame)
        for row, position in mask.nonzero().tolist():
            window, place = int(windows.window_of[row, position]), int(windows.position_in[row, position])
            assert windows.row[window] == row
            assert windows.positions[window, place] == position
            assert windows.present[window, place]
        assert windows.positions.shape[1] <= frame.size

    @given(framed_batches())
    def test_windows_have_special_pieces_around_them_and_overlap(self, batch):
        mask, frame = batch
        windows = in_windows(mask, frame)
        room = frame.size - frame.prefix - frame.suffix
        for row, attended in enumerate(mask):
            pieces = attended.nonzero().squeeze(1).tolist()
            numbers = (windows.row == row).nonzero().squeeze(1).tolist()
            read = [windows.positions[number][windows.present[number]].tolist() for number in numbers]
            behind = len(pieces) - frame.suffix
            prefix, text, suffix = pieces[: frame.prefix], pieces[frame.prefix : behind], pieces[behind:]
            assert len(numbers) == max(1, -(-(len(text) - frame.overlap) // (room - frame.overlap)))
            if len(pieces) <= frame.size:
                assert read == [pieces], "one that fits is its own window"
            texts = [window[frame.prefix : len(window) - frame.suffix] for window in read]
            for window, inner in zip(read, texts, strict=True):
                assert window == [*prefix, *inner, *suffix]
                assert inner == list(range(inner[0], inner[0] + len(inner))) if inner else not text
            for first, second in pairwise(texts):
                assert len(set(first) & set(second)) >= frame.overlap
            for position in text:
                inner = texts[numbers.index(int(windows.window_of[row, position]))]
                before, after = inner.index(position), len(inner) - 1 - inner.index(position)
                assert inner[0] == text[0] or before >= frame.overlap // 2
                assert inner[-1] == text[-1] or after >= frame.overlap // 2

    @pytest.mark.parametrize("overlap", [-1, 5, 6])
    def test_an_overlap_that_leaves_no_way_forward_is_refused(self, overlap):
        with pytest.raises(ValueError, match=f"of 7 pieces cannot overlap by {overlap}"):
            cut(20, Frame(7, overlap, 1, 1))


def words_found(tokenizer, encoded):
    return find_words(piece_kinds(tokenizer)[encoded["input_ids"]], encoded["attention_mask"])


class TestWordPieces:
    def test_words_are_those_of_the_tokenizer(self, tokenizer):
        assert len(PLAIN) > 50
        expected = PieceReader(tokenizer).inputs(PLAIN)
        starts, belongs = words_found(tokenizer, expected)
        assert torch.equal(starts, expected["word_starts"])
        assert starts.sum(1).tolist() == list(map(len, PLAIN))
        encoded = tokenizer([" ".join(tokens) for tokens in PLAIN], padding=True, return_tensors="pt")
        assert torch.equal(encoded["input_ids"], expected["input_ids"]), "what a pipeline reads"
        for row in range(len(PLAIN)):
            assert belongs[row].tolist() == [word is not None for word in encoded.word_ids(row)]

    def test_punctuation_is_a_word_of_its_own(self, tokenizer):
        for text, count in (("Carver, Stafford", 3), ("-Carver-", 3), ("U.S.", 4), ("Carver - Stafford.", 4)):
            starts, _ = words_found(tokenizer, tokenizer(text, return_tensors="pt"))
            assert int(starts.sum()) == count, text

    @pytest.mark.parametrize("side", ["left", "right"])
    def test_special_pieces_and_padding_belong_to_no_word(self, tokenizer, side):
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.padding_side = side
        text = ["Carver", f"Carver{tokenizer.mask_token}of Stafford"]
        encoded = tokenizer(text, padding=True, return_tensors="pt")
        starts, belongs = words_found(tokenizer, encoded)
        special = torch.isin(encoded["input_ids"], torch.tensor(tokenizer.all_special_ids))
        assert torch.equal(belongs, ~special)
        assert starts.sum(1).tolist() == [1, 3]
        masked = find_words(torch.full((1, 3), PieceKind.CONTINUES), torch.tensor([[0, 1, 1]]))
        assert [part.tolist() for part in masked] == [[[False, True, False]], [[False, True, True]]]

    def test_unknown_words_are_words(self, tokenizer):
        starts, _ = words_found(tokenizer, tokenizer("Carver 中 Stafford", return_tensors="pt"))
        assert int(starts.sum()) == 3

    def test_bytes_are_read_as_the_characters_they_spell(self):
        inner = Tokenizer(models.BPE())
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        inner.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, special_tokens=["<s>"])
        inner.train_from_iterator([f"“{' '.join(tokens)}”" for tokens in PLAIN], trainer)
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, add_prefix_space=True, bos_token="<s>")
        for text, count in (("“Carver”", 3), ("Zoë", 1), ("Zoë 中国 “Ω”", 5)):
            starts, _ = words_found(tokenizer, tokenizer(text, return_tensors="pt"))
            assert int(starts.sum()) == count, text


class TestWordMarks:
    @pytest.mark.parametrize("kind", [*KINDS, "qwen"])
    def test_who_does_not_listen_loses_them(self, kind, tmp_path):
        make_tokenizer(kind).save_pretrained(tmp_path)
        tokenizer = load_tokenizer(tmp_path)
        assert loses_marks(tokenizer) == (kind == "qwen")
        assert (with_marks(tokenizer) is tokenizer) == (kind != "qwen")

    def test_a_word_is_read_as_within_a_text(self):
        deaf = make_tokenizer("qwen")
        mended = with_marks(deaf)
        first, text = (deaf(text, add_special_tokens=False)["input_ids"] for text in ("of", "of Carver's"))
        words = mended(["of", "Carver's"], is_split_into_words=True, add_special_tokens=False)
        pieces = zip(words["input_ids"], words.word_ids(), strict=True)
        assert [piece for piece, word in pieces if word == 1] == text[len(first) :]
        assert loses_marks(deaf), "the caller's stays as it is"
        assert not loses_marks(mended)

    def test_a_new_model_has_a_reader_that_keeps_them(self, tmp_path, caplog):
        encoder = save_encoder(tmp_path / "encoder", "roberta")
        deaf = make_tokenizer("qwen")
        model = GSPENForTokenClassification.from_encoder(encoder, NAMES, tokenizer=deaf)
        assert not loses_marks(model.reader.tokenizer)
        model.save_pretrained(tmp_path / "model")
        assert not loses_marks(load_model(tmp_path / "model").reader.tokenizer)
        said = "without the mark of a word's beginning"
        assert said not in caplog.text
        PieceReader(deaf)
        assert said in caplog.text


class TestPieceReader:
    @pytest.mark.parametrize("side", ["left", "right"])
    def test_every_word_has_one_start(self, tokenizer, side):
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.padding_side = side
        odd = [["Rome", nothing, "beat", "Paris"] for nothing in ("\u200b", "\u00ad", "", "\x00", " ", "中")]
        sentences = [*PLAIN[:9], *odd, [""], ["", "\u200b", "Rome"], ["U.S.", tokenizer.unk_token]]
        inputs = PieceReader(tokenizer).inputs(sentences)
        assert inputs["word_starts"].sum(1).tolist() == list(map(len, sentences))
        assert not (inputs["word_starts"] & (inputs["attention_mask"] == 0)).any()
        for row, tokens in enumerate(sentences[:9]):
            pieces = inputs["input_ids"][row][inputs["attention_mask"][row] > 0].tolist()
            starts = inputs["word_starts"][row][inputs["attention_mask"][row] > 0].nonzero()[:, 0].tolist()
            ends = [*starts[1:], len(pieces) - 1]
            words = [tokenizer.decode(pieces[a:b]).strip() for a, b in zip(starts, ends, strict=True)]
            assert words == list(tokens)

    def test_words_that_are_left_are_read_as_ever(self, tokenizer):
        reader = PieceReader(tokenizer)
        odd = reader.inputs([["Rome", "", "beat", "Paris"], PLAIN[0]])
        plain = reader.inputs([["Rome", tokenizer.unk_token, "beat", "Paris"], PLAIN[0]])
        assert all(torch.equal(odd[name], plain[name]) for name in plain)

    def test_slow_tokenizers_are_refused(self):
        with pytest.raises(ValueError, match="SimpleNamespace is a slow tokenizer"):
            PieceReader(SimpleNamespace(is_fast=False))

    def test_nothing_is_cut_off_and_the_callers_tokenizer_stays_as_it_is(self, tokenizer):
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.pad_token = None
        tokenizer.eos_token = tokenizer.sep_token
        short = tokenizer("of the " * 200, truncation=True)["input_ids"]
        reader = PieceReader(tokenizer)
        assert int(reader.inputs([["of", "the"] * 200, ["of"]])["word_starts"].sum()) == 401
        assert len(reader.tokenizer("of the " * 200, truncation=True)["input_ids"]) > 400
        assert tokenizer.model_max_length == 64
        assert tokenizer.pad_token is None
        assert tokenizer("of the " * 200, truncation=True)["input_ids"] == short
        assert len(short) == 64

    def test_saved_and_loaded_it_reads_the_same(self, tokenizer, tmp_path):
        reader = PieceReader(tokenizer)
        reader.save(tmp_path)
        loaded = load_reader(tmp_path, GSPENConfig(encoder={"model_type": "bert"}))
        first, second = reader.inputs(PLAIN), loaded.inputs(PLAIN)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)


class TestPieceLayout:
    kinds = torch.tensor([[0, 1, 2, 3, 1, 0], [0, 1, 2, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0]])
    view = BioView(Labels.of_types(["X"], "BIOES"))

    def test_kinds_tell_where_words_are(self):
        layout = PieceLayout.of(self.kinds, self.mask, None)
        assert layout.starts.int().tolist() == [[0, 1, 0, 1, 1, 0], [0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]
        assert layout.lengths.tolist() == [3, 1, 1], "a row without words has one"

    def test_labels_tell_it_better(self):
        labels = torch.full((3, 6), IGNORED)
        labels[0, 1], labels[0, 4], labels[1, 2] = 1, 2, 0
        layout = PieceLayout.of(self.kinds, self.mask, labels)
        assert layout.starts.nonzero().tolist() == [[0, 1], [0, 4], [1, 2], [2, 0]]
        assert layout.by_words(labels, self.view).tolist() == [[1, 2], [0, 0], [0, 0]]

    def test_pieces_have_the_marginals_of_their_words(self):
        chances = torch.tensor([[[0.1, 0.7, 0.2], [0.5, 0.2, 0.3], [0.3, 0.3, 0.4]]]).expand(3, 3, 3)
        found = PieceLayout.of(self.kinds, self.mask, None).by_pieces(chances, self.view)
        outside = [1.0, 0.0, 0.0]
        first = [outside, [0.1, 0.7, 0.2], [0.1, 0.0, 0.9], [0.5, 0.2, 0.3], [0.3, 0.3, 0.4], outside]
        torch.testing.assert_close(found[0], torch.tensor(first))
        torch.testing.assert_close(found[1], torch.tensor([*first[:3], outside, outside, outside]))
        torch.testing.assert_close(found[2], torch.tensor([first[1], *[outside] * 5]))


class TestConfig:
    @given(names=st.permutations(Labels.of_types("ABCDEF", "BIO").names))
    def test_labels_keep_their_order_where_keys_became_strings(self, names):
        chain = Labels.of_types("ABCDEF", "BIOES").names
        config = GSPENConfig(chain_labels=chain, id2label=dict(enumerate(names)))
        read = GSPENConfig.from_dict(
            {**config.to_dict(), "id2label": {str(n): x for n, x in enumerate(names)}}
        )
        for found in (config, read):
            assert found.bio_view().names == tuple(names)
            assert found.label2id == {name: number for number, name in enumerate(names)}
            assert (found.num_labels, found.labels().names) == (13, chain)

    def test_saved_and_loaded_it_says_the_same(self, tmp_path):
        config = GSPENConfig(BIOES.names, "BIOES", "gspen", {"a": 1}, {"model_type": "bert"}, [{"name": "x"}])
        config.save_pretrained(tmp_path)
        assert GSPENConfig.from_pretrained(tmp_path).to_diff_dict() == config.to_diff_dict()
        assert config.bio_view().names == BIO.names

    @pytest.mark.parametrize(
        ("system", "term", "transitions"),
        [("unary", 0, 0), ("struct", 0, 1), ("spen", 1, 0), ("gspen", 1, 1)],
    )
    def test_a_system_is_a_term_and_transitions_or_not(self, system, term, transitions):
        config = GSPENConfig(system=system)
        assert (config.has_term, config.has_transitions) == (term, transitions)

    def test_what_does_not_fit_is_refused(self):
        with pytest.raises(ValueError, match="got 'crf'"):
            GSPENConfig(system="crf")
        with pytest.raises(ValueError, match="decoder must be one of viterbi, spans, got 'beam'"):
            GSPENConfig(decoder="beam")
        with pytest.raises(ValueError, match="in any order"):
            GSPENConfig(BIOES.names, id2label=dict(enumerate(BIO.names[:-1])))
        with pytest.raises(ValueError, match="does not fit BIO"):
            GSPENConfig(BIOES.names, "BIO")
