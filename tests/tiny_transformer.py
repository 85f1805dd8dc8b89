"""Small transformers with tokenizers of their own, made from generated news: nothing is downloaded."""

from collections import Counter
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModel,
    AutoModelForTokenClassification,
    BertConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
    T5Config,
    XLMRobertaConfig,
)

from gspen_ner.hosts.huggingface import GSPENForTokenClassification
from tests.tiny import SENTENCES, make_labels

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
NAMES = make_labels("BIO").names
KINDS = ("bert", "roberta", "xlm-roberta")
"""WordPiece, byte-level and SentencePiece tokenizers, with encoders of their families."""
SPLIT = Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+")


def make_tokenizer(kind="bert"):
    """A fast tokenizer of a kind, trained on a few sentences so that most words have several pieces.

    Besides KINDS there is `"qwen"`: byte-level, and deaf to `add_prefix_space`.
    """
    if kind == "bert":
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        tokenizer = Tokenizer(models.WordPiece(_word_pieces(special), unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
    else:
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
        if kind == "roberta":
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
            tokenizer.decoder = decoders.ByteLevel()
        elif kind == "qwen":
            by_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            tokenizer.normalizer = normalizers.NFC()
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Split(SPLIT, "isolated"), by_bytes]
            )
            tokenizer.decoder = decoders.ByteLevel()
        else:
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
            tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.BpeTrainer(vocab_size=260, special_tokens=special)
        tokenizer.train_from_iterator([" ".join(s.tokens) for s in SENTENCES], trainer)
    first, last = ("[CLS]", "[SEP]") if kind == "bert" else ("<s>", "</s>")
    numbers = [(token, tokenizer.token_to_id(token)) for token in (first, last)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=numbers
    )
    names = ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token")
    if kind == "bert":
        chosen = dict(zip(names, ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"), strict=True))
    else:
        chosen = dict(zip(names, ("<s>", "</s>", "<pad>", "<unk>", "<mask>"), strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **chosen)


def _word_pieces(special):
    """Frequent words and all letters; what tokenizers learns differs from call to call."""
    words = Counter(token for sentence in SENTENCES for token in sentence.tokens)
    letters = sorted({letter for word in words for letter in word})
    frequent = sorted(words, key=lambda word: (-words[word], word))[:60]
    pieces = dict.fromkeys([*special, *letters, *(f"##{letter}" for letter in letters), *frequent])
    return {piece: number for number, piece in enumerate(pieces)}


def make_config(kind, tokenizer, dropout=0.0, **options):
    shape = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    if kind == "t5":  # for which transformers has an encoder and a decoder
        sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
        return T5Config(**shape, **sizes, dropout_rate=dropout, decoder_start_token_id=0, **options)
    dropouts = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    makers = {"bert": BertConfig, "roberta": RobertaConfig, "xlm-roberta": XLMRobertaConfig}
    positions = 64 if kind == "bert" else 66
    return makers[kind](**shape, **SIZES, **dropouts, max_position_embeddings=positions, **options)


def save_encoder(folder, kind="bert", dropout=0.0):
    """The folder of a small encoder with random weights and its tokenizer."""
    tokenizer = make_tokenizer("bert" if kind == "t5" else kind)
    torch.manual_seed(11)
    AutoModel.from_config(make_config(kind, tokenizer, dropout)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Path(folder)


def save_classifier(folder, kind="bert", names=NAMES, dropout=0.0):
    """The folder of a softmax token classifier whose weights are large enough to be sure of something."""
    tokenizer = make_tokenizer(kind)
    torch.manual_seed(12)
    config = make_config(kind, tokenizer, dropout, id2label=dict(enumerate(names)))
    config.label2id = {name: number for number, name in enumerate(names)}
    model = AutoModelForTokenClassification.from_config(config)
    with torch.no_grad():
        model.classifier.weight.mul_(100)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Path(folder)


def make_transformer(folder, kind="bert", dropout=0.0, **options):
    """A tagger with random weights on a small encoder, in evaluation mode."""
    encoder = save_encoder(Path(folder) / f"encoder-{kind}", kind, dropout)
    torch.manual_seed(13)
    return GSPENForTokenClassification.from_encoder(encoder, NAMES, **options).eval()
