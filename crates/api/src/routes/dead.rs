//! `/v1/queues/{ns}/{queue}/dead`: jobs that failed for good.

use axum::extract::State;
use axum::response::Response;
use base::Problem;
use base::limits::{JOB_PAYLOAD_BYTES_MAX, JOBS_PER_CALL_MAX};
use engine::QueueCalls;
use engine::queries::{BoundedPage, cost_of_row};
use engine::queues::{Dead, DeadView, IdempotencyKey, JobPayload, QueueName, id_from_text};
use memchr::memmem::Finder;
use net::problem::Refused;
use tokio::runtime::Handle;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::cursor::NumberKey;
use crate::fields::{count_naming_most, or_nothing, strings};
use crate::idempotency::Creation;
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::OF_A_QUEUE;
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::QueueInPath;
use crate::shape::{DeadShape, RespawnedShape};

const DEAD: &str = "/v1/queues/{ns}/{queue}/dead";

pub(super) fn routes() -> Routes {
    let listed = Call::new("Dead letters, the oldest first")
        .query("error", words::part())
        .query("payload", words::part())
        .lists::<DeadShape<'_>>()
        .refuses(OF_A_QUEUE);
    let deleted = Call::new("Deletes all dead letters of a queue")
        .gives_nothing(204, "they are gone")
        .refuses(OF_A_QUEUE);
    let respawned = Call::new("Has dead jobs tried again: those named, or the oldest, up to 1,000")
        .once()
        .may_take(words::body(&[
            ("ids?", words::job_ids()),
            ("limit?", words::whole(1, JOBS_PER_CALL_MAX as u64)),
        ]))
        .gives::<RespawnedShape>(200, "how many")
        .refuses(OF_A_QUEUE)
        .refuses(&[
            (409, "queue_full"),
            (422, "conflicting_fields"),
            (422, "invalid_number"),
            (422, "too_many_jobs"),
        ]);
    Routes::default().get(DEAD, list, listed).delete(DEAD, delete, deleted).post(
        "/v1/queues/{ns}/{queue}/dead/respawn",
        respawn,
        respawned,
    )
}

/// Dead letters of a queue, asked for by a thread that may wait for them.
pub(crate) struct DeadLetterList {
    queues: QueueCalls,
    queue: QueueName,
    executor: Handle,
    /// Only those whose error has this text in it.
    error: Option<Finder<'static>>,
    /// Only those whose payload has this text in it: JSON as it is shown, or bytes.
    payload: Option<Finder<'static>>,
}

impl DeadLetterList {
    /// Those of a queue that the parameters ask for.
    ///
    /// # Errors
    /// `invalid_parameter`.
    pub(crate) fn asked(api: &ApiState, queue: QueueName, params: &mut Params) -> Result<Self, Problem> {
        let executor = Handle::current();
        let finder = |part: String| Finder::new(part.as_bytes()).into_owned();
        let (error, payload) = (params.part("error")?.map(finder), params.part("payload")?.map(finder));
        Ok(Self { queues: api.queues(), queue, executor, error, payload })
    }

    /// Whether it is one of those that are asked for.
    pub(crate) fn is_meant(&self, view: &DeadView) -> bool {
        let payload = match &view.payload {
            JobPayload::Json(text) => text.as_bytes(),
            JobPayload::Bytes(bytes) => bytes,
        };
        let error = view.dead.error.as_deref().unwrap_or_default();
        self.error.as_ref().is_none_or(|part| part.find(error.as_bytes()).is_some())
            && self.payload.as_ref().is_none_or(|part| part.find(payload).is_some())
    }
}

/// Dead letters that are meant, `limit` at most, of as many as cost `cost_max` to look at. A large
/// payload costs as much as many small ones.
fn searched(
    mut after: Option<NumberKey>,
    (limit, cost_max): (usize, usize),
    read: impl Fn(Option<&NumberKey>, usize) -> Result<Vec<DeadView>, Problem>,
    is_meant: impl Fn(&DeadView) -> bool,
) -> Result<BoundedPage<DeadView, NumberKey>, Problem> {
    let mut page = BoundedPage { looked_at: Some(0), ..BoundedPage::default() };
    let mut heaviest = 1;
    while page.cost < cost_max {
        // No more than there is a budget for, were they as large as the largest so far.
        let rows = ((cost_max - page.cost) / heaviest).clamp(1, DeadLetterList::READ_MAX);
        let letters = read(after.as_ref(), rows)?;
        let has_ended = letters.len() < rows;
        for letter in letters {
            let cost = cost_of_row(DeadLetterList::bytes(&letter));
            heaviest = heaviest.max(cost);
            page.cost += cost;
            page.looked_at = page.looked_at.map(|looked_at| looked_at + 1);
            after = Some(DeadLetterList::key(&letter));
            page.found.extend(Some(letter).filter(&is_meant));
            if page.found.len() == limit {
                return Ok(page);
            }
        }
        if has_ended {
            return Ok(page);
        }
    }
    Ok(BoundedPage { next: after, ..page })
}

impl DeadLetterList {
    fn letters(&self, after: Option<&NumberKey>, limit: usize) -> Result<Vec<DeadView>, Problem> {
        self.executor.block_on(self.queues.dead(&self.queue, after.map(|after| after.0), limit))
    }
}

impl List for DeadLetterList {
    type Key = NumberKey;
    type Found = DeadView;
    type Shown<'a> = DeadShape<'a>;

    const READ_MAX: usize = 32;
    const ITEM_BYTES_MAX: usize = JOB_PAYLOAD_BYTES_MAX;

