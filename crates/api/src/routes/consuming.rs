//! Consuming: taking jobs, and telling what became of them.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use base::Problem;
use base::answers::DroppableAnswer;
use base::limits::{CONSUME_WAIT_MAX, JOBS_PER_CALL_MAX, TTR_DEFAULT};
use compact_str::CompactString;
use engine::queues::{ConsumeTerms, Consumed, HandOver, JobRelease, QueueName, ReservationToken};
use engine::records::{JobId, WorkerControl};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use net::hand_over;
use net::problem::{Refused, quoted};
use tokio::select;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::compression::InOnePiece;
use crate::fields::{ObjectFields, count_naming_most, duration, or_nothing, string, strings};
use crate::openapi::refusals::{OF_A_QUEUE, OF_A_RESERVATION, UNKNOWN_JOB};
use crate::openapi::{Call, words};
use crate::path::{JobInPath, QueueInPath, QueuesInPath};
use crate::shape::{AckedShape, ConsumedShape};

pub(super) fn routes() -> Routes {
    let consumed = Call::new("Takes jobs of queues, of the first ones first, and waits for the first job")
        .may_take(words::body(&[
            ("max?", words::whole(1, JOBS_PER_CALL_MAX as u64)),
            ("ttr?", words::duration()),
            ("wait?", words::duration()),
        ]))
        .gives::<ConsumedShape<'_>>(200, "the jobs; none when nothing came in time")
        .refuses(OF_A_QUEUE)
        .refuses(&[
            (422, "invalid_duration"),
            (422, "invalid_number"),
            (422, "invalid_ttr"),
            (422, "too_many_jobs"),
            (422, "too_many_queues"),
        ]);
    let acked = Call::new("Jobs are done")
        .takes(words::body(&[("reservations", words::reservations())]))
        .gives::<AckedShape<'_>>(200, "how many, and which reservations do not hold")
        .refuses(OF_A_QUEUE)
        .refuses(&[(422, "missing_field"), (422, "too_many_jobs")]);
    let one_acked = of_one("A job is done", &[]).gives_nothing(204, "it is gone");
    let extended = of_one("Has a reservation end so long from now", &[("ttr", words::duration())])
        .gives_nothing(204, "it holds until then")
        .refuses(&[(422, "invalid_duration"), (422, "invalid_ttr")]);
    let members = [("delay?", words::duration()), ("error?", words::any_text())];
    let released = of_one("Gives a job back, to be tried again; its last try makes it dead", &members)
        .gives_nothing(204, "it waits, or is dead")
        .refuses(&[(422, "invalid_duration")]);
    Routes::default()
        .post("/v1/queues/{ns}/{queue}/consume", Consume, consumed)
        .post("/v1/queues/{ns}/{queue}/ack", ack, acked)
        .post("/v1/queues/{ns}/{queue}/jobs/{id}/ack", ack_one, one_acked)
        .post("/v1/queues/{ns}/{queue}/jobs/{id}/extend", extend, extended)
        .post("/v1/queues/{ns}/{queue}/jobs/{id}/release", release, released)
}

/// A call about the job in the path, by whoever holds it.
fn of_one(summary: &'static str, members: &[(&str, utoipa::openapi::Schema)]) -> Call {
    let members = [&[("reservation", words::reservation())], members].concat();
    Call::new(summary)
        .takes(words::body(&members))
        .refuses(OF_A_QUEUE)
        .refuses(OF_A_RESERVATION)
        .refuses(&[UNKNOWN_JOB])
}

/// Consuming, as a handler of its own. What reads the request is in a box that is gone when the
/// consumer waits. So a waiting consumer holds nothing that it does not need for that.
#[derive(Clone)]
struct Consume;

impl Handler<(), ApiState> for Consume {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, api: ApiState) -> Self::Future {
        let asked = asked(request, api.clone()).boxed();
        async move {
            match asked.await {
                Ok((queues, want)) => consume(&api, &queues, want).await.into_response(),
                Err(refused) => refused.into_response(),
            }
        }
        .boxed()
    }
}

async fn asked(request: Request, api: ApiState) -> Result<(Vec<QueueName>, ConsumeTerms), Refused> {
    let (mut parts, body) = request.into_parts();
    let QueuesInPath(queues) = QueuesInPath::from_request_parts(&mut parts, &api).await?;
    let body = Text::from_request(Request::from_parts(parts, body), &api).await?;
    Ok((queues, want(&body)?))
}

async fn consume(api: &ApiState, queues: &[QueueName], want: ConsumeTerms) -> Result<Response, Refused> {
    let (jobs, hand_over, control) = consumed(api, queues, want).await?;
    let ApiAnswer { status, body } = ApiAnswer::ok(&ConsumedShape::of(queues, &jobs, control.as_deref()));
    let response = ApiAnswer { status, body: body.clone() }.into_response();
    let mut response = response.map(|_| hand_over::body(body, move || hand_over.done()));
    response.extensions_mut().remove::<InOnePiece>();
    response.extensions_mut().insert(DroppableAnswer);
    Ok(response)
}

