"""An encoder that reads neighbouring sentences: which words it reads, and the same scores whoever asks."""

import json
import random

import pytest
import torch

from gspen_ner.corpora.rows import pieces_of
from gspen_ner.hosts.huggingface import Collator, GSPENForTokenClassification, Tagger, add_context, as_dataset
from gspen_ner.hosts.huggingface.context import neighbours
from gspen_ner.hosts.huggingface.model import load_model
from gspen_ner.hosts.huggingface.two_stages import with_potentials
from gspen_ner.ner.files import TaggedSentence
from tests.hosts.test_piece_scorer import make_sharp
from tests.tiny import SENTENCES, gspen_ner, make_model, same_weights, stir, write_conll
from tests.tiny_transformer import KINDS, NAMES, make_transformer, save_encoder

CONTEXT = 12
TOKENS, DOCUMENTS = [s.tokens for s in SENTENCES], [s.document for s in SENTENCES]
CLOSE = {"atol": 1e-4, "rtol": 1e-4}


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    """Models with the same weights, which read sentences alone and in context. Not to be changed."""
    folder = tmp_path_factory.mktemp("pair")
    alone, model = (make_sharp(folder, request.param, context_tokens=count) for count in (0, CONTEXT))
    assert same_weights(alone.state_dict(), model.state_dict())
    return alone, model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A CRF and a document term over an encoder that reads neighbours. Not to be changed."""
    folder = tmp_path_factory.mktemp("model")
    return stir(make_sharp(folder, "bert", context_tokens=CONTEXT, terms=["document"]), 1.0)


def pieces_in(model, words):
    tokenizer = model.reader.tokenizer
    return sum(
        len(tokenizer([word], is_split_into_words=True, add_special_tokens=False)["input_ids"])
        for word in words
    )


def scores(model, dataset):
    """The encoder's scores of the words of each row."""
    batch = Collator.of(model)(dataset.to_list())
    with torch.no_grad():
        of_pieces = model.scorer.emissions(batch["input_ids"], batch["attention_mask"])
    return [row[starts] for row, starts in zip(of_pieces, batch["word_starts"], strict=True)]


def same_probabilities(one, other):
    for first, second in zip(one, other, strict=True):
        assert first.tokens == second.tokens
        torch.testing.assert_close(
            torch.from_numpy(first.workings.marginals), torch.from_numpy(second.workings.marginals), **CLOSE
        )


