"""Splits of image tagging data."""

import pytest

from recipes.tagging.splits import split_sizes


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        (25_000, (10_000, 5_000, 10_000)),
        (30_000, (10_000, 5_000, 15_000)),
        (20_015, (8_006, 4_003, 8_006)),
        (24_999, (9_999, 4_999, 10_001)),
        (5, (2, 1, 2)),
    ],
)
def test_sizes(rows, sizes):
    assert split_sizes(rows) == sizes


def test_sizes_of_ones_own_are_never_changed():
    assert split_sizes(31, (20, 10)) == (20, 10, 1)
    assert split_sizes(20_015, (10_000, 5_000)) == (10_000, 5_000, 5_015)
    for rows, sizes in ((30, (20, 10)), (9, (0, 5)), (9, (5, -1))):
        with pytest.raises(
            ValueError, match=rf"expected more than {sizes[0]} \+ {sizes[1]} rows .* got {rows}"
        ):
            split_sizes(rows, sizes)
    with pytest.raises(ValueError, match=r"expected 5 rows or more for train, dev and test, got 4"):
        split_sizes(4)