/// Jobs, or what the workers are told meanwhile: that ends the wait.
async fn consumed(
    api: &ApiState,
    queues: &[QueueName],
    want: ConsumeTerms,
) -> Result<(Vec<Consumed>, HandOver, Option<Arc<WorkerControl>>), Problem> {
    let (all, Some(first)) = (api.queues(), queues.first()) else { unreachable!("a path names a queue") };
    if want.wait.is_zero() {
        let (jobs, hand_over) = all.consume(queues, want).await?;
        return Ok((jobs, hand_over, all.control(first)));
    }
    let mut followed = all.follow_control(first);
    let taken = select! {
        biased;
        taken = all.consume(queues, want) => Some(taken?),
        () = followed.changed() => None,
    };
    let (jobs, hand_over) = taken.unwrap_or_default();
    Ok((jobs, hand_over, all.control(first)))
}

fn want(body: &str) -> Result<ConsumeTerms, Problem> {
    let fields = or_nothing(body, &["max", "ttr", "wait"])?;
    let wait = fields.optional("wait", duration)?.unwrap_or_default();
    if wait > CONSUME_WAIT_MAX {
        let detail = format!("wait must be at most {}", base::duration::format(CONSUME_WAIT_MAX));
        return Err(Problem::not_allowed("invalid_duration", detail));
    }
    let max = |name: &str, json: &str| count_naming_most(name, json, JOBS_PER_CALL_MAX as u32);
    let max = fields.optional("max", max)?.map_or(1, |max| max as usize);
    Ok(ConsumeTerms {
        max,
        ttr: fields.optional("ttr", duration)?.unwrap_or(TTR_DEFAULT),
        wait,
        process: None,
    })
}

async fn ack(
    State(api): State<ApiState>,
    QueueInPath(queue): QueueInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let given = ObjectFields::read(&body, &["reservations"])?.required("reservations", strings)?;
    let _held = body.into_memory();
    if given.len() > JOBS_PER_CALL_MAX {
        let detail = format!("reservations are {}; a call takes at most {JOBS_PER_CALL_MAX}", given.len());
        return Err(Problem::not_allowed("too_many_jobs", detail).into());
    }
    let (mut reservations, mut places, mut stale) = (Vec::with_capacity(given.len()), Vec::new(), Vec::new());
    for (place, text) in given.iter().enumerate() {
        match ReservationToken::from_text(text) {
            Some(one) => {
                reservations.push(one);
                places.push(place);
            }
            None => stale.push(place),
        }
    }
    let acked = api.queues().ack(&queue, reservations).await?;
    stale.extend(acked.stale.into_iter().map(|place| places[place]));
    stale.sort_unstable();
    Ok(ApiAnswer::ok(&AckedShape::of(&given, acked.acked, &stale)))
}

async fn ack_one(
    State(api): State<ApiState>,
    JobInPath { queue, id }: JobInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let fields = ObjectFields::read(&body, &["reservation"])?;
    let reservation = reservation_token(&fields, &queue, id)?;
    let acked = api.queues().ack(&queue, vec![reservation]).await?;
    if acked.acked == 0 {
        return Err(stale(&queue, reservation.text().as_str()).into());
    }
    Ok(ApiAnswer::nothing())
}

async fn extend(
    State(api): State<ApiState>,
    JobInPath { queue, id }: JobInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let fields = ObjectFields::read(&body, &["reservation", "ttr"])?;
    let ttr = fields.required("ttr", duration)?;
    let reservation = reservation_token(&fields, &queue, id)?;
    api.queues().extend(&queue, reservation, ttr).await?;
    Ok(ApiAnswer::nothing())
}

async fn release(
    State(api): State<ApiState>,
    JobInPath { queue, id }: JobInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let fields = ObjectFields::read(&body, &["reservation", "delay", "error"])?;
    let release = JobRelease {
        delay: fields.optional("delay", duration)?.unwrap_or_default(),
        error: fields.optional("error", string)?.map(CompactString::from),
    };
    let reservation = reservation_token(&fields, &queue, id)?;
    api.queues().release(&queue, reservation, release).await?;
    Ok(ApiAnswer::nothing())
}

/// What the consumer shows for the job in the path.
fn reservation_token(
    fields: &ObjectFields<'_>,
    queue: &QueueName,
    id: JobId,
) -> Result<ReservationToken, Problem> {
    let text = fields.required("reservation", string)?;
    ReservationToken::from_text(&text).filter(|token| token.job() == id).ok_or_else(|| stale(queue, &text))
}

fn stale(queue: &QueueName, reservation: &str) -> Problem {
    let detail =
        format!("reservation {} holds no such job of queue {queue}: it is over", quoted(reservation));
    Problem::conflict("stale_reservation", detail)
}
