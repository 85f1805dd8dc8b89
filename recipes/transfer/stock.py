"""Base models as users have them: trained by transformers or Flair alone, with usual settings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

from gspen_ner.hosts.flair import accelerate
from gspen_ner.hosts.flair.embeddings import make_embeddings
from gspen_ner.hosts.flair.sentences import TAG_TYPE, as_corpus
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.recipe import Recipe
from gspen_ner.recipe.flair import CharacterEntry, EmbeddingEntry, WordEntry
from gspen_ner.runs.run import Corpus


def train_classifier(recipe: Recipe, encoder: str, output: Path) -> None:
    """Fine-tune a transformer with a softmax over the labels of words' first pieces; 3 epochs of AdamW."""
    set_seed(recipe.seed)
    corpus = Corpus.read(recipe)
    names = corpus.labels("BIO").names
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    numbers = {name: number for number, name in enumerate(names)}
    model = AutoModelForTokenClassification.from_pretrained(
        encoder, id2label=dict(enumerate(names)), label2id=numbers
    )
    arguments = TrainingArguments(
        str(output / "checkpoints"),
        num_train_epochs=3,
        group_by_length=True,
        learning_rate=2e-4,
        per_device_train_batch_size=16,
        warmup_ratio=0.1,
        save_strategy="no",
        report_to="none",
        seed=recipe.seed,
    )
    Trainer(
        model,
        arguments,
        train_dataset=_pieces(corpus.train, tokenizer, numbers),  # type: ignore[arg-type]
        data_collator=DataCollatorForTokenClassification(tokenizer),
    ).train()
    model.save_pretrained(output)
    tokenizer.save_pretrained(output)


def _pieces(sentences: Sequence[TaggedSentence], tokenizer: Any, numbers: dict[str, int]) -> list[Any]:
    """Return the pieces of sentences; the first piece of a word has its label, the others have none."""
    rows = []
    for sentence in sentences:
        row = tokenizer(list(sentence.tokens), is_split_into_words=True, truncation=True, max_length=512)
        words = row.word_ids()
        row["labels"] = [
            -100 if word is None or word == before else numbers[sentence.tags[word]]
            for before, word in pairwise([None, *words])
        ]
        rows.append(dict(row))
    return rows


def train_flair(recipe: Recipe, output: Path) -> None:
    """Train a BiLSTM-CRF on word vectors (if the recipe has some) and characters; 10 epochs of AdamW."""
    set_seed(recipe.seed)
    sentences = Corpus.read(recipe)
    entries: list[EmbeddingEntry] = [CharacterEntry(name="characters")]
    if recipe.scorer.word_vectors is not None:
        entries.append(WordEntry(name="words", file=recipe.scorer.word_vectors))
    corpus = as_corpus(sentences.train, sentences.dev, None)
    tags = corpus.make_label_dictionary(TAG_TYPE, add_unk=False)
    tagger = SequenceTagger(make_embeddings(entries, sentences.train), tags, TAG_TYPE)
    faster = accelerate(tagger)  # with the same results
    ModelTrainer(tagger, corpus).train(
        output,
        optimizer=torch.optim.AdamW,
        learning_rate=1e-3,
        max_epochs=10,
        save_final_model=False,
    )
    faster.undo()
