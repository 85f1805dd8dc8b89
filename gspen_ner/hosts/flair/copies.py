"""Flair taggers made from others: with the same arguments, and with shared or new weights."""

from __future__ import annotations

from typing import Any

import torch
from flair.embeddings import CharacterEmbeddings, OneHotEmbeddings, StackedEmbeddings, TokenEmbeddings
from flair.models import SequenceTagger


def arguments_of(tagger: SequenceTagger) -> dict[str, Any]:
    """Return the arguments that make a tagger like this one."""
    return {
        "embeddings": tagger.embeddings,
        "tag_dictionary": tagger.label_dictionary,
        "tag_type": tagger.tag_type,
        "tag_format": tagger.tag_format,
        "use_rnn": tagger.use_rnn,
        "rnn_type": tagger.rnn_type,
        "hidden_size": tagger.hidden_size,
        "rnn_layers": tagger.rnn_layers,
        "bidirectional": tagger.bidirectional,
        "reproject_embeddings": tagger.reproject_embeddings,
        "dropout": tagger.use_dropout,
        "word_dropout": tagger.use_word_dropout,
        "locked_dropout": tagger.use_locked_dropout,
        "train_initial_hidden_state": tagger.train_initial_hidden_state,
        "loss_weights": tagger.weight_dict,
    }


def share_weights(old: SequenceTagger, new: SequenceTagger) -> None:
    """Let a tagger that was made with another one's embeddings have its other weights too.

    With another dictionary of tags it has its encoder, and copies of the weights of the tags that both know.
    """
    for name in ("rnn", "embedding2nn", "lstm_init_h", "lstm_init_c"):
        if hasattr(old, name):
            setattr(new, name, getattr(old, name))
    if new.label_dictionary is old.label_dictionary:
        new.linear, new.crf.transitions = old.linear, old.crf.transitions
    else:
        _copy_known_tags(old, new)


@torch.no_grad()
def _copy_known_tags(old: SequenceTagger, new: SequenceTagger) -> None:
    """Weights of the tags that both know; new ones keep their initial weights."""
    before = {item: number for number, item in enumerate(old.label_dictionary.get_items())}
    pairs = [(n, before[i]) for n, i in enumerate(new.label_dictionary.get_items()) if i in before]
    to, origin = torch.tensor(pairs).T
    new.linear.weight[to], new.linear.bias[to] = old.linear.weight[origin], old.linear.bias[origin]
    new.crf.transitions[to[:, None], to] = old.crf.transitions[origin[:, None], origin]


def untrained_copy(tagger: SequenceTagger) -> SequenceTagger:
    """Return a tagger like this one with new weights; embeddings that are not trained are shared.

    Raises:
        ValueError: for trained embeddings that do not know their first weights, such as fine-tuned
            transformers.
    """
    embeddings = tagger.embeddings
    parts = embeddings.embeddings if isinstance(embeddings, StackedEmbeddings) else [embeddings]
    new = [_untrained(part) for part in parts]
    arguments = arguments_of(tagger) | {"embeddings": new[0] if len(new) == 1 else StackedEmbeddings(new)}
    return SequenceTagger(**arguments, init_from_state_dict=True)


def _untrained(part: TokenEmbeddings) -> TokenEmbeddings:
    if part.static_embeddings:
        return part
    if type(part) is CharacterEmbeddings:
        return CharacterEmbeddings(part.char_dictionary, part.char_embedding_dim, part.hidden_size_char)
    if type(part) is OneHotEmbeddings:
        return OneHotEmbeddings(part.vocab_dictionary, part.field, part.embedding_length)
    raise ValueError(
        f"the first weights of {type(part).__name__} are not known any more: give make_base, a function that "
        "makes a new tagger like this one"
    )
