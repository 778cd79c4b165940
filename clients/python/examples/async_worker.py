"""A worker of tasks: handles jobs until SIGTERM or Ctrl-C, then finishes what it has begun.

python3 examples/async_worker.py http://127.0.0.1:8080 shop mails
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

import fieldpost


async def send(job: fieldpost.Job) -> None:
    """Stands for what the job is about. An error here has the job tried again later, until its tries are used up."""
    logging.info("attempt %d of %d: %r", job.attempt, job.tries, job.payload)


async def main() -> None:
    """Works on the queue that the command line names."""
    # What the package has to tell - lost leases, a server that is away - it logs too.
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    url, namespace, name = sys.argv[1:]
    async with fieldpost.AsyncClient(url) as client:
        worker = client.queue(namespace, name).worker(send, concurrency=100)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, worker.stop)
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main())
