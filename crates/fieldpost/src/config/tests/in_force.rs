//! What may be shown of the settings: everything but secrets.

use serde_json::{Value as Json, json};

use super::*;

fn in_force(file: &str, variables: &[(&str, &str)]) -> Json {
    let mut layers = Layers::of_defaults();
    layers.add_text(Path::new("f.toml"), file);
    layers.add_variables(variables.iter().map(|(name, value)| (name.into(), value.into())));
    let (settings, from) = ServerSettings::read(layers);
    let in_force = from.in_force();
    from.finish(settings).expect("right settings");
    in_force.json().clone()
}

/// Every secret that a configuration can hold is one of these.
const DIGEST: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const FULL: &str = r#"
[amqp]
url = "amqps://fleet:hunter2@rabbit.example:5671/vhost"
[notify]
timeout = "7s"
[[auth.tokens]]
name = "ops"
sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
scopes = ["admin", "client:acme"]
requests_per_second = 100
[[auth.mqtt]]
username = "gate-7"
password_sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
device = "0xA"
[kinds.face]
gap = "100ms"
"#;

#[test]
fn a_full_configuration_is_shown_without_its_secrets() {
    let shown = in_force(FULL, &[]);
    let text = shown.to_string();
    for secret in ["hunter2", "rabbit.example", DIGEST, &DIGEST[..16]] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    assert_eq!(shown["amqp"]["url"], "(hidden)");
    let tokens = json!([{
        "name": "ops",
        "sha256": "(hidden)",
        "scopes": ["admin", "client:acme"],
        "requests_per_second": 100,
    }]);
    assert_eq!(shown["auth"]["tokens"], tokens);
    let logins = json!([{"username": "gate-7", "password_sha256": "(hidden)", "device": "0xA"}]);
    assert_eq!(shown["auth"]["mqtt"], logins);
    assert_eq!(shown["kinds"]["face"], json!({"gap": "100ms"}));
}

#[test]
fn the_highest_layer_is_the_one_in_force() {
    let variable = ("FIELDPOST_AMQP__URL", "amqp://fleet:hunter2@localhost");
    let shown = in_force("[notify]\ntimeout = \"7s\"\n[http]\nlive_max = 9\n", &[variable]);
    assert_eq!(shown["amqp"]["url"], "(hidden)");
    assert_eq!((&shown["notify"]["timeout"], &shown["http"]["live_max"]), (&json!("7s"), &json!(9)));
    assert_eq!(shown["server"]["data_dir"], "./fieldpost-data");
    assert_eq!(in_force("", &[])["amqp"]["url"], "", "off is no secret");
}

/// A key is hidden unless its form says that it is no secret: a new one is hidden by itself.
#[test]
fn every_default_is_shown_but_what_may_hold_a_secret() {
    let (_, from) = ServerSettings::read(Layers::of_defaults());
    let shown = from.in_force();
    let sections = shown.json().as_object().expect("sections");
    let keys = sections.iter().flat_map(|(section, keys)| {
        keys.as_object().expect("keys").iter().map(move |(key, value)| (format!("{section}.{key}"), value))
    });
    let hidden: Vec<_> = keys.filter(|(_, value)| **value == "(hidden)").map(|(key, _)| key).collect();
    assert_eq!(hidden, Vec::<String>::new(), "a default is no secret");
}
