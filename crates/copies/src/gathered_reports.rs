//! Brings what partitions of devices have gathered to the streams of copies of kind `reports`: a
//! task for each partition.
//!
//! Rows are taken in order and deleted once the stream has their reports durably. A message is
//! called by the partition and the number of its report, so what is appended again after a crash is
//! a duplicate.

use std::collections::HashMap;
use std::time::Duration;

use base::{Incarnation, PartitionId, Problem, Timestamp};
use engine::Engine;
use engine::gathering::{Gathering, GatheringList};
use engine::records::{GatheredReport, GatheredReports};
use engine::streams::{AppendTerms, MessagePayload, NewMessage, OwnedExternalId};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::task::spawn_blocking;

/// Reports that are appended together; with the row that ends it, one call takes them.
const REPORTS_AT_ONCE: usize = 500;
/// After how long a stream is asked again that did not take reports.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// A report as its stream has it, and as a node takes it.
#[derive(Serialize)]
struct ReportShape<'a> {
    device_id: &'a str,
    data: &'a RawValue,
    ts: String,
}

/// How far the reports of a copy are brought.
#[derive(Default)]
struct BroughtPlace {
    /// Where its rows begin, or before.
    from: u64,
    /// Its stream did not take them, and is left alone until then.
    try_again_at: Option<Timestamp>,
}

/// Brings reports of one partition to their streams, for ever.
pub(crate) async fn bring_gathered(engine: Engine, partition: PartitionId) {
    let mut copies = engine.gatherings();
    let mut list: GatheringList = copies.borrow_and_update().clone();
    let mut has_forgotten = false;
    let mut places: HashMap<Incarnation, BroughtPlace> = HashMap::new();
    loop {
        if !has_forgotten {
            // What was gathered for copies that are gone by now is nobody's.
            let forgotten = engine.forget_gathered(partition).await;
            if let Err(problem) = &forgotten {
                tracing::debug!(%partition, %problem, "reports of copies that are gone are still there");
            }
            has_forgotten = forgotten.is_ok();
        }
        let mut is_more = false;
        for gathering in list.iter() {
            let place = places.entry(gathering.gather).or_default();
            // A stream that takes nothing holds up no other copy's reports, until too many wait. It
            // is not asked with each report that comes.
            if place.try_again_at.is_some_and(|at| engine.clock().now() < at) {
                continue;
            }
            place.try_again_at = None;
            match bring_some(&engine, partition, gathering, &mut place.from).await {
                Ok(more) => is_more |= more,
                Err(problem) => {
                    tracing::debug!(%partition, %problem, "gathered reports wait for their stream");
                    place.try_again_at = Some(engine.clock().now().after(TRY_AGAIN_AFTER));
                }
            }
        }
        let forgets_at = (!has_forgotten).then(|| engine.clock().now().after(TRY_AGAIN_AFTER));
        let next_try = places.values().filter_map(|place| place.try_again_at).chain(forgets_at).min();
        let is_late = async {
            match next_try {
                None => std::future::pending().await,
                Some(at) => engine.until(at).await,
            }
        };
        tokio::select! {
            () = std::future::ready(()), if is_more => {}
            () = engine.gathered_more(partition), if !list.is_empty() => {}
            () = is_late => {}
            changed = copies.changed() => {
                if changed.is_err() {
                    return;
                }
                (list, has_forgotten) = (copies.borrow_and_update().clone(), false);
                places.retain(|gather, _| list.iter().any(|gathering| gathering.gather == *gather));
            }
        }
    }
}

