"""Functions that tests have workers call: small, for workers import this file."""

import logging
import os
import signal


def double(item):
    return 2 * item


def end_once(path, item):
    """Double the item; the first to come by 3 ends its worker."""
    if item == 3 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * item


def end_always(item):
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(item):
    from toruscast.errors import InputError

    raise InputError("bad item", file="a.txt", line=3, found=item)


def links(traffic):
    return traffic.link_bytes.tolist()


def tell(item):
    """Record the item, and return it."""
    logging.getLogger("toruscast.told").info("item %d", item, extra={"item": item})
    return item
