"""The readers, each with files that it reads."""

import gzip
import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse

from gspen_ner.corpora.manifest import Manifest, Settings
from gspen_ner.corpora.plan import Part, make_plan
from gspen_ner.corpora.reading import open_corpus
from gspen_ner.corpora.rows import Columns, Position, sentences_of
from gspen_ner.hosts.loading import load_tagger
from gspen_ner.ner.files import read_tagged_file
from gspen_ner.ner.plain_text import read_untagged
from gspen_ner.ner.sources import read_source
from gspen_ner.recipe import load_recipe
from gspen_ner.report.statistics import read_curves
from gspen_ner.runs.run import SplitEntities, read_results
from gspen_ner.scorers.vocabulary import Vocabulary, WordVectors
from recipes.multilabel.arff import read_binary_arff, read_label_names
from recipes.multilabel.files import read_bookmarks
from recipes.ocr.letters import read_letters
from recipes.tagging import mirflickr
from recipes.tagging.matrices import read_matrices
from tests.tiny import RECIPE, make_model


@dataclass(frozen=True)
class Target:
    """A reader.

    Args:
        file: the name of what it reads.
        valid: contents that it reads.
        read: it, given the file; what it raises must name the file, or `named`.
        share: of the inputs, relative to others; slow readers get few.
        others: files beside the one that is broken.
        named: what the error speaks of, if not of the file.
    """

    file: str
    valid: list[bytes]
    read: Callable[[Path], object]
    share: float = 1.0
    others: dict[str, bytes] = field(default_factory=dict)
    named: str = ""


CONLL = (
    b"-DOCSTART- -X- O\n\nMs. NNP O\nAnna NNP B-PER\nHalden NNP I-PER\nleft VB O\n\nGraz NNP B-LOC\n. . O\n"
)
LINES = (
    b'{"tokens": ["Anna", "left", "Graz"], "tags": ["B-PER", "O", "S-LOC"], "document": "a"}\n'
    b'{"tokens": ["Graz"], "tags": ["O"], "document": 7}\n{"tokens": [], "tags": []}\n'
)
ROWS = b'{"id": 1, "text": "Anna left. Graz won!"}\n\n{"text": null, "document": [1]}\n'
TEXT = "Ms. Anna Halden's U.S. trip cost 3,500 euros. Graz won!\n\nNext day … nothing.\n".encode()
VECTORS = b"the 0.1 -0.2 1e-3\n, 1 2 3\nanna 0.5 0.5 0.5\nin graz 1 2 3\n"
VOCABULARY = b'{"trained": 1, "characters": ["a", "b"], "words": ["the", "graz"]}'
ARFF = (
    b"@relation 'x y'\n% all\n@attribute a {0,1}\n@attribute 'b c' numeric\n@attribute T {'0','1'}\n@data\n"
    b"{0 1,2 1}\n0,1,0\n{}\n1,1,1\n{2 1}\n0,0,1\n1,0,0\n0,1,1\n"
)
XML = (
    b'<?xml version="1.0"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">\n'
    b'<label name="T"></label>\n</labels>\n'
)
SCORE = {"precision": 0.5, "recall": 1.0, "f1": 0.67, "support": 2}
ASSESSED = {
    "score": {"micro": SCORE, "types": {"PER": SCORE}},
    "exact_match": 0.5,
    "calibration": {"ece": 0.1, "bins": [[0.9, 0.8, 3]]},
}
RESULTS = {
    "seed": 1,
    "system": "gspen",
    "seconds_an_epoch": {"base": 1.5},
    "dev": {"sentences": 2, "base": ASSESSED, "full": None, "changes": {"fixed": 1, "broken": 0, "same": 4}},
    "test": None,
}
METRICS = (
    b'{"stage": "base", "epoch": 1.0, "loss": 2.5}\n{"stage": "base", "epoch": 1, "eval_f1": 0.5}\n'
    b'{"stage": "term", "epoch": 1.0, "loss": NaN}\n'
)
ENTITIES = {"gold": [[[0, 1, "PER"]], []], "base": [[[0, 2, "PER"]], []], "full": [[], [[1, 2, "LOC"]]]}
YAML = (
    b"extends: quickstart\nseed: 3\ndata: {train: 'a.txt', dev: b.txt}\nterms:\n  - name: document\n"
    b"  - name: convolution\n    width: 3\nterm_training: {epochs: 2, freeze: base}\n"
    b"inference: {solver: {name: frank_wolfe}}\n"
)
SETS = [
    b"base_training.epochs=5",
    b"terms.0.name=padded_mlp",
    b"inference.solver={name: frank_wolfe}",
    b"data.train=x",
    b"seed=[1, 2]",
]


