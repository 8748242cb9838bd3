"""The time that several devices take to add up their gradients: a model, not a measurement.

All devices end with the sum of N gradients of 4 bytes each. In a ring every one sends and receives
2 (n - 1) / n · 4 N bytes (Patarasu and Yuan, 2009), at the slowest link's speed; a step around the
ring costs a latency each time. Training adds the gradients up once they are all there, so the time
is added to that of the products and not hidden behind them.
"""

from __future__ import annotations

from dataclasses import dataclass

_GRADIENT_BYTES = 4


@dataclass(frozen=True)
class Network:
    """What joins the devices.

    Args:
      devices_per_machine: joined by `inside`; more need `between`.
      inside: bytes a second from each device to another of its machine.
      between: the same to one of another machine.
      latency: seconds of one step around the ring.
    """

    devices_per_machine: int = 8
    inside: float = 300e9
    between: float = 25e9
    latency: float = 20e-6


def bytes_per_update(parameters: int, devices: int) -> float:
    """The bytes that each device sends in an update."""
    return 2 * (devices - 1) / devices * _GRADIENT_BYTES * parameters


def seconds_per_update(parameters: int, devices: int, network: Network) -> float:
    """The time that the sum of the gradients takes."""
    if devices == 1:
        return 0.0
    is_inside = devices <= network.devices_per_machine
    speed = network.inside if is_inside else network.between
    steps = 2 * (devices - 1)
    return bytes_per_update(parameters, devices) / speed + steps * network.latency
