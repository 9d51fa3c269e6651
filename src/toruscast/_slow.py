"""Modules that are imported on first use, because they are slow to import or optional."""

from typing import TYPE_CHECKING

from toruscast._lazy import lazy_modules

if TYPE_CHECKING:
    import asyncio as asyncio
    from importlib import metadata as metadata

    import dask as dask
    import distributed as distributed
    import jax as jax
    import joblib as joblib
    import networkx as networkx
    import numpy as numpy
    import pandas as pandas
    import pyarrow as pyarrow
    import scipy as scipy
    from jax.experimental import mesh_utils as mesh_utils
    from pyarrow import csv as csv
    from pyarrow import parquet as parquet
    from rich import console as rich_console
    from scipy import io as scipy_io
    from scipy import sparse as sparse
    from sklearn import model_selection as model_selection
else:
    globals().update(lazy_modules(__name__))
