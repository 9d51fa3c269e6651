"""A metric."""

from toruscast.features import register


@register("busiest_share", description="busiest link's share of all link bytes")
def busiest_share(traffic):
    """Return the share; 0 where no link carries a byte."""
    total = traffic.link_bytes.sum()
    return traffic.link_bytes.max() / total if total else 0.0
