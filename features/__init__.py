"""What is known of a mapping before it runs: routed traffic and the named features of it."""

from toruscast import plugins

from .registry import FEATURES, Feature, above_mean, feature_names, near_top, register, unregister
from .table import extract, extract_blocks
from .traffic import RoutedTraffic

__all__ = [
    "FEATURES",
    "Feature",
    "RoutedTraffic",
    "above_mean",
    "extract",
    "extract_blocks",
    "feature_names",
    "near_top",
    "register",
    "unregister",
]

# Modules of other packages register their features when they are loaded.
plugins.load("features")
