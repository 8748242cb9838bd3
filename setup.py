"""Packages of the project: the top-level rooms problems/, hparams/ and bin/ are installed inside
ut_tf.
"""

from __future__ import annotations

from setuptools import find_packages, setup

ROOMS = {
    "ut_tf": "ut_tf",
    "ut_tf.problems": "problems",
    "ut_tf.hparams": "hparams",
    "ut_tf.bin": "bin",
}


def _packages() -> list[str]:
    nested = [
        f"{name}.{child}" for name, folder in ROOMS.items() for child in find_packages(folder)
    ]
    return [*ROOMS, *nested]


setup(package_dir=ROOMS, packages=_packages())
