"""A worker of tasks that says what it has handled: URL NAMESPACE QUEUE."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta

import fieldpost

#: Of a lease whose job never arrives, because the server was killed in the middle of its answer.
TTR = timedelta(seconds=5)
CONCURRENCY = 8


async def say(job: fieldpost.Job) -> None:
    # In one piece, whoever else writes.
    os.write(sys.stdout.fileno(), f"{job.payload}\n".encode())


async def main() -> None:
    url, namespace, name = sys.argv[1:]
    async with fieldpost.AsyncClient(url) as client:
        worker = client.queue(namespace, name).worker(say, concurrency=CONCURRENCY, ttr=TTR)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main())
