"""Tasks, campaigns and the fleet of a server, for tasks of an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
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

    from .aio import AsyncClient

_PAGE = 500


class AsyncTasks:
    """The tasks of a server: some devices of many are asked once."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def begin(self, payload: Any, count: int, **terms: Unpack[NewTaskTerms]) -> Task:
        """Asks ``count`` devices; the same as :meth:`fieldpost.Tasks.begin` otherwise."""
        return await self._client._run(calls.begin_task(payload, count, terms))

    async def get(self, task: str) -> Task:
        """Looks at a task."""
        return await self._client._run(calls.task(task))

    def results(self, task: str) -> AsyncIterator[PickResult]:
        """What came of each device so far, in the order in which its picks ended."""
        return self._client._pages(lambda cursor: calls.task_results(task, _PAGE, cursor, None))

    async def follow(self, task: str) -> AsyncIterator[PickResult]:
        """What comes of each device, as it comes, until the task has ended."""
        following = Following(task, _PAGE)
        while not following.is_over:
            page = await self._client._run(following.look())
            for item in page.items:
                yield item
            if following.asks_for_task(page):
                following.found(await self.get(task))

    async def cancel(self, task: str) -> None:
        """Stops a task: what was not sent to a device yet is cancelled."""
        await self._client._run(calls.cancel_task(task))


class AsyncCampaigns:
    """The campaigns of a server: some devices of many are asked again and again."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def put(self, campaign: str, payload: Any, count: int, **terms: Unpack[CampaignTerms]) -> Campaign:
        """Creates a campaign under an id, or replaces it: the change is effective with its next slot."""
        return await self._client._run(calls.put_campaign(campaign, payload, count, terms))

    async def change(self, campaign: str, payload: Any = UNSET, **changes: Unpack[CampaignChanges]) -> Campaign:
        """Changes a campaign in what is named, with its next slot; ``None`` clears."""
        return await self._client._run(calls.change_campaign(campaign, payload, changes))

    async def get(self, campaign: str) -> Campaign:
        """Looks at a campaign."""
        return await self._client._run(calls.campaign(campaign))

    def list(self) -> AsyncIterator[Campaign]:
        """Campaigns, in order of id."""
        return self._client._pages(lambda cursor: calls.campaigns(_PAGE, cursor))

    def slots(self, campaign: str) -> AsyncIterator[CampaignSlot]:
        """The slots of a campaign, the newest first."""
        return self._client._pages(lambda cursor: calls.campaign_slots(campaign, _PAGE, cursor))

    def results(self, campaign: str, *, device: str | None = None) -> AsyncIterator[PickResult]:
        """What came of each device so far, in the order in which its picks ended."""
        return self._client._pages(lambda cursor: calls.campaign_results(campaign, device, _PAGE, cursor, None))

    async def coverage(self, campaign: str, period: Duration = "1h", *, by: str | None = None) -> Coverage:
        """How evenly the devices that it may pick now were picked over the last ``period``.

        With ``by``, a label or a built-in key, also those of each value.
        """
        return await self._client._run(calls.coverage(campaign, period, by))

    async def pause(self, campaign: str) -> None:
        """Begins no more slots until :meth:`resume`."""
        await self._client._run(calls.tell_campaign(campaign, "pause"))

    async def resume(self, campaign: str) -> None:
        """Goes on."""
        await self._client._run(calls.tell_campaign(campaign, "resume"))

    async def delete(self, campaign: str) -> None:
        """Removes a campaign with its slots and results."""
        await self._client._run(calls.delete_campaign(campaign))


class AsyncFleet:
    """All devices together: how many there are, and how fairly they are picked."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def count(
        self, *, selector: str | None = None, place: str | None = None, by: str | None = None
    ) -> FleetCount:
        """Counts the devices of a selection, and those of each value of ``by``."""
        return await self._client._run(calls.fleet_count(selector, place, by))

    def weights(self, *, selector: str | None = None, place: str | None = None) -> AsyncIterator[DeviceWeight]:
        """The weights of the devices of a selection, in order of id."""
        return self._client._pages(lambda cursor: calls.fleet_weights(selector, place, _PAGE, cursor))

    async def fairness(self) -> Fairness:
        """What the weights of all devices follow from."""
        return await self._client._run(calls.fairness())
