"""Multilabel data: files in their layouts, generated data that can be learned, and scores by hand."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gspen_ner.graphs import FactorGraph
from recipes.multilabel.files import BOOKMARKS_ROWS, read_bibtex, read_bookmarks
from recipes.multilabel.metrics import best_threshold, example_f1
from recipes.multilabel.systems import star_edges
from recipes.studies.data import generate_rows

NAMES = ("u", "TAG_b", "v", "TAG_a", "w")  # labels and features may stand in any order
LABELS = ("TAG_a", "TAG_b")


def table(rows, names=NAMES, start=0):
    """A table whose rows are all different: the bits of their numbers."""
    bits = (np.arange(start, start + rows)[:, None] >> np.arange(len(names))) & 1
    header = "".join(f"@attribute {name} {{0,1}}\n" for name in names)
    return bits, f"@relation x\n{header}@data\n" + "".join(",".join(map(str, row)) + "\n" for row in bits)


def write_labels(folder, name, labels=LABELS):
    inside = "".join(f'<label name="{label}"></label>' for label in labels)
    (folder / name).write_text(f'<labels xmlns="http://mulan.sourceforge.net/labels">{inside}</labels>')


def write(folder, rows, names=NAMES):
    """Tables of so many rows each, and the file of labels that goes with them."""
    start, bits = 0, []
    for name, count in rows.items():
        values, text = table(count, names, start)
        start += count
        bits.append(values)
        compressed = name.endswith(".gz")
        (folder / name).write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    for name in rows:
        write_labels(folder, name.partition(".")[0].partition("-")[0] + ".xml")
    return bits


def rows_of(split):
    """The rows as in the table."""
    features, labels = split.inputs.tolist(), split.labels.tolist()
    return [[u, b, v, a, w] for (u, v, w), (a, b) in zip(features, labels, strict=True)]


def assert_well_formed(data):
    for split in (data.train, data.dev, data.test):
        assert split.inputs.dtype == torch.uint8
        assert split.labels.dtype == torch.int64
        assert len(split.inputs) == len(split.labels) >= 1
        assert split.inputs.shape[1] == data.train.inputs.shape[1]
        assert split.labels.shape[1] == len(data.names)
        assert split.inputs.max() <= 1
        assert 0 <= split.labels.min() <= split.labels.max() <= 1


# Files


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_bibtex(tmp_path, ending):
    train, test = write(tmp_path, {f"bibtex-train.arff{ending}": 22, f"bibtex-test.arff{ending}": 9})
    data = read_bibtex(str(tmp_path))
    assert_well_formed(data)
    assert data.names == LABELS
    assert data.source == str(tmp_path)
    assert rows_of(data.test) == test.tolist()
    assert (len(data.train.labels), len(data.dev.labels)) == (17, 5)
    assert sorted(rows_of(data.train) + rows_of(data.dev)) == sorted(train.tolist())
    order = {tuple(row): number for number, row in enumerate(train.tolist())}
    for split in (data.train, data.dev):
        places = [order[tuple(row)] for row in rows_of(split)]
        assert places == sorted(places)


def test_the_seed_chooses_the_dev_rows_of_bibtex(tmp_path):
    write(tmp_path, {"bibtex-train.arff": 30, "bibtex-test.arff": 2})
    first, again, other = (rows_of(read_bibtex(tmp_path, seed).dev) for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize("dev", ["dev.arff", "valid.arff", "dev.arff.gz"])
def test_bookmarks_in_splits(tmp_path, dev):
    rows = {
        "bookmarks-train.arff": 7,
        f"bookmarks-{dev}": 3,
        "bookmarks-test.arff.gz": 4,
        "bookmarks.arff": 5,
    }
    bits = write(tmp_path, rows)
    data = read_bookmarks(tmp_path)
    assert_well_formed(data)
    assert data.names == LABELS
    for split, expected in zip((data.train, data.dev, data.test), bits[:3], strict=True):
        assert rows_of(split) == expected.tolist()


@pytest.mark.parametrize("name", ["bookmarks.arff", "bookmarks.arff.gz"])
@pytest.mark.parametrize(("rows", "sizes"), [(8, (4, 1, 3)), (31, (16, 4, 11))])
def test_bookmarks_in_one_file(tmp_path, name, rows, sizes):
    (bits,) = write(tmp_path, {name: rows})
    data = read_bookmarks(str(tmp_path))
    assert_well_formed(data)
    assert (len(data.train.labels), len(data.dev.labels), len(data.test.labels)) == sizes
    assert rows_of(data.train) + rows_of(data.dev) + rows_of(data.test) == bits.tolist()


def test_bookmarks_as_published_has_whole_sizes():
    assert sum(BOOKMARKS_ROWS) == 87_856


def test_too_few_rows(tmp_path):
    write(tmp_path, {"bookmarks.arff": 7, "bibtex-train.arff": 1, "bibtex-test.arff": 1})
    with pytest.raises(ValueError, match=r"bookmarks\.arff: expected enough rows .* got 7"):
        read_bookmarks(tmp_path)
    with pytest.raises(ValueError, match=r"expected 2 training rows or more .* got 1"):
        read_bibtex(tmp_path)


def test_missing_files(tmp_path):
    with pytest.raises(ValueError, match=r"bibtex\.xml: no such file"):
        read_bibtex(tmp_path)
    write(tmp_path, {"bibtex-train.arff": 4})
    with pytest.raises(
        ValueError, match=r"expected one of bibtex-test\.arff, bibtex-test\.arff\.gz, found none"
    ):
        read_bibtex(tmp_path)
    write_labels(tmp_path, "bookmarks.xml")
    with pytest.raises(ValueError, match=r"expected one of bookmarks-train\.arff"):
        read_bookmarks(tmp_path)
    write(tmp_path, {"bookmarks-train.arff": 4, "bookmarks-test.arff": 4})
    with pytest.raises(
        ValueError, match=r"one of bookmarks-dev\.arff, .*bookmarks-valid\.arff, .*found none"
    ):
        read_bookmarks(tmp_path)


def test_labels_that_are_no_attributes(tmp_path):
    write(tmp_path, {"bibtex-train.arff": 8, "bibtex-test.arff": 8})
    write_labels(tmp_path, "bibtex.xml", ("TAG_a", "TAG_c", "TAG_b"))
    with pytest.raises(ValueError, match=r"bibtex-train\.arff: .* 3 labels .* 1 are missing: TAG_c"):
        read_bibtex(tmp_path)


def test_labels_without_features(tmp_path):
    write(tmp_path, {"bibtex-train.arff": 8, "bibtex-test.arff": 8}, names=LABELS)
    with pytest.raises(ValueError, match="expected features beside the 2 labels, got none"):
        read_bibtex(tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("u", "TAG_b", "x", "TAG_a", "w"), "of which number 2 is 'v', got 'x'"),
        (NAMES[:-1], "which are 5, got 4"),
        ((*NAMES, "x"), "which are 5, got 6"),
    ],
)
def test_tables_that_disagree(tmp_path, names, message):
    write(tmp_path, {"bibtex-train.arff": 8})
    write(tmp_path, {"bibtex-test.arff": 8}, names)
    with pytest.raises(
        ValueError, match=rf"bibtex-test\.arff: expected the attributes of bibtex-train\.arff, {message}"
    ):
        read_bibtex(tmp_path)


# Generated


def same(one, other):
    return torch.equal(one.inputs, other.inputs) and torch.equal(one.labels, other.labels)


def test_generated_data_is_repeatable():
    data, again = (generate_rows((50, 20, 20), 40, 12) for _ in range(2))
    assert_well_formed(data)
    assert same(data.train, again.train)
    assert same(data.test, again.test)
    assert not same(data.dev, data.test)
    assert not same(data.train, generate_rows((50, 20, 20), 40, 12, seed=1).train)


def test_fewer_generated_rows_are_the_first_of_more():
    few, many = generate_rows((30, 5, 1_100), 40, 12), generate_rows((1_050, 9, 2_300), 40, 12)
    for name in ("train", "dev", "test"):
        short, long = getattr(few, name), getattr(many, name)
        count = len(short.labels)
        assert torch.equal(short.inputs, long.inputs[:count])
        assert torch.equal(short.labels, long.labels[:count])


@pytest.mark.parametrize(("features", "labels"), [(300, 30), (2_150, 208), (1_836, 159)])
def test_generated_data_looks_like_the_real_one(features, labels):
    data = generate_rows((1_000, 10, 10), features, labels)
    assert_well_formed(data)
    held = data.train.labels.sum(1)
    assert held.min() >= 1
    assert 2 <= held.double().mean() <= 3
    assert star_edges(data.train.labels)[0][0] == 0
    assert 0.01 < data.train.inputs.double().mean() < 0.1
    together = torch.corrcoef(data.train.labels.T.double()).nan_to_num().fill_diagonal_(0)
    assert (together > 0.1).sum(1).double().mean() >= 2  # most labels go with some others


@pytest.mark.parametrize(("features", "labels"), [(1, 3), (5, 3), (20, 6), (3, 40)])
def test_small_generated_data(features, labels):
    assert_well_formed(generate_rows((3, 1, 2), features, labels))


def test_generated_data_can_be_learned():
    data = generate_rows((1_500, 300, 300), 200, 12)
    inputs = torch.cat([data.train.inputs, torch.ones(1_500, 1)], dim=1).double()
    weights = torch.linalg.solve(
        inputs.T @ inputs + 10 * torch.eye(201), inputs.T @ data.train.labels.double()
    )
    threshold, learned = best_threshold(
        data.dev.inputs.double() @ weights[:-1] + weights[-1], data.dev.labels
    )
    tested = example_f1(data.test.inputs.double() @ weights[:-1] + weights[-1], data.test.labels, threshold)
    _, constant = best_threshold(data.train.labels.double().mean(0).expand(300, -1), data.dev.labels)
    assert learned > constant + 0.15
    assert tested > constant + 0.15
    assert learned < 0.95


@pytest.mark.parametrize("rows", [(1, 1, 0), (1, 1), (5, -1, 5)])
def test_bad_numbers_of_rows(rows):
    with pytest.raises(ValueError, match="expected positive numbers of rows of train, dev and test, got"):
        generate_rows(rows)


@pytest.mark.parametrize(("features", "labels"), [(0, 10), (10, 2)])
def test_bad_widths(features, labels):
    with pytest.raises(ValueError, match="expected 1 feature and 3 labels or more, got"):
        generate_rows((1, 1, 1), features, labels)


# Scores


def f1_by_hand(probabilities, labels, threshold):
    scores = []
    for row, gold in zip(probabilities.tolist(), labels.tolist(), strict=True):
        predicted = {k for k, probability in enumerate(row) if probability > threshold}
        wanted = {k for k, label in enumerate(gold) if label}
        total = len(predicted) + len(wanted)
        scores.append(2 * len(predicted & wanted) / total if total else 1.0)
    return sum(scores) / len(scores)


@st.composite
def predictions(draw):
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 5)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1_000)))
    steps = draw(st.sampled_from([2, 20, 200, 1_000]))  # on the thresholds, and between them
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    probabilities = torch.randint(steps + 1, shape, generator=generator).to(dtype) / steps
    return probabilities, torch.randint(2, shape, generator=generator)


@given(predictions(), st.floats(0, 1))
def test_f1_is_that_by_hand(prediction, threshold):
    assert example_f1(*prediction, threshold) == pytest.approx(f1_by_hand(*prediction, threshold))


@given(predictions())
def test_the_best_threshold_is_the_best_of_all(prediction):
    threshold, score = best_threshold(*prediction)
    scores = {number: f1_by_hand(*prediction, number) for number in (1e-9, *(k / 200 for k in range(1, 200)))}
    assert score == pytest.approx(max(scores.values()))
    assert example_f1(*prediction, threshold) == pytest.approx(score)
    assert threshold <= min(number for number, found in scores.items() if found > score - 1e-9)


def test_thresholds_reach_beliefs_that_are_sharp():
    probabilities = torch.tensor([[1e-5, 1e-7, 1e-8], [2e-5, 3e-8, 1e-4]], dtype=torch.float64)
    threshold, score = best_threshold(probabilities, torch.tensor([[1, 0, 0], [1, 0, 1]]))
    assert score == 1
    assert 1e-7 <= threshold < 1e-5


def test_f1_of_predictions():
    gold = torch.tensor([[1, 1, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]])
    predicted = torch.tensor([[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1]])
    for kind in (torch.int64, torch.bool, torch.uint8, torch.float32):
        assert example_f1(predicted.to(kind), gold, 0.5) == pytest.approx((2 / 3 + 1 + 1 + 0) / 4)
        assert example_f1(predicted.to(kind), gold.to(kind)) == pytest.approx((2 / 3 + 1 + 1 + 0) / 4)


def test_probabilities_with_a_gradient_or_strides():
    probabilities = torch.rand(5, 4, requires_grad=True).T
    labels = torch.randint(2, (4, 5))
    threshold, score = best_threshold(probabilities, labels)
    assert example_f1(probabilities, labels, threshold) == pytest.approx(score)


@pytest.mark.parametrize("score", [example_f1, best_threshold])
def test_bad_predictions(score):
    zeros = torch.zeros(2, 3)
    for probabilities, labels in ((zeros, zeros[:1]), (zeros[0], zeros[0]), (zeros[:0], zeros[:0])):
        with pytest.raises(
            ValueError, match=r"expected probabilities and labels as \[examples, labels\], got"
        ):
            score(probabilities, labels)
    with pytest.raises(ValueError, match="expected probabilities, got NaN"):
        score(zeros + torch.nan, zeros)
    with pytest.raises(ValueError, match="expected labels that are 0 or 1"):
        score(zeros, zeros + 2)


# Graphs


def test_a_star_around_the_most_frequent_label():
    edges = star_edges(torch.tensor([[0, 1, 1, 0], [1, 1, 1, 0]]))
    assert edges == [(1, 0), (1, 2), (1, 3)]  # the first of equally frequent labels
    graph = FactorGraph.of_edges([2] * 4, edges).compile()
    assert (graph.num_edges, graph.is_forest) == (3, True)
    assert star_edges(torch.ones(2, 1)) == []


@pytest.mark.realdata
@pytest.mark.skipif("GSPEN_DATA" not in os.environ, reason="GSPEN_DATA names no data folder")
def test_the_copy_of_bibtex():
    data = read_bibtex(Path(os.environ["GSPEN_DATA"]) / "bibtex")
    assert_well_formed(data)
    assert data.train.inputs.shape == (3_660, 1_836)
    assert data.dev.inputs.shape == (1_220, 1_836)
    assert data.test.inputs.shape == (2_515, 1_836)
    assert len(data.names) == 159
    assert data.names[star_edges(data.train.labels)[0][0]] == "TAG_statphys23"
    labels = torch.cat([data.train.labels, data.dev.labels, data.test.labels])
    assert labels.sum(1).double().mean().item() == pytest.approx(2.402, abs=1e-3)
    assert labels.sum(1).min() >= 1
