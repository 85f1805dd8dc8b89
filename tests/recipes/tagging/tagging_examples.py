"""What the tests of image tagging share."""

import torch


def splits(data):
    return data.train, data.dev, data.test


def assert_well_formed(data):
    for split in splits(data):
        assert split.features.dtype == torch.float32
        assert split.labels.dtype == torch.int64
        assert len(split.features) == len(split.labels) >= 1
        assert split.features.shape[1] == data.train.features.shape[1]
        assert split.labels.shape[1] == len(data.names)
