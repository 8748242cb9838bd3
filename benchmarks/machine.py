"""What the benchmarks say of the machine: cores, load, the processor's flags that decide speed."""

from __future__ import annotations

import os
from pathlib import Path

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")


def processor_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """Those of ``FLAGS`` that the processor has; none where the system does not say."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return []
    present = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    return [flag for flag in FLAGS if flag in present]


def header() -> str:
    """One line: cores, flags and the load average before the start."""
    flags = " ".join(processor_flags()) or "unknown"
    return f"{os.cpu_count()} cores, flags: {flags}, load average {os.getloadavg()[0]:.2f}"
