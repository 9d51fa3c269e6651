"""What is known of a mapping before it runs: routed traffic and the named features of it."""

from toruscast import plugins

from .registry import (
    FEATURES,
    Feature,
    above_mean,
    feature_names,
    near_top,
    register_feature,
    unregister_feature,
)
from .table import extract_blocks, features
from .traffic import RoutedTraffic

__all__ = [
    "FEATURES",
    "Feature",
    "RoutedTraffic",
    "above_mean",
    "extract_blocks",
    "feature_names",
    "features",
    "near_top",
    "register_feature",
    "unregister_feature",
]

# Modules of other packages register their features when they are loaded.
plugins.load("features")
