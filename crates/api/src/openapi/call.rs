//! What is said of one call: parameters, body, answers and refusals, put together from a few words
//! in its route.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::Method;
use base::limits::{JSON_BODY_BYTES_MAX, NDJSON_LINE_BYTES_MAX, PAGE_ITEMS_MAX};
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn, ParameterStyle};
use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{
    AllOfBuilder, Content, Header, ObjectBuilder, Ref, RefOr, Required, Response, Responses, Schema, Type,
};

use super::refusals::{self, Coded};
use super::words;
use crate::page::RowFormat;
use crate::row::CsvRow;

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// What a call takes and answers.
#[derive(Clone)]
pub(crate) struct Call {
    summary: &'static str,
    parameters: Vec<Parameter>,
    body: Option<RequestBody>,
    answers: Vec<(u16, Response)>,
    refusals: BTreeMap<u16, BTreeSet<&'static str>>,
    more_of_refusals: Option<RefusalMembers>,
    schemas: Vec<(String, RefOr<Schema>)>,
}

/// What refusals with one of these statuses may say beside what every problem does.
#[derive(Clone)]
struct RefusalMembers {
    statuses: &'static [u16],
    schema: Schema,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.summary)
    }
}

impl Call {
    /// A call that does what the sentence says.
    pub(crate) fn new(summary: &'static str) -> Self {
        let call = Self {
            summary,
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            refusals: BTreeMap::new(),
            more_of_refusals: None,
            schemas: Vec::new(),
        };
        call.refuses(refusals::OF_ANY)
    }

    /// A query parameter.
    pub(crate) fn query(mut self, name: &str, schema: Schema) -> Self {
        self.parameters.push(parameter(ParameterIn::Query, name, schema));
        self.refuses(refusals::OF_PARAMETERS)
    }

