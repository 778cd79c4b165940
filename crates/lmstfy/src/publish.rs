//! Publishing: a job whose body is the request's, up to 64 whose bodies are the elements of a JSON
//! array, and a job once more.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::request::Parts;
use base::Problem;
use base::limits::{JOB_PAYLOAD_BYTES_MAX, JSON_BODY_BYTES_MAX};
use engine::queues::{Attributes, DueTime, JobPayload, NewJob, QueueName, id_text};
use net::body::{WholeBody, whole};
use net::shares::SenderKey;
use serde_json::value::RawValue;

use crate::answer::LmstfyAnswer;
use crate::query::Query;
use crate::{LmstfyState, attributes, dead};

/// How long a job is worth doing if nobody says so: a day.
pub(crate) const TTL_SECONDS: u64 = 24 * 60 * 60;
/// Time to live after its due time of a job whose `ttl` equals its `delay`. The real server counts
/// whole seconds and accepts such a job.
const TTL_OF_DELAY_SECONDS: u64 = 1;
/// Most jobs of a bulk.
const BULK_MAX: usize = 64;

/// What is said of a job beside its body.
struct PublishTerms {
    delay: Option<Duration>,
    ttl: Option<Duration>,
    tries: u32,
    attributes: Attributes,
}

impl PublishTerms {
    fn of(query: Query<'_>) -> Result<Self, LmstfyAnswer> {
        let most = u64::from(u32::MAX);
        let delay = query.number("delay", 0, most).ok_or_else(|| LmstfyAnswer::bad("invalid delay"))?;
        let ttl = query.number("ttl", TTL_SECONDS, most).ok_or_else(|| LmstfyAnswer::bad("invalid ttl"))?;
        if ttl > 0 && ttl < delay {
            return Err(LmstfyAnswer::bad("ttl is shorter than delay"));
        }
        let tries =
            query.number("tries", 1, u16::MAX.into()).ok_or_else(|| LmstfyAnswer::bad("invalid tries"))?;
        if tries == 0 {
            return Err(LmstfyAnswer::bad("tries shouldn't be zero"));
        }
        let ttl = if ttl > 0 && ttl == delay { ttl + TTL_OF_DELAY_SECONDS } else { ttl };
        let span = |seconds| (seconds > 0).then(|| Duration::from_secs(seconds));
        Ok(Self { delay: span(delay), ttl: span(ttl), tries: tries as u32, attributes: Attributes::new() })
    }

    fn job(&self, bytes: &[u8]) -> NewJob {
        NewJob {
            due: self.delay.map(DueTime::After),
            ttl: self.ttl,
            tries: self.tries,
            attributes: self.attributes.clone(),
            ..NewJob::new(JobPayload::Bytes(Arc::from(bytes)))
        }
    }
}

pub(crate) async fn one(
    shared: &LmstfyState,
    queue: &QueueName,
    query: Query<'_>,
    parts: &Parts,
    body: Body,
) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let mut terms = PublishTerms::of(query)?;
    let WholeBody { bytes, held: _held } = read(shared, parts, body, JOB_PAYLOAD_BYTES_MAX).await?;
    terms.attributes = attributes::of(&parts.headers)?;
    let jobs = vec![terms.job(&bytes)];
    drop(bytes);
    let ids = publish(shared, queue, jobs).await?;
    let mut text = Vec::with_capacity(64);
    text.extend_from_slice(b"{\"job_id\":");
    write_ids(&mut text, &ids);
    text.extend_from_slice(b",\"msg\":\"published\"}");
    Ok(LmstfyAnswer::json(StatusCode::CREATED, text))
}

/// The new job is there before the old one goes, so that nothing is lost between the two.
pub(crate) async fn again(
    shared: &LmstfyState,
    queue: &QueueName,
    id: &str,
    query: Query<'_>,
    parts: &Parts,
    body: Body,
) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let published = one(shared, queue, query, parts, body).await?;
    dead::delete_job(shared, queue, id).await?;
    Ok(published)
}

