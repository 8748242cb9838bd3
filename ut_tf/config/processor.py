"""The precision that suits the processor: bfloat16 only where it multiplies bfloat16.

::

    policy_in_use("mixed_bfloat16", multiplies_bfloat16())   # "float32" where it is emulated

A processor without such products converts to float32 and back around each of them, which takes
longer than float32 alone.
"""

from __future__ import annotations

from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
# On x86 and on ARM.
_BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})


def processor_flags(cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """The instruction sets of the first core; empty where the system does not say."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        name, _, values = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(values.split())
    return frozenset()


def multiplies_bfloat16(cpuinfo: Path = CPUINFO) -> bool | None:
    """Whether the processor multiplies bfloat16 in hardware; None: the system does not say."""
    flags = processor_flags(cpuinfo)
    return bool(flags & _BFLOAT16_FLAGS) if flags else None


def policy_in_use(policy: str, in_hardware: bool | None) -> str:
    """The dtype policy to use where `policy` is asked for: float32 in place of mixed_bfloat16 if
    its products are not made `in_hardware`; None: that is unknown, and `policy` stays.
    """
    return "float32" if policy == "mixed_bfloat16" and in_hardware is False else policy
