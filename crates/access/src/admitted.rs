//! Calls over a protocol without routes, such as gRPC: known by the same tokens, with the same
//! scopes and limits.
//!
//! Whoever speaks the protocol says what a call asks for.

use std::sync::Arc;

use axum::http::HeaderMap;
use base::{CallerName, Problem};

use crate::limits::{OngoingRequest, TokenLimits};
use crate::metrics::TokenMetrics;
use crate::{Access, Caller, Scope, StreamRights};

/// A call that was taken in. It is under way as long as this or a clone of it lives.
#[derive(Clone, Debug)]
pub struct Admitted(Option<Arc<AdmittedCaller>>);

#[derive(Debug)]
struct AdmittedCaller {
    caller: Caller,
    limits: Arc<TokenLimits>,
    metrics: TokenMetrics,
    _under_way: OngoingRequest,
}

/// A call that was not taken in.
#[derive(Debug)]
pub struct NotAdmitted {
    /// Why.
    pub problem: Problem,
    /// The name of the caller's token, if it is known. The log tells it, the caller is not told.
    pub login: Option<CallerName>,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedAction<'a> {
    /// To send reports.
    Reports,
    /// To look at the queues of a namespace.
    Look {
        /// The namespace.
        namespace: &'a str,
    },
    /// To work with the queues of a namespace.
    Work {
        /// The namespace.
        namespace: &'a str,
    },
    /// To coordinate in a namespace.
    Coordinate {
        /// The namespace.
        namespace: &'a str,
    },
    /// To say something to the workers of a namespace's queues.
    Control {
        /// The namespace.
        namespace: &'a str,
    },
    /// To look at commands.
    LookAtCommands,
    /// To send, cancel and retry commands.
    Command,
    /// To have devices picked for a task.
    Pick,
    /// To do this with the streams of a namespace.
    Stream {
        /// The namespace.
        namespace: &'a str,
        /// What is done.
        right: StreamRights,
    },
}

impl Access {
    /// Takes in a call by the `Authorization` among its headers.
    ///
    /// # Errors
    /// 401 for nobody that is known, 429 for one who calls too often.
    pub async fn admit(&self, headers: &HeaderMap) -> Result<Admitted, NotAdmitted> {
        let Self::Guarded(guard) = self else { return Ok(Admitted(None)) };
        let holder = guard.recognise(headers).await;
        let holder = holder.map_err(|why| NotAdmitted { problem: why.problem(), login: None })?;
        let caller = holder.caller().clone();
        let under_way = holder.take().map_err(|reached| NotAdmitted {
            problem: holder.limited(&reached),
            login: Some(caller.called()),
        })?;
        let (limits, metrics) = (holder.limits(), guard.metrics().clone());
        let known = AdmittedCaller { caller, limits, metrics, _under_way: under_way };
        Ok(Admitted(Some(Arc::new(known))))
    }
}

impl Admitted {
    /// Takes in another call over a stream that was taken in: it counts as a request.
    ///
    /// # Errors
    /// 429 for one who calls too often.
    pub fn another_call(&self) -> Result<(), Problem> {
        let Some(known) = &self.0 else { return Ok(()) };
        known.limits.take_another().map_err(|reached| {
            known.metrics.count_request(known.caller.name(), "limited");
            reached.problem(known.caller.name())
        })
    }

    /// How many calls of it may be under way on a stream; `None` for any number.
    #[must_use]
    pub fn calls_in_flight_max(&self) -> Option<usize> {
        self.0.as_ref().and_then(|known| known.limits.in_flight_max())
    }

    /// Whether the caller may do this.
    ///
    /// # Errors
    /// 403.
    pub fn may(&self, action: RequestedAction<'_>) -> Result<(), Problem> {
        let Some(known) = &self.0 else { return Ok(()) };
        let AdmittedCaller { caller, metrics, .. } = &**known;
        let suffices = |scope: &Scope| match (scope, action) {
            (Scope::Admin, _)
            | (Scope::Report, RequestedAction::Reports)
            | (
                Scope::Read | Scope::Operate,
                RequestedAction::Look { .. } | RequestedAction::LookAtCommands,
            )
            | (Scope::Commands, RequestedAction::LookAtCommands)
            | (Scope::Commands | Scope::Operate, RequestedAction::Command)
            | (Scope::Tasks, RequestedAction::Pick) => true,
            (
                Scope::Jobs(own),
                RequestedAction::Look { namespace }
                | RequestedAction::Work { namespace }
                | RequestedAction::Control { namespace },
            ) => own.as_str() == namespace,
            (scope, RequestedAction::Coordinate { namespace } | RequestedAction::Control { namespace }) => {
                scope.may_coordinate(namespace)
            }
            (scope, RequestedAction::Stream { namespace, right }) => scope.may_stream(namespace, right),
            _ => false,
        };
        if caller.scopes().iter().any(suffices) {
            metrics.count_request(caller.name(), "admitted");
            return Ok(());
        }
        metrics.count_request(caller.name(), "forbidden");
        let takes = match action {
            RequestedAction::Reports => "admin or report",
            RequestedAction::Look { .. } => "admin, read, operate, or jobs:NAMESPACE of this namespace",
            RequestedAction::Work { .. } => "admin, or jobs:NAMESPACE of this namespace",
            RequestedAction::Coordinate { .. } => "admin, or coordinate:NAMESPACE of this namespace",
            RequestedAction::Control { .. } => {
                "admin, or jobs:NAMESPACE or coordinate:NAMESPACE of this namespace"
            }
            RequestedAction::LookAtCommands => "admin, read, commands or operate",
            RequestedAction::Command => "admin, commands or operate",
            RequestedAction::Pick => "admin or tasks",
            RequestedAction::Stream { right, .. } => right.takes(),
        };
        Err(caller.may_not(takes))
    }

    /// Whether the caller may do everything; without tokens everybody may.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.0.as_ref().is_none_or(|known| known.caller.scopes().contains(&Scope::Admin))
    }

    /// Whether the caller may append to any stream: to which, it says with each batch.
    ///
    /// # Errors
    /// 403 `forbidden`.
    pub fn may_append(&self) -> Result<(), Problem> {
        let Some(known) = &self.0 else { return Ok(()) };
        let suffices = |scope: &Scope| match scope {
            Scope::Streams(namespace, _) => scope.may_stream(namespace.as_str(), StreamRights::Append),
            scope => matches!(scope, Scope::Admin),
        };
        if known.caller.scopes().iter().any(suffices) {
            return Ok(());
        }
        known.metrics.count_request(known.caller.name(), "forbidden");
        Err(known.caller.may_not(StreamRights::Append.takes()))
    }

    /// Whether the caller's tasks may have this class, and ask for so many devices.
    ///
    /// # Errors
    /// 403 `forbidden_class` or `count_too_large`.
    pub fn may_pick(&self, class: &str, count: u32) -> Result<(), Problem> {
        self.0.as_ref().map_or(Ok(()), |known| known.caller.may_pick(class, count))
    }

    /// The name of the caller's token; empty where none is asked for.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.as_ref().map_or("", |known| known.caller.name())
    }
}
