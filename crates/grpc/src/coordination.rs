//! The service `Coordination`: locks, limits, the cache, channels, and what is said to workers.

use std::collections::HashMap;
use std::pin::Pin;

use access::{Admitted, RequestedAction};
use base::Problem;
use base::limits::CACHE_KEYS_PER_CALL_MAX;
use bytes::Bytes;
use engine::coordination::{
    CachedValue, ChannelEvent, ChannelListener, ChannelPatterns, CoordinationName, LimitAsked, LimitKind,
    LockGrant,
};
use engine::queues::{LockWanted, QueueName};
use engine::records::{self, WorkState};
use engine::{Coordination, Engine, Locks, Queues};
use futures_util::{Stream, stream};
use tonic::{Request, Response, Status};

use crate::callers::{caller_and_message, caller_sender_and_message};
use crate::proto::{self, coordination_server};
use crate::status::{into_response, status};
use crate::stopping::Stop;
use crate::store_reads::StoreReads;
use crate::time::{moment, read_span};

/// Bytes of values in one answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The calls about coordination.
pub(crate) struct CoordinationService {
    locks: Locks,
    queues: Queues,
    shared: Coordination,
    reads: StoreReads,
    stop: Stop,
}

impl CoordinationService {
    pub(crate) fn new(engine: &Engine, reads: StoreReads, stop: Stop) -> Self {
        Self { locks: engine.locks(), queues: engine.queues(), shared: engine.coordination(), reads, stop }
    }

    async fn cached(&self, namespace: &str, keys: &[String]) -> Result<HashMap<String, Bytes>, Problem> {
        let (mut items, mut bytes) = (HashMap::new(), 0);
        for key in named(namespace, keys)? {
            let Some(found) = self.shared.cached(&key).await else { continue };
            bytes += found.bytes.len();
            if bytes > ANSWER_BYTES_MAX {
                let detail = format!("the values are over {ANSWER_BYTES_MAX} bytes; ask for fewer keys");
                return Err(Problem::not_allowed("answer_too_large", detail));
            }
            items.insert(key.name().to_owned(), found.bytes);
        }
        Ok(items)
    }

    fn listening(&self, namespace: &str, channels: &[String]) -> Result<ChannelListener, Problem> {
        self.shared.listen(ChannelPatterns::parse(namespace, &channels.join(","))?)
    }
}

/// That a caller may coordinate in a namespace.
fn may(caller: &Admitted, namespace: &str) -> Result<(), Problem> {
    caller.may(RequestedAction::Coordinate { namespace })
}

/// That a caller may speak to the workers of a namespace's queues.
fn may_control(caller: &Admitted, namespace: &str) -> Result<(), Problem> {
    caller.may(RequestedAction::Control { namespace })
}

fn named(namespace: &str, keys: &[String]) -> Result<Vec<CoordinationName>, Problem> {
    if keys.len() > CACHE_KEYS_PER_CALL_MAX {
        let detail = format!("keys are {}; a call takes at most {CACHE_KEYS_PER_CALL_MAX}", keys.len());
        return Err(Problem::not_allowed("too_many_keys", detail));
    }
    keys.iter().map(|key| CoordinationName::new(namespace, key)).collect()
}

fn missing(field: &str) -> Problem {
    Problem::not_allowed("missing_field", format!("{field} has to be there"))
}

fn held(grant: LockGrant) -> proto::HeldLock {
    let LockGrant { owner, fence, expires_at } = grant;
    proto::HeldLock { owner: owner.into(), fence, expires_at: Some(moment(expires_at)) }
}

/// What is said to workers, as the protocol writes it; nothing is a state of its own.
pub(crate) fn control_shown(control: Option<&records::WorkerControl>) -> proto::QueueControl {
    let Some(control) = control else { return proto::QueueControl::default() };
    let state = match control.state {
        WorkState::Run => proto::WorkState::Run,
        WorkState::Drain => proto::WorkState::Drain,
        WorkState::Stop => proto::WorkState::Stop,
    };
    proto::QueueControl {
        state: state.into(),
        max_in_flight: control.max_in_flight,
        data: control.data.as_deref().map(str::to_owned),
    }
}

fn control_read(queue: &QueueName, given: proto::QueueControl) -> Result<records::WorkerControl, Problem> {
    let state = match given.state() {
        proto::WorkState::Unspecified => return Err(missing("state")),
        proto::WorkState::Run => WorkState::Run,
        proto::WorkState::Drain => WorkState::Drain,
        proto::WorkState::Stop => WorkState::Stop,
    };
    if given.max_in_flight == Some(0) {
        return Err(Problem::not_allowed("invalid_number", "max_in_flight must be at least 1"));
    }
    if let Some(data) = &given.data {
        crate::payload::check_json("data", data)?;
    }
    Ok(records::WorkerControl {
        namespace: queue.namespace().into(),
        queue: queue.queue().into(),
        state,
        max_in_flight: given.max_in_flight,
        data: given.data.map(Into::into),
    })
}

