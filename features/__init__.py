"""Features of a mapping, computed from its routed traffic before it runs."""

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

# Importing plug-in modules registers their features.
plugins.load("features")
