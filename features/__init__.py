"""What is known of a mapping before it runs: routed traffic and the named features of it."""

from toruscast import plugins

from .registry import (
    FEATURES,
    Feature,
    average_outliers,
    feature_names,
    register,
    top_outliers,
    unregister,
)
from .table import extract, extract_blocks
from .traffic import RoutedTraffic

__all__ = [
    "FEATURES",
    "Feature",
    "RoutedTraffic",
    "average_outliers",
    "extract",
    "extract_blocks",
    "feature_names",
    "register",
    "top_outliers",
    "unregister",
]

# Modules of other packages register their features when they are loaded.
plugins.load("features")
