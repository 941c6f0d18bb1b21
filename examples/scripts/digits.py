"""The tenth of MNIST that comes with Paceline, in the place of torchvision's download."""

from torch.utils.data import TensorDataset

from paceline import LenetMnist


def digits_of(split, dtype):
    return TensorDataset(*LenetMnist(subset="tenth").data(split, dtype).columns)
