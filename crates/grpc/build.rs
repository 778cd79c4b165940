//! Makes the types of the protocol from its description, and tells of its messages what they can
//! have many of. No `protoc` is needed: the description is compiled in Rust.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use protox::prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

const PROTO: &str = "proto";
const FILES: [&str; 7] = [
    "fieldpost/v1/commands.proto",
    "fieldpost/v1/coordination.proto",
    "fieldpost/v1/jobs.proto",
    "fieldpost/v1/reports.proto",
    "fieldpost/v1/rollouts.proto",
    "fieldpost/v1/streams.proto",
    "fieldpost/v1/tasks.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile(FILES, [PROTO])?;
    let pool = DescriptorPool::from_file_descriptor_set(descriptors.clone())?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("items.rs"), items(&pool)?)?;
    let types = tonic_prost_build::configure().build_transport(false).bytes(".");
    types.codec_path("crate::items::ItemCodec").compile_fds(descriptors)?;
    Ok(())
}

/// What each message of a call can have many of. Answers are not counted: clients read them.
fn items(pool: &DescriptorPool) -> Result<String, String> {
    let mut fields_of: BTreeMap<String, Option<String>> = BTreeMap::new();
    let services: Vec<_> = pool.services().collect();
    for method in services.iter().flat_map(|service| service.methods()) {
        fields_of.entry(method.output().name().to_owned()).or_default();
        fields_of.insert(method.input().name().to_owned(), Some(fields(&method.input())?));
    }
    let of_message = |(name, fields): (String, Option<String>)| {
        format!(
            "impl crate::items::HasItems for {name} {{
                const FIELDS: Option<&'static [crate::items::ItemField]> = {};
            }}\n",
            shown(fields)
        )
    };
    Ok(fields_of.into_iter().map(of_message).collect())
}

fn shown(fields: Option<String>) -> String {
    fields.map_or_else(|| "None".to_owned(), |fields| format!("Some(&[{fields}])"))
}

/// The fields of a message that can have many items, and those that are messages themselves. No
/// message of the protocol has itself in it. Numbers are packed, many in one field, and nothing
/// counts them.
fn fields(message: &MessageDescriptor) -> Result<String, String> {
    let field = |field: FieldDescriptor| -> Result<String, String> {
        let (number, kind) = (field.number(), field.kind());
        let inner = shown(kind.as_message().map(fields).transpose()?);
        let items = match (field.is_list() || field.is_map(), &kind) {
            (false, Kind::Message(_)) => "None",
            (false, _) => return Ok(String::new()),
            (true, Kind::Message(_)) => "Some(crate::items::ItemKind::Message)",
            (true, Kind::String | Kind::Bytes) => "Some(crate::items::ItemKind::Text)",
            (true, _) => {
                return Err(format!("{} is a list of numbers: count what is packed", field.full_name()));
            }
        };
        Ok(format!("crate::items::ItemField {{ number: {number}, items: {items}, fields: {inner} }},"))
    };
    message.fields().map(field).collect()
}
