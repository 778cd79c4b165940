//! Operations as bodies ask for them.

use std::collections::BTreeMap;

use access::{Caller, Scope};
use base::{ClientId, Problem, Timestamp};
use engine::NewOperation;
use engine::records::OperationAction;
use net::problem::quoted;
use serde_json::json;
use utoipa::openapi::Schema;

use super::OperationPlan;
use super::act::ActionArguments;
use super::rights::{self, AllowedRows};
use super::rows::{self, OperationRowSource, filter_text};
use crate::ApiState;
use crate::fields::{ObjectFields, boolean, count, label_changes, string};
use crate::openapi::words;

const FIELDS: [&str; 6] = ["action", "filter", "labels", "client", "dry_run", "rate"];

/// Longest text of changes of labels, in bytes: all labels of a device fit in several times.
pub(crate) const LABELS_BYTES_MAX: usize = 64 * 1_024;

/// The schema of an operation to be begun.
pub(crate) fn new_operation_schema() -> Schema {
    words::body(&[
        ("action", words::operation_action()),
        ("filter", words::operation_filter()),
        ("labels?", words::label_changes()),
        ("client?", words::client_id()),
        ("dry_run?", words::flag()),
        ("rate?", words::whole(1, u32::MAX.into())),
    ])
}

/// What a body asks for.
#[derive(Clone, Debug)]
pub(crate) struct OperationRequest {
    pub action: OperationAction,
    /// A JSON object.
    pub filter: String,
    /// A JSON object: what the action needs besides.
    pub arguments: String,
    pub rate: Option<u32>,
    pub dry_run: bool,
}

impl OperationRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, Problem> {
        let fields = ObjectFields::read(text, &FIELDS)?;
        let word = fields.required("action", string)?;
        let action = OperationAction::ALL.into_iter().find(|action| action.as_str() == word);
        let action = action.ok_or_else(|| {
            let known = OperationAction::ALL.map(OperationAction::as_str).join(", ");
            Problem::not_allowed(
                "unknown_word",
                format!("action is {}; it must be one of {known}", quoted(&word)),
            )
        })?;
        Ok(Self {
            action,
            filter: fields.required("filter", filter_text)?,
            arguments: arguments(action, &fields)?,
            rate: fields.optional("rate", count)?,
            dry_run: fields.optional("dry_run", boolean)?.unwrap_or_default(),
        })
    }

    /// The plan that this is for a token with these scopes; for anybody without.
    ///
    /// # Errors
    /// What is wrong with the filter; 403 `forbidden`.
    pub(super) fn plan(
        &self,
        api: &ApiState,
        scopes: Option<&[Scope]>,
        until: Timestamp,
    ) -> Result<OperationPlan, Problem> {
        let filter = rows::RowFilter::read(self.action, &self.filter)?;
        let queue = filter.queue.clone();
        let may = match scopes {
            None => Some(AllowedRows::All),
            Some(scopes) => rights::may(scopes, self.action, queue.as_ref()),
        };
        let own = may.ok_or_else(|| rights::forbidden(self.action))?.own();
        let rows = OperationRowSource::of(api, filter, own.as_deref(), until)?;
        let arguments = ActionArguments::read(self.action, &self.arguments)?;
        let (action, scopes) = (self.action, scopes.map(<[Scope]>::to_vec));
        Ok(OperationPlan { action, rows, arguments, queue, scopes, own, until })
    }

    /// The same, for whoever asks.
    ///
    /// # Errors
    /// See [`OperationRequest::plan`].
    pub(crate) fn plan_for(&self, api: &ApiState, caller: Option<&Caller>) -> Result<OperationPlan, Problem> {
        let end = api.engine().feed_end();
        self.plan(api, caller.map(Caller::scopes), end)
    }

    /// As the engine takes it. `rate_max` is what it does where it does not say otherwise.
    ///
    /// # Errors
    /// 422 `invalid_number` for a rate above it.
    pub(crate) fn new_operation(
        self,
        caller: Option<&Caller>,
        rate_max: u32,
    ) -> Result<NewOperation, Problem> {
        let rate = self.rate.unwrap_or(rate_max);
        if rate > rate_max {
            let detail = format!(
                "rate is {rate}; the setting operations.max_rate allows {rate_max} rows a second at most"
            );
            return Err(Problem::not_allowed("invalid_number", detail));
        }
        let scopes = caller.map_or(&[][..], Caller::scopes);
        Ok(NewOperation {
            action: self.action,
            filter: self.filter.into(),
            arguments: self.arguments.into(),
            rate,
            by: caller.map(|caller| caller.name().into()),
            scopes: scopes.iter().map(|scope| scope.to_string().into()).collect(),
        })
    }
}

/// What an action needs besides its rows, and nothing else.
fn arguments(action: OperationAction, fields: &ObjectFields<'_>) -> Result<String, Problem> {
    let needed: &[&str] = match action {
        OperationAction::LabelDevice => &["labels"],
        OperationAction::LinkDevice | OperationAction::UnlinkDevice => &["client"],
        _ => &[],
    };
    for name in ["labels", "client"] {
        if !needed.contains(&name) && fields.json(name).is_some() {
            let detail = format!("the action {} takes no field {name}", action.as_str());
            return Err(Problem::not_allowed("conflicting_fields", detail));
        }
    }
    // Written anew, without space, and read again where it is used.
    match needed.first() {
        Some(&"labels") => {
            let labels: BTreeMap<_, _> = fields.required("labels", label_changes)?.into_iter().collect();
            let text = json!({ "labels": labels }).to_string();
            if text.len() > LABELS_BYTES_MAX {
                let detail =
                    format!("labels has {} bytes; it must have at most {LABELS_BYTES_MAX}", text.len());
                return Err(Problem::not_allowed("too_long", detail));
            }
            Ok(text)
        }
        Some(_) => Ok(json!({ "client": fields.required("client", client)?.as_str() }).to_string()),
        None => Ok("{}".to_owned()),
    }
}

/// A client's id.
pub(super) fn client(name: &str, json: &str) -> Result<ClientId, Problem> {
    let text = string(name, json)?;
    ClientId::new(&text).ok_or_else(|| {
        let detail = format!("{name} is {}, which is no client's id", quoted(&text));
        Problem::not_allowed("invalid_id", detail)
    })
}