    /// Whether it has query parameters.
    pub(crate) fn takes_query(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.parameter_in == ParameterIn::Query)
    }

    /// A query parameter that has to be there.
    pub(crate) fn required_query(mut self, name: &str, schema: Schema) -> Self {
        self = self.query(name, schema);
        if let Some(last) = self.parameters.last_mut() {
            last.required = Required::True;
        }
        self
    }

    /// `label.KEY=VALUE`, any number of them.
    pub(crate) fn labels(mut self) -> Self {
        let mut labels = parameter(ParameterIn::Query, "label.KEY", words::label_parameters());
        labels.description = Some("label.site=12, and others of the same form".to_owned());
        (labels.style, labels.explode) = (Some(ParameterStyle::Form), Some(true));
        self.parameters.push(labels);
        self
    }

    /// The parameters of a selection of devices.
    pub(crate) fn selection(self) -> Self {
        self.query("selector", words::any_text())
            .query("place", words::any_text())
            .refuses(&[(422, "bad_selector"), (422, "bad_place")])
    }

    /// The parameters of a span of time.
    pub(crate) fn span(self) -> Self {
        self.query("from", words::time()).query("to", words::time())
    }

    /// The parameters of a feed.
    pub(crate) fn feed(self) -> Self {
        self.span()
            .query("order", words::order())
            .query("wait", words::duration())
            .refuses(&[(503, "too_many_waiting")])
    }

    /// A list of such items, by pages or as a whole in the forms of an export.
    pub(crate) fn lists<S: ToSchema + CsvRow>(mut self) -> Self {
        let items = ArrayBuilder::new().items(reference::<S>());
        let mut list = ObjectBuilder::new()
            .property("items", items)
            .required("items")
            .property("next_cursor", words::or_null(words::cursor()))
            .required("next_cursor")
            .property("looked_at", words::looked_at());
        if self.parameters.iter().any(|parameter| parameter.name == "wait") {
            list = list.property("tail_cursor", words::cursor());
        }
        let mut response = with_content("a page; or everything, if it is asked for as rows", list.into());
        for rows in RowFormat::ALL {
            let text = ObjectBuilder::new().schema_type(Type::String);
            response
                .content
                .insert(rows.asked_as().to_owned(), Content::new(Some(Schema::from(text))).into());
        }
        self.answers.push((200, response));
        self.query("limit", words::whole(1, PAGE_ITEMS_MAX as u64))
            .query("cursor", words::cursor())
            .refuses(refusals::OF_A_LIST)
            .knows::<S>()
    }

    /// A JSON body with these members and no others.
    pub(crate) fn takes(self, schema: Schema) -> Self {
        self.reads(schema).refuses(refusals::OF_A_BODY)
    }

    /// The same, and no body is as good as an empty object.
    pub(crate) fn may_take(self, schema: Schema) -> Self {
        let mut call = self.takes(schema);
        if let Some(body) = &mut call.body {
            body.required = Some(Required::False);
        }
        call
    }

    /// A JSON body of which only these members are looked at.
    pub(crate) fn reads(mut self, schema: Schema) -> Self {
        self.body = Some(body(JSON, schema, format!("up to {JSON_BODY_BYTES_MAX} bytes")));
        self
    }

    /// A body of lines, each such an object.
    pub(crate) fn takes_lines(mut self, line: &Schema) -> Self {
        let json = serde_json::to_string(line).expect("a schema is JSON");
        let about =
            format!("one object a line, of up to {NDJSON_LINE_BYTES_MAX} bytes, by this schema: {json}");
        // The schema of a body that is not JSON cannot say what its lines are.
        let text = words::any();
        match &mut self.body {
            Some(body) => {
                let content = Content::new(Some(text));
                body.content.insert(RowFormat::Ndjson.asked_as().to_owned(), content.into());
            }
            None => {
                let mut lines = body(RowFormat::Ndjson.asked_as(), text, about);
                // No lines are as good as any.
                lines.required = Some(Required::False);
                self.body = Some(lines);
            }
        }
        self
    }

    /// `Idempotency-Key`.
    pub(crate) fn once(mut self) -> Self {
        self.parameters.push(parameter(ParameterIn::Header, "Idempotency-Key", key_text()));
        self.refuses(refusals::OF_A_KEY)
    }

    /// `Idempotency-Source`, beside `Idempotency-Key`.
    pub(crate) fn with_source(mut self) -> Self {
        let mut source = parameter(ParameterIn::Header, "Idempotency-Source", key_text());
        let about = "who publishes here call after call, each with an Idempotency-Key: its newest is known \
                     for 90 days";
        source.description = Some(about.to_owned());
        self.parameters.push(source);
        self
    }

    /// `If-Match`.
    pub(crate) fn only_if(mut self) -> Self {
        let tags = ObjectBuilder::new().schema_type(Type::String).into();
        let mut only_if = parameter(ParameterIn::Header, "If-Match", tags);
        only_if.description = Some("the ETag that a GET gave: 412 if it was changed since".to_owned());
        self.parameters.push(only_if);
        self.refuses(&[(412, "precondition_failed")])
    }

    /// The answer before this has an `ETag`.
    pub(crate) fn tagged(mut self) -> Self {
        let tag = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^\"[0-9a-f]{16}\"$"));
        let mut tag = Header::new(Schema::from(tag));
        tag.description = Some("the version of what was registered, for If-Match".to_owned());
        if let Some((_, answer)) = self.answers.last_mut() {
            answer.headers.insert("ETag".to_owned(), RefOr::T(tag));
        }
        self
    }

    /// An answer with such an object.
    pub(crate) fn gives<S: ToSchema>(mut self, status: u16, about: &str) -> Self {
        self.answers.push((status, with_content(about, reference::<S>())));
        self.knows::<S>()
    }

    /// An answer without a body.
    pub(crate) fn gives_nothing(mut self, status: u16, about: &str) -> Self {
        self.answers.push((status, Response::new(about)));
        self
    }

    /// An answer that is not JSON of the API.
    pub(crate) fn gives_text(self, content_type: &str, about: &str) -> Self {
        self.gives_texts(&[content_type], about)
    }

    /// The same, in the form that the caller likes best.
    pub(crate) fn gives_texts(mut self, content_types: &[&str], about: &str) -> Self {
        let mut response = Response::new(about);
        for content_type in content_types {
            response.content.insert((*content_type).to_owned(), Content::new(Some(words::any())).into());
        }
        self.answers.push((200, response));
        self
    }

    /// Refusals that it may meet.
    pub(crate) fn refuses(mut self, coded: &[Coded]) -> Self {
        for (status, code) in coded {
            self.refusals.entry(*status).or_default().insert(code);
        }
        self
    }

    /// What refusals with one of these statuses may say beside what every problem does: none of the
    /// members has to be there.
    pub(crate) fn refusals_tell(mut self, statuses: &'static [u16], schema: Schema) -> Self {
        self.more_of_refusals = Some(RefusalMembers { statuses, schema });
        self
    }

    /// A schema, and those that it refers to, for the part that all calls share.
    pub(crate) fn knows<S: ToSchema>(mut self) -> Self {
        self.schemas.push((S::name().into_owned(), S::schema()));
        S::schemas(&mut self.schemas);
        self
    }

    /// A schema by this name, for the part that all calls share.
    pub(crate) fn knows_as(mut self, name: &str, schema: Schema) -> Self {
        self.schemas.push((name.to_owned(), RefOr::T(schema)));
        self
    }

    /// The call in the document. Its schemas go where all of them are.
    pub(super) fn operation(
        self,
        method: &Method,
        path: &str,
        schemas: &mut BTreeMap<String, RefOr<Schema>>,
    ) -> Operation {
        let in_path: Vec<_> = parameters_in(path).collect();
        let mut call = if in_path.is_empty() { self } else { self.refuses(refusals::OF_A_PATH) };
        schemas.extend(std::mem::take(&mut call.schemas));
        let mut operation = Operation::new();
        operation.summary = Some(call.summary.to_owned());
        operation.operation_id = Some(operation_id(method, path));
        operation.tags =
            path.strip_prefix("/v1/").and_then(|rest| rest.split('/').next()).map(|tag| vec![tag.to_owned()]);
        let parameters: Vec<_> = in_path.into_iter().chain(call.parameters).map(RefOr::T).collect();
        operation.parameters = Some(parameters).filter(|all| !all.is_empty());
        operation.request_body = call.body.map(RefOr::T);
        operation.responses = responses(call.answers, &call.refusals, call.more_of_refusals.as_ref());
        operation
    }
}

