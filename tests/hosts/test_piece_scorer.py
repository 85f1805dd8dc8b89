"""Scores of words from pieces, in any precision; rates of a model's parts; rows of several processes."""

from collections import Counter
from contextlib import nullcontext
from itertools import chain, cycle, islice
from types import SimpleNamespace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from transformers import BartConfig

from gspen_ner.hosts.huggingface import processes
from gspen_ner.hosts.huggingface.data import EpochBatches
from gspen_ner.hosts.huggingface.document_trainer import parameter_groups
from gspen_ner.hosts.huggingface.encoder import EncoderWithScores, make_encoder
from gspen_ner.ner.files import TaggedSentence
from tests.tiny import BASES, SENTENCES, TERMS, make_batch, make_model, stir
from tests.tiny_transformer import KINDS, make_transformer

ENCODERS = (*KINDS, "t5")
SYSTEMS = [
    ("unary", "none"),
    ("struct", "none"),
    *((s, t) for s in BASES for t in ("document", "padded_mlp")),
]
DOCUMENTS = [sentence.document for sentence in SENTENCES]
LENGTHS = [len(sentence.tokens) for sentence in SENTENCES]


def make_long(words):
    tokens = islice(cycle(chain.from_iterable(s.tokens for s in SENTENCES)), words)
    return TaggedSentence(tuple(tokens), ("O",) * words, 0)


def make_sharp(folder, kind, **options):
    """A tagger whose scores depend on what is around a word."""
    model = make_transformer(folder, kind, **options)
    with torch.no_grad():
        for weight in model.scorer.encoder.parameters():
            if weight.dim() > 1:
                weight.mul_(10)
    return model


@pytest.fixture(scope="module", params=ENCODERS)
def narrow(request, tmp_path_factory):
    """A tagger with windows of 24 pieces, which overlap by 6. Not to be changed."""
    return make_sharp(tmp_path_factory.mktemp("narrow"), request.param, window=24)


def emissions(model, batch):
    with torch.no_grad():
        return model.scorer.emissions(batch["input_ids"], batch["attention_mask"])


