"""A metric."""

from toruscast import register_feature


@register_feature("busiest_share", description="busiest link's share of all link bytes")
def busiest_share(traffic):
    """Return the share; 0 where no link carries a byte."""
    total = traffic.link_bytes.sum()
    return traffic.link_bytes.max() / total if total else 0.0
