//! Hundreds of campaigns that have a slot each minute: how late their devices have what is due.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use fieldpost_client::{CampaignId, CampaignPlan, Picks};
use simulator::commands::ResponseProfile;
use simulator::latency::Latency;

use super::report::Report;
use super::stage::Stage;
use super::{Failure, Sizes, machine};

const MINUTE: Duration = Duration::from_secs(60);
/// After the last minute, so that the last slots have ended.
const REST: Duration = Duration::from_secs(15);
const FLOOR: &str = "floor 1,000 ms, aim 200 ms";

/// What a wall clock said at a moment of the other clock.
struct Moment {
    wall: SystemTime,
    instant: Instant,
}

pub(super) async fn on_time(sizes: Sizes, report: &mut Report) -> Result<(), Failure> {
    let name = format!("campaigns_{}_a_minute_of_{}_{}live", sizes.campaigns, sizes.count, sizes.live);
    let stage = Stage::set(sizes.live, sizes.live, ResponseProfile::default()).await?;
    let now = Moment { wall: SystemTime::now(), instant: Instant::now() };
    let ids: Vec<_> = (0..sizes.campaigns).map(|number| CampaignId::new(format!("c{number}"))).collect();
    for id in &ids {
        let plan = CampaignPlan::every("ping", Picks::of(sizes.count), MINUTE)?;
        stage.client.campaigns().put(id, &plan).await?;
    }
    tokio::time::sleep(MINUTE * u32::try_from(sizes.minutes)?).await;
    for id in &ids {
        stage.client.campaigns().pause(id).await?;
    }
    tokio::time::sleep(REST).await;
    let (mut late, mut wanted, mut answered) = (Latency::default(), 0, 0);
    for id in &ids {
        let slots = slots(&stage, id).await?;
        wanted += slots.values().map(|(_, wanted)| u64::from(*wanted)).sum::<u64>();
        answered += measure(&stage, id, &slots, &now, &mut late).await?;
    }
    report.note(&format!("  {name}: {late}; {answered} of {wanted} wanted picks answered"))?;
    if answered < wanted {
        return Err(format!("only {answered} of {wanted} wanted picks were answered").into());
    }
    let p99 = machine::ms(late.percentile(99.0));
    report.figure(&format!("{name} due_to_received p99"), format!("{p99:.2} ms ({FLOOR})"));
    stage.clear().await
}

/// When each slot of a campaign was due, and how many devices it wanted.
async fn slots(stage: &Stage, id: &CampaignId) -> Result<BTreeMap<u64, (SystemTime, u32)>, Failure> {
    let (mut found, mut after) = (BTreeMap::new(), None);
    loop {
        let page = stage.client.campaigns().slots(id, after.as_ref()).await?;
        found.extend(page.items.iter().map(|slot| (slot.slot, (slot.due_at, slot.wanted))));
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// How long after its slot was due each device had its command; how many answered.
async fn measure(
    stage: &Stage,
    id: &CampaignId,
    slots: &BTreeMap<u64, (SystemTime, u32)>,
    now: &Moment,
    late: &mut Latency,
) -> Result<u64, Failure> {
    let (mut answered, mut after) = (0, None);
    loop {
        let page = stage.client.campaigns().results(id, after.as_ref(), Duration::ZERO).await?;
        for result in &page.items {
            let command = result.command_id.as_ref().ok_or("a result does not name its command")?;
            let slot = result.slot.and_then(|slot| slots.get(&slot)).ok_or("a result of no slot")?;
            let received = stage.ledger.received_at(command.as_str());
            let Some(received) = received else { continue };
            let wall = now.wall + received.saturating_duration_since(now.instant);
            late.record(wall.duration_since(slot.0).unwrap_or_default());
            answered += u64::from(result.answered_at.is_some());
        }
        if page.next.is_none() {
            return Ok(answered);
        }
        after = page.next;
    }
}
