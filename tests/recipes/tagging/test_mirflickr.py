"""MIRFLICKR25k as published, and clear errors for everything else."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from recipes.tagging.mirflickr import read_mirflickr
from tests.recipes.tagging.tagging_examples import assert_well_formed, splits


def jpeg(number, size=(40, 30), mode="RGB"):
    """A picture of one colour, which tells its number."""
    file = io.BytesIO()
    Image.new("RGB", size, (10 * number, 100, 200)).convert(mode).save(file, "JPEG", quality=95)
    return file.getvalue()


@pytest.fixture
def folders(tmp_path):
    """Images 1 to 11 but for 10, and two tags."""
    images, annotations = tmp_path / "mirflickr", tmp_path / "annotations"
    (images / "meta").mkdir(parents=True)
    annotations.mkdir()
    for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11):
        (images / f"im{number}.jpg").write_bytes(jpeg(number))
    (images / "readme.jpg.txt").write_text("no image")
    (annotations / "sky.txt").write_text("1\r\n3\r\n11\r\n")
    (annotations / "baby.txt").write_text("3\n\n4\n")
    (annotations / "baby_r1.txt").write_text("4\n")
    (annotations / "README.txt").write_text("Annotations of 25,000 images")
    return images, annotations


def colours(images):
    """A backbone: the mean red, green and blue."""
    assert images.dtype == torch.uint8
    assert images.shape[1:] == (3, 224, 224)
    return images.double().mean((2, 3))


@pytest.mark.parametrize("batch_size", [1, 3, 50])
def test_images_as_published(folders, batch_size):
    data = read_mirflickr(*folders, colours, batch_size=batch_size)
    assert_well_formed(data)
    assert data.names == ("baby", "sky")
    assert data.source == str(folders[0])
    assert [len(split.labels) for split in splits(data)] == [4, 2, 4]
    found = {}
    for split in splits(data):
        for (red, green, blue), labels in zip(split.inputs.tolist(), split.labels.tolist(), strict=True):
            assert (green, blue) == pytest.approx((100, 200), abs=3)
            found[round(red / 10)] = labels
    none = {number: [0, 0] for number in (2, 5, 6, 7, 8, 9)}
    assert found == none | {1: [0, 1], 3: [1, 1], 4: [1, 0], 11: [0, 1]}


def test_the_seed_and_sizes_of_images(folders):
    first, again, other = (read_mirflickr(str(folders[0]), folders[1], colours, seed=s) for s in (0, 0, 1))
    assert torch.equal(first.train.inputs, again.train.inputs)
    assert not torch.equal(first.train.inputs, other.train.inputs)
    data = read_mirflickr(*folders, colours, sizes=(7, 2))
    assert [len(split.labels) for split in splits(data)] == [7, 2, 1]


def test_images_of_all_forms(folders):
    for number, size, mode in ((1, (500, 20), "RGB"), (2, (20, 500), "L"), (3, (256, 257), "CMYK")):
        (folders[0] / f"im{number}.jpg").write_bytes(jpeg(number, size, mode))
    assert_well_formed(read_mirflickr(*folders, colours))


def test_the_middle_of_an_image_is_cut_out(folders):
    pixels = np.zeros((100, 400, 3), dtype=np.uint8)
    pixels[:, 150:250] = 255  # scaled to 256 x 1024, this is the middle 256
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95)
    (folders[0] / "im1.jpg").write_bytes(file.getvalue())
    seen = []
    read_mirflickr(*folders, lambda images: seen.append(images) or colours(images))
    assert seen[0][0].float().mean() > 250


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n10\n", r":2: expected an image of this number, found no im10\.jpg"),
        ("0\n", r":1: expected an image of this number, found no im0\.jpg"),
        ("1\nim3.jpg\n", r":2: expected the number of an image, got b'im3\.jpg'"),
        ("1 2\n", r":1: expected the number of an image, got b'1 2'"),
        ("\xff\n", r":1: expected the number of an image"),
        ("\n", r": expected numbers of images, got none"),
    ],
)
def test_bad_annotations(folders, text, message):
    (folders[1] / "sky.txt").write_text(text)
    with pytest.raises(ValueError, match=r"sky\.txt" + message):
        read_mirflickr(*folders, colours)


def test_no_annotations(folders, tmp_path):
    for name in ("sky.txt", "baby.txt"):
        (folders[1] / name).unlink()
    for folder in (folders[1], tmp_path / "none"):
        with pytest.raises(ValueError, match=r"expected annotations such as animals\.txt, found none"):
            read_mirflickr(folders[0], folder, colours)


def test_no_images(folders, tmp_path):
    with pytest.raises(ValueError, match=r"none: no such folder"):
        read_mirflickr(tmp_path / "none", folders[1], colours)
    with pytest.raises(ValueError, match=r"expected images named im1\.jpg, im2\.jpg and so on, found none"):
        read_mirflickr(folders[0] / "meta", folders[1], colours)
    with pytest.raises(ValueError, match=r"expected more than 8 \+ 2 rows"):
        read_mirflickr(*folders, colours, sizes=(8, 2))


def gif():
    file = io.BytesIO()
    Image.new("L", (20, 20)).save(file, "GIF")
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no image",
        jpeg(1)[:100],
        jpeg(1, (400, 300))[:-200],
        gif(),
        jpeg(1, (5_000, 4_000)),
        jpeg(1, (1, 500)),
    ],
    ids=["empty", "text", "header", "torn", "gif", "large", "narrow"],
)
def test_bad_images(folders, content):
    (folders[0] / "im7.jpg").write_bytes(content)
    with pytest.raises(ValueError, match=r"im7\.jpg: expected a JPEG image: "):
        read_mirflickr(*folders, colours)


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (
            lambda images: images.float(),
            r"to give \[10, features\] for 10 images, got \[10, 3, 224, 224\]",
        ),
        (
            lambda images: colours(images)[:1],
            r"to give \[10, features\] for 10 images, got \[1, 3\]",
        ),
        (lambda images: colours(images) / 0, r"expected finite features of im1\.jpg to im11\.jpg"),
    ],
)
def test_bad_backbones(folders, backbone, message):
    with pytest.raises(ValueError, match=message):
        read_mirflickr(*folders, backbone)
