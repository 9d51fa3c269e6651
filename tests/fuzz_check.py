"""One hostile file and the judgement: one line, or a value; nothing else may happen."""

import hashlib
import os
import re
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path

from toruscast.errors import InputError

MOST_SECONDS = 2.0
MOST_BYTES = 500e6
_LONGEST_LINE = 2500
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CODE = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class")
# What numba asks for when it loads kernels that it compiled before.
_KERNELS = tuple(
    f"pickle.find_class ({name}"
    for name in ("'numba.", "'copyreg', '_reconstructor'", "'builtins', 'object'")
)
_NETWORK = ("socket.connect", "urllib.Request")


class Judge:
    """Reads files of a family in a folder of its own, and says what must not happen.

    What Python does is watched by an audit hook, which cannot be taken away again: one for all.
    """

    _hooked = False
    _seen: list[str] | None = None

    def __init__(self, family, folder):
        self.family = family
        self.path = Path(folder) / f"input{family.suffix}"
        if not Judge._hooked:
            sys.addaudithook(Judge._watch)
            Judge._hooked = True
        for seed in family.seeds:
            # What is imported or compiled at the first call is none of the input's doing.
            self._read(seed)

    @classmethod
    def _watch(cls, event, args):
        if cls._seen is None:
            return
        told = f"{event} {args!r}"[:200]
        kernel = told.startswith(_KERNELS)
        if event in (*_CODE, *_NETWORK) and not kernel:
            cls._seen.append(told)
        writes = event == "open" and isinstance(args[2], int) and args[2] & _WRITES
        if writes and "__pycache__" not in told:
            cls._seen.append(told)

    def _read(self, data):
        self.path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A number beyond all bounds, or none, that nobody has looked for.
            warnings.simplefilter("error", RuntimeWarning)
            try:
                self.family.read(self.path)
            except InputError as error:
                text = str(error)
                if "\n" in text or not text.isprintable() or len(text) > _LONGEST_LINE:
                    return f"bad line: {text[:200]!r}"
            except BaseException as error:
                frames = traceback.extract_tb(error.__traceback__)
                ours = [frame for frame in frames if "site-packages" not in frame.filename]
                at = (ours or frames)[-1]
                return f"{type(error).__name__} in {Path(at.filename).name}:{at.lineno} {at.name}"
        return None

    def fault_of(self, data):
        """Return in words what is wrong with how the bytes are read; None if nothing is."""
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        Judge._seen = []
        try:
            fault = self._read(data)
        finally:
            seen, Judge._seen = Judge._seen, None
        spent = time.process_time() - start
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most) * 1024
        others = [event for event in seen if str(self.path) not in event]
        if fault:
            return fault
        if others:
            return f"did {others[0]}"
        if spent > MOST_SECONDS:
            return f"slow: {spent:.1f} s for {len(data)} bytes"
        if grown > MOST_BYTES:
            return f"large: {grown / 1e6:.0f} MB for {len(data)} bytes"
        return None


def kind_of(fault):
    """Return a short name of a kind of fault: the same for all inputs that show it."""
    words = fault.split(":")[0] if fault.startswith(("slow", "large", "bad line")) else fault
    return hashlib.sha256(words.encode()).hexdigest()[:8]


def mutated(data, rng):
    """Return a copy that is cut, joined, repeated, or holds a strange byte, number or word."""
    content = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(content))
        to = min(len(content), at + rng.randint(0, 12))
        piece = bytes(content[at:to])
        content[at:to] = rng.choice(
            (
                b"",
                piece * rng.randint(2, 40),
                bytes([rng.randrange(256)]),
                rng.choice(_WORDS),
                bytes(content[to : to + 20]),
            )
        )
    return bytes(content)


_WORDS = (
    *(b"-1", b"0", b"1e999", b"nan", b"9" * 30, b"18446744073709551616", b"2147483648", b"1e-320"),
    *(b"\n", b"\r\n", b"\t", b" ", b",", b";", b'"', b"'", b"\0", b"\xff", b"\xef\xbb\xbf", b"#"),
    *(b"[", b"]", b"{", b"}", b"(", b")", b"<", b">", b"=", b":", b"null", b"true", b"{}", b"[]"),
    *(b"x" * 300, "\u00b2\u0663".encode(), "\u202e".encode(), b"\x1b[31m", b"../../a", b"%s"),
)


def amplified(data, size):
    """Yield text in which one word, sign or line stands very often, up to a size."""
    words = {}
    at = 0
    while at < len(data):
        end = at + 1
        while end < len(data) and data[end : end + 1].isalnum() and data[at : at + 1].isalnum():
            end += 1
        words.setdefault(data[at:end], (at, end))
        at = end
    start = 0
    for line in data.splitlines(keepends=True):
        words.setdefault(line, (start, start + len(line)))
        start += len(line)
    for piece, (first, last) in list(words.items())[:40]:
        for between in (b"", b" "):
            many = size // (len(piece) + len(between))
            yield data[:first] + (piece + between) * many + data[last:]


def with_unknown(data):
    """Yield text with an unknown word, line, key, attribute, element or column put in."""
    text = data.decode()
    lines = text.splitlines()
    for at, line in enumerate(lines):
        words = [f"{line} zorblax 7", f"{line} zorblax", f"zorblax {line}"]
        words += [f"{line}{mark}7" for mark in ",;" if mark in line]
        words += [f"{found}\n{line}" for found in _UNKNOWN_LINES]
        words += [f"{line}\n{found}" for found in _UNKNOWN_LINES]
        for changed in words:
            yield "\n".join([*lines[:at], changed, *lines[at + 1 :], ""]).encode()
    for mark in ",;\t ":
        if all(mark in line for line in lines[1:]):
            rows = [f"{line}{mark}{'7' if at else 'zorblax'}" for at, line in enumerate(lines)]
            yield "\n".join([*rows, ""]).encode()
    for match in re.finditer(r"\{(?=\s*\")", text):
        yield f'{text[: match.end()]}"zorblax": 7, {text[match.end() :]}'.encode()
    for match in re.finditer(r"<\w+(?=[ >])", text):
        yield f'{text[: match.end()]} zorblax="7"{text[match.end() :]}'.encode()
    for match in re.finditer(r"<\w+[^<>]*[^/<>]>", text):
        yield f'{text[: match.end()]}<zorblax bytes="7"/>{text[match.end() :]}'.encode()


_UNKNOWN_LINES = (
    "zorblax 7 8 9",
    "zorblax: 7",
    "zorblax = 7",
    "[zorblax]",
    "zorblax {",
    "@ zorblax 7",
)


def claims(data):
    """Yield text with huge numbers in place of its own, one or all, and tiny files of them."""
    for number in (b"1000003", b"99999999", b"1999999999", b"9" * 17):
        for match in list(re.finditer(rb"\d+", data))[:12]:
            yield data[: match.start()] + number + data[match.end() :]
        yield re.sub(rb"\d+", number, data)
        for form in (
            b"%s\n",
            b"0 %s 8\n",
            b"%s\n0 1 8\n",
            b"0 , %s = 1\n",
            b"%s %s\n",
            b"c[0-%s]\n",
        ):
            yield form.replace(b"%s", number)
