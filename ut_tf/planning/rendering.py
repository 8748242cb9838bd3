"""A plan as text."""

from __future__ import annotations

from collections.abc import Sequence

from ut_tf.planning.accelerators import PRICES
from ut_tf.planning.memory import Memory
from ut_tf.planning.plan import Plan, Setting

_UNITS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SHORTEST, _LEAST_DOLLARS = 0.1, 0.01
_PARTS = ("weights", "moments", "averages", "sums", "activations", "logits", "gradients")


def render(plan: Plan, setting: Setting) -> str:
    """The plan in lines, with a table of the GPUs and what was assumed."""
    total = sum(plan.parameters.values())
    batch = plan.largest
    shape = " and ".join(str(size) for size in (batch.length, batch.target_length) if size)
    quantities = [
        ("parameters", f"{total:,}", _parts(plan.parameters)),
        ("operations of an update", f"{amount(plan.flop)}FLOP", "on each device"),
        ("memory of a device", f"{amount(plan.memory.peak)}B", _memory(plan.memory)),
        ("  at a batch of", f"{batch.examples} examples", f"of {shape} positions"),
        ("updates", f"{plan.updates:,}", f"{plan.positions * plan.updates:.3g} positions in all"),
    ]
    widths = [max(len(row[column]) for row in quantities) for column in (0, 1)]
    lines = [
        f"{name:<{widths[0]}}  {value:<{widths[1]}}  {details}".rstrip()
        for name, value, details in quantities
    ]
    return "\n".join([*lines, "", *_table(plan, setting), "", *_assumptions(plan, setting)])


def amount(number: float) -> str:
    """A number with three digits and its SI prefix, "1.23 G"."""
    for size, prefix in _UNITS:
        if number >= size:
            return f"{number / size:.3g} {prefix}"
    return f"{number:.3g} "


def duration(hours: float) -> str:
    """A time in seconds, minutes or hours, with three digits."""
    seconds = 3600 * hours
    if seconds < _SHORTEST:
        return f"< {_SHORTEST} s"
    if seconds < 60:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 3600 else f"{float(f'{hours:.3g}'):,g} h"


def _dollars(cost: float | None) -> str:
    if cost is None:
        return "no price"
    return f"{cost:,.2f}" if cost >= _LEAST_DOLLARS else f"< {_LEAST_DOLLARS}"


def _parts(parameters: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in parameters.items() if count)


def _memory(memory: Memory) -> str:
    sizes = {name: getattr(memory, name) for name in _PARTS}
    return ", ".join(f"{name} {amount(size)}B" for name, size in sizes.items() if size)


def _table(plan: Plan, setting: Setting) -> list[str]:
    rows = [["GPU", "memory", "fits", "time", "adding gradients up", "US dollars"]]
    for row in plan.rows:
        rows.append(
            [
                f"{setting.devices} x {row.gpu.name}",
                f"{row.gpu.memory / 1e9:.0f} GB",
                "yes" if row.fits else "no",
                duration(row.hours) if row.fits else "",
                f"{row.communication:.0%}" if row.fits else "",
                _dollars(row.cost) if row.fits else "",
            ]
        )
    return _aligned(rows)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _assumptions(plan: Plan, setting: Setting) -> list[str]:
    network = setting.network
    lines = [
        f"assumed: products at {setting.utilisation:.0%} of the GPU's peak; 8% of its memory is not"
        " for tensors",
    ]
    if setting.devices > 1:
        lines.append(
            f"assumed: {network.inside / 1e9:.0f} GB/s between {network.devices_per_machine}"
            f" devices of a machine, {network.between / 1e9:.0f} GB/s between machines; gradients"
            " are added up after the backward pass"
        )
    own = "your own" if setting.price is not None else PRICES
    unlisted = [row.gpu.name for row in plan.rows if row.fits and row.cost is None]
    note = f"; that list has no {' and no '.join(unlisted)}: give `price`" if unlisted else ""
    return [*lines, f"prices: {own}{note}"]
