//! An answer as lmstfy's clients know it: JSON with its members in alphabetical order, and the id
//! of the request in a header.

use access::OngoingRequest;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use base::Problem;
use base::answers::DroppableAnswer;
use engine::queues::HandOver;
use net::hand_over;
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

const JSON: &str = "application/json; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is answered.
#[derive(Debug)]
pub(crate) struct LmstfyAnswer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    /// Whether what was asked for has changed anything.
    pub(crate) has_changed: bool,
    content_type: Option<&'static str>,
    more: Option<Box<(HeaderName, HeaderValue)>>,
    hand_over: Option<HandOver>,
    under_way: Option<OngoingRequest>,
}

impl LmstfyAnswer {
    fn new(status: StatusCode, content_type: Option<&'static str>, body: Bytes) -> Self {
        Self { status, body, has_changed: true, content_type, more: None, hand_over: None, under_way: None }
    }

    /// JSON that is written already.
    pub(crate) fn json(status: StatusCode, text: impl Into<Bytes>) -> Self {
        Self::new(status, Some(JSON), text.into())
    }

    /// JSON of `shape`.
    pub(crate) fn of(status: StatusCode, shape: &impl Serialize) -> Self {
        Self::json(
            status,
            serde_json::to_vec(shape).expect("a shape has text for keys and no infinite number"),
        )
    }

    /// JSON of `shape`, set out for people.
    pub(crate) fn indented(status: StatusCode, shape: &impl Serialize) -> Self {
        Self::json(status, set_out(shape))
    }

    /// `{"error": text}`
    pub(crate) fn error(status: StatusCode, text: &str) -> Self {
        Self::of(status, &ErrorBody { error: text })
    }

    /// 400 with the text.
    pub(crate) fn bad(text: &str) -> Self {
        Self::error(StatusCode::BAD_REQUEST, text)
    }

    /// `{"msg": text}`
    pub(crate) fn message(status: StatusCode, text: &str) -> Self {
        Self::of(status, &AnswerMessage { msg: text })
    }

    /// 204.
    pub(crate) fn nothing() -> Self {
        Self::new(StatusCode::NO_CONTENT, None, Bytes::new())
    }

    /// Text as it is.
    pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Self {
        Self::new(status, Some(TEXT), text.into())
    }

    /// Text of another type.
    pub(crate) fn text_of(content_type: &'static str, text: String) -> Self {
        Self::new(StatusCode::OK, Some(content_type), text.into())
    }

    /// The caller has to come again at `location`.
    pub(crate) fn elsewhere(status: StatusCode, location: HeaderValue) -> Self {
        let mut answer = Self::new(status, None, Bytes::new());
        answer.more = Some(Box::new((LOCATION, location)));
        answer
    }

    /// 401 of the admin API, which asks for a password.
    pub(crate) fn password_wanted() -> Self {
        let mut answer = Self::new(StatusCode::UNAUTHORIZED, None, Bytes::new());
        let challenge = HeaderValue::from_static("Basic realm=\"Authorization Required\"");
        answer.more = Some(Box::new((WWW_AUTHENTICATE, challenge)));
        answer
    }

    /// So many jobs were changed.
    pub(crate) fn having_changed(mut self, jobs: u64) -> Self {
        self.has_changed = jobs > 0;
        self
    }

    /// The hand-over is done when the answer has been written, and undone when it never is.
    pub(crate) fn handing_over(mut self, hand_over: HandOver) -> Self {
        self.hand_over = Some(hand_over);
        self
    }

    /// The request is under way until the answer has left.
    pub(crate) fn during(mut self, under_way: Option<OngoingRequest>) -> Self {
        self.under_way = under_way;
        self
    }

    pub(crate) fn into_response(self, request_id: Option<String>) -> Response {
        let droppable = self.hand_over.as_ref().map(|_| DroppableAnswer);
        let mut response = Response::new(match self.hand_over {
            None => Body::from(self.body),
            Some(hand_over) => hand_over::body(self.body, move || hand_over.done()),
        });
        droppable.map(|droppable| response.extensions_mut().insert(droppable));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if let Some(content_type) = self.content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        let id = request_id.and_then(|id| HeaderValue::from_maybe_shared(Bytes::from(id)).ok());
        headers.extend(id.map(|id| (REQUEST_ID, id)));
        headers.extend(self.more.map(|more| *more));
        match self.under_way {
            Some(under_way) => under_way.until_answered(response),
            None => response,
        }
    }
}

/// What the engine refuses. The real server knows no such refusals but those of what was asked, so
/// the status says whether it is worth asking again.
impl From<Problem> for LmstfyAnswer {
    fn from(problem: Problem) -> Self {
        let status = match problem.status {
            409 => StatusCode::TOO_MANY_REQUESTS,
            413 => StatusCode::PAYLOAD_TOO_LARGE,
            400..=499 => StatusCode::BAD_REQUEST,
            status => StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        };
        Self::of(status, &ProblemBody { error: &problem.detail, msg: &problem.detail })
    }
}

/// JSON with four blanks a level, as the real server sets it out.
pub(crate) fn set_out(shape: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
    shape.serialize(&mut serializer).expect("a shape has text for keys and no infinite number");
    text
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
}

#[derive(Serialize)]
struct AnswerMessage<'a> {
    msg: &'a str,
}

/// A client looks into one or the other.
#[derive(Serialize)]
struct ProblemBody<'a> {
    error: &'a str,
    msg: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_the_engine_say_whether_to_ask_again() {
        for (status, expect) in [(422, 400), (404, 400), (409, 429), (413, 413), (503, 503), (500, 500)] {
            let answer = LmstfyAnswer::from(Problem::new(status, "word", "a \"sentence\""));
            assert_eq!(answer.status.as_u16(), expect, "{status}");
            assert_eq!(answer.body, r#"{"error":"a \"sentence\"","msg":"a \"sentence\""}"#);
        }
    }

    #[test]
    fn what_is_set_out_for_people_has_four_blanks_a_level() {
        let shape = serde_json::json!({"tokens": {"a": "b"}});
        assert_eq!(set_out(&shape), b"{\n    \"tokens\": {\n        \"a\": \"b\"\n    }\n}");
        assert_eq!(set_out(&serde_json::json!({"tokens": {}})), b"{\n    \"tokens\": {}\n}");
    }
}
