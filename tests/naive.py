"""Slow, obvious twins of the routing kernels, the selections, the packets and the bounds."""

import math
from collections import defaultdict
from functools import lru_cache
from itertools import pairwise, product

# Nodes of a rack of Blue Gene/Q.
RACK = 1024


def coords(torus, node):
    """Coordinates of a node: the last dimension varies fastest."""
    place = []
    for size in reversed(torus.shape):
        place.insert(0, node % size)
        node //= size
    return tuple(place)


def node_at(torus, place):
    number = 0
    for size, c in zip(torus.shape, place, strict=True):
        number = number * size + c
    return number


def step(torus, place, dimension, sign):
    """Coordinates one link further, None over the edge of a mesh or within a ring of one."""
    size = torus.shape[dimension]
    c = place[dimension] + sign
    if size == 1 or (not torus.wrap[dimension] and not 0 <= c < size):
        return None
    beyond = (*place[:dimension], c % size, *place[dimension + 1 :])
    if torus.twist and not 0 <= c < size:
        moved = zip(beyond, torus.twist[dimension], torus.shape, strict=True)
        return tuple((at + sign * by) % n for at, by, n in moved)
    return beyond


def walk_hops(torus, src, hops):
    """Links of so many hops along each dimension, in routing order, and the node where they end."""
    place, links = coords(torus, src), []
    for dimension in torus.routing_order:
        sign = 1 if hops[dimension] > 0 else -1
        for _ in range(abs(hops[dimension])):
            links.append(link_number(torus, node_at(torus, place), dimension, sign))
            place = step(torus, place, dimension, sign)
    return links, node_at(torus, place)


@lru_cache(maxsize=2**16)
def twisted_way(torus, src, dst):
    """Hops of the way that a message takes on a twisted torus: of all shortest ones by its source.

    The longest way plus comes first.
    """
    found, longest = [], -1
    while not found:
        longest += 1
        for hops in product(range(longest, -longest - 1, -1), repeat=torus.ndim):
            if sum(map(abs, hops)) == longest and walk_hops(torus, src, hops)[1] == dst:
                found.append(hops)
    return found[0 if torus.tie_break == "plus" else sum(coords(torus, src)) % len(found)]


def hops_left(torus, src, dst, node):
    """Hops that are left of a message's way on a twisted torus, at a node in whatever order."""
    way = twisted_way(torus, src, dst)
    for done in product(*(range(0, h, 1 if h > 0 else -1) for h in lengthened(way))):
        if walk_hops(torus, src, done)[1] == node:
            return tuple(h - d for h, d in zip(way, done, strict=True))
    raise AssertionError("no node on the way")


def lengthened(way):
    return [h + (1 if h >= 0 else -1) for h in way]


def walk(torus, place, target, dimension, sign):
    """Links along one dimension until its coordinate is the target's; None if the edge is met."""
    links = []
    while place[dimension] != target[dimension]:
        links.append(link_number(torus, node_at(torus, place), dimension, sign))
        place = step(torus, place, dimension, sign)
        if place is None:
            return None
    return links


def link_number(torus, node, dimension, sign):
    return node * 2 * torus.ndim + 2 * dimension + (0 if sign > 0 else 1)


