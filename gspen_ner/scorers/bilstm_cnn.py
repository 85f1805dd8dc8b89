"""BiLSTM-CNN: potentials of the tagger of Ma & Hovy (2016), with the settings of the paper's appendix.

    word vector, CNN over characters -> dropout -> BiLSTM -> dropout -> linear, ELU -> node (and edge) scores

The two directions are two LSTMs, the second of which reads each sentence from its end. So padding is at the
end for both, where it has no effect, and torch's fast padded LSTM can be used; `nn.LSTM(bidirectional=True)`
would need packed sequences. If lengths differ much (documents), the LSTMs read sentences in parts of similar
length. All other layers are computed for tokens only, and spellings once for each distinct word of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gspen_ner.components import Count, DropRate, configurable
from gspen_ner.labels import Labels
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Polytope, Simplex
from gspen_ner.scorers.crf import LinearChainCRF
from gspen_ner.scorers.vocabulary import PADDING, Vocabulary, WordVectors

Transitions = Literal["shared", "bigram"]
PART = 16  # number of sentences that the LSTM reads together if lengths differ much


@configurable(given=["labels", "trained_words", "fixed_words", "characters"])
class BiLSTMCNN(nn.Module):
    """Score the labels of sentences.

    Args:
        labels: the labels; transitions that their scheme forbids are scored -inf.
        trained_words: number of words with trained vectors; see `Vocabulary`.
        fixed_words: number of words with fixed vectors.
        characters: number of characters.
        transitions: scores of neighbouring labels: `shared`, one table for all positions; `bigram`, a table
            for each pair of words (the paper's); `none` for the systems unary and spen.
        word_size: size of the word vectors.
        character_size: size of the character vectors.
        filters: number of filters of the convolution over characters.
        width: window of the convolution, in characters.
        hidden: units of the LSTM in each direction.
        projection: units of the layer between LSTM and scores.
        word_dropout: probability of dropping a whole word or spelling vector, forcing reliance on context.
        input_dropout: dropout rate of the LSTM's input.
        output_dropout: dropout rate of the LSTM's output.

    Example:
        >>> from gspen_ner.scorers.vocabulary import spell_out
        >>> sentences = [["Ann", "left"], ["Ann", "stayed"]]
        >>> vocabulary = Vocabulary.of_sentences(sentences)
        >>> labels, letters = Labels.of_types(["PER"], "BIO"), len(vocabulary.characters)
        >>> net = BiLSTMCNN(labels, vocabulary.trained, fixed_words=0, characters=letters)
        >>> words = torch.tensor([vocabulary.word_numbers(tokens) for tokens in sentences])
        >>> potentials, chain = net(words, *spell_out(sentences, vocabulary), torch.tensor([2, 2]))
        >>> potentials.nodes.shape, potentials.edges.shape
        (torch.Size([2, 2, 3]), torch.Size([1, 1, 3, 3]))
    """

    inputs = ("words", "spellings", "spelling_at", "lengths")

    def __init__(
        self,
        labels: Labels,
        trained_words: int,
        fixed_words: int,
        characters: int,
        *,
        transitions: Literal["none", Transitions] = "shared",
        word_size: Count = 100,
        character_size: Count = 30,
        filters: Count = 30,
        width: Count = 3,
        hidden: Count = 256,
        projection: Count = 256,
        word_dropout: DropRate = 0.0,
        input_dropout: DropRate = 0.5511,
        output_dropout: DropRate = 0.5,
    ) -> None:
        super().__init__()
        num_labels = len(labels.names)
        self.trained_words = nn.Embedding(trained_words + 1, word_size)
        self.fixed_words = nn.Embedding(fixed_words, word_size).requires_grad_(False)
        self.characters = nn.Embedding(characters + 2, character_size, padding_idx=PADDING)
        self.convolution = nn.Conv1d(character_size, filters, width, padding="same")
        self.word_dropout = nn.Dropout(word_dropout)
        self.input_dropout = nn.Dropout(input_dropout)
        inputs = word_size + filters
        self.forward_lstm = nn.LSTM(inputs, hidden, batch_first=True)
        self.backward_lstm = nn.LSTM(inputs, hidden, batch_first=True)
        self.output_dropout = nn.Dropout(output_dropout)
        self.projection = nn.Linear(2 * hidden, projection)
        self.emissions = nn.Linear(projection, num_labels)
        self.crf = None if transitions == "none" else LinearChainCRF(num_labels, True, labels)
        self.bigram = nn.Linear(projection, num_labels**2, bias=False) if transitions == "bigram" else None
        self._reset_parameters()

    @property
    def has_tables(self) -> bool:
        """Whether transitions have a table of scores for each position instead of a shared one."""
        return self.bigram is not None

    def _reset_parameters(self) -> None:
        for table in (self.trained_words, self.fixed_words, self.characters):
            bound = (3 / table.embedding_dim) ** 0.5
            nn.init.uniform_(table.weight, -bound, bound)
        nn.init.zeros_(self.characters.weight[PADDING])

    def load_vectors(self, vectors: WordVectors, vocabulary: Vocabulary) -> None:
        """Initialise word vectors with pretrained ones."""
        trained, fixed = vocabulary.words[: vocabulary.trained], vocabulary.words[vocabulary.trained :]
        vectors.copy_into(self.trained_words.weight, trained, first_row=1)
        vectors.copy_into(self.fixed_words.weight, fixed, first_row=0)

    def forward(
        self,
        words: Int[Tensor, "B T"],
        spellings: Int[Tensor, "U C"],
        spelling_at: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"],
    ) -> tuple[Parts, Polytope]:
        """Return the potentials of a batch and their polytope.

        Args:
            words: numbers of words; see `Vocabulary.word_numbers`.
            spellings: spellings of the batch's distinct words; see `spell_out`.
            spelling_at: row of each token's spelling.
            lengths: number of tokens of each sentence.
        """
        present = torch.arange(words.shape[1], device=lengths.device) < lengths[:, None]
        features = self.encode(words, spellings, spelling_at, lengths)
        nodes = padded(self.emissions(features), present)
        if self.crf is None:
            return Parts(nodes), Simplex(present)
        potentials, chain = self.crf.potentials(nodes, present)
        if self.bigram is not None and potentials.edges is not None:
            later = present.clone()  # the scores of a pair are computed from its second token
            later[:, 0] = False
            pairs = padded(self.bigram(features[later[present]]), present[:, 1:])
            pairs = pairs.unflatten(-1, potentials.edges.shape[-2:])
            potentials = Parts(potentials.nodes, potentials.edges + pairs)
        return potentials, chain

    def encode(
        self,
        words: Int[Tensor, "B T"],
        spellings: Int[Tensor, "U C"],
        spelling_at: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"],
    ) -> Float[Tensor, "tokens projection"]:
        """Return the features of all tokens, one row per token; see `padded`."""
        present = torch.arange(words.shape[1], device=lengths.device) < lengths[:, None]
        vectors = [self._word_vectors(words[present]), self._spelled(spellings)[spelling_at[present]]]
        kept = [whole * self.word_dropout(torch.ones_like(whole[:, :1])) for whole in vectors]
        inputs = padded(self.input_dropout(torch.cat(kept, -1)), present)
        encoded = inputs.new_zeros(*present.shape, 2 * self.forward_lstm.hidden_size)
        with _lstm_precision(inputs.device):
            for rows in _similar(lengths):
                longest = int(lengths[rows].max())
                part, sizes = inputs[rows, :longest], lengths[rows]
                backward = mirror(self.backward_lstm(mirror(part, sizes))[0], sizes)
                both = torch.cat([self.forward_lstm(part)[0], backward], -1)
                encoded[rows, :longest] = both.to(encoded.dtype)  # autocast changes the dtype of LSTMs
        return nn.functional.elu(self.projection(self.output_dropout(encoded[present])))

    def _word_vectors(self, words: Int[Tensor, " tokens"]) -> Float[Tensor, "tokens D"]:
        trained = self.trained_words.num_embeddings
        vectors = self.trained_words(words.clamp_max(trained - 1))
        if not self.fixed_words.num_embeddings:
            return vectors
        fixed = self.fixed_words((words - trained).clamp_min(0))
        return torch.where((words < trained)[..., None], vectors, fixed)

    def _spelled(self, spellings: Int[Tensor, "U C"]) -> Float[Tensor, "U filters"]:
        """Return the largest response of each filter to each word."""
        responses = self.convolution(self.characters(spellings).mT)
        outside: Bool[Tensor, "U C"] = spellings == PADDING
        return responses.masked_fill(outside[:, None], -torch.inf).amax(-1).tanh()


def _lstm_precision(device: torch.device) -> AbstractContextManager[None]:
    """Return a context without autocast on the CPU, because many CPUs have no LSTM in half precision."""
    return torch.autocast("cpu", enabled=False) if device.type == "cpu" else nullcontext()


def padded(values: Float[Tensor, "tokens D"], present: Bool[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
    """Return values of all tokens, given as one row per token, as sentences padded with zeros."""
    result = values.new_zeros(*present.shape, values.shape[-1])
    result[present] = values
    return result


def _similar(lengths: Int[Tensor, " B"]) -> Iterable[Int[Tensor, " K"]]:
    """Return the rows of a batch, in parts of similar length if that saves much padding."""
    if len(lengths) * int(lengths.max()) < 1.3 * int(lengths.sum()):
        return [torch.arange(len(lengths), device=lengths.device)]
    return lengths.argsort(descending=True).split(PART)


def mirror(values: Float[Tensor, "B T D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B T D"]:
    """Return each sentence from its end to its start; padding does not move."""
    position = torch.arange(values.shape[1], device=values.device)
    origin = torch.where(position < lengths[:, None], lengths[:, None] - 1 - position, position)
    return values.gather(1, origin[..., None].expand_as(values))
