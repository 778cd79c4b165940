//! What the calls about locks, limits, the cache and channels do, on a stream or on their own.

use access::{Admitted, RequestedAction};
use base::Problem;
use base::limits::CACHE_KEYS_PER_CALL_MAX;
use bytes::Bytes;
use compact_str::CompactString;
use engine::coordination::{CachedValue, CoordinationName, LimitKind, LimitRequest, LockGrant};
use engine::queues::LockWanted;
use engine::{Coordination, Engine, Locks};

use crate::proto;
use crate::time::{moment, read_span};

/// The calls. Cheap to clone.
#[derive(Clone)]
pub(super) struct CoordinationCalls {
    locks: Locks,
    shared: Coordination,
}

impl CoordinationCalls {
    pub(super) fn new(engine: &Engine) -> Self {
        Self { locks: engine.locks(), shared: engine.coordination() }
    }

    pub(super) async fn acquire_lock(
        &self,
        caller: &Admitted,
        asked: proto::AcquireLockRequest,
    ) -> Result<proto::HeldLock, Problem> {
        may(caller, &asked.namespace)?;
        let name = CoordinationName::new(&asked.namespace, &asked.name)?;
        let span = |field, span: &Option<_>| span.as_ref().map(|span| read_span(field, span)).transpose();
        let owner = Some(CompactString::from(asked.owner)).filter(|owner| !owner.is_empty());
        let (ttl, wait) = (span("ttl", &asked.ttl)?, span("wait", &asked.wait)?);
        let wanted = LockWanted { owner, ttl, wait: wait.unwrap_or_default() };
        self.locks.acquire(&name, wanted).await.map(held)
    }

    pub(super) async fn extend_lock(
        &self,
        caller: &Admitted,
        asked: proto::ExtendLockRequest,
    ) -> Result<proto::HeldLock, Problem> {
        may(caller, &asked.namespace)?;
        let name = CoordinationName::new(&asked.namespace, &asked.name)?;
        let ttl = asked.ttl.as_ref().ok_or_else(|| missing("ttl"))?;
        self.locks.extend(&name, asked.owner.into(), read_span("ttl", ttl)?).await.map(held)
    }

    pub(super) async fn release_lock(
        &self,
        caller: &Admitted,
        asked: proto::ReleaseLockRequest,
    ) -> Result<proto::ReleaseLockResponse, Problem> {
        may(caller, &asked.namespace)?;
        let name = CoordinationName::new(&asked.namespace, &asked.name)?;
        self.locks.release(&name, asked.owner.into()).await?;
        Ok(proto::ReleaseLockResponse {})
    }

    pub(super) async fn get_lock(
        &self,
        caller: &Admitted,
        asked: proto::GetLockRequest,
    ) -> Result<proto::LockState, Problem> {
        may(caller, &asked.namespace)?;
        let name = CoordinationName::new(&asked.namespace, &asked.name)?;
        let shown = self.locks.show(&name).await?;
        let (owner, until) = shown.holder.clone().unzip();
        Ok(proto::LockState {
            held: owner.is_some(),
            owner: owner.filter(|_| caller.is_admin()).map(Into::into).unwrap_or_default(),
            fence: shown.fence,
            waiting: shown.waiting as u64,
            expires_at: until.map(moment),
        })
    }

    pub(super) async fn ask_limit(
        &self,
        caller: &Admitted,
        asked: proto::AskLimitRequest,
    ) -> Result<proto::AskLimitResponse, Problem> {
        may(caller, &asked.namespace)?;
        let name = CoordinationName::new(&asked.namespace, &asked.name)?;
        let per = asked.per.as_ref().ok_or_else(|| missing("per"))?;
        let kind = match proto::LimitKind::try_from(asked.kind) {
            Ok(proto::LimitKind::Smooth) => LimitKind::Smooth,
            Ok(proto::LimitKind::Window) => LimitKind::Window,
            Err(_) => {
                let detail = format!("kind must be 0 or 1, not {}", asked.kind);
                return Err(Problem::not_allowed("unknown_word", detail));
            }
        };
        let (limit, cost) = (asked.limit, asked.cost.unwrap_or(1));
        let asked = LimitRequest { limit, per: read_span("per", per)?, cost, kind };
        let answer = self.shared.ask_limit(&name, &asked).await?;
        Ok(proto::AskLimitResponse {
            allowed: answer.allowed,
            remaining: answer.remaining,
            retry_after_ms: answer.retry_after_ms,
        })
    }

