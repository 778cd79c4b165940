//! What a token may have done to many rows: what it may do to each of them.

use access::{Access, Caller, Scope, StreamRights};
use base::{ClientId, Problem};
use engine::queues::QueueName;
use engine::records::{Operation, OperationAction, OutcomeReceiver};

use super::rows::RowFilter;
use crate::authorization::clients_of;

use OperationAction::{
    CancelCommand, DeleteDead, DeleteDevice, DeleteJob, DeleteQuarantined, LabelDevice, LinkDevice,
    ReplayQuarantined, ResendDelivery, RespawnDead, RetryCommand, RetryDelivery, UnlinkDevice,
};

/// To which rows a token may do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AllowedRows {
    /// To all.
    All,
    /// To those of these clients.
    Own(Vec<ClientId>),
}

/// To which rows the action may be done; `None` to none.
pub(super) fn may(
    scopes: &[Scope],
    action: OperationAction,
    queue: Option<&QueueName>,
) -> Option<AllowedRows> {
    let suffices = |scope: &Scope| match (scope, action) {
        (Scope::Admin, _)
        | (
            Scope::Operate,
            RespawnDead | RetryDelivery | ResendDelivery | ReplayQuarantined | CancelCommand | RetryCommand,
        )
        | (Scope::Commands, CancelCommand | RetryCommand) => true,
        (Scope::Jobs(namespace), RespawnDead | DeleteDead | DeleteJob) => {
            queue.is_some_and(|queue| queue.namespace() == namespace.as_str())
        }
        _ => false,
    };
    if scopes.iter().any(suffices) {
        return Some(AllowedRows::All);
    }
    let clients = clients_of(scopes);
    let is_of_clients = matches!(action, RetryDelivery | ResendDelivery);
    (is_of_clients && !clients.is_empty()).then_some(AllowedRows::Own(clients))
}

/// The refusal of an action that a token may not have done.
pub(super) fn forbidden(action: OperationAction) -> Problem {
    let takes = takes(action);
    let detail = format!("this token may not run {}; that needs the scope {takes}", action.as_str());
    Problem::new(403, "forbidden", detail)
}

/// The scopes of which each is enough for an action.
fn takes(action: OperationAction) -> &'static str {
    match action {
        RespawnDead => "admin, operate, or jobs:NAMESPACE of the queue's namespace",
        DeleteDead | DeleteJob => "admin, or jobs:NAMESPACE of the queue's namespace",
        RetryDelivery | ResendDelivery => "admin, operate, or client:ID",
        ReplayQuarantined => "admin or operate",
        CancelCommand | RetryCommand => "admin, operate or commands",
        DeleteQuarantined | LabelDevice | LinkDevice | UnlinkDevice | DeleteDevice => "admin",
    }
}

/// Whether a caller may cancel an operation: one that its token began, or whose action it may do to
/// all rows. Without tokens everybody may.
///
/// # Errors
/// 403 `forbidden`.
pub(crate) fn check_may_cancel(caller: Option<&Caller>, operation: &Operation) -> Result<(), Problem> {
    let Some(caller) = caller.filter(|caller| operation.by.as_deref() != Some(caller.name())) else {
        return Ok(());
    };
    let queue = RowFilter::read(operation.action, &operation.filter)?.queue;
    if may(caller.scopes(), operation.action, queue.as_ref()) == Some(AllowedRows::All) {
        return Ok(());
    }
    let takes = takes(operation.action);
    let detail = format!(
        "this token may not cancel {} that another one began; that needs the scope {takes}",
        operation.action.as_str()
    );
    Err(Problem::new(403, "forbidden", detail))
}

/// Whether scopes allow to have the outcome of a command told so; without tokens everybody may.
///
/// # Errors
/// 403 `forbidden`.
pub(super) fn check_receiver(
    scopes: Option<&[Scope]>,
    receiver: Option<&OutcomeReceiver>,
) -> Result<(), Problem> {
    let (Some(scopes), Some(receiver)) = (scopes, receiver) else { return Ok(()) };
    let (is_allowed, detail) = match receiver {
        OutcomeReceiver::Url { .. } => return Ok(()),
        OutcomeReceiver::Queue { namespace, .. } => (
            scopes.iter().any(|scope| scope.may_publish(namespace)),
            format!(
                "the outcome of this command is published to a queue of {namespace}; \
                 that needs the scope admin, or jobs:{namespace}"
            ),
        ),
        OutcomeReceiver::Stream { namespace, .. } => (
            scopes.iter().any(|scope| scope.may_stream(namespace, StreamRights::Append)),
            format!(
                "the outcome of this command is appended to a stream of {namespace}; \
                 that needs the scope admin, streams:{namespace} or streams:{namespace}:append"
            ),
        ),
    };
    if is_allowed { Ok(()) } else { Err(Problem::new(403, "forbidden", detail)) }
}

