"""What one Flair tagger takes over from another: how it was made, and its weights."""

from __future__ import annotations

from typing import Any

import torch
from flair.models import SequenceTagger


def arguments_of(tagger: SequenceTagger) -> dict[str, Any]:
    """What a tagger was made with."""
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
