"""What the tests of image tagging share."""

import torch


def splits(data):
    return data.splits.values()


def assert_well_formed(data):
    for split in splits(data):
        assert split.inputs.dtype == torch.float32
        assert split.labels.dtype == torch.int64
        assert len(split.inputs) == len(split.labels) >= 1
        assert split.inputs.shape[1] == data.train.inputs.shape[1]
        assert split.labels.shape[1] == len(data.names)