/// Brings the next reports of one copy, whose rows begin at number `from` or behind it. Whether
/// there may be more: other copies have their turn first.
async fn bring_some(
    engine: &Engine,
    partition: PartitionId,
    gathering: &Gathering,
    from: &mut u64,
) -> Result<bool, Problem> {
    let (of, place) = (engine.clone(), (gathering.gather, *from));
    let read = spawn_blocking(move || of.gathered(partition, place, REPORTS_AT_ONCE)).await;
    let rows = read.map_err(|_| Problem::unavailable("the server is not accepting now"))??;
    let messages: Vec<NewMessage> =
        rows.iter().flat_map(|row| messages_of(partition, gathering, row)).collect();
    let Some(next) = rows.last().map(GatheredReports::next).filter(|_| !messages.is_empty()) else {
        return Ok(false);
    };
    // An append would make the stream of a copy that was deleted with it.
    if !engine.gatherings().borrow().contains(gathering) {
        return Ok(false);
    }
    let terms = AppendTerms { is_durable: true, is_gathered: true, ..AppendTerms::default() };
    engine.streams().append_transfer(&gathering.key.stream, messages, terms, None).await?;
    engine.gathered_taken(partition, gathering.gather, next).await?;
    *from = next;
    Ok(true)
}

/// The messages that the reports of a row become.
pub fn messages_of<'a>(
    partition: PartitionId,
    gathering: &'a Gathering,
    row: &'a GatheredReports,
) -> impl Iterator<Item = NewMessage> + 'a {
    let source = format!("{:016x}.{:x}.{}", row.lineage.0, row.gather.0, partition.0);
    (row.first..).zip(&row.reports).filter_map(move |(number, report)| {
        let payload = payload_of(report, row)?;
        Some(NewMessage {
            source: Some(source.as_str().into()),
            external_id: Some(OwnedExternalId::Number(number)),
            segment: Some(gathering.key.copy.clone()),
            ts: Some(report.ts.unwrap_or(row.received_at)),
            ..NewMessage::new(payload)
        })
    })
}

/// The report with its time: its own, or that of its receipt.
fn payload_of(report: &GatheredReport, row: &GatheredReports) -> Option<MessagePayload> {
    let data = RawValue::from_string(report.value.to_json()).ok()?;
    let ts = report.ts.unwrap_or(row.received_at).to_string();
    let shape = ReportShape { device_id: report.device.as_str(), data: &data, ts };
    Some(MessagePayload::Json(serde_json::to_vec(&shape).ok()?.into()))
}

#[cfg(test)]
mod tests {
    use base::{DeviceId, Lineage, Value};
    use engine::streams::{CopyKey, StreamName};

    use super::*;

    #[test]
    fn a_report_is_a_message_with_its_number_and_its_time() {
        let key = CopyKey { stream: StreamName::new("edge", "reports").expect("a name"), copy: "dc1".into() };
        let gathering = Gathering { gather: Incarnation(0x1f), key, selection: None };
        let report = |ts, value| GatheredReport { device: DeviceId::new("0xA").expect("an id"), ts, value };
        let value = Value::from_canonical("{\"door\":\"open\"}");
        let row = GatheredReports {
            gather: gathering.gather,
            first: 7,
            lineage: Lineage(0xab),
            received_at: Timestamp(1_795_000_000_000),
            reports: vec![
                report(None, value),
                report(Some(Timestamp(1_795_000_000_000 - 1_000)), Value::Number(21.5)),
            ],
        };
        let messages: Vec<_> = messages_of(PartitionId(3), &gathering, &row).collect();
        let texts: Vec<_> =
            messages.iter().map(|message| String::from_utf8_lossy(message.payload.as_bytes())).collect();
        assert_eq!(
            texts,
            [
                "{\"device_id\":\"0xA\",\"data\":{\"door\":\"open\"},\"ts\":\"2026-11-18T11:06:40.000Z\"}",
                "{\"device_id\":\"0xA\",\"data\":21.5,\"ts\":\"2026-11-18T11:06:39.000Z\"}",
            ]
        );
        let names = messages.iter().map(|message| (message.source.as_deref(), message.external_id.clone()));
        let name = |number| (Some("00000000000000ab.1f.3"), Some(OwnedExternalId::Number(number)));
        assert!(names.eq([name(7), name(8)]));
        assert!(messages.iter().all(|message| message.segment.as_deref() == Some("dc1")));
    }
}
