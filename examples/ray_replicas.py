"""Serve a run by replicas on one machine or a Ray cluster; docs/deploy.md says when, and how.

Run `python examples/ray_replicas.py RUN [RUN ...]`: http://127.0.0.1:8000, with the routes of
`dialog serve`. Clients should try again after a status of 500: a replica that dies loses what it
was answering. Needs the extras serve and replicas.
"""

import os
import sys
from collections.abc import Callable

from ray import serve

from dialog.runs.load import load
from dialog.serving.app import Service


def builder(folders: list[str]) -> Callable[[], object]:
    """Return what builds the application in each replica; each has one processor and one thread."""
    token = os.environ.get("DIALOG_TOKEN", "")
    return lambda: Service(*(load([folder]) for folder in folders), token=token).app


if __name__ == "__main__":
    replicas = serve.deployment(
        serve.ingress(builder([os.path.abspath(folder) for folder in sys.argv[1:]]))(),
        max_ongoing_requests=64,
        autoscaling_config={"min_replicas": 2, "max_replicas": 8, "target_ongoing_requests": 16},
        ray_actor_options={"num_cpus": 1},
        health_check_period_s=2,
    )
    serve.start(http_options={"host": "127.0.0.1", "port": int(os.environ.get("PORT", "8000"))})
    serve.run(replicas.bind(), blocking=True)
