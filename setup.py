"""Packages of the project: the top-level folders problems/, hparams/, bin/ and models/ are
installed inside ut_tf.
"""

from setuptools import find_packages, setup

FOLDERS = {
    "ut_tf": "ut_tf",
    "ut_tf.problems": "problems",
    "ut_tf.hparams": "hparams",
    "ut_tf.bin": "bin",
    "ut_tf.pretrained": "models",
}


def _packages() -> list[str]:
    nested = [
        f"{name}.{child}" for name, folder in FOLDERS.items() for child in find_packages(folder)
    ]
    return [*FOLDERS, *nested]


setup(package_dir=FOLDERS, packages=_packages())
