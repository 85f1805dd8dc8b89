"""Copies of Flair taggers, with shared or new weights; heads from files of version 0.1."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from flair.embeddings import CharacterEmbeddings, OneHotEmbeddings, StackedEmbeddings, TokenEmbeddings
from flair.models import SequenceTagger

from gspen_ner.head import GSPENHead
from gspen_ner.losses import fixed_point_f1, fixed_point_likelihood
from gspen_ner.solvers import SOLVERS
from gspen_ner.terms import TERMS, Convolution, DocumentConsistency, GlobalTerm, PaddedMLP, TermSum
from gspen_ner.training.stages import needs_make_base


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
    """Share the weights of a tagger with a new one that was made with its embeddings.

    With another dictionary of tags, the encoder is shared, and the weights of known tags are copied.
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
    """Copy the weights of the tags that both know; new tags keep their initial weights."""
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
    raise needs_make_base(f"the first weights of {type(part).__name__} are not known any more")


def configuration_of_old(head: GSPENHead) -> dict[str, Any]:
    """Return the configuration of a head of version 0.1, whose files hold it as an object without options."""
    terms = head.term.terms if isinstance(head.term, TermSum) else [head.term]
    solver = {field.name: getattr(head.solver, field.name) for field in fields(head.solver)}  # type: ignore[arg-type]
    names = ("temperature", "cost", "positive_part", "max_steps", "tolerance", "stop")
    losses = {fixed_point_likelihood: "fixed_point", fixed_point_f1: "f1"}
    inference = {name: getattr(head, name) for name in names} | {
        "loss": losses.get(head.loss_function, "hinge"),
        "solver": {"name": _name_in(SOLVERS.classes, head.solver)} | solver,
    }
    return {"terms": [_entry_of_old(term) for term in terms if term is not None], "inference": inference}


def _entry_of_old(term: GlobalTerm) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": _name_in(TERMS.classes, term)}
    match term:
        case PaddedMLP():
            names = ("max_length", "dropout", "edge_inputs", "read_potentials")
            return entry | {name: getattr(term, name) for name in names} | {"hidden": term.input.out_features}
        case Convolution():
            return entry | {"hidden": term.filters.out_channels, "width": term.filters.kernel_size[0]}
        case DocumentConsistency():
            return entry | {"relations": list(term.relations)}
    return entry


def _name_in(classes: dict[str, Any], component: object) -> str:
    for name, cls in classes.items():
        if type(component) is cls:
            return name
    raise ValueError(f"{type(component).__name__} is not a class of this package: its file cannot be read")
