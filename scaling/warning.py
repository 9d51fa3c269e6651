"""The warning about limits of a fit."""


class ScalingWarning(UserWarning):
    """The measurements limit what their model can say."""
