"""A worker of threads that says what it has handled: URL NAMESPACE QUEUE."""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta

import fieldpost

#: Of a lease whose job never arrives, because the server was killed in the middle of its answer.
TTR = timedelta(seconds=5)
CONCURRENCY = 8


def say(job: fieldpost.Job) -> None:
    # In one piece, whoever else writes.
    os.write(sys.stdout.fileno(), f"{job.payload}\n".encode())


def main() -> None:
    url, namespace, name = sys.argv[1:]
    with fieldpost.Client(url) as client:
        worker = client.queue(namespace, name).worker(say, concurrency=CONCURRENCY, ttr=TTR)
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        worker.run()


if __name__ == "__main__":
    main()
