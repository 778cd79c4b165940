"""What can be said of a job when it is published.

python3 examples/publish.py http://127.0.0.1:8080 shop mails
"""

from __future__ import annotations

import sys

import fieldpost
from fieldpost import Alias, NewJob


def main() -> None:
    """Publishes to the queue that the command line names, and looks at what became of it."""
    url, namespace, name = sys.argv[1:]
    with fieldpost.Client(url) as client:
        mails = client.queue(namespace, name)

        # At once, with five tries.
        mails.publish({"to": "ada@example.org"}, tries=5)
        # In ten minutes; until then another one under the same alias takes its place.
        mails.publish({"cart": 17}, delay="10m", alias="cart-17", on_conflict="replace")
        # One after the other, all or none.
        mails.publish_many([NewJob({"step": step}, group="order-17") for step in ("pay", "pack", "send")])
        # Every working day at nine, as the clocks in Berlin have it.
        mails.publish({"report": "daily"}, cron="0 9 * * MON-FRI", tz="Europe/Berlin", alias="daily-report")

        for job in mails.jobs("scheduled"):
            print(f"{job.run_at:%Y-%m-%d %H:%M}  {job.alias}  {job.payload}")
        mails.cancel(Alias("cart-17"))
        mails.cancel(Alias("daily-report"))


if __name__ == "__main__":
    main()