class TestTheWordsAround:
    def test_are_the_documents_nearest_up_to_a_number_of_pieces(self, pair):
        model = pair[1]
        for row, (before, after) in enumerate(neighbours(model, TOKENS, DOCUMENTS)):
            same = [number for number, document in enumerate(DOCUMENTS) if document == DOCUMENTS[row]]
            left = [word for number in same if number < row for word in TOKENS[number]]
            right = [word for number in same if number > row for word in TOKENS[number]]
            room = model.scorer.frame.room - pieces_in(model, TOKENS[row])
            most = min(CONTEXT, max(room // 2, 0))
            for found, nearest in ((before[::-1], left[::-1]), (after, right)):
                assert found == nearest[: len(found)]
                assert pieces_in(model, found) <= most
                assert len(found) == len(nearest) or pieces_in(model, nearest[: len(found) + 1]) > most

    def test_are_none_without_documents(self, pair):
        for none in (range(len(TOKENS)), [f"document {number}" for number in range(len(TOKENS))]):
            assert all(words == ([], []) for words in neighbours(pair[1], TOKENS, none))
        rows = as_dataset(SENTENCES).remove_columns("document")
        assert not any(add_context(rows, pair[1])[:]["context_before"])

    def test_are_those_of_the_document_where_documents_alternate(self, model):
        texts = [["Ann"], ["Rome"], ["left"], ["lost"], [], ["."]]
        found = neighbours(model, texts, [0, 1, 0, 1, 0, 0])
        assert [tuple(words) for words in found] == [
            ([], ["left", "."]), ([], ["lost"]), (["Ann"], ["."]), (["Rome"], []),
            (["Ann", "left"], ["."]), (["Ann", "left"], []),
        ]  # fmt: skip

    def test_are_cut_before_the_sentence_is(self, tmp_path):
        model = make_transformer(tmp_path, window=24, context_tokens=CONTEXT)
        words = [[letter] * count for letter, count in zip("abcde", (9, 20, 9, 22, 40), strict=True)]
        found = neighbours(model, words, [0] * 5)
        assert [(len(before), len(after)) for before, after in found] == [
            (0, 6),
            (1, 1),
            (6, 6),
            (0, 0),
            (0, 0),
        ]
        rows = add_context(as_dataset([TaggedSentence(tuple(w), ("O",) * len(w), 0) for w in words]), model)
        assert list(map(len, scores(model, rows))) == [9, 20, 9, 22, 40]
        assert Collator.of(model)(rows.to_list()[:4])["input_ids"].shape[1] == 24

    def test_count_where_the_tokenizer_leaves_nothing_of_a_word(self, model):
        texts = [["Ann", "\u200b", "left"], ["\x00", "Rome"]]
        rows = add_context(as_dataset([TaggedSentence(tuple(t), ("O",) * len(t), 0) for t in texts]), model)
        assert rows["context_before"][1] == texts[0]
        assert list(map(len, scores(model, rows))) == [3, 2]


def test_a_sentence_has_the_scores_that_it_has_in_the_middle_of_the_text(pair):
    alone, model = pair
    rows = add_context(as_dataset(SENTENCES), model)
    before, after = rows["context_before"][:], rows["context_after"][:]
    texts = [(*b, *tokens, *a) for b, tokens, a in zip(before, TOKENS, after, strict=True)]
    whole = scores(alone, as_dataset([TaggedSentence(text, ("O",) * len(text), 0) for text in texts]))
    moved = 0.0
    plain = scores(alone, as_dataset(SENTENCES))
    for row, found in enumerate(scores(model, rows)):
        start = len(before[row])
        torch.testing.assert_close(found, whole[row][start : start + len(found)], **CLOSE)
        moved = max(moved, float((found - plain[row]).abs().max()))
    assert moved > 0.1, "neighbours matter"


def test_without_documents_it_reads_as_without_context(pair):
    alone, model = pair
    same_probabilities(Tagger(model).tag(TOKENS, workings=True), Tagger(alone).tag(TOKENS, workings=True))


class TestTheSameScores:
    @pytest.fixture(scope="class")
    @classmethod
    def expected(cls, model):
        return Tagger(model).tag(TOKENS, DOCUMENTS, workings=True)

    def test_from_rows_with_and_without_their_context(self, model, expected):
        rows = as_dataset(SENTENCES)
        for dataset in (rows, add_context(rows, model), add_context(add_context(rows, model), model)):
            same_probabilities(Tagger(model).predict(dataset, workings=True), expected)
        assert [p.spans for p in expected] == Tagger(model).spans(rows)

    def test_from_a_document_by_itself(self, model, expected):
        for document in set(DOCUMENTS):
            rows = [row for row, number in enumerate(DOCUMENTS) if number == document]
            found = Tagger(model).tag_sentences([SENTENCES[row] for row in rows], workings=True)
            same_probabilities(found, [expected[row] for row in rows])

    def test_from_rows_in_any_order_and_batch(self, model):
        rows = add_context(as_dataset(SENTENCES), model)
        together = scores(model, rows)
        order = random.Random(1).sample(range(len(rows)), len(rows))
        for row, found in zip(order, scores(model, rows.select(order)), strict=True):
            torch.testing.assert_close(found, together[row], **CLOSE)
        for row in order[:5]:
            torch.testing.assert_close(scores(model, rows.select([row]))[0], together[row], **CLOSE)

    def test_from_what_a_term_learns_from(self, model, tmp_path):
        rows = add_context(as_dataset(SENTENCES, model.bio), model)
        scored = with_potentials(rows, model, tmp_path)
        assert not {"tokens", "context_before", "context_after"} & set(scored.column_names)
        with torch.no_grad():
            expected = model.score(Collator.of(model)(rows.to_list())).potentials.nodes
        for found, wanted, tokens in zip(scored["nodes"], expected, TOKENS, strict=True):
            torch.testing.assert_close(
                torch.tensor(found).view(len(tokens), -1), wanted[: len(tokens)], **CLOSE
            )

    def test_from_a_saved_model(self, model, expected, tmp_path):
        model.save_pretrained(tmp_path)
        loaded = load_model(tmp_path)
        assert loaded.context_tokens == CONTEXT
        same_probabilities(Tagger(loaded).tag(TOKENS, DOCUMENTS, workings=True), expected)
        assert f"reads up to {CONTEXT} pieces before and after" in (tmp_path / "README.md").read_text()

    def test_from_the_commands(self, model, expected, tmp_path):
        model.save_pretrained(tmp_path / "model")
        file = write_conll(tmp_path / "text.conll", SENTENCES)
        assert gspen_ner("predict", tmp_path / "model", file, "--output", tmp_path / "p.jsonl").exit_code == 0
        tagged = gspen_ner("tag", tmp_path / "model", file, tmp_path / "t.jsonl", "--part-rows", 3)
        assert tagged.exit_code == 0, tagged.output
        for name, chance in (("p", "probability"), ("t", "confidence")):
            lines = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
            found = [[(e["type"], e["start"], e[chance]) for e in line["entities"]] for line in lines]
            wanted = [
                [(span.type, span.start, pytest.approx(p, abs=1e-4)) for span, p in row.entities]
                for row in expected
            ]
            assert found == wanted


class TestATextCutIntoPieces:
    @pytest.mark.parametrize(("context", "told"), [(0, False), (CONTEXT, True)])
    def test_is_reported(self, context, told, tmp_path):
        make_transformer(tmp_path, context_tokens=context).save_pretrained(tmp_path / "model")
        file = write_conll(tmp_path / "text.conll", SENTENCES)
        result = gspen_ner("tag", tmp_path / "model", file, tmp_path / "out", "--longest-document", 4)
        assert result.exit_code == 0, result.output
        assert ("documents of more than 4 sentences were cut" in result.output) == told

    def test_has_the_context_of_its_piece(self, model):
        pieces, cuts = pieces_of(DOCUMENTS, [len(tokens) for tokens in TOKENS], 4)
        found = neighbours(model, TOKENS, pieces)
        assert cuts
        assert all(not found[row].before for row in range(1, len(pieces)) if pieces[row] != pieces[row - 1])


TWINS = [
    TaggedSentence(tokens, tags, document)
    for document, (first, kind) in enumerate((("FOOTBALL", "ORG"), ("WEATHER", "LOC")))
    for tokens, tags in (((first,), ("O",)), (("Halden", "won", "."), (f"B-{kind}", "O", "O")))
]


@pytest.mark.parametrize(("context", "right"), [(0, 1), (CONTEXT, 2)])
def test_what_only_the_sentence_before_tells_is_learned_with_context(context, right, tmp_path):
    torch.manual_seed(3)
    model = make_transformer(tmp_path, context_tokens=context)
    torch.manual_seed(3)
    batch = Collator.of(model)(add_context(as_dataset(TWINS, model.bio), model).to_list())
    optimizer = torch.optim.Adam(model.train().parameters(), 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    found = Tagger(model).tag_sentences(TWINS)
    assert sum(found[row].tags == list(TWINS[row].tags) for row in (1, 3)) == right


class TestRefused:
    def test_are_rows_without_their_context(self, model):
        with pytest.raises(
            ValueError, match=r"expected the columns context_before, context_after.*add_context"
        ):
            Collator.of(model)(as_dataset(SENTENCES).to_list())

    @pytest.mark.parametrize("wrong", [-1, "64", None])
    def test_is_a_context_that_cannot_be(self, wrong, model, tmp_path):
        model.save_pretrained(tmp_path)
        entries = json.loads((tmp_path / "config.json").read_text())
        entries["scorer"]["context_tokens"] = wrong
        (tmp_path / "config.json").write_text(json.dumps(entries))
        with pytest.raises(ValueError, match="context_tokens must be a number of pieces, 0 or more"):
            GSPENForTokenClassification.from_pretrained(tmp_path)

    def test_is_a_negative_context_of_a_new_model(self, tmp_path):
        encoder = save_encoder(tmp_path)
        with pytest.raises(ValueError, match="context_tokens must be a number of pieces, 0 or more, got -1"):
            GSPENForTokenClassification.from_encoder(encoder, NAMES, context_tokens=-1)


def test_rows_stay_as_they_are_for_models_that_read_sentences_alone(pair):
    rows = as_dataset(SENTENCES)
    assert add_context(rows, pair[0]) is rows
    assert add_context(rows, make_model()) is rows