    pub(super) async fn put_cached(
        &self,
        caller: &Admitted,
        asked: proto::PutCachedRequest,
    ) -> Result<proto::PutCachedResponse, Problem> {
        may(caller, &asked.namespace)?;
        let name = CoordinationName::new(&asked.namespace, &asked.key)?;
        let ttl = asked.ttl.as_ref().map(|ttl| read_span("ttl", ttl)).transpose()?;
        let content_type = Some(asked.content_type.as_bytes()).filter(|text| !text.is_empty());
        let content_type = content_type.map(CachedValue::read_content_type).transpose()?;
        // A copy: the bytes are a part of the whole message.
        let bytes = Bytes::copy_from_slice(&asked.value);
        let value = CachedValue { bytes, content_type, expires_at: None };
        self.shared.put_cached(name, value, ttl, asked.if_absent).await?;
        Ok(proto::PutCachedResponse {})
    }

    /// Values that are there, all of them together at most `bytes_max`.
    pub(super) async fn get_cached(
        &self,
        caller: &Admitted,
        asked: &proto::GetCachedRequest,
        bytes_max: usize,
    ) -> Result<proto::GetCachedResponse, Problem> {
        may(caller, &asked.namespace)?;
        check_keys(&asked.keys)?;
        let (mut answer, mut bytes) = (proto::GetCachedResponse::default(), 0);
        for key in &asked.keys {
            let name = CoordinationName::new(&asked.namespace, key)?;
            let Some(found) = self.shared.cached(&name).await else { continue };
            bytes += found.bytes.len();
            if bytes > bytes_max {
                let detail = format!("the values are over {bytes_max} bytes; ask for fewer keys");
                return Err(Problem::not_allowed("answer_too_large", detail));
            }
            if let Some(content_type) = found.content_type {
                answer.content_types.insert(key.clone(), content_type.into());
            }
            answer.items.insert(key.clone(), found.bytes);
        }
        Ok(answer)
    }

    pub(super) async fn delete_cached(
        &self,
        caller: &Admitted,
        asked: &proto::DeleteCachedRequest,
    ) -> Result<proto::DeleteCachedResponse, Problem> {
        may(caller, &asked.namespace)?;
        check_keys(&asked.keys)?;
        let named = |key: &String| CoordinationName::new(&asked.namespace, key);
        let mut deleted = 0;
        for key in asked.keys.iter().map(named).collect::<Result<Vec<_>, _>>()? {
            deleted += u64::from(self.shared.delete_cached(&key).await);
        }
        Ok(proto::DeleteCachedResponse { deleted })
    }

    pub(super) async fn publish(
        &self,
        caller: &Admitted,
        asked: proto::PublishMessageRequest,
    ) -> Result<proto::PublishMessageResponse, Problem> {
        may(caller, &asked.namespace)?;
        let channel = CoordinationName::new(&asked.namespace, &asked.channel)?;
        crate::payload::check_json("message", &asked.message)?;
        // Line breaks stand only between the parts of a JSON text, and would end a line of an
        // event.
        let message = Bytes::from(asked.message.trim().replace(['\n', '\r'], " "));
        let receivers = self.shared.publish(&channel, &message).await? as u64;
        Ok(proto::PublishMessageResponse { receivers })
    }
}

/// That a caller may coordinate in a namespace.
pub(super) fn may(caller: &Admitted, namespace: &str) -> Result<(), Problem> {
    caller.may(RequestedAction::Coordinate { namespace })
}

pub(super) fn missing(field: &str) -> Problem {
    Problem::not_allowed("missing_field", format!("{field} has to be there"))
}

fn check_keys(keys: &[String]) -> Result<(), Problem> {
    if keys.len() <= CACHE_KEYS_PER_CALL_MAX {
        return Ok(());
    }
    let detail = format!("keys are {}; a call takes at most {CACHE_KEYS_PER_CALL_MAX}", keys.len());
    Err(Problem::not_allowed("too_many_keys", detail))
}

fn held(grant: LockGrant) -> proto::HeldLock {
    let LockGrant { owner, fence, expires_at } = grant;
    proto::HeldLock { owner: owner.into(), fence, expires_at: Some(moment(expires_at)) }
}