/// Scopes as they were written down.
pub(super) fn parsed(scopes: &[Box<str>]) -> Vec<Scope> {
    scopes.iter().filter_map(|scope| Scope::parse(scope)).collect()
}

/// Whether whoever asked for an operation may still do all that they might do then.
///
/// # Errors
/// Why it must not go on.
pub(super) fn still(access: &Access, operation: &Operation) -> Result<(), Problem> {
    if access.is_open() {
        return Ok(());
    }
    let Some(by) = &operation.by else {
        return Err(changed(
            "it was begun when no tokens were configured, and now there are some".to_owned(),
        ));
    };
    let Some(scopes) = access.scopes_of(by) else {
        return Err(changed(format!("token {by:?}, which began it, is no longer there")));
    };
    let lost = |scope: &&str| !scopes.iter().any(|present| present.to_string() == **scope);
    match operation.scopes.iter().map(|scope| &**scope).find(lost) {
        Some(scope) => Err(changed(format!("token {by:?}, which began it, has lost the scope {scope}"))),
        None => Ok(()),
    }
}

fn changed(detail: String) -> Problem {
    Problem::new(403, "token_changed", detail)
}

#[cfg(test)]
mod tests {
    use access::Token;
    use base::{EntityId, Timestamp};

    use super::*;

    fn scopes(texts: &[&str]) -> Vec<Scope> {
        texts.iter().map(|text| Scope::parse(text).expect("a scope")).collect()
    }

    #[test]
    fn a_token_may_do_to_many_what_it_may_do_to_one() {
        let mail = QueueName::new("mail", "out").expect("a name");
        let own = || Some(AllowedRows::Own(vec![ClientId::new("acme").expect("an id")]));
        for (token, allowed) in [
            ("admin", &OperationAction::ALL[..]),
            (
                "operate",
                &[RespawnDead, RetryDelivery, ResendDelivery, ReplayQuarantined, CancelCommand, RetryCommand],
            ),
            ("commands", &[CancelCommand, RetryCommand]),
            ("jobs:mail", &[RespawnDead, DeleteDead, DeleteJob]),
            ("jobs:other", &[]),
            ("read", &[]),
            ("report", &[]),
        ] {
            for action in OperationAction::ALL {
                let expect = allowed.contains(&action).then_some(AllowedRows::All);
                assert_eq!(
                    may(&scopes(&[token]), action, Some(&mail)),
                    expect,
                    "{token} {}",
                    action.as_str()
                );
            }
        }
        assert_eq!(may(&scopes(&["client:acme"]), RetryDelivery, None), own());
        assert_eq!(may(&scopes(&["client:acme", "operate"]), RetryDelivery, None), Some(AllowedRows::All));
        assert_eq!(may(&scopes(&["client:acme"]), DeleteDevice, None), None);
        assert_eq!(may(&scopes(&["jobs:mail"]), DeleteJob, None), None);
    }

    #[test]
    fn a_token_that_is_gone_or_narrowed_stops_what_it_began() {
        let operation = |by: Option<&str>| Operation {
            id: EntityId { routing: 0, at: Timestamp(0), number: 0, tag: 0 },
            action: DeleteDevice,
            filter: "{}".into(),
            arguments: "{}".into(),
            rate: 1,
            by: by.map(Into::into),
            scopes: vec!["admin".into(), "report".into()],
            created_at: Timestamp(0),
            until: Timestamp(1),
        };
        let guarded = |scopes: &[&str]| Access::of(vec![Token::for_tests("ops", scopes)]);
        let open = || Access::of(Vec::new());
        for (access, by, expect) in [
            (guarded(&["report", "admin"]), Some("ops"), None),
            (guarded(&["report", "admin", "read"]), Some("ops"), None),
            (guarded(&["operate", "report"]), Some("ops"), Some("has lost the scope admin")),
            (guarded(&["admin", "report"]), Some("old"), Some("is no longer there")),
            (guarded(&["admin", "report"]), None, Some("when no tokens were configured")),
            (open(), Some("ops"), None),
            (open(), None, None),
        ] {
            let found = still(&access, &operation(by)).err().map(|error| error.detail);
            match expect {
                None => assert_eq!(found, None, "{by:?}"),
                Some(part) => assert!(found.as_ref().is_some_and(|told| told.contains(part)), "{found:?}"),
            }
        }
    }
}