    fn look(&self, after: Option<&NumberKey>, limit: usize, cost_max: usize) -> PageOfList<Self> {
        if self.error.is_none() && self.payload.is_none() {
            return self.letters(after, limit).map(BoundedPage::indexed);
        }
        searched(
            after.copied(),
            (limit, cost_max),
            |after, rows| self.letters(after, rows),
            |letter| self.is_meant(letter),
        )
    }

    fn bytes(view: &DeadView) -> usize {
        match &view.payload {
            JobPayload::Json(text) => text.len(),
            JobPayload::Bytes(bytes) => bytes.len(),
        }
    }

    fn key(view: &DeadView) -> NumberKey {
        NumberKey(view.dead.number)
    }

    fn show(view: &DeadView) -> DeadShape<'_> {
        view.into()
    }
}

async fn list(
    State(api): State<ApiState>,
    QueueInPath(queue): QueueInPath,
    mut params: Params,
) -> Result<Response, Refused> {
    let letters = DeadLetterList::asked(&api, queue, &mut params)?;
    list::answer(&api, params.page()?, letters).await
}

async fn delete(State(api): State<ApiState>, QueueInPath(queue): QueueInPath) -> Result<ApiAnswer, Refused> {
    api.queues().delete_dead(&queue, None).await?;
    Ok(ApiAnswer::nothing())
}

async fn respawn(
    State(api): State<ApiState>,
    QueueInPath(queue): QueueInPath,
    creation: Creation,
) -> Result<ApiAnswer, Refused> {
    let respawn = async move |api: ApiState, body: Text, _: Option<IdempotencyKey>| {
        let respawned = api.queues().respawn(&queue, which(&body)?, None).await?;
        Ok(ApiAnswer::ok(&RespawnedShape { respawned }))
    };
    creation.once(&api, respawn).await
}

/// Those that a body names; an id that cannot be one names none.
fn which(body: &str) -> Result<Dead, Problem> {
    let fields = or_nothing(body, &["ids", "limit"])?;
    let limit = |name: &str, json: &str| count_naming_most(name, json, JOBS_PER_CALL_MAX as u32);
    match (fields.optional("ids", strings)?, fields.optional("limit", limit)?) {
        (Some(_), Some(_)) => {
            let detail = "ids and limit are there; dead jobs are named by one of the two";
            Err(Problem::not_allowed("conflicting_fields", detail))
        }
        (Some(ids), None) if ids.len() > JOBS_PER_CALL_MAX => {
            let detail = format!("ids are {}; a call takes at most {JOBS_PER_CALL_MAX}", ids.len());
            Err(Problem::not_allowed("too_many_jobs", detail))
        }
        (Some(ids), None) => Ok(Dead::Ids(ids.iter().filter_map(|id| id_from_text(id)).collect())),
        (None, Some(limit)) => Ok(Dead::Oldest(limit as usize)),
        (None, None) => Ok(Dead::Oldest(JOBS_PER_CALL_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use engine::queries::LOOKED_AT_MAX;
    use engine::queues::Attributes;
    use engine::records::{DeadJob, DeadReason, JobId, QueueKey};

    use super::*;

    fn letter(number: u64, bytes: usize) -> DeadView {
        let dead = DeadJob {
            queue: QueueKey(1),
            number,
            id: JobId([0; 16]),
            attempt: 1,
            tries: 1,
            reason: DeadReason::Released,
            error: None,
            died_at: Timestamp(0),
            group: None,
        };
        DeadView { dead, payload: JobPayload::Bytes(vec![0; bytes].into()), attributes: Attributes::new() }
    }

    /// Searches so many letters of one size for those whose number `step` divides, page after page.
    /// Answers what was found, and of every page how many letters it read and its cost.
    fn search(count: u64, bytes: usize, step: u64, limit: usize) -> (Vec<u64>, Vec<(usize, usize)>) {
        let (mut found, mut pages, mut after) = (Vec::new(), Vec::new(), None);
        loop {
            let read = std::cell::Cell::new(0);
            let letters = |after: Option<&NumberKey>, rows: usize| {
                let from = after.map_or(0, |after| after.0 + 1);
                let letters: Vec<_> = (from..count).take(rows).map(|number| letter(number, bytes)).collect();
                read.set(read.get() + letters.len());
                Ok(letters)
            };
            let is_meant = |letter: &DeadView| letter.dead.number.is_multiple_of(step);
            let page = searched(after, (limit, LOOKED_AT_MAX), letters, is_meant).expect("readable");
            pages.push((read.get(), page.cost));
            let is_full = page.found.len() == limit;
            found.extend(page.found.iter().map(|letter| letter.dead.number));
            after = page.next.or_else(|| found.last().copied().map(NumberKey).filter(|_| is_full));
            if after.is_none() {
                return (found, pages);
            }
        }
    }

    #[test]
    fn a_search_is_bounded_by_what_it_reads_and_not_by_how_many() {
        for (count, bytes, step, limit) in
            [(25_000, 0, 24_000, 10), (300, 1 << 20, 150, 10), (40, 100_000, 1, 7), (0, 0, 1, 5)]
        {
            let (found, pages) = search(count, bytes, step, limit);
            let expect: Vec<u64> = (0..count).step_by(usize::try_from(step).expect("small")).collect();
            assert_eq!(found, expect, "{count} letters of {bytes} bytes");
            let overshoot = DeadLetterList::READ_MAX * cost_of_row(bytes);
            for (read, cost) in pages {
                assert!(cost <= LOOKED_AT_MAX + overshoot, "{cost} for {count} of {bytes} bytes");
                assert!(
                    read * cost_of_row(bytes) <= LOOKED_AT_MAX + overshoot,
                    "{read} read of {bytes} bytes"
                );
            }
        }
    }
}
