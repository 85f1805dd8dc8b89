"""A few of the kills of `python -m tests.faults.kills`."""

import pytest

from tests.faults.kills import CASES, kill_often


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_lost(name, tmp_path):
    assert "3 kills" in kill_often(CASES[name](tmp_path / name), kills=3)
