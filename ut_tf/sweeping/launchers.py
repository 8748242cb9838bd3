"""Job arrays whose tasks work through a sweep together: for SLURM and for Kubernetes.

::

    slurm_array(["ut-sweep", "--problems=..."], tasks=8, options=["--gpus=1"])   # sbatch's words
    kubernetes_job(["ut-sweep", "--problems=..."], tasks=8, options={"image": "..."})  # a manifest

Every task runs the same command; which cell it trains is decided by the claims on the sweep's
folder (``claims.py``), so a task may be added, lost or started again at any time.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ut_tf.errors import UserError

KUBERNETES_OPTIONS = ("image", "claim", "mount", "gpus")
DEFAULT_MOUNT = "/shared"
_NAME = "ut-sweep"
_RETRIES = 20


def slurm_array(
    command: Sequence[str],
    tasks: int,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """The words of the sbatch that queues a job array.

    Args:
      command: of every task.
      tasks: of the array.
      options: of sbatch.
      environment: variables that every task is given.
    """
    given = [f"{name}={value}" for name, value in (environment or {}).items()]
    words = [*(["env", *given] if given else []), *command]
    return [
        "sbatch",
        f"--job-name={_NAME}",
        f"--array=0-{tasks - 1}",
        "--requeue",
        "--open-mode=append",
        # Every run saves a checkpoint before the time is over.
        "--signal=B:TERM@300",
        *options,
        f"--wrap=exec {shlex.join(words)}",
    ]


def kubernetes_job(
    command: Sequence[str],
    tasks: int,
    options: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> str:
    """The manifest of an indexed job, as JSON, which kubectl reads as it reads YAML.

    Args:
      command: of every pod.
      tasks: pods.
      options: "image"; "claim", a volume that all pods can write; "mount", where it is mounted;
        "gpus" of each pod.
      environment: variables that every pod is given.

    Raises:
      UserError: an option is unknown or missing, or `gpus` is no number of them.
    """
    unknown = [name for name in options if name not in KUBERNETES_OPTIONS]
    missing = [name for name in ("image", "claim") if not options.get(name)]
    if unknown or missing:
        wrong = f"unknown {unknown[0]!r}" if unknown else f"{missing[0]} is missing"
        raise UserError(
            f"`launcher_args`: {wrong}: expected image=IMAGE,claim=VOLUME and perhaps mount=PATH,"
            " gpus=NUMBER."
        )
    gpus = options.get("gpus", "")
    if gpus and not re.fullmatch(r"[1-9][0-9]{0,3}", gpus):
        raise UserError(
            f"`launcher_args`: gpus={gpus}: expected a whole number from 1 to 9999; for none leave"
            " it out."
        )
    container: dict[str, Any] = {
        "name": "worker",
        "image": options["image"],
        "command": list(command),
        "env": [{"name": name, "value": value} for name, value in (environment or {}).items()],
        "volumeMounts": [{"name": "shared", "mountPath": options.get("mount", DEFAULT_MOUNT)}],
    }
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": int(gpus)}}
    volume = {"name": "shared", "persistentVolumeClaim": {"claimName": options["claim"]}}
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 300,
        "containers": [container],
        "volumes": [volume],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": f"{_NAME}-"},
        "spec": {
            "completionMode": "Indexed",
            "completions": tasks,
            "parallelism": tasks,
            "backoffLimit": _RETRIES,
            "template": {"spec": pod},
        },
    }
    return json.dumps(job, indent=2)
