"""The processor, and the precision that suits it: bfloat16 only where it multiplies bfloat16.

::

    policy_in_use("mixed_bfloat16", multiplies_bfloat16())   # "float32" where it is emulated

A processor without such products converts to float32 and back around each of them, which takes
longer than float32 alone.
"""

import os
from pathlib import Path
from typing import Any

CPUINFO = Path("/proc/cpuinfo")
# On x86 and on ARM.
_BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
SPEED_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
"""The instruction sets that decide how fast matrix products are; times of processors with different
ones cannot be compared.
"""


def processor_flags(cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """The instruction sets of the first core; empty where the system does not say."""
    return frozenset(_first_value(cpuinfo, ("flags", "Features")).split())


def speed_flags(cpuinfo: Path = CPUINFO) -> list[str]:
    """Those of ``SPEED_FLAGS`` that the processor has; none where the system does not say."""
    present = processor_flags(cpuinfo)
    return [flag for flag in SPEED_FLAGS if flag in present]


def usable_cores() -> int:
    """The cores on which this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_processor(cpuinfo: Path = CPUINFO) -> dict[str, Any]:
    """The processor as records name it: "model" (empty: the system does not say), "flags" (those
    that decide speed) and "cores" (that this process may use).
    """
    model = _first_value(cpuinfo, ("model name", "Model"))
    return {"model": model, "flags": speed_flags(cpuinfo), "cores": usable_cores()}


def _first_value(cpuinfo: Path, names: tuple[str, ...]) -> str:
    """The value of the first line that has one of the names; empty where there is none."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in names:
            return value.strip()
    return ""


def multiplies_bfloat16(cpuinfo: Path = CPUINFO) -> bool | None:
    """Whether the processor multiplies bfloat16 in hardware; None: the system does not say."""
    flags = processor_flags(cpuinfo)
    return bool(flags & _BFLOAT16_FLAGS) if flags else None


def policy_in_use(policy: str, in_hardware: bool | None) -> str:
    """The dtype policy to use where `policy` is asked for: float32 in place of mixed_bfloat16 if
    its products are not made `in_hardware`; None: that is unknown, and `policy` stays.
    """
    return "float32" if policy == "mixed_bfloat16" and in_hardware is False else policy
