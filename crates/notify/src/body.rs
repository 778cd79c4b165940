//! A notification's body: the JSON that a client receives.
//!
//! Written by hand, because the order of its keys is part of the contract and device values are
//! already JSON text. The engine calls [`render`] once for each notification and keeps the bytes,
//! so that every attempt sends the same.

mod messages;

use std::fmt::Write as _;

use base::{Timestamp, Value};
use engine::campaigns::{TASK_ID_PREFIX, TrackedTask};
use engine::commands::COMMAND_ID_PREFIX;
use engine::outcomes::OutcomeDue;
use engine::records::{EventKind, NOTICE_ID_PREFIX, Notice, PickCause, PickCounts};
use engine::settings::NotificationView;

pub(crate) use messages::messages;

/// Room for the body of a lock with a short address, so that most bodies are written without
/// growing.
const TYPICAL_BYTES: usize = 448;

/// The body that shows `view`.
#[must_use]
pub fn render(view: &NotificationView<'_>) -> Vec<u8> {
    let mut out = String::with_capacity(TYPICAL_BYTES);
    let kind = view.kind.as_str();
    put(&mut out, format_args!(r#"{{"type":"{kind}","timestamp":"{}","data":{{"#, view.timestamp));
    put(&mut out, format_args!(r#""device_id":"{}","kind":"{}""#, view.device, view.device_kind));
    out.push_str(r#","address":"#);
    text_or_null(&mut out, view.address);
    out.push_str(r#","value":"#);
    value_or_null(&mut out, view.value);
    out.push_str(r#","previous":"#);
    value_or_null(&mut out, view.previous);
    put(&mut out, format_args!(r#","connection":"{}","changed_at":"#, view.connection.as_str()));
    time_or_null(&mut out, view.changed_at);
    out.push_str(r#","last_seen_at":"#);
    time_or_null(&mut out, view.last_seen_at);
    put(&mut out, format_args!(r#","sequence":{},"types":"#, view.sequence));
    kinds(&mut out, view.types);
    put(&mut out, format_args!(r#","skipped":{}}}}}"#, view.skipped));
    out.into_bytes()
}

/// The body of a test: of the form of a notification, without a device.
pub(crate) fn test(client: &str, at: Timestamp) -> Vec<u8> {
    format!(r#"{{"type":"client.test","timestamp":"{at}","data":{{"client_id":"{client}"}}}}"#).into_bytes()
}

/// What tells how a command ended, or that it was answered after the end. Of one that a campaign
/// gave, what came of its pick.
pub(crate) fn outcome(due: &OutcomeDue) -> String {
    if let Some(turn) = due.command.cause.pick()
        && let Some((campaign, slot)) = &turn.slot
    {
        return campaign_result(due, turn, (campaign, slot.number));
    }
    let OutcomeDue { command, state, is_late, .. } = due;
    let mut out = String::with_capacity(TYPICAL_BYTES);
    let kind = if *is_late { "command.late" } else { "command.finished" };
    let id = command.id.to_text(COMMAND_ID_PREFIX);
    put(
        &mut out,
        format_args!(r#"{{"type":"{kind}","id":"{id}","device_id":"{}","origin":"#, command.device),
    );
    text_or_null(&mut out, command.origin.as_deref());
    put(&mut out, format_args!(r#","status":"{}","tries":{}"#, state.status.as_str(), state.tries));
    let late = state.late.as_ref().filter(|_| *is_late);
    if let Some(late) = late {
        put(&mut out, format_args!(r#","ok":{}"#, late.ok));
    }
    let result = late.map_or(state.result.as_deref(), |late| late.result.as_deref());
    put(&mut out, format_args!(r#","result":{}}}"#, result.unwrap_or("null")));
    out
}

/// What tells of a pick of a campaign's slot.
fn campaign_result(due: &OutcomeDue, turn: &PickCause, (campaign, slot): (&str, u64)) -> String {
    let (command, state, outcome) = (&due.command, &due.state, due.pick_outcome());
    let mut out = String::with_capacity(TYPICAL_BYTES);
    let id = command.id.to_text(COMMAND_ID_PREFIX);
    put(
        &mut out,
        format_args!(r#"{{"type":"campaign.result","id":"{id}","data":{{"campaign_id":"{campaign}""#),
    );
    let (device, picked_at) = (&command.device, turn.picked_at);
    put(
        &mut out,
        format_args!(r#","slot":{slot},"device_id":"{device}","picked_at":"{picked_at}","answered_at":"#),
    );
    time_or_null(&mut out, state.finished_at.filter(|_| state.was_answered()));
    out.push_str(r#","ended_at":"#);
    time_or_null(&mut out, state.finished_at);
    let result = state.result.as_deref().unwrap_or("null");
    put(&mut out, format_args!(r#","outcome":"{}","result":{result}"#, outcome.as_str()));
    if let Some(reason) = outcome.reason() {
        put(&mut out, format_args!(r#","reason":"{reason}""#));
    }
    out.push_str("}}");
    out
}

/// What tells that a task has ended.
pub(crate) fn task_end(tracked: &TrackedTask) -> String {
    let (id, state) = (tracked.task.id.to_text(TASK_ID_PREFIX), &tracked.state);
    let PickCounts { picked, answered, failed, expired, replaced } = state.counts;
    let (status, wanted) = (state.standing.as_str(), tracked.task.wanted);
    format!(
        r#"{{"type":"task.done","id":"{id}","data":{{"id":"{id}","status":"{status}","wanted":{wanted},"picked":{picked},"answered":{answered},"failed":{failed},"expired":{expired},"replaced":{replaced}}}}}"#
    )
}

/// What tells of a notice.
pub(crate) fn notice(notice: &Notice) -> String {
    let mut out = String::with_capacity(TYPICAL_BYTES);
    let (id, at, kind) = (notice.id.to_text(NOTICE_ID_PREFIX), notice.id.at, notice.kind.as_str());
    put(
        &mut out,
        format_args!(r#"{{"type":"notice","notice":{{"id":"{id}","at":"{at}","type":"{kind}","subject":"#),
    );
    text_or_null(&mut out, Some(&notice.subject));
    put(&mut out, format_args!(r#","detail":{}}}}}"#, notice.detail));
    out
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String fails only where a Display does, and these do not");
}

/// The only text of a view that may need escapes: what a person wrote.
fn text_or_null(out: &mut String, text: Option<&str>) {
    match text {
        Some(text) => put(out, format_args!("{}", serde_json::Value::from(text))),
        None => out.push_str("null"),
    }
}

fn value_or_null(out: &mut String, value: Option<&Value>) {
    match value {
        Some(value) => value.write_json(out),
        None => out.push_str("null"),
    }
}

fn time_or_null(out: &mut String, time: Option<Timestamp>) {
    match time {
        Some(time) => put(out, format_args!("\"{time}\"")),
        None => out.push_str("null"),
    }
}

fn kinds(out: &mut String, kinds: &[EventKind]) {
    out.push('[');
    for (at, kind) in kinds.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        put(out, format_args!(r#"{comma}"{}""#, kind.as_str()));
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use base::{DeviceId, EntityId, Incarnation, Kind, Lineage, PartitionId};
    use engine::records::{
        CampaignSlot, Command, CommandCause, CommandState, CommandStatus, CommandTerms, Connection,
        DeviceSlot, JobId, Reservation,
    };
    use engine::streams::OwnedExternalId;

    use super::*;

    /// A lock of which nothing is known.
    fn lock() -> NotificationView<'static> {
        static DEVICE: LazyLock<DeviceId> = LazyLock::new(|| DeviceId::new("0xA").expect("an id"));
        static KIND: LazyLock<Kind> = LazyLock::new(Kind::lock);
        NotificationView {
            delivery: EntityId::derive(Lineage(1), 2, Incarnation(3), Timestamp(4), 5, &[]),
            kind: EventKind::Lost,
            timestamp: Timestamp(1_795_222_923_456),
            device: &DEVICE,
            device_kind: &KIND,
            address: None,
            value: None,
            previous: None,
            connection: Connection::Lost,
            changed_at: None,
            last_seen_at: None,
            sequence: 7,
            types: &[EventKind::Lost],
            skipped: 0,
        }
    }

    /// The outcome of the command of a pick in this state.
    fn picked(state: CommandState, went_away: bool) -> OutcomeDue {
        let due_at = Timestamp(1_795_222_920_000);
        let slot = CampaignSlot { campaign: Incarnation(3), number: 5_984_076, due_at };
        let turn = PickCause {
            task: Incarnation(4),
            number: 0,
            picked_at: due_at,
            slot: Some(("ping".into(), slot)),
        };
        let command = Command {
            id: lock().delivery,
            slot: DeviceSlot(0),
            device: DeviceId::new("0xA").expect("an id"),
            payload: Arc::from(*b"{}"),
            origin: None,
            key: None,
            terms: CommandTerms {
                priority: 0,
                not_before: None,
                ttl_ms: None,
                ack_timeout_ms: 10_000,
                run_timeout_ms: 10_000,
                attempts_max: 1,
            },
            cause: CommandCause::Pick(Box::new(turn)),
            notify: None,
        };
        let reservation = Reservation { job: JobId([0; 16]), lease: 1 };
        let (partition, command) = (PartitionId(0), Arc::new(command));
        OutcomeDue { partition, reservation, command, state, is_late: false, went_away }
    }

    #[test]
    fn a_result_of_a_campaign_says_what_came_of_the_pick() {
        let at = Some(Timestamp(1_795_222_923_456));
        let state = |status, published_at, result: Option<&str>| CommandState {
            status,
            published_at,
            finished_at: at,
            result: result.map(Box::from),
            ..CommandState::WAITING
        };
        use CommandStatus::{Acknowledged, Cancelled, Failed};
        let ended = r#""ended_at":"2026-11-21T01:02:03.456Z","outcome":"#;
        let answered = format!(r#""answered_at":"2026-11-21T01:02:03.456Z",{ended}"#);
        let silent = format!(r#""answered_at":null,{ended}"expired","result":null,"reason":"#);
        for (state, went_away, expect) in [
            (state(Acknowledged, at, Some("7")), false, format!(r#"{answered}"answered","result":7"#)),
            (
                state(Failed, at, Some("null")),
                false,
                format!(r#"{answered}"failed","result":null,"reason":"refused""#),
            ),
            (state(Failed, at, None), false, format!(r#"{silent}"no_answer""#)),
            (state(Cancelled, None, None), false, format!(r#"{silent}"not_sent""#)),
            (state(Cancelled, None, None), true, format!(r#"{silent}"went_away""#)),
        ] {
            let due = picked(state, went_away);
            let id = due.command.id.to_text(COMMAND_ID_PREFIX);
            let begin = format!(
                r#"{{"type":"campaign.result","id":"{id}","data":{{"campaign_id":"ping","slot":5984076,"#
            );
            let of = r#""device_id":"0xA","picked_at":"2026-11-21T01:02:00.000Z","#;
            let body = outcome(&due);
            assert_eq!(body, format!("{begin}{of}{expect}}}}}"));
            serde_json::from_str::<serde_json::Value>(&body).expect("JSON");
        }
    }

    #[test]
    fn a_result_of_a_campaign_is_called_by_its_command() {
        let due = picked(CommandState::WAITING, false);
        let id = OwnedExternalId::Text(due.command.id.to_text(COMMAND_ID_PREFIX).into());
        assert_eq!(due.origin(), ("campaign.ping".into(), id));
    }

    fn check(view: &NotificationView<'_>, expect: &str) {
        let body = String::from_utf8(render(view)).expect("UTF-8");
        assert_eq!(body, expect);
        serde_json::from_str::<serde_json::Value>(&body).expect("JSON");
    }

    #[test]
    fn a_complete_picture_has_the_keys_of_the_contract_in_its_order() {
        let (one, zero) = (Value::number(1.0).expect("finite"), Value::number(0.0).expect("finite"));
        let view = NotificationView {
            kind: EventKind::Changed,
            address: Some("Moscow, Arbat 1"),
            value: Some(&one),
            previous: Some(&zero),
            connection: Connection::Online,
            changed_at: Some(Timestamp(1_795_222_923_000)),
            last_seen_at: Some(Timestamp(1_795_222_923_455)),
            types: &[EventKind::Lost, EventKind::Restored, EventKind::Changed],
            skipped: 2,
            ..lock()
        };
        check(
            &view,
            concat!(
                r#"{"type":"device.changed","timestamp":"2026-11-21T01:02:03.456Z","data":{"device_id":"0xA","#,
                r#""kind":"lock","address":"Moscow, Arbat 1","value":1,"previous":0,"connection":"online","#,
                r#""changed_at":"2026-11-21T01:02:03.000Z","last_seen_at":"2026-11-21T01:02:03.455Z","#,
                r#""sequence":7,"types":["device.lost","device.restored","device.changed"],"skipped":2}}"#,
            ),
        );
    }

    #[test]
    fn what_is_not_known_is_null() {
        check(
            &lock(),
            concat!(
                r#"{"type":"device.lost","timestamp":"2026-11-21T01:02:03.456Z","data":{"device_id":"0xA","#,
                r#""kind":"lock","address":null,"value":null,"previous":null,"connection":"lost","#,
                r#""changed_at":null,"last_seen_at":null,"sequence":7,"types":["device.lost"],"skipped":0}}"#,
            ),
        );
    }

    #[test]
    fn values_are_embedded_and_addresses_escaped() {
        let value = Value::from_canonical(r#"{"open":true,"why":"\u0001\""}"#);
        let view = NotificationView {
            kind: EventKind::Restored,
            address: Some("\"Haus\" \\ 1\n\u{1}ä"),
            value: Some(&value),
            previous: Some(&value),
            connection: Connection::NeverSeen,
            sequence: u64::MAX,
            types: &[],
            ..lock()
        };
        check(
            &view,
            concat!(
                r#"{"type":"device.restored","timestamp":"2026-11-21T01:02:03.456Z","data":{"device_id":"0xA","#,
                r#""kind":"lock","address":"\"Haus\" \\ 1\n\u0001ä","value":{"open":true,"why":"\u0001\""},"#,
                r#""previous":{"open":true,"why":"\u0001\""},"connection":"never_seen","changed_at":null,"#,
                r#""last_seen_at":null,"sequence":18446744073709551615,"types":[],"skipped":0}}"#,
            ),
        );
    }
}
