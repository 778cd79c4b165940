"""Tasks, campaigns and the fleet of a server, for threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import calls
from .following import Following
from .model import UNSET
from .picks import (
    Campaign,
    CampaignChanges,
    CampaignSlot,
    CampaignTerms,
    Coverage,
    DeviceWeight,
    Fairness,
    FleetCount,
    NewTaskTerms,
    PickResult,
    Task,
)
from .times import Duration

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .client import Client

_PAGE = 500


class Tasks:
    """The tasks of a server: some devices of many are asked once."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def begin(self, payload: Any, count: int, **terms: Unpack[NewTaskTerms]) -> Task:
        """Asks ``count`` devices; the task is durable with its picks when this returns, and goes on by itself.

        With ``wait``, up to five minutes, it is the task once it has ended, with its results, or as it is then. The
        call carries an idempotency key of its own, so that a lost connection makes no second task.
        """
        return self._client._run(calls.begin_task(payload, count, terms))

    def get(self, task: str) -> Task:
        """Looks at a task."""
        return self._client._run(calls.task(task))

    def results(self, task: str) -> Iterator[PickResult]:
        """What came of each device so far, in the order in which its picks ended."""
        return self._client._pages(lambda cursor: calls.task_results(task, _PAGE, cursor, None))

    def follow(self, task: str) -> Iterator[PickResult]:
        """What comes of each device, as it comes, until the task has ended."""
        following = Following(task, _PAGE)
        while not following.is_over:
            page = self._client._run(following.look())
            yield from page.items
            if following.asks_for_task(page):
                following.found(self.get(task))

    def cancel(self, task: str) -> None:
        """Stops a task: what was not sent to a device yet is cancelled."""
        self._client._run(calls.cancel_task(task))


class Campaigns:
    """The campaigns of a server: some devices of many are asked again and again."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def put(self, campaign: str, payload: Any, count: int, **terms: Unpack[CampaignTerms]) -> Campaign:
        """Creates a campaign under an id, or replaces it: the change is effective with its next slot."""
        return self._client._run(calls.put_campaign(campaign, payload, count, terms))

    def change(self, campaign: str, payload: Any = UNSET, **changes: Unpack[CampaignChanges]) -> Campaign:
        """Changes a campaign in what is named, with its next slot; ``None`` clears."""
        return self._client._run(calls.change_campaign(campaign, payload, changes))

    def get(self, campaign: str) -> Campaign:
        """Looks at a campaign."""
        return self._client._run(calls.campaign(campaign))

    def list(self) -> Iterator[Campaign]:
        """Campaigns, in order of id."""
        return self._client._pages(lambda cursor: calls.campaigns(_PAGE, cursor))

    def slots(self, campaign: str) -> Iterator[CampaignSlot]:
        """The slots of a campaign, the newest first."""
        return self._client._pages(lambda cursor: calls.campaign_slots(campaign, _PAGE, cursor))

    def results(self, campaign: str, *, device: str | None = None) -> Iterator[PickResult]:
        """What came of each device so far, in the order in which its picks ended."""
        return self._client._pages(lambda cursor: calls.campaign_results(campaign, device, _PAGE, cursor, None))

    def coverage(self, campaign: str, period: Duration = "1h", *, by: str | None = None) -> Coverage:
        """How evenly the devices that it may pick now were picked over the last ``period``.

        With ``by``, a label or a built-in key, also those of each value.
        """
        return self._client._run(calls.coverage(campaign, period, by))

    def pause(self, campaign: str) -> None:
        """Begins no more slots until :meth:`resume`."""
        self._client._run(calls.tell_campaign(campaign, "pause"))

    def resume(self, campaign: str) -> None:
        """Goes on."""
        self._client._run(calls.tell_campaign(campaign, "resume"))

    def delete(self, campaign: str) -> None:
        """Removes a campaign with its slots and results."""
        self._client._run(calls.delete_campaign(campaign))


class Fleet:
    """All devices together: how many there are, and how fairly they are picked."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def count(
        self, *, selector: str | None = None, place: str | None = None, by: str | None = None
    ) -> FleetCount:
        """Counts the devices of a selection, and those of each value of ``by``."""
        return self._client._run(calls.fleet_count(selector, place, by))

    def weights(self, *, selector: str | None = None, place: str | None = None) -> Iterator[DeviceWeight]:
        """The weights of the devices of a selection, in order of id."""
        return self._client._pages(lambda cursor: calls.fleet_weights(selector, place, _PAGE, cursor))

    def fairness(self) -> Fairness:
        """What the weights of all devices follow from."""
        return self._client._run(calls.fairness())
