//! Callers over another protocol than HTTP/1: known by the same tokens, with the same scopes and limits.
//!
//! There are no routes there, so whoever speaks that protocol says what a call asks for.

use axum::http::HeaderMap;
use base::{CallerName, Problem};

use super::super::figures::Figures;
use super::super::limits::UnderWay;
use super::super::table::Needs;
use super::super::{Access, Caller, Scope};
use super::{NotRecognised, not_recognised, too_many_guesses};
use crate::ApiState;

/// A call that was taken in. It is under way as long as this lives.
#[derive(Debug)]
pub struct Admitted(Option<Known>);

#[derive(Debug)]
struct Known {
    caller: Caller,
    figures: Figures,
    _under_way: UnderWay,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
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
}

impl ApiState {
    /// Takes in a call by the `Authorization` among its headers.
    ///
    /// # Errors
    /// 401 for nobody that is known, 429 for one who calls too often; and the name of the token, if
    /// it is known. The log is for whoever speaks the protocol, and knows the peer and the method.
    pub async fn admit(&self, headers: &HeaderMap) -> Result<Admitted, (Problem, Option<CallerName>)> {
        let Access::Guarded(guard) = &self.shared.access else { return Ok(Admitted(None)) };
        let known = match guard.recognise(headers) {
            Ok(known) => known,
            Err(NotRecognised::Unknown) if guard.guesses.wait().await.is_err() => {
                guard.figures.unauthorized("too_many");
                return Err((too_many_guesses(), None));
            }
            Err(why) => {
                let (reason, problem, _) = not_recognised(why);
                guard.figures.unauthorized(reason);
                return Err((problem, None));
            }
        };
        let caller = known.caller.clone();
        let under_way = known.limits.take().map_err(|beyond| {
            guard.figures.judged(caller.name(), "limited");
            (super::beyond(&caller, beyond), Some(caller.called()))
        })?;
        Ok(Admitted(Some(Known { caller, figures: guard.figures.clone(), _under_way: under_way })))
    }
}

impl Admitted {
    /// Whether the caller may do this.
    ///
    /// # Errors
    /// 403.
    pub fn may(&self, asked: Asked<'_>) -> Result<(), Problem> {
        let Some(Known { caller, figures, .. }) = &self.0 else { return Ok(()) };
        let suffices = |scope: &Scope| match (scope, asked) {
            (Scope::Admin, _) | (Scope::Report, Asked::Reports) | (Scope::Read, Asked::Look { .. }) => true,
            (Scope::Jobs(own), Asked::Look { namespace } | Asked::Work { namespace }) => {
                own.as_str() == namespace
            }
            _ => false,
        };
        if caller.scopes().iter().any(suffices) {
            figures.judged(caller.name(), "admitted");
            return Ok(());
        }
        figures.judged(caller.name(), "forbidden");
        let needs = if asked == Asked::Reports { Needs::Report } else { Needs::Jobs };
        Err(super::may_not(caller, needs))
    }

    /// The name of the caller's token; empty where none is asked for.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.as_ref().map_or("", |known| known.caller.name())
    }
}
