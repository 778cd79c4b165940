//! A message to be appended, from the protocol's form. What a message may be in the end, the engine
//! decides.

use base::Problem;
use engine::queues::JobPayload;
use engine::streams::{MessagePayload, NewMessage, OwnedExternalId};

use crate::payload::{read_data, read_json};
use crate::proto::NewStreamMessage;
use crate::proto::new_stream_message::{ExternalId, Payload as Given};
use crate::time::read_moment;

/// The message at this place of its batch, from 1 on.
pub(super) fn read(place: usize, message: NewStreamMessage) -> Result<NewMessage, Problem> {
    let of_message = |problem: Problem| {
        Problem::new(problem.status, problem.code, format!("message {place}: {}", problem.detail))
    };
    read_one(message).map_err(of_message)
}

fn read_one(message: NewStreamMessage) -> Result<NewMessage, Problem> {
    let text = |text: String| (!text.is_empty()).then(|| text.into_boxed_str());
    let payload = match message.payload {
        Some(Given::Json(json)) => carried(read_json(&json)?),
        Some(Given::Data(data)) => carried(read_data(&data)?),
        None => return Err(Problem::not_allowed("missing_field", "json or data has to be there")),
    };
    let external_id = message.external_id.map(|id| match id {
        ExternalId::Number(number) => OwnedExternalId::Number(number),
        ExternalId::Text(text) => OwnedExternalId::from_text(&text),
    });
    let headers = message.headers.into_iter();
    Ok(NewMessage {
        payload,
        source: text(message.source),
        external_id,
        segment: text(message.segment),
        ts: message.ts.as_ref().map(|ts| read_moment("ts", ts)).transpose()?,
        headers: headers.map(|(name, value)| (name.into_boxed_str(), value.into_boxed_str())).collect(),
    })
}

fn carried(payload: JobPayload) -> MessagePayload {
    match payload {
        JobPayload::Json(text) => MessagePayload::Json(Box::from(text.as_bytes())),
        JobPayload::Bytes(bytes) => MessagePayload::Bytes(Box::from(&*bytes)),
    }
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_sent() {
        let given = NewStreamMessage {
            payload: Some(Given::Json(b"{\"a\": 1}".to_vec().into())),
            source: "till-4".to_owned(),
            external_id: Some(ExternalId::Text("17".to_owned())),
            segment: "eu".to_owned(),
            ts: Some(prost_types::Timestamp { seconds: 1, nanos: 500_000_000 }),
            headers: [("k".to_owned(), "v".to_owned())].into(),
        };
        let expect = NewMessage {
            payload: MessagePayload::Json((*b"{\"a\":1}").into()),
            source: Some("till-4".into()),
            external_id: Some(OwnedExternalId::Number(17)),
            segment: Some("eu".into()),
            ts: Some(Timestamp(1_500)),
            headers: vec![("k".into(), "v".into())],
        };
        assert_eq!(read(1, given), Ok(expect));
        let plain = NewStreamMessage {
            payload: Some(Given::Data(vec![0, 255].into())),
            ..NewStreamMessage::default()
        };
        assert_eq!(read(1, plain), Ok(NewMessage::new(MessagePayload::Bytes([0, 255].into()))));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let json = |text: &str| Some(Given::Json(text.as_bytes().to_vec().into()));
        let late = prost_types::Timestamp { seconds: i64::MAX, nanos: 0 };
        for (payload, ts, code) in [
            (None, None, "missing_field"),
            (json("{"), None, "unreadable"),
            (json("1"), Some(late), "invalid_time"),
        ] {
            let message = NewStreamMessage { payload, ts, ..NewStreamMessage::default() };
            let problem = read(3, message).expect_err(code);
            assert_eq!(problem.code, code);
            assert!(problem.detail.starts_with("message 3: "), "{problem}");
        }
    }
}