def _saved(save: Callable[..., object], *arguments: object, **options: object) -> bytes:
    made = io.BytesIO()
    save(made, *arguments, **options)
    return made.getvalue()


def _matrices() -> dict[str, list[bytes]]:
    features = np.arange(12.0).reshape(6, 2)
    sparse = scipy.sparse.csc_matrix(features)
    return {
        "npy": [
            _saved(np.save, features),
            _saved(np.save, features.astype(">f2")),
            _saved(np.save, features > 3),
        ],
        "npz": [_saved(np.savez, x=features), _saved(np.savez_compressed, features)],
        "mat": [
            _saved(scipy.io.savemat, {"x": features}),
            _saved(scipy.io.savemat, {"x": sparse}),
            _saved(scipy.io.savemat, {"x": sparse}, do_compression=True),
            _saved(scipy.io.savemat, {"x": features}, format="4"),
        ],
    }


def _letters() -> dict[str, list[bytes]]:
    from PIL import Image

    images = np.arange(3 * 28 * 28, dtype=np.uint32).reshape(3, 28, 28).astype(np.uint8)
    arrays = _saved(np.savez_compressed, images=images, label=np.array(["a", "B", "7"]), font=np.arange(3))
    picture = _saved(lambda file: Image.fromarray(images[0]).save(file, "png"))
    zipped, packed = io.BytesIO(), io.BytesIO()
    names = [f"English/Fnt/Sample{sample}/img{sample}-00001.png" for sample in ("011", "040", "001")]
    with zipfile.ZipFile(zipped, "w") as archive:
        for name in names:
            archive.writestr(name, picture)
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = len(picture)
            tar.addfile(entry, io.BytesIO(picture))
    return {
        "npz": [arrays],
        "zip": [zipped.getvalue()],
        "tgz": [packed.getvalue(), gzip.decompress(packed.getvalue())],
    }


def _parquet() -> list[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {"tokens": [["Anna", "left"], ["Graz"]], "tags": [["B-PER", "O"], ["O"]], "document": [1, 2]}
    )
    return [
        _saved(lambda file: pq.write_table(table, file)),
        _saved(lambda file: pq.write_table(table, file, compression="none")),
    ]


def _manifest() -> bytes:
    parts = [Part(0, Position(0, 1, 0), 90, 2), Part(0, Position(90, 3, 2), 120, 1)]
    manifest = Manifest("model", ["a.jsonl"], Settings(), {"input": "ab", "version": "1"}, ".jsonl", parts)
    return json.dumps(asdict(manifest)).encode()


def _images(file: Path) -> object:
    return mirflickr._image(file)


def _jpeg() -> bytes:
    from PIL import Image

    return _saved(lambda file: Image.new("RGB", (30, 20), (200, 10, 10)).save(file, "jpeg"))


def _annotations(file: Path) -> object:
    return mirflickr._annotations(file.parent, [1, 2, 3, 20])


def _corpus(file: Path) -> object:
    """As `tag` reads it: all of it once to plan, and then part by part."""
    files = open_corpus(file, "auto", Columns())
    parts = make_plan(files, part_rows=2, longest=3).parts
    return [sentences_of(files[part.file].read(part.start, part.stop), longest=3) for part in parts]