#[tonic::async_trait]
impl coordination_server::Coordination for CoordinationService {
    async fn acquire_lock(
        &self,
        request: Request<proto::AcquireLockRequest>,
    ) -> Result<Response<proto::HeldLock>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let acquired = async {
            may(&caller, &asked.namespace)?;
            let name = CoordinationName::new(&asked.namespace, &asked.name)?;
            let wanted = LockWanted {
                owner: Some(asked.owner.into())
                    .filter(|owner: &compact_str::CompactString| !owner.is_empty()),
                ttl: asked.ttl.as_ref().map(|ttl| read_span("ttl", ttl)).transpose()?,
                wait: asked
                    .wait
                    .as_ref()
                    .map(|wait| read_span("wait", wait))
                    .transpose()?
                    .unwrap_or_default(),
            };
            self.locks.acquire(&name, wanted).await
        };
        into_response(acquired.await.map(held))
    }

    async fn extend_lock(
        &self,
        request: Request<proto::ExtendLockRequest>,
    ) -> Result<Response<proto::HeldLock>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let extended = async {
            may(&caller, &asked.namespace)?;
            let name = CoordinationName::new(&asked.namespace, &asked.name)?;
            let ttl = asked.ttl.as_ref().ok_or_else(|| missing("ttl"))?;
            self.locks.extend(&name, asked.owner.into(), read_span("ttl", ttl)?).await
        };
        into_response(extended.await.map(held))
    }

    async fn release_lock(
        &self,
        request: Request<proto::ReleaseLockRequest>,
    ) -> Result<Response<proto::ReleaseLockResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let released = async {
            may(&caller, &asked.namespace)?;
            let name = CoordinationName::new(&asked.namespace, &asked.name)?;
            self.locks.release(&name, asked.owner.into()).await
        };
        into_response(released.await.map(|()| proto::ReleaseLockResponse {}))
    }

    async fn get_lock(
        &self,
        request: Request<proto::GetLockRequest>,
    ) -> Result<Response<proto::LockState>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let shown = async {
            may(&caller, &asked.namespace)?;
            let name = CoordinationName::new(&asked.namespace, &asked.name)?;
            self.locks.show(&name).await
        };
        let shown = shown.await.map_err(|problem| status(&problem))?;
        let (owner, until) = shown.holder.clone().unzip();
        Ok(Response::new(proto::LockState {
            held: owner.is_some(),
            owner: owner.filter(|_| caller.is_admin()).map(Into::into).unwrap_or_default(),
            fence: shown.fence,
            waiting: shown.waiting as u64,
            expires_at: until.map(moment),
        }))
    }

    async fn ask_limit(
        &self,
        request: Request<proto::AskLimitRequest>,
    ) -> Result<Response<proto::AskLimitResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let answered = async {
            may(&caller, &asked.namespace)?;
            let name = CoordinationName::new(&asked.namespace, &asked.name)?;
            let per = asked.per.as_ref().ok_or_else(|| missing("per"))?;
            let kind = match asked.kind() {
                proto::LimitKind::Smooth => LimitKind::Smooth,
                proto::LimitKind::Window => LimitKind::Window,
            };
            let (limit, cost) = (asked.limit, asked.cost.unwrap_or(1));
            let asked = LimitAsked { limit, per: read_span("per", per)?, cost, kind };
            self.shared.ask_limit(&name, &asked).await
        };
        into_response(answered.await.map(|answer| proto::AskLimitResponse {
            allowed: answer.allowed,
            remaining: answer.remaining,
            retry_after_ms: answer.retry_after_ms,
        }))
    }

    async fn put_cached(
        &self,
        request: Request<proto::PutCachedRequest>,
    ) -> Result<Response<proto::PutCachedResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let put = async {
            may(&caller, &asked.namespace)?;
            let name = CoordinationName::new(&asked.namespace, &asked.key)?;
            let ttl = asked.ttl.as_ref().map(|ttl| read_span("ttl", ttl)).transpose()?;
            if asked.content_type.len() > base::limits::CONTENT_TYPE_BYTES_MAX {
                return Err(Problem::not_allowed("too_long", "content_type is too long"));
            }
            let content_type = Some(asked.content_type.into());
            let content_type = content_type.filter(|text: &compact_str::CompactString| !text.is_empty());
            // A copy: the bytes are a part of the whole message.
            let bytes = Bytes::copy_from_slice(&asked.value);
            let value = CachedValue { bytes, content_type, expires_at: None };
            self.shared.put_cached(name, value, ttl, asked.if_absent).await
        };
        into_response(put.await.map(|()| proto::PutCachedResponse {}))
    }

    async fn get_cached(
        &self,
        request: Request<proto::GetCachedRequest>,
    ) -> Result<Response<proto::GetCachedResponse>, Status> {
        let (caller, sender, asked) = caller_sender_and_message(request)?;
        let found = async {
            may(&caller, &asked.namespace)?;
            let items = self.cached(&asked.namespace, &asked.keys).await?;
            self.reads.with_memory(&sender, proto::GetCachedResponse { items }).await
        };
        found.await.map_err(|problem| status(&problem))
    }

    async fn delete_cached(
        &self,
        request: Request<proto::DeleteCachedRequest>,
    ) -> Result<Response<proto::DeleteCachedResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let deleted = async {
            may(&caller, &asked.namespace)?;
            let mut deleted = 0;
            for key in named(&asked.namespace, &asked.keys)? {
                deleted += u64::from(self.shared.delete_cached(&key).await);
            }
            Ok::<_, Problem>(deleted)
        };
        into_response(deleted.await.map(|deleted| proto::DeleteCachedResponse { deleted }))
    }

    async fn publish(
        &self,
        request: Request<proto::PublishMessageRequest>,
    ) -> Result<Response<proto::PublishMessageResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let published = async {
            may(&caller, &asked.namespace)?;
            let channel = CoordinationName::new(&asked.namespace, &asked.channel)?;
            crate::payload::check_json("message", &asked.message)?;
            // Line breaks stand only between the parts of a JSON text, and would end a line of an
            // event.
            let message = Bytes::from(asked.message.trim().replace(['\n', '\r'], " "));
            self.shared.publish(&channel, &message).await
        };
        let receivers = published.await.map(|receivers| receivers as u64);
        into_response(receivers.map(|receivers| proto::PublishMessageResponse { receivers }))
    }

    type ListenStream = Pin<Box<dyn Stream<Item = Result<proto::ChannelMessage, Status>> + Send>>;

    async fn listen(
        &self,
        request: Request<proto::ListenRequest>,
    ) -> Result<Response<Self::ListenStream>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        may(&caller, &asked.namespace).map_err(|problem| status(&problem))?;
        let listener = self.listening(&asked.namespace, &asked.channels);
        let listener = listener.map_err(|problem| status(&problem))?;
        let listening = Some((listener, self.stop.clone()));
        let messages = stream::unfold(listening, async |listening| {
            let (mut listener, mut stop) = listening?;
            let event = tokio::select! {
                event = listener.next() => event?,
                () = stop.told() => return None,
            };
            Some(match event {
                ChannelEvent::Message(channel, message) => {
                    let message = String::from_utf8_lossy(&message).into_owned();
                    (Ok(proto::ChannelMessage { channel: channel.into(), message }), Some((listener, stop)))
                }
                ChannelEvent::TooSlow => {
                    let slow = Problem::new(429, "too_slow", "messages were not read as fast as they came");
                    (Err(status(&slow)), None)
                }
            })
        });
        Ok(Response::new(Box::pin(messages)))
    }

    async fn put_control(
        &self,
        request: Request<proto::PutControlRequest>,
    ) -> Result<Response<proto::PutControlResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let put = async {
            may_control(&caller, &asked.namespace)?;
            let queue = QueueName::new(&asked.namespace, &asked.queue)?;
            let control = control_read(&queue, asked.control.ok_or_else(|| missing("control"))?)?;
            self.queues.put_control(&queue, Some(control)).await
        };
        into_response(put.await.map(|()| proto::PutControlResponse {}))
    }

    async fn get_control(
        &self,
        request: Request<proto::GetControlRequest>,
    ) -> Result<Response<proto::QueueControl>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let found = || {
            may_control(&caller, &asked.namespace)?;
            let queue = QueueName::new(&asked.namespace, &asked.queue)?;
            let unknown =
                || Problem::unknown("no_control", format!("nothing is said to the workers of {queue}"));
            self.queues.control(&queue).ok_or_else(unknown)
        };
        into_response(found().map(|control| control_shown(Some(&control))))
    }

    async fn delete_control(
        &self,
        request: Request<proto::DeleteControlRequest>,
    ) -> Result<Response<proto::DeleteControlResponse>, Status> {
        let (caller, asked) = caller_and_message(request)?;
        let deleted = async {
            may_control(&caller, &asked.namespace)?;
            let queue = QueueName::new(&asked.namespace, &asked.queue)?;
            self.queues.put_control(&queue, None).await
        };
        into_response(deleted.await.map(|()| proto::DeleteControlResponse {}))
    }
}