pub(crate) async fn many(
    shared: &LmstfyState,
    queue: &QueueName,
    query: Query<'_>,
    parts: &Parts,
    body: Body,
) -> Result<LmstfyAnswer, LmstfyAnswer> {
    let mut terms = PublishTerms::of(query)?;
    let WholeBody { bytes, held: _held } = read(shared, parts, body, JSON_BODY_BYTES_MAX).await?;
    let elements = elements(&bytes)?;
    terms.attributes = attributes::of(&parts.headers)?;
    let jobs = elements.into_iter().map(|element| terms.job(element.get().as_bytes())).collect();
    drop(bytes);
    let ids = publish(shared, queue, jobs).await?;
    let mut text = Vec::with_capacity(32 + ids.len() * 32);
    text.extend_from_slice(b"{\"job_ids\":[");
    write_ids(&mut text, &ids);
    text.extend_from_slice(b"],\"msg\":\"published\"}");
    Ok(LmstfyAnswer::json(StatusCode::CREATED, text))
}

/// The elements as they are written, which is what the jobs carry. `null` is an empty array.
fn elements(bytes: &[u8]) -> Result<Vec<&RawValue>, LmstfyAnswer> {
    let elements: Option<Vec<&RawValue>> = serde_json::from_slice(bytes)
        .map_err(|_not_json| LmstfyAnswer::bad("request body should be an array of objects"))?;
    let elements = elements.unwrap_or_default();
    if elements.is_empty() {
        return Err(LmstfyAnswer::bad("no jobs"));
    }
    if elements.len() > BULK_MAX {
        return Err(LmstfyAnswer::bad("too many jobs"));
    }
    if elements.iter().any(|element| element.get().len() > JOB_PAYLOAD_BYTES_MAX) {
        return Err(LmstfyAnswer::error(StatusCode::PAYLOAD_TOO_LARGE, "job too large"));
    }
    Ok(elements)
}

async fn read(
    shared: &LmstfyState,
    parts: &Parts,
    body: Body,
    bytes_max: usize,
) -> Result<WholeBody, LmstfyAnswer> {
    let sender = SenderKey::of(&parts.extensions);
    whole(body, bytes_max, &shared.memory, &sender).await.map_err(|problem| not_read(&problem))
}

/// A body that cannot be read now is good for another try: a program takes 400 as final.
fn not_read(problem: &Problem) -> LmstfyAnswer {
    match problem.status {
        413 => LmstfyAnswer::error(StatusCode::PAYLOAD_TOO_LARGE, "body too large"),
        503 => LmstfyAnswer::error(StatusCode::SERVICE_UNAVAILABLE, &problem.detail),
        _ => LmstfyAnswer::bad("failed to read body"),
    }
}

async fn publish(
    shared: &LmstfyState,
    queue: &QueueName,
    jobs: Vec<NewJob>,
) -> Result<Vec<String>, LmstfyAnswer> {
    let published = shared.queues.publish(queue, jobs, None).await?;
    shared.metrics.moved("published", published.len());
    Ok(published.iter().map(|job| id_text(job.id)).collect())
}