def _override(file: Path) -> object:
    return load_recipe("quickstart", [file.read_bytes().decode("utf-8", "surrogateescape")])


def _same_matrix(file: Path) -> object:
    return read_matrices(file, file)


def make_targets(folder: Path) -> dict[str, Target]:
    """All readers; the folder is for what some of them need."""
    model = folder / "model"
    make_model("gspen").save_pretrained(model)
    kept = {file.name: file.read_bytes() for file in model.iterdir()}
    shutil.rmtree(model)
    matrices, letters = _matrices(), _letters()
    recipe = YAML, json.dumps(RECIPE).encode()
    return {
        "columns": Target("a.conll", [CONLL, CONLL.replace(b"\n", b"\r\n")], read_tagged_file, 20),
        "JSON lines": Target("a.jsonl", [LINES], read_tagged_file, 16),
        "strict columns": Target(
            "a.conll", [CONLL], lambda file: read_tagged_file(file, token_column=-3, strict=True), 4
        ),
        "plain text": Target("a.txt", [TEXT, CONLL, LINES], lambda file: read_untagged(str(file)), 14),
        "parquet": Target("a.parquet", _parquet(), lambda file: read_source(str(file)), 0.4),
        "corpus of lines": Target("a.jsonl", [LINES.replace(b"tags", b"id"), ROWS], _corpus, 10),
        "corpus of text": Target("a.txt", [TEXT, CONLL, ROWS], _corpus, 6),
        "corpus of columns": Target("a.conll", [CONLL], _corpus, 4),
        "corpus of tables": Target("a.parquet", _parquet(), _corpus, 4),
        "manifest": Target("_manifest.json", [_manifest()], lambda file: Manifest.load(file.parent), 3),
        "vectors": Target("a.vec", [VECTORS], lambda file: WordVectors.read(file, 3), 6),
        "packed vectors": Target("a.gz", [gzip.compress(VECTORS)], lambda file: WordVectors.read(file, 3), 2),
        "vocabulary": Target("vocabulary.json", [VOCABULARY], lambda file: Vocabulary.load(file.parent), 8),
        "ARFF": Target("a.arff", [ARFF, gzip.compress(ARFF)], read_binary_arff, 10),
        "labels": Target("a.xml", [XML], read_label_names, 5),
        "Bookmarks": Target(
            "bookmarks.arff", [ARFF], lambda file: read_bookmarks(file.parent), 3, {"bookmarks.xml": XML}
        ),
        "MATLAB": Target("a.mat", matrices["mat"], _same_matrix, 3),
        "NumPy": Target("a.npy", matrices["npy"], _same_matrix, 4),
        "NumPy archives": Target("a.npz", matrices["npz"], _same_matrix, 2),
        "annotations": Target("sky.txt", [b"1\n2\n20\n"], _annotations, 4, {"sea.txt": b"3\n"}),
        "images": Target("im1.jpg", [_jpeg()], _images, 1),
        "letters": Target("a.npz", letters["npz"], read_letters, 1),
        "letters in archives": Target("a.zip", letters["zip"] + letters["tgz"], read_letters, 1),
        "recipes": Target("a.yaml", list(recipe), load_recipe, 1.5),
        "overrides": Target("set", SETS, _override, 1.5, named="quickstart.yaml|--set"),
        "results": Target("results.json", [json.dumps(RESULTS).encode()], read_results, 5),
        "metrics": Target("metrics.jsonl", [METRICS], lambda file: read_curves(file.parent), 3),
        "entities": Target(
            "entities-dev.json",
            [json.dumps(ENTITIES).encode()],
            lambda file: SplitEntities.load(file.parent, "dev"),
            6,
        ),
        "configurations": Target(
            "config.json",
            [kept["config.json"]],
            lambda file: load_tagger(file.parent),
            0.3,
            kept,
            "model|config.json",
        ),
        "weights": Target(
            "model.safetensors",
            [kept["model.safetensors"]],
            lambda file: load_tagger(file.parent),
            0.1,
            kept,
            "model|config.json",
        ),
    }
