"""What several tests of files need: a file, the edges of a graph, a message of protobuf."""

import struct


def write(folder, content, name="app"):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def edges(comm):
    """Bytes by pair."""
    columns = (comm.src.tolist(), comm.dst.tolist(), comm.nbytes.tolist())
    return {(s, d): b for s, d, b in zip(*columns, strict=True)}


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def message(*fields):
    """Bytes of a protobuf message of numbers, texts and messages."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        elif isinstance(value, float):
            out += varint(number << 3 | 1) + struct.pack("<d", value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out