fn write_ids(text: &mut Vec<u8>, ids: &[String]) {
    for (place, id) in ids.iter().enumerate() {
        text.extend_from_slice(if place == 0 { b"\"" } else { b",\"" });
        text.extend_from_slice(id.as_bytes());
        text.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use net::memory_budget::{FREE_BYTES, MemoryBudget, Purpose, SENDER_BYTES};

    use super::*;

    fn said(answer: &LmstfyAnswer) -> (u16, String) {
        (answer.status.as_u16(), String::from_utf8_lossy(&answer.body).into_owned())
    }

    #[test]
    fn terms_are_checked_in_the_order_of_the_real_server() {
        for (query, expect) in [
            ("", Ok((0, 86_400, 1))),
            ("delay=5&ttl=0&tries=3&freeze_tries=true", Ok((5, 0, 3))),
            ("delay=5&ttl=5", Ok((5, 6, 1))),
            ("delay=86400", Ok((86_400, 86_401, 1))),
            ("delay=86401", Err("ttl is shorter than delay")),
            ("delay=x&ttl=x", Err("invalid delay")),
            ("ttl=x&tries=x", Err("invalid ttl")),
            ("delay=6&ttl=5&tries=x", Err("ttl is shorter than delay")),
            ("tries=65536", Err("invalid tries")),
            ("tries=0", Err("tries shouldn't be zero")),
            ("tries=", Err("invalid tries")),
        ] {
            let seconds = |span: Option<Duration>| span.map_or(0, |span| span.as_secs());
            let got = PublishTerms::of(Query::new(Some(query)))
                .map(|terms| (seconds(terms.delay), seconds(terms.ttl), terms.tries))
                .map_err(|answer| said(&answer));
            let expect = expect.map_err(|text| (400, format!("{{\"error\":\"{text}\"}}")));
            assert_eq!(got, expect, "{query}");
        }
    }

    #[tokio::test]
    async fn a_body_without_memory_is_for_another_time() {
        let memory = MemoryBudget::default().part(Purpose::Bodies);
        let read = |bytes: usize| {
            let memory = memory.clone();
            async move {
                let body = Body::from(vec![b' '; bytes]);
                let read = whole(body, JSON_BODY_BYTES_MAX, &memory, &SenderKey::Unknown).await;
                read.map(|read| read.bytes.len()).map_err(|problem| not_read(&problem).status.as_u16())
            }
        };
        tokio::time::pause();
        let all = memory.take(&SenderKey::Unknown, SENDER_BYTES).await;
        assert_eq!(read(FREE_BYTES + 1).await, Err(503));
        assert_eq!(read(JSON_BODY_BYTES_MAX + 1).await, Err(413));
        drop(all);
        assert_eq!(read(FREE_BYTES + 1).await, Ok(FREE_BYTES + 1));
        assert_eq!(said(&not_read(&Problem::unreadable("it broke off"))).0, 400);
    }

    #[test]
    fn a_bulk_is_an_array_of_a_few_jobs() {
        let large = |bytes: usize| format!("[1, \"{}\"]", "x".repeat(bytes - 2));
        let many = |count: usize| serde_json::json!(vec![1; count]).to_string();
        for (text, expect) in [
            (
                r#" [ {"a": 1} , "b",2.50,null ] "#.to_owned(),
                Ok(vec![r#"{"a": 1}"#, "\"b\"", "2.50", "null"]),
            ),
            (many(64), Ok(vec!["1"; 64])),
            (many(65), Err((400, "too many jobs"))),
            ("[]".to_owned(), Err((400, "no jobs"))),
            ("null".to_owned(), Err((400, "no jobs"))),
            ("{}".to_owned(), Err((400, "request body should be an array of objects"))),
            ("[1,]".to_owned(), Err((400, "request body should be an array of objects"))),
            (String::new(), Err((400, "request body should be an array of objects"))),
            (large(JOB_PAYLOAD_BYTES_MAX + 1), Err((413, "job too large"))),
        ] {
            let got = elements(text.as_bytes()).map_err(|answer| said(&answer));
            let got = got.map(|elements| elements.into_iter().map(RawValue::get).collect::<Vec<_>>());
            let expect = expect.map_err(|(status, text)| (status, format!("{{\"error\":\"{text}\"}}")));
            assert_eq!(got, expect, "{}", &text[..text.len().min(40)]);
        }
        assert_eq!(
            elements(large(JOB_PAYLOAD_BYTES_MAX).as_bytes()).map(|elements| elements.len()).ok(),
            Some(2)
        );
    }
}
