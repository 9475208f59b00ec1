"""The networks of the papers, which take flat or shaped images, and a small one for tables."""

import torch
from torch import nn

__all__ = ["AmplitudeMLP", "CifarCNN", "FemnistCNN", "MnistCNN", "SmallNet"]


class _ImageNet(nn.Sequential):
    """Layers behind a reshape to images, and a softmax."""

    def __init__(self, shape: tuple[int, ...], *layers: nn.Module) -> None:
        super().__init__(*layers, nn.Softmax(dim=1))
        self.shape = shape

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return super().forward(X.reshape(X.shape[0], *self.shape))


class MnistCNN(_ImageNet):
    """The network of the TF Privacy tutorial and of Truex et al. (2019); 26,010 parameters.

    Parameters
    ----------
    n_classes : int
    activation : class of nn.Module, default=nn.ReLU
        As printed; under noise ``nn.Tanh``, which is bounded, is better by a point.
    """

    def __init__(self, n_classes: int = 10, activation: type[nn.Module] = nn.ReLU) -> None:
        super().__init__(
            (1, 28, 28),
            nn.Conv2d(1, 16, 8, stride=2, padding=3),
            activation(),
            nn.MaxPool2d(2, stride=1),
            nn.Conv2d(16, 32, 4, stride=2),
            activation(),
            nn.MaxPool2d(2, stride=1),
            nn.Flatten(),
            nn.Linear(512, 32),
            activation(),
            nn.Linear(32, n_classes),
        )


class AmplitudeMLP(_ImageNet):
    """The 784-32-10 network of Yuan et al. (2023), linear inside; 25,450 parameters.

    Parameters
    ----------
    n_classes : int
    """

    def __init__(self, n_classes: int = 10) -> None:
        super().__init__((784,), nn.Linear(784, 32), nn.Linear(32, n_classes))


class CifarCNN(_ImageNet):
    """The LeNet-like network of Yuan et al. (2023); 62,006 parameters.

    Parameters
    ----------
    n_classes : int
    """

    def __init__(self, n_classes: int = 10) -> None:
        super().__init__(
            (3, 32, 32),
            nn.Conv2d(3, 6, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, n_classes),
        )


class FemnistCNN(_ImageNet):
    """The EMNIST network of TFF and of Galli et al.; 1,206,590 parameters.

    Parameters
    ----------
    n_classes : int
    dropout : tuple of two floats
        Probabilities after the pool and after the dense layer; 0 leaves a layer without dropout.
    """

    def __init__(self, n_classes: int = 62, dropout: tuple[float, float] = (0.25, 0.5)) -> None:
        super().__init__(
            (1, 28, 28),
            nn.Conv2d(1, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(dropout[0]),
            nn.Flatten(),
            nn.Linear(9216, 128),
            nn.ReLU(),
            nn.Dropout(dropout[1]),
            nn.Linear(128, n_classes),
        )


class SmallNet(nn.Sequential):
    """One hidden layer for tables; a softmax at the end where there are classes.

    Parameters
    ----------
    n_features, n_classes : int or None
        Set by the estimator; without classes there is one output.
    n_hidden : int
    """

    def __init__(
        self, n_features: int | None = None, n_classes: int | None = None, n_hidden: int = 16
    ) -> None:
        if n_features is None:
            raise ValueError("SmallNet needs n_features; rows must be flat.")
        super().__init__(nn.Linear(n_features, n_hidden), nn.Tanh())
        self.append(nn.Linear(n_hidden, n_classes or 1))
        if n_classes is not None:
            self.append(nn.Softmax(dim=1))
