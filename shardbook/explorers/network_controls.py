"""The controls that explorers of collectives share: latency and bandwidth of a network."""

from shardbook.explorers.controls import Number


def latency() -> Number:
    """The latency of a round, s."""
    return Number(
        "latency",
        "Latency of a round",
        "10us",
        ("0.1us", "1us", "2us", "5us", "10us", "20us", "50us", "100us", "1ms"),
        1e-7,
        1,
        integer=False,
        kind="seconds",
        unit="s",
    )


def bandwidth() -> Number:
    """What a port sends in a second, one way, B/s."""
    return Number(
        "bandwidth",
        "Bandwidth of a port, one way",
        "50GB/s",
        ("1GB/s", "12.5GB/s", "25GB/s", "50GB/s", "100GB/s", "200GB/s", "450GB/s", "900GB/s"),
        1e6,
        1e13,
        integer=False,
        kind="rate",
        unit="B/s",
    )