def far_end(torus, link):
    node, port = divmod(link, 2 * torus.ndim)
    place = step(torus, coords(torus, node), port // 2, -1 if port % 2 else 1)
    return None if place is None else node_at(torus, place)


def signs(torus, place, target, dimension):
    """Ways round of the shorter walk: none, one, or both at a tie."""
    if place[dimension] == target[dimension]:
        return []
    walks = {sign: walk(torus, place, target, dimension, sign) for sign in (1, -1)}
    lengths = {sign: len(links) for sign, links in walks.items() if links is not None}
    return [sign for sign, length in lengths.items() if length == min(lengths.values())]


def chosen_sign(torus, place, target, dimension, split_sign=1):
    """The way round by the tie rule; ``split_sign`` is that of this half of a halved tie."""
    ways = signs(torus, place, target, dimension)
    if len(ways) == 1:
        return ways[0]
    if torus.tie_break == "plus":
        return 1
    if torus.tie_break in ("split", "random", "booksim"):
        return split_sign
    if torus.tie_break == "simgrid":
        return -1 if target[dimension] == 0 else 1
    total = place[dimension]
    if torus.tie_break == "sum_parity":
        total += sum(c for d, c in enumerate(target) if d != dimension)
    return 1 if total % 2 == 0 else -1


def route(torus, src, dst, split_sign=1):
    """Links of the dimension-ordered route, hop by hop."""
    if torus.twist:
        return walk_hops(torus, src, twisted_way(torus, src, dst))[0]
    place, target = coords(torus, src), coords(torus, dst)
    links = []
    for dimension in torus.routing_order:
        if place[dimension] == target[dimension]:
            continue
        sign = chosen_sign(torus, place, target, dimension, split_sign)
        links += walk(torus, place, target, dimension, sign)
        place = (*place[:dimension], target[dimension], *place[dimension + 1 :])
    return links


def dilation(torus, src, dst):
    return len(route(torus, src, dst))


def edges(comm, mapping):
    """Node, node, bytes and messages of every edge."""
    return [
        (int(mapping.node[s]), int(mapping.node[d]), float(b), float(m))
        for s, d, b, m in zip(comm.src, comm.dst, comm.nbytes, comm.n_messages, strict=True)
    ]


def link_loads(torus, ends, weights):
    """Weight on every link; ``ends`` are pairs of nodes."""
    load = [0.0] * torus.n_links
    for (a, b), weight in zip(ends, weights, strict=True):
        # Links of both halves of a tie stand in one of the two lists only.
        for split_sign in (1, -1):
            for link in route(torus, a, b, split_sign):
                load[link] += weight / 2
    return load


def zones_of(torus, src, dst):
    """Groups of dimensions of the messages from a node to another, in order; none on a line."""
    if torus.zones != "bluegene_q":
        return torus.zones or [range(torus.ndim)]
    here, there = coords(torus, src), coords(torus, dst)
    if sum(a != b for a, b in zip(here, there, strict=True)) < 2:
        return []
    flexibility = 0.0
    for a, b, size in zip(here[:4], there[:4], torus.shape[:4], strict=True):
        if size > 1:
            flexibility += min((a - b) % size, (b - a) % size) / (size // 2)
    racks = torus.n_nodes / RACK
    least = 0.75 if racks >= 64 else 1.3 if racks >= 16 else 1.5
    most = 3.0 if racks >= 16 else 2.5 if racks >= 8 else 3.5
    if least < flexibility < most:
        return bluegene_zones(torus)[2 if 1 <= racks < 2 else 3]
    return bluegene_zones(torus)[3 if racks < 1 else 0]


def bluegene_zones(torus):
    """Zones by their numbers: long dimensions first, all alike, in order, in order with E first."""

    def length(d):
        half = torus.wrap[d] and (torus.shape[d] != 2 or d == 4)
        return torus.shape[d] // 2 if half else torus.shape[d]

    lengths = sorted({length(d) for d in range(5)}, reverse=True)
    masks = [{d, 4} for d in torus.routing_order]
    return [
        [[d for d in range(5) if length(d) == k] for k in lengths],
        [range(5)],
        [[d] for d in torus.routing_order],
        masks,
    ]


def minimal_routes(torus, src, dst, zones=None):
    """Every minimal route through the zones, each a list of links."""
    if src == dst:
        return [[]]
    zones = zones_of(torus, src, dst) if zones is None else zones
    if torus.twist:
        return twisted_routes(torus, src, twisted_way(torus, src, dst), zones)
    if not zones:
        return [route(torus, src, dst, sign) for sign in (1, -1)]
    found = []
    for link in productive_links(torus, src, dst, zones):
        end = far_end(torus, link)
        found += [[link, *rest] for rest in minimal_routes(torus, end, dst, zones)]
    return found


def twisted_routes(torus, node, hops, zones):
    """Every order of hops through the zones, each a list of links."""
    if not any(hops):
        return [[]]
    found = []
    for d in next(left for zone in zones if (left := [d for d in zone if hops[d]])):
        sign = 1 if hops[d] > 0 else -1
        link = link_number(torus, node, d, sign)
        rest = (*hops[:d], hops[d] - sign, *hops[d + 1 :])
        found += [
            [link, *more] for more in twisted_routes(torus, far_end(torus, link), rest, zones)
        ]
    return found


def open_dimensions(torus, src, dst, zones):
    """Dimensions of the first zone in which there are hops to go."""
    place, target = coords(torus, src), coords(torus, dst)
    for zone in zones:
        left = {d for d in zone if place[d] != target[d]}
        if left:
            return left
    return set()


def productive_links(torus, src, dst, zones):
    """Links out of a node that a packet may take nearer to another, in the order of numbers."""
    allowed = open_dimensions(torus, src, dst, zones)
    ports = range(src * 2 * torus.ndim, (src + 1) * 2 * torus.ndim)
    ends = {link: far_end(torus, link) for link in ports if link % (2 * torus.ndim) // 2 in allowed}
    before = dilation(torus, src, dst)
    return [
        link
        for link, end in ends.items()
        if end is not None
        and dilation(torus, end, dst) == before - 1
        and not (torus.tie_break == "booksim" and link % 2 == 0 and ties(torus, link, dst))
        and not (torus.tie_break == "bluegene" and not in_order(torus, link, dst))
    ]


def in_order(torus, link, dst):
    """Whether a link goes the way along its dimension that dimension order takes."""
    node, port = divmod(link, 2 * torus.ndim)
    sign = chosen_sign(torus, coords(torus, node), coords(torus, dst), port // 2)
    return sign == (-1 if port % 2 else 1)


def ties(torus, link, dst):
    """Whether both ways round are as long in the dimension of a link, from where it begins."""
    node, port = divmod(link, 2 * torus.ndim)
    return len(signs(torus, coords(torus, node), coords(torus, dst), port // 2)) == 2


def adaptive_loads(torus, ends, weights):
    """Every message spread evenly over its minimal routes, all of them written out."""
    load = [0.0] * torus.n_links
    for (a, b), weight in zip(ends, weights, strict=True):
        every = minimal_routes(torus, a, b)
        for links in every:
            for link in links:
                load[link] += weight / len(every)
    return load


def fifos(torus, ends, silent):
    """Injection FIFO of every edge by the rule of the network; -1 within a node."""
    network = torus.network
    turn = defaultdict(int)
    picked = {}
    for e in sorted(range(len(ends)), key=lambda e: silent[e]):
        a, b = ends[e]
        place, target = coords(torus, a), coords(torus, b)
        way = twisted_way(torus, a, b) if torus.twist else None
        differing = [d for d in torus.routing_order if (way[d] if way else place[d] != target[d])]
        if not differing:
            picked[e] = -1
        elif network.fifo_rule in ("round_robin", "first_free"):
            picked[e] = turn[a] % network.fifos
            turn[a] += 1
        elif network.fifo_rule == "first_dimension" or len(differing) == 1:
            # Blue Gene/Q counts A- A+ B- B+ ...
            sign = way[differing[0]] if way else chosen_sign(torus, place, target, differing[0])
            plus = sign > 0
            picked[e] = (2 * differing[0] + plus) % network.fifos
        else:
            apart = sum(abs(s - t) for s, t in zip(place, target, strict=True))
            apart = sum(map(abs, way)) if way else apart
            picked[e] = apart % network.fifos
    return [picked[e] for e in range(len(ends))]


def average_outliers(values):
    return [v for v in values if v > sum(values) / len(values)]


def top_outliers(values):
    return [v for v in values if v >= 0.95 * max(values) and max(values) > 0]


def mean(values):
    return sum(values) / len(values) if values else 0.0


def path_sums(torus, ends, load):
    """Sum and maximum of the loads along the route of every edge between nodes."""
    paths = [[load[link] for link in route(torus, a, b)] for a, b in ends if a != b]
    return [sum(path) for path in paths], [max(path) for path in paths]


def packets(nbytes, n_messages, network, coarsening=1):
    """Packets of an edge, and the bytes of each on the wire."""
    messages = round(n_messages)
    if messages == 0:
        return 0, 0.0
    real = messages * max(1, math.ceil(nbytes / messages / network.payload))
    fewer = math.ceil(real / coarsening)
    return fewer, (nbytes + real * network.header) / fewer


def software(comm, network):
    """Seconds of software that every edge costs its task."""
    seconds = []
    for nbytes, n_messages in zip(comm.nbytes.tolist(), comm.n_messages.tolist(), strict=True):
        messages = round(n_messages)
        short = messages > 0 and nbytes / messages <= network.short_limit > 0
        seconds.append(messages * (network.short_overhead if short else network.overhead))
    return seconds


def hand_over(comm, network):
    """Edges in the order of their hand-over by task, and the second at which each is ready."""
    order, ready = [], [0.0] * comm.n_edges
    seconds = software(comm, network)
    for task in range(comm.n_tasks):
        mine = [e for e in range(comm.n_edges) if comm.src[e] == task]
        round_robin = [e for e in mine if comm.dst[e] >= task]
        round_robin += [e for e in mine if comm.dst[e] < task]
        done = 0.0
        for e in round_robin:
            done += seconds[e]
            ready[e] = done
        order += round_robin
    return order, ready


def release_bound(comm, torus, mapping):
    """Second until which some link is busy or some message under way, all as early as can be."""
    network = torus.network
    rows = edges(comm, mapping)
    split = [packets(nbytes, n, network) for _, _, nbytes, n in rows]
    wire = [count * each for count, each in split]
    fifo = fifos(torus, [(a, b) for a, b, _, _ in rows], [count == 0 for count, _ in split])
    sent = [e for e, (count, _) in enumerate(split) if count > 0 and fifo[e] >= 0]
    release = releases(comm, network, rows, wire, fifo, sent, max(torus.bandwidth))
    halves = (1, -1) if torus.tie_break in ("split", "random", "booksim") else (1,)
    coming, last = defaultdict(list), 0.0
    ready = hand_over(comm, network)[1]
    for e in sorted(sent, key=lambda e: (-release[e], ready[e])):
        a, b, *_ = rows[e]
        for sign in halves:
            links = route(torus, a, b, sign)
            for hop, link in enumerate(links):
                bandwidth = torus.bandwidth[link % (2 * torus.ndim) // 2]
                then = release[e] + hop * network.hop_latency
                coming[link].append((then, wire[e] / bandwidth / len(halves)))
        alone = wire[e] / max(torus.bandwidth) + len(links) * network.hop_latency
        last = max(last, release[e] + alone)
    for messages in coming.values():
        for n in range(1, len(messages) + 1):
            # From the last to the first: all that comes from some moment on, or a little more.
            first = min(then for then, _ in messages[:n])
            last = max(last, first + sum(s for _, s in messages[:n]) + network.hop_latency)
    return last


def releases(comm, network, rows, wire, fifo, sent, bandwidth):
    """Earliest second at which each edge's first packet leaves its FIFO."""
    ready = hand_over(comm, network)[1]
    asks = any(rows[e][2] / round(rows[e][3]) > network.eager_limit for e in sent)
    in_turn = network.feeding == "tasks" and network.fifo_rule != "first_free"
    if asks or not in_turn:
        return ready
    release = list(ready)
    for queue in {(rows[e][0], fifo[e]) for e in sent}:
        mine = sorted((e for e in sent if (rows[e][0], fifo[e]) == queue), key=lambda e: ready[e])
        free, before = 0.0, -1.0
        for e in mine:
            # Those that are ready together may go in any order.
            if ready[e] > before * (1 + 1e-3):
                first, before = max(ready[e], free), ready[e]
            release[e] = first
            free = max(free, first) + wire[e] / bandwidth
    return release


def bounds(rounds, torus, mapping):
    """Seconds of the busiest link, FIFO and receiver of all rounds, and of the longest chain."""
    network = torus.network
    work, injection, reception = defaultdict(float), defaultdict(float), defaultdict(float)
    entered = [0.0] * len(mapping.node)
    last = 0.0
    for comm in rounds:
        rows = edges(comm, mapping)
        ends = [(a, b) for a, b, _, _ in rows]
        split = [packets(nbytes, n, network) for _, _, nbytes, n in rows]
        wire = [count * each for count, each in split]
        for link, load in enumerate(link_loads(torus, ends, wire)):
            work[link] += load / torus.bandwidth[link % (2 * torus.ndim) // 2]
        fifo = fifos(torus, ends, [count == 0 for count, _ in split])
        _, ready = hand_over(comm, network)
        arrivals = []
        for e, (a, b) in enumerate(ends):
            if split[e][0] == 0:
                continue
            if a == b:
                arrivals.append((e, ready[e] + rows[e][2] / network.memory_bandwidth))
                continue
            links = route(torus, a, b)
            time = wire[e] / max(torus.bandwidth)
            if network.fifo_rule == "first_free":
                # One queue, which all FIFOs of the node empty; side by side along two ways.
                injection[a, 0] += time / network.fifos
                if route(torus, a, b, 1) != route(torus, a, b, -1):
                    time = split[e][1] / max(torus.bandwidth)
            else:
                injection[a, fifo[e]] += time
            reception[b] += wire[e] / network.memory_bandwidth
            arrivals.append((e, ready[e] + len(links) * network.hop_latency + time))
        following = list(entered)
        for src, seconds in zip(comm.src.tolist(), software(comm, network), strict=True):
            following[src] += seconds
        for e, after in arrivals:
            arrived = entered[comm.src[e]] + after
            last = max(last, arrived)
            following[comm.dst[e]] = max(following[comm.dst[e]], arrived)
        entered = following
    busiest = [max(seconds.values(), default=0.0) for seconds in (work, injection, reception)]
    return (*busiest, last)


def is_path(torus, links, src, dst):
    """Whether the links lead from node to node without a gap."""
    nodes = [src, *(far_end(torus, link) for link in links)]
    starts = [link // (2 * torus.ndim) for link in links]
    return nodes[-1] == dst and starts == nodes[:-1] and all(a != b for a, b in pairwise(nodes))
