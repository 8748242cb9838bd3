"""GPUs by name: peak speed, memory and a public price.

Peaks are those of dense matrix products, without sparsity, from NVIDIA's data sheets: float32 is
TensorFloat-32 where the GPU has it, which TensorFlow uses by default. Prices are Lambda's public
list for one GPU on demand, as SkyPilot's catalog gives them (``PRICES``); other providers ask for
half or for twice as much, so give your own with ``price``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ut_tf.errors import UserError, did_you_mean

PRICES = (
    "Lambda, on demand, US dollars for one GPU; SkyPilot catalog v8, lambda/vms.csv, commit"
    " 95eaf484, read on 2026-11-22"
)


@dataclass(frozen=True)
class Accelerator:
    """One GPU.

    Args:
      name: as it is asked for.
      float32, half: peak FLOP/s of matrix products in float32 and in bfloat16 or float16.
      memory: bytes.
      price: US dollars an hour; None: the list has none.
      source: of the peaks and the memory.
    """

    name: str
    float32: float
    half: float
    memory: int
    price: float | None
    source: str

    def peak(self, dtype_policy: str) -> float:
        """FLOP/s of matrix products under a Keras dtype policy."""
        return self.float32 if dtype_policy == "float32" else self.half


def _gpu(
    name: str, float32: float, half: float, memory: int, price: float | None, source: str
) -> Accelerator:
    return Accelerator(name, float32 * 1e12, half * 1e12, memory * 10**9, price, source)


ACCELERATORS = {
    gpu.name: gpu
    for gpu in (
        _gpu("V100", 15.7, 125.0, 16, 0.55, "NVIDIA V100 data sheet (2020), SXM2, no TF32"),
        _gpu("A10", 62.5, 125.0, 24, 0.75, "NVIDIA A10 data sheet (2021)"),
        _gpu("L4", 60.0, 121.0, 24, None, "NVIDIA L4 data sheet (2023)"),
        _gpu("A6000", 77.4, 154.8, 48, 0.80, "NVIDIA RTX A6000 data sheet (2021)"),
        _gpu("A100", 156.0, 312.0, 40, 1.29, "NVIDIA A100 data sheet (2021), SXM4"),
        _gpu("A100-80GB", 156.0, 312.0, 80, 1.79, "NVIDIA A100 data sheet (2021), SXM4"),
        _gpu("H100", 494.7, 989.4, 80, 2.99, "NVIDIA H100 data sheet (2023), SXM5"),
        _gpu("H200", 494.7, 989.4, 141, None, "NVIDIA H200 data sheet (2024), SXM5"),
        _gpu("B200", 1125.0, 2250.0, 180, 4.99, "NVIDIA HGX B200 data sheet (2024)"),
    )
}


def accelerator(name: str) -> Accelerator:
    """The GPU of that name, in any case of its letters.

    Raises:
      UserError: there is none; names the near ones.
    """
    for known, gpu in ACCELERATORS.items():
        if known.lower() == name.lower():
            return gpu
    near = did_you_mean(name, ACCELERATORS) or f"; expected one of {', '.join(ACCELERATORS)}."
    raise UserError(f"`gpus`={name}: no such GPU is in the table{near}")
