//! Holds answers against the OpenAPI document: a status, a code or a member that it does not tell
//! fails the test that saw it.

use serde_json::Value as Json;

use crate::rig::Answer;

/// The document.
#[derive(Debug)]
pub(crate) struct Described(Json);

impl Described {
    pub(crate) fn new(document: Json) -> Self {
        Self(document)
    }

    /// `call` is a method and a path. What is no call of the document, or sent with a wrong method,
    /// is none of its business.
    pub(crate) fn check(&self, call: &str, answer: &Answer) {
        let (method, path) = call.split_once(' ').expect("a method and a path");
        let Some(operation) = self.operation(method, path) else { return };
        let response = &operation["responses"][answer.status.to_string()];
        assert!(response.is_object(), "{call}: {} is not described, {}", answer.status, answer.text);
        let Some(content_type) = answer.header("content-type") else {
            assert!(response["content"].is_null(), "{call}: a body is described");
            return;
        };
        let essence = content_type.split(';').next().unwrap_or_default();
        let contents = response["content"].as_object().expect("a body is described");
        let content = contents.iter().find(|(name, _)| name.split(';').next() == Some(essence));
        let (_, content) = content.unwrap_or_else(|| panic!("{call}: {content_type} is not described"));
        if ["application/json", "application/problem+json"].contains(&essence) {
            let fits = self.fits(&content["schema"], &answer.json());
            assert_eq!(fits, Ok(()), "{call}: {}", answer.text);
        }
    }

    fn operation(&self, method: &str, path: &str) -> Option<&Json> {
        let path = path.split('?').next().unwrap_or_default();
        let suits = |template: &str| {
            let (parts, given): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
            let same = |(part, given): (&&str, &&str)| part == given || part.starts_with('{');
            parts.len() == given.len() && parts.iter().zip(&given).all(same)
        };
        let paths = self.0["paths"].as_object().expect("paths");
        let exact = paths.get(path);
        let calls =
            exact.or_else(|| paths.iter().find(|(template, _)| suits(template)).map(|(_, calls)| calls));
        calls?.get(method.to_ascii_lowercase())
    }

    /// As much of JSON Schema as the document uses.
    fn fits(&self, schema: &Json, value: &Json) -> Result<(), String> {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.strip_prefix("#/components/schemas/").expect("a schema");
            let known = self.0["components"]["schemas"].get(name).ok_or(format!("no schema {name}"))?;
            return self.fits(known, value);
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.fits(part, value)?;
        }
        if let Some(parts) = schema["oneOf"].as_array() {
            let suiting = parts.iter().filter(|part| self.fits(part, value).is_ok()).count();
            if suiting != 1 {
                return Err(format!("{value} suits {suiting} of {parts:?}"));
            }
        }
        if let Some(words) = schema["enum"].as_array()
            && !words.contains(value)
        {
            return Err(format!("{value} is none of {words:?}"));
        }
        has_type(&schema["type"], value)?;
        self.members_fit(schema, value)
    }

    fn members_fit(&self, schema: &Json, value: &Json) -> Result<(), String> {
        for name in schema["required"].as_array().into_iter().flatten() {
            if value.get(name.as_str().expect("a name")).is_none() {
                return Err(format!("{name} is not in {value}"));
            }
        }
        for (name, member) in value.as_object().into_iter().flatten() {
            let described = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
            self.fits(described, member).map_err(|why| format!("{name}: {why}"))?;
        }
        let mut items = value.as_array().into_iter().flatten();
        items.try_for_each(|item| self.fits(&schema["items"], item))
    }
}

fn has_type(types: &Json, value: &Json) -> Result<(), String> {
    let name = match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_u64() || number.is_i64() => "integer",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    let suits = |described: &Json| described == name || (described == "number" && name == "integer");
    let suiting = match types {
        Json::Array(any) => any.iter().any(suits),
        Json::Null => true,
        one => suits(one),
    };
    if suiting { Ok(()) } else { Err(format!("{value} is no {types}")) }
}
