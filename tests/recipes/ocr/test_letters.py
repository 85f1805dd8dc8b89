"""Letter images: one form whatever they come from, each once, and clear errors for everything else."""

import io
import os
import tarfile
import zipfile
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest
import torch
from PIL import Image, ImageFont

from recipes.ocr import letters as ocr_letters
from recipes.ocr.letters import read_letters

SAMPLES = {1: "0", 11: "A", 12: "B", 36: "Z", 37: "a", 62: "z"}
FONTS = (1, 2, 1016)


def png(sample, font, size=128, mode="L"):
    """A picture like those of Chars74k: dark on white, and other for each sample and font."""
    pixels = np.full((size, size), 255, dtype=np.uint8)
    pixels[size // 4 : size // 4 + sample, size // 4 : size // 2 + font % 30] = 0
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, "PNG")
    return file.getvalue()


def chars74k(samples=tuple(SAMPLES), fonts=FONTS, root="English/Fnt"):
    return {f"{root}/Sample{s:03}/img{s:03}-{f:05}.png": png(s, f) for s in samples for f in fonts}


def write(path, files):
    """Write files into a folder or an archive, by the path's suffix."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    elif path.suffix in (".tgz", ".tar"):
        with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as archive:
            for name, content in reversed(files.items()):  # no order is promised
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    else:
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
    return path


def arrays(path, **changed):
    """An .npz file of three letters and a digit, some of its arrays changed or, if None, left out."""
    images = np.full((4, 28, 28), 255, dtype=np.uint8)
    for number in range(4):
        images[number, 5 : 10 + number, 5:20] = 0
    content = {"images": images, "label": np.array(["A", "b", "7", "Z"]), "font": np.array([3, 3, 3, 4])}
    content |= changed
    np.savez(path, **{name: array for name, array in content.items() if array is not None})
    return path


@pytest.fixture(scope="module")
def drawn():
    return read_letters(None)


def assert_well_formed(letters):
    count = len(letters.images)
    assert letters.images.shape == (count, 28, 28)
    assert letters.labels.shape == letters.group.shape == (count,)
    assert letters.images.dtype == torch.uint8
    assert letters.labels.dtype == letters.group.dtype == torch.int64
    assert 0 <= letters.labels.min() <= letters.labels.max() <= 25
    assert letters.images[:, 0].float().mean() < 20  # black around
    assert letters.images.amax((1, 2)).float().median() > 200  # bright ink
    pairs = zip(letters.labels.tolist(), letters.images.numpy(), strict=True)
    different = {(label, image.tobytes()) for label, image in pairs}
    assert len(different) == count


def test_arrays(tmp_path):
    letters = read_letters(arrays(tmp_path / "x.npz"))
    assert_well_formed(letters)
    assert letters.labels.tolist() == [0, 1, 25]  # no digit; capitals are letters
    assert letters.group.tolist() == [3, 3, 4]
    assert letters.alphabet == "abz"
    assert letters.source == str(tmp_path / "x.npz")
    assert (letters.images == 255).sum((1, 2)).tolist() == [5 * 15, 6 * 15, 8 * 15]


def test_bright_ink_stays_as_it_is(tmp_path):
    dark = read_letters(arrays(tmp_path / "dark.npz"))
    with np.load(tmp_path / "dark.npz") as content:
        bright = read_letters(arrays(tmp_path / "bright.npz", images=255 - content["images"]))
    assert torch.equal(dark.images, bright.images)


def test_equal_images_of_a_letter_are_kept_once(tmp_path):
    images = np.full((4, 28, 28), 255, dtype=np.uint8)
    images[:, 5:9, 5:9] = 0
    images[3, 20, 20] = 0
    letters = read_letters(arrays(tmp_path / "x.npz", images=images, label=np.array(list("aAba"))))
    assert letters.labels.tolist() == [0, 1, 0]
    assert letters.group.tolist() == [3, 3, 4]


@pytest.mark.parametrize("kind", ["folder", "x.zip", "x.tgz", "x.tar"])
def test_chars74k_as_published(tmp_path, kind):
    letters = read_letters(str(write(tmp_path / kind, chars74k() | {"English/Fnt/list.txt": b"no picture"})))
    assert_well_formed(letters)
    assert letters.alphabet == "abz"
    assert letters.labels.tolist() == [0] * 3 + [1] * 3 + [25] * 3 + [0] * 3 + [25] * 3
    assert letters.group.tolist() == list(FONTS) * 5


def test_all_containers_give_the_same(tmp_path):
    files = chars74k()
    first, *others = (read_letters(write(tmp_path / kind, files)) for kind in ("folder", "x.zip", "x.tgz"))
    for other in others:
        assert torch.equal(first.images, other.images)
        assert torch.equal(first.labels, other.labels)
        assert torch.equal(first.group, other.group)


def test_the_folder_of_fonts_itself(tmp_path):
    write(tmp_path, chars74k())
    assert read_letters(tmp_path / "English" / "Fnt").alphabet == "abz"


def test_photographs_beside_the_fonts_are_left_out(tmp_path):
    photographs = chars74k(samples=(20, 99), root="English/Img/GoodImg/Bmp")
    assert read_letters(write(tmp_path, chars74k() | photographs)).alphabet == "abz"


def test_colour_pictures_are_read_as_grey_ones(tmp_path):
    name = "Fnt/Sample011/img011-00001.png"
    for mode in ("L", "RGB", "P", "1"):
        write(tmp_path / mode, {name: png(11, 1, mode=mode)})
    grey, *others = (read_letters(tmp_path / mode).images for mode in ("L", "RGB", "P", "1"))
    assert all(torch.equal(grey, other) for other in others)


def test_names_in_an_archive_lead_nowhere(tmp_path):
    evil = {
        "../../Fnt/Sample011/img011-00001.png": png(11, 1),
        "/Fnt/Sample012/img012-00001.png": png(12, 1),
    }
    inside = tmp_path / "inside" / "deep"
    inside.mkdir(parents=True)
    for kind in ("x.zip", "x.tgz"):
        assert read_letters(write(inside / kind, evil)).alphabet == "ab"
    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} == {"x.zip", "x.tgz"}


def test_links_in_an_archive_are_not_followed(tmp_path):
    secret = write(tmp_path, {"Fnt/Sample013/img013-00001.png": png(13, 1)})
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        link = tarfile.TarInfo("Fnt/Sample011/img011-00001.png")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret / "Fnt/Sample013/img013-00001.png")
        archive.addfile(link)
    with pytest.raises(ValueError, match=r"x\.tar: expected letter images named Sample011"):
        read_letters(tmp_path / "x.tar")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"images": None}, "expected arrays images, label, font, got label, font"),
        ({"font": None}, "expected arrays images, label, font, got images, label"),
        ({"images": np.zeros((4, 20, 28), np.uint8)}, r"uint8 \[n, 28, 28\], got uint8 \(4, 20, 28\)"),
        ({"images": np.zeros((4, 28, 28))}, r"uint8 \[n, 28, 28\], got float64"),
        ({"label": np.array(["a"] * 3)}, r"label as a character for each of 4 images, got <U1 \(3,\)"),
        ({"label": np.arange(4)}, "label as a character for each of 4 images, got int64"),
        ({"label": np.array(["a", "ab", "?", "z"])}, r"letters and digits as label, got \['\?', 'ab'\]"),
        ({"label": np.array(list("0123"))}, "expected images of letters, got 4 of digits"),
        ({"font": np.array([1.0, 2, 3, 4])}, "font as a number for each of 4 images, got float64"),
        ({"font": np.array([[1, 2, 3, 4]])}, r"font as a number for each of 4 images, got int64 \(1, 4\)"),
        ({"label": np.array(["a", 1, None, "b"], dtype=object)}, "cannot be read as an .npz file"),
        ({"label": np.full(4, 2**31, np.uint32).view("<U1")}, "cannot be read as an .npz file"),
    ],
)
def test_bad_arrays(tmp_path, changed, message):
    with pytest.raises(ValueError, match=rf"x\.npz: .*{message}"):
        read_letters(arrays(tmp_path / "x.npz", **changed))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"expected letter images named Sample011/img011-00001\.png"),
        ({"readme.txt": b""}, "found none"),
        (chars74k(samples=(1,)), "found none"),
        (chars74k(samples=(63,)), "expected Sample001 .* to Sample062 .*, got Sample063"),
        ({"Sample011/img012-00001.png": png(11, 1)}, "expected img011 in Sample011, got img012"),
        ({"Sample011/img011-00001.png": b"nothing"}, "img011-00001.png: expected a small PNG picture"),
        ({"Sample011/img011-00001.png": png(11, 1)[:-30]}, "img011-00001.png: expected a small PNG picture"),
        ({"Sample011/img011-00001.png": png(11, 1, size=1500)}, "it has 1500 x 1500 pixels"),
        ({"Sample011/img011-00001.png": bytes(1 << 21)}, "got more than 1,048,576 bytes"),
    ],
)
@pytest.mark.parametrize("kind", ["folder", "x.zip", "x.tgz"])
def test_bad_pictures(tmp_path, kind, files, message):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match=message) as error:
        read_letters(write(tmp_path / kind, files))
    assert str(tmp_path / kind) in str(error.value)


def test_another_format_under_the_name_of_a_png(tmp_path):
    file = io.BytesIO()
    Image.new("L", (28, 28)).save(file, "GIF")
    with pytest.raises(ValueError, match="expected a small PNG picture"):
        read_letters(write(tmp_path, {"Sample011/img011-00001.png": file.getvalue()}))


@pytest.mark.parametrize("name", ["x.npz", "x.zip", "x.tgz", "x.txt"])
def test_other_files(tmp_path, name):
    with pytest.raises(ValueError, match=rf"{name}: no such file"):
        read_letters(tmp_path / name)
    (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(ValueError, match=rf"{name}: expected an \.npz file"):
        read_letters(tmp_path / name)


@pytest.mark.parametrize("kind", ["x.zip", "x.tgz", "x.npz"])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_torn_files(tmp_path, kind, share):
    file = arrays(tmp_path / kind) if kind == "x.npz" else write(tmp_path / kind, chars74k())
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ValueError, match=kind):
        read_letters(file)


def test_a_damaged_zip_file(tmp_path):
    file = write(tmp_path / "x.zip", chars74k(samples=(11,), fonts=(1,)))
    content = bytearray(file.read_bytes())
    content[80:90] = bytes(10)
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.zip"):
        read_letters(file)


def test_drawn_letters(drawn):
    assert_well_formed(drawn)
    assert drawn.alphabet == ascii_lowercase
    fonts = drawn.group.unique()
    assert len(fonts) >= 15
    assert drawn.source == f"{len(fonts)} installed fonts"
    for font in fonts:
        assert drawn.labels[drawn.group == font].bincount(minlength=26).min() >= 2  # in several styles


def test_drawn_letters_are_whole_and_in_the_middle(drawn):
    images = drawn.images.float()
    edges = torch.cat([images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]], dim=1)
    assert (edges.amax(1) > 128).float().mean() < 0.02
    rows, columns = (images.amax(2) > 60), (images.amax(1) > 60)
    for along in (rows, columns):
        first, last = along.byte().argmax(1), 27 - along.flip(1).byte().argmax(1)
        assert ((first + last).float() / 2 - 13.5).abs().max() <= 2


def test_drawing_is_repeatable(drawn):
    again = read_letters()
    assert torch.equal(drawn.images, again.images)
    assert torch.equal(drawn.group, again.group)


def test_letters_of_one_font_look_alike(drawn):
    """Each letter is nearest to itself in another font, far more often than by chance: no symbols."""
    images = torch.nn.functional.avg_pool2d(drawn.images.float()[:, None], 2).flatten(1)
    distance = torch.cdist(images, images)
    distance[drawn.group[:, None] == drawn.group] = torch.inf
    right = drawn.labels[distance.argmin(1)] == drawn.labels
    assert right.float().mean() > 0.9
    for font in drawn.group.unique():
        assert right[drawn.group == font].float().mean() > 0.5


def test_without_fonts(monkeypatch):
    monkeypatch.setattr(ocr_letters, "_fonts", list)
    with pytest.raises(ValueError, match="no installed font has the letters a to z"):
        read_letters(None)


def test_fonts_of_symbols_are_left_out_and_no_font_is_there_twice():
    families = [font.getname() for font in ocr_letters._fonts()]
    assert len(set(families)) == len(families)
    names = {family for family, _ in families}
    assert {"cmr10", "DejaVu Sans", "STIXGeneral"} <= names
    assert not names & {"cmex10", "cmsy10", "STIXNonUnicode", "STIXSizeOneSym"}


def test_fonts_without_letters_are_dropped(monkeypatch):
    import matplotlib

    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    names = ("LastResortHE-Regular.ttf", "STIXNonUni.ttf", "DejaVuSansDisplay.ttf", "cmr10.ttf")
    fonts = [ImageFont.truetype(folder / name, 100) for name in names]
    monkeypatch.setattr(ocr_letters, "_fonts", lambda: fonts)
    letters = read_letters(None)
    assert letters.source == "1 installed fonts"
    assert letters.group.unique().tolist() == [0]


@pytest.mark.realdata
@pytest.mark.skipif("GSPEN_DATA" not in os.environ, reason="GSPEN_DATA names no data folder")
def test_the_copy_of_chars74k():
    letters = read_letters(Path(os.environ["GSPEN_DATA"]) / "chars74k" / "chars74k_fnt_28x28.npz")
    assert_well_formed(letters)
    assert letters.alphabet == "abcdefghjklmnpqrstuvwxyz"  # the copy has no I and no O
    assert len(letters.images) == 19_818  # of 24 * 1016: the others are equal to one of these
    assert len(letters.group.unique()) == 862