fn responses(
    answers: Vec<(u16, Response)>,
    refusals: &BTreeMap<u16, BTreeSet<&'static str>>,
    more: Option<&RefusalMembers>,
) -> Responses {
    let mut responses = Responses::new();
    let more = |status| more.filter(|more| more.statuses.contains(status)).map(|more| &more.schema);
    let refused = refusals.iter().map(|(status, codes)| (*status, refused(codes, more(status))));
    for (status, response) in answers.into_iter().chain(refused) {
        responses.responses.insert(status.to_string(), response.into());
    }
    responses
}

/// A problem with one of these codes, and maybe with more members.
fn refused(codes: &BTreeSet<&'static str>, more: Option<&Schema>) -> Response {
    let code = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(codes.iter().map(|code| json!(code))));
    let narrowed = ObjectBuilder::new().property("code", code);
    let mut schema = AllOfBuilder::new().item(Ref::from_schema_name("Problem")).item(narrowed);
    if let Some(more) = more {
        schema = schema.item(more.clone());
    }
    let about = codes.iter().copied().collect::<Vec<_>>().join(", ");
    let mut response = Response::new(about);
    response.content.insert(PROBLEM.to_owned(), Content::new(Some(Schema::from(schema))).into());
    response
}

fn reference<S: ToSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(S::name()).into()
}

fn with_content(about: &str, schema: RefOr<Schema>) -> Response {
    let mut response = Response::new(about);
    response.content.insert(JSON.to_owned(), Content::new(Some(schema)).into());
    response
}

fn body(content_type: &str, schema: Schema, about: String) -> RequestBody {
    let mut body = RequestBody::new();
    body.description = Some(about);
    body.required = Some(Required::True);
    body.content.insert(content_type.to_owned(), Content::new(Some(schema)).into());
    body
}

/// The text of an idempotency key, or of a source.
fn key_text() -> Schema {
    let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[!-~]([ -~]*[!-~])?$"));
    text.max_length(Some(crate::idempotency::KEY_CHARS_MAX)).into()
}

fn parameter(parameter_in: ParameterIn, name: &str, schema: Schema) -> Parameter {
    let mut parameter = Parameter::new(name);
    parameter.required = if parameter_in == ParameterIn::Path { Required::True } else { Required::False };
    parameter.parameter_in = parameter_in;
    parameter.schema = Some(schema.into());
    parameter
}

/// Names here may have more characters than those of queues and streams.
const COORDINATED: [&str; 3] = ["/v1/cache/", "/v1/limits/", "/v1/locks/"];

/// The parameters that a path names.
fn parameters_in(path: &str) -> impl Iterator<Item = Parameter> {
    path.split('/').zip(path.split('/').skip(1)).filter_map(|(before, part)| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        let schema = match before {
            "devices" => words::device_id(),
            "clients" => words::client_id(),
            "deliveries" => words::delivery_id(),
            "commands" => words::command_id(),
            "desired" => words::command_name(),
            "tasks" => words::task_id(),
            "campaigns" => words::campaign_id(),
            "quarantine" => words::quarantined_id(),
            "queues" | "cache" | "channels" | "limits" | "locks" => words::queue_name(),
            "{ns}" if path.ends_with("/consume") => words::queue_names(),
            "{ns}" if COORDINATED.iter().any(|before| path.starts_with(before)) => words::coordination_name(),
            // Several channels, and beginnings of names.
            "{ns}" if path.starts_with("/v1/channels/") => words::any_text(),
            "streams" | "{ns}" | "subscriptions" | "copies" => words::queue_name(),
            "nodes" => words::node_name(),
            "messages" => words::message_id(),
            "jobs" => words::job_id(),
            "aliases" => words::job_name(),
            "relays" => words::relay_name(),
            _ => words::any_text(),
        };
        Some(parameter(ParameterIn::Path, name, schema))
    })
}

/// `POST /v1/deliveries/{id}/retry` is `post_deliveries_id_retry`.
fn operation_id(method: &Method, path: &str) -> String {
    let mut id = method.as_str().to_ascii_lowercase();
    for part in
        path.trim_start_matches("/v1").split(['/', '{', '}', '.', '-']).filter(|part| !part.is_empty())
    {
        id.push('_');
        id.push_str(part);
    }
    id
}