class TestLongSentences:
    def test_pieces_are_scored_in_the_window_around_them(self, narrow):
        batch = make_batch(narrow, [make_long(60)])
        found = emissions(narrow, batch)[0]
        first, *text, last = batch["input_ids"][0].tolist()

        def scored(start):
            window = torch.tensor([[first, *text[start : start + 22], last]])
            with torch.no_grad():
                return narrow.scorer.encoder(input_ids=window, attention_mask=torch.ones_like(window)).logits[
                    0
                ]

        close = {"atol": 1e-4, "rtol": 1e-4}
        torch.testing.assert_close(found[1 : 1 + 19], scored(0)[1 : 1 + 19], **close)
        torch.testing.assert_close(found[1 + 51 : 1 + 67], scored(48)[1 + 3 : 1 + 19], **close)
        torch.testing.assert_close(found[-4:], scored(len(text) - 22)[-4:], **close)
        assert (found[1 + 51 : 1 + 67] - scored(50)[1 + 1 : 1 + 17]).abs().max() > 0.01, "windows matter"

    @pytest.mark.parametrize("side", ["left", "right"])
    def test_a_short_sentence_is_scored_alike_alone_and_beside_a_long_one(self, narrow, side, monkeypatch):
        short = [TaggedSentence(s.tokens[:4], s.tags[:4], 0) for s in SENTENCES[:6]]
        alone = [narrow.score(make_batch(narrow, [sentence])).potentials.nodes[0] for sentence in short]
        monkeypatch.setattr(narrow.reader.tokenizer, "padding_side", side)
        beside = narrow.score(make_batch(narrow, [*short, make_long(80)])).potentials.nodes
        for row, expected in enumerate(alone):
            found = beside[row, : len(expected)]
            torch.testing.assert_close(found[1:-1], expected[1:-1], atol=1e-4, rtol=1e-4)

    def test_nothing_is_cut_off(self, narrow):
        batch = make_batch(narrow, [make_long(1000)])
        potentials, polytope, _ = narrow.score(batch)
        assert potentials.nodes.shape == (1, 1000, len(narrow.labels.names))
        assert polytope.lengths.tolist() == [1000]
        assert batch["input_ids"].shape[1] > 2000
        words = emissions(narrow, batch)[batch["word_starts"]]
        torch.testing.assert_close(potentials.nodes[0, 1:-1], words[1:-1], atol=1e-4, rtol=1e-4)
        with torch.no_grad():
            output = narrow(**batch)
        assert output.logits.shape == (1, 1000, len(narrow.bio.names))
        assert torch.isfinite(output.loss)

    def test_windows_that_are_not_full_are_padded_unseen(self, narrow):
        sentences = [make_long(count) for count in (30, 33, 47)]
        together = emissions(narrow, make_batch(narrow, sentences))
        for row, sentence in zip(together, sentences, strict=True):
            alone = emissions(narrow, make_batch(narrow, [sentence]))[0]
            torch.testing.assert_close(row[: len(alone)], alone, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("transitions", [True, False])
def test_the_chain_runs_over_first_pieces_alone(kind, transitions, tmp_path, monkeypatch):
    model = make_sharp(tmp_path, kind, transitions=transitions)
    batch = make_batch(model, SENTENCES[:8])
    assert batch["input_ids"].shape[1] <= model.scorer.frame.size
    starts = batch["word_starts"]
    forward = model.scorer.encoder.forward

    def disturbed(where):
        def other(**inputs):
            output = forward(**inputs)
            output["logits"] = output["logits"] + where[..., None] * torch.randn_like(output["logits"])
            return output

        monkeypatch.setattr(model.scorer.encoder, "forward", other)
        potentials, polytope, _ = model.score(batch)
        assert polytope.mask(starts.shape[1]).sum(1).tolist() == batch["lengths"].tolist()
        return potentials.nodes

    expected = disturbed(torch.zeros_like(starts))
    assert torch.equal(disturbed(~starts), expected)
    for row, position in ((0, 0), (3, 2)):
        one = torch.zeros_like(starts)
        one[row, starts[row].nonzero()[position]] = True
        changed = (disturbed(one) != expected).any(-1)
        assert changed.nonzero().tolist() == [[row, position]]


def test_an_encoder_without_token_classification_gets_an_output_layer():
    sizes = {"encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 24}
    config = BartConfig(vocab_size=30, d_model=16, decoder_layers=1, num_labels=5, dropout=0.0, **sizes)
    encoder = make_encoder(config).eval()
    assert isinstance(encoder, EncoderWithScores)
    assert not any("decoder" in name for name, _ in encoder.named_parameters())
    ids, mask = torch.tensor([[0, 7, 8, 2], [0, 9, 2, 1]]), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    with torch.no_grad():
        together = encoder(input_ids=ids, attention_mask=mask).logits
        alone = encoder(input_ids=ids[1:, :3], attention_mask=mask[1:, :3]).logits
    assert together.shape == (2, 4, 5)
    torch.testing.assert_close(together[1:, :3], alone)


def half():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def tensors(parts):
    return [part for part in (parts.nodes, parts.edges) if part is not None]


class TestHalfPrecision:
    @pytest.mark.parametrize("kind", ["bert", "t5", "bilstm"])
    @pytest.mark.parametrize(("system", "terms"), SYSTEMS)
    def test_what_leaves_the_model_is_single(self, system, terms, kind, tmp_path):
        entries = TERMS[terms] if system in BASES else []
        if kind == "bilstm":
            model = make_model(system, terms=terms)
        else:
            structured = system in ("struct", "gspen")
            model = make_transformer(
                tmp_path, kind, transitions=structured, terms=entries, inference={"max_steps": 5}
            )
        batch = make_batch(model, SENTENCES[:6])
        seen = []
        inner = next(part for part in model.scorer.modules() if isinstance(part, torch.nn.Linear))
        inner.register_forward_hook(lambda module, args, output: seen.append(output.dtype))
        with half():
            output = model(**batch)
            potentials = model.score(batch).potentials
            inferred = model.infer(batch)
            assert kind == "bilstm" or emissions(model, batch).dtype == torch.float32
        assert set(seen) == {torch.bfloat16}, "the encoder runs in half precision"
        parts = [output.loss, output.logits]
        parts += [
            part for scores in (potentials, inferred.potentials, inferred.theta) for part in tensors(scores)
        ]
        assert {part.dtype for part in parts} == {torch.float32}
        torch.testing.assert_close(output.loss, model(**batch).loss, atol=0.05, rtol=0.05)
        output.loss.backward()
        assert all(w.grad is None or torch.isfinite(w.grad).all() for w in model.parameters())

    @pytest.mark.parametrize(("system", "terms"), SYSTEMS)
    def test_chain_and_term_compute_in_single_precision(self, system, terms):
        model = make_model(system, terms=terms)
        model = stir(model) if model.head else model
        batch = make_batch(model, SENTENCES[:12])
        with torch.no_grad():
            nodes = model.score(batch).potentials.nodes
        given = {name: batch[name] for name in ("lengths", "documents", "mentions", "labels")}
        given["nodes"] = nodes + torch.randn(nodes.shape, generator=torch.Generator().manual_seed(3))
        weights = [w for name, w in model.named_parameters() if name.startswith("head.") or ".crf." in name]

        def results(precision):
            with precision:
                output, inferred = model(**given), model.infer(given)
            grown = torch.autograd.grad(output.loss, weights, allow_unused=True) if weights else ()
            found = [output.loss, output.logits, *tensors(inferred.theta), *grown]
            return [part for part in found if part is not None]

        assert any(weight.dim() > 1 for weight in weights) or system == "unary"
        for single, cast in zip(results(nullcontext()), results(half()), strict=True):
            assert torch.equal(single, cast)

    def test_autocast_is_off_around_chain_and_term(self, monkeypatch):
        model, seen = make_model("gspen"), {}
        for owner, name in ((model, "losses"), (model, "marginals"), (model.head, "infer")):
            original = getattr(owner, name)

            def watched(*args, name=name, original=original):
                seen[name] = torch.is_autocast_enabled("cpu")
                return original(*args)

            monkeypatch.setattr(owner, name, watched)
        batch = make_batch(model, SENTENCES[:2])
        with half():
            model(**batch)
            assert seen == {"losses": False, "marginals": False, "infer": False}
            model.infer(batch)
        assert not seen["infer"]


RATES = {"encoder": 1.0, "output": 2.0, "transitions": 3.0, "term": 4.0}


def trained(model):
    return [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]


def role_of(name):
    marks = {"head.": "term", "scorer.crf.": "transitions", "scorer.encoder.classifier.": "output"}
    return next((role for mark, role in marks.items() if name.startswith(mark)), "encoder")


class TestParameterGroups:
    @pytest.fixture(params=[*ENCODERS, "bilstm"])
    def model(self, request, tmp_path):
        if request.param == "bilstm":
            return make_model("gspen", terms="sum")
        return make_transformer(tmp_path, request.param, terms=TERMS["sum"])

    def options(self, model, name, *args, **kwargs):
        groups = parameter_groups(model, *args, **kwargs)
        counts = Counter(id(weight) for group in groups for weight in group["params"])
        assert counts == Counter({id(weight): 1 for _, weight in trained(model)}), "each once"
        torch.optim.AdamW(groups)
        return {id(weight): group[name] for group in groups for weight in group["params"]}

    @pytest.mark.parametrize("weight_decay", [0.0, 0.5])
    def test_every_part_has_its_rate(self, model, weight_decay):
        found = self.options(model, "lr", **RATES, weight_decay=weight_decay)
        expected = {id(w): RATES[role_of(name)] for name, w in trained(model)}
        assert found == expected
        assert {"encoder", "transitions", "term"} <= {role_of(name) for name, _ in trained(model)}

    def test_weight_decay_is_for_matrices_of_the_base(self, model):
        found = self.options(model, "weight_decay", **RATES, weight_decay=0.5)
        for name, weight in trained(model):
            decayed = weight.dim() > 1 and role_of(name) in ("encoder", "output")
            assert found[id(weight)] == (0.5 if decayed else 0.0), name
        assert set(found.values()) == {0.0, 0.5}
        assert set(self.options(model, "weight_decay", 1.0).values()) == {0.0}

    def test_a_rate_that_is_not_given_is_the_encoders_and_zero_is_given(self, model):
        assert set(self.options(model, "lr", 0.1).values()) == {0.1}
        found = self.options(model, "lr", 0.1, transitions=0.0)
        expected = {id(w): 0.0 if role_of(n) == "transitions" else 0.1 for n, w in trained(model)}
        assert found == expected

    def test_of_a_frozen_base_only_the_term_is_left(self, model):
        model.freeze()
        found = self.options(model, "lr", **RATES, weight_decay=0.5)
        assert found == {id(weight): 4.0 for weight in model.head.parameters()}

    def test_a_model_may_have_neither_transitions_nor_term(self, tmp_path):
        model = make_transformer(tmp_path, transitions=False)
        assert set(self.options(model, "lr", **RATES).values()) == {1.0, 2.0}


@st.composite
def divided(draw):
    """Rows, what must stay together, and how many processes share them."""
    world = draw(st.integers(2, 3))
    lengths = draw(st.lists(st.integers(1, 30), min_size=world, max_size=40))
    groups = [draw(st.integers(0, 12)) for _ in lengths] if draw(st.booleans()) else None
    assume(groups is None or len(set(groups)) >= world)
    return groups, lengths, draw(st.integers(world, 12)), world


def shares_of(groups, lengths, batch_size, world, epoch=0):
    """For each batch of an epoch the shares of all processes."""
    samplers = [EpochBatches(groups, lengths, batch_size, 1, 2, rank, world) for rank in range(world)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    found = [list(sampler) for sampler in samplers]
    assert {len(batches) for batches in found} == {len(sampler) for sampler in samplers}, "as many for all"
    return list(zip(*found, strict=True))


class TestEpochBatchesOfSeveralProcesses:
    @given(divided(), st.integers(0, 3))
    def test_all_rows_come_once_and_nobody_is_without(self, batches, epoch):
        shares = shares_of(*batches, epoch)
        rows = [row for batch in shares for share in batch for row in share]
        first = len(batches[1]) * (epoch % 2)  # there are two draws
        assert sorted(rows) == list(range(first, first + len(batches[1])))
        assert all(share for batch in shares for share in batch)

    @given(divided())
    def test_a_document_is_never_divided(self, batches):
        groups = batches[0]
        assume(groups is not None)
        homes = [{groups[row] for row in share} for batch in shares_of(*batches) for share in batch]
        assert sum(map(len, homes)) == len(set(groups))

    @pytest.mark.parametrize("world", [2, 3])
    def test_a_batch_is_that_of_one_process_in_parts(self, world):
        rows = len(LENGTHS) // 6 * 6
        shares = shares_of(None, LENGTHS[:rows], 6, world, epoch=2)
        whole = EpochBatches(None, LENGTHS[:rows], 6, 1)
        whole.set_epoch(2)
        assert [sorted(chain(*batch)) for batch in shares] == [sorted(batch) for batch in whole]
        assert {len(share) for batch in shares for share in batch} == {6 // world}

    @pytest.mark.parametrize("groups", [None, DOCUMENTS], ids=["sentences", "documents"])
    def test_one_process_has_everything(self, groups):
        batches = list(EpochBatches(groups, LENGTHS, 8, 1))
        assert [share for (share,) in shares_of(groups, LENGTHS, 8, 1)] == batches
        if groups is None:
            assert sorted(map(len, batches), reverse=True)[:-1] == [8] * (len(LENGTHS) // 8)

    def test_too_little_for_all_is_refused(self):
        with pytest.raises(ValueError, match="2 sentences in batches of 8 cannot be divided among 3"):
            EpochBatches(None, [5, 5], 8, world=3)
        with pytest.raises(ValueError, match="2 documents in batches of 8 cannot"):
            EpochBatches([0, 0, 1, 1], [5] * 4, 8, world=3)
        with pytest.raises(ValueError, match="10 sentences in batches of 2 cannot"):
            EpochBatches(None, [5] * 10, 2, world=3)


def test_rows_of_a_group_are_one_processs(monkeypatch):
    groups = [7, 7, 3, 9, 3, 7, 11, 0, 0]
    monkeypatch.setenv("WORLD_SIZE", "3")
    shares = []
    for rank in range(3):
        monkeypatch.setattr(processes, "state", lambda rank=rank: SimpleNamespace(process_index=rank))
        shares.append(processes.own_rows(groups))
    assert shares == [[0, 1, 5, 6], [2, 4, 7, 8], [3]]


def test_a_process_that_is_alone_does_everything_and_asks_nobody(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(processes, "state", lambda: pytest.fail("asked"))
    assert processes.own_rows([4, 4, 2]) == [0, 1, 2]
    assert processes.is_main()
    assert processes.gathered([1, 2]) == [1, 2]
    with processes.main_first() as first:
        assert first
