"""Lists of the devices of a slice: which there are, and where."""

from __future__ import annotations

import os
import re

from toruscast.errors import InputError

from ..mesh.devices import Devices, devices_at
from ..torus import Torus
from .mappings.devices import is_device_list, listed
from .source import Source


def read_devices(path: str | os.PathLike[str], torus: Torus) -> Devices:
    """Read the devices of a slice as a framework prints them, with their ids and coordinates.

    Chips may be missing, and coordinates need not begin at 0.

    Parameters
    ----------
    path : path-like
        What ``print(jax.devices())`` printed, or JSON objects with ``id`` and ``coords``.
    torus : Torus
        The slice.

    Raises
    ------
    InputError
        If the file cannot be read or is no such list, or its devices do not fit the torus.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "devices.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("[Device(id=2, coords=(0,1,0)), Device(id=1, coords=(1,0,0))]")
    >>> read_devices(path, Torus((2, 2))).nodes
    array([2, 1])
    """
    source = Source(path, torus=torus)
    text = source.text
    if not is_device_list(source):
        number, line = source.first_line()
        raise text.fault("no list of devices", number, line[:60], "TpuDevice(id=0, coords=(0,0,0))")
    ids, coords = [], []
    for place, (number, device) in enumerate(listed(source)):
        parts = re.findall(r"-?[0-9]{1,9}", str(device.get("coords", "")))
        core = str(device.get("core_on_chip", 0)).strip()
        number_of = str(device.get("id", place)).strip()
        if not parts or not re.fullmatch(r"[0-9]{1,9}", number_of) or not core.isdecimal():
            expected = "id=0, coords=(x,y,z)"
            raise text.fault("bad device", number, str(device)[:60], expected)
        cores_are_nodes = torus.axes.endswith("C") and torus.ndim == len(parts) + 1
        ids.append(int(number_of))
        coords.append([*map(int, parts), *([int(core)] if cores_are_nodes else [])])
    if len({len(row) for row in coords}) != 1:
        raise text.fault("devices differ in their coordinates", 1, None, "as many of each")
    try:
        return devices_at(torus, coords, ids)
    except InputError as error:
        raise error.replace(file=path) from None
