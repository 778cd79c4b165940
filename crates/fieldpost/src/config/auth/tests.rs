//! Lists of tokens and logins from outside: what they come to, and what is said of a mistake.

use std::path::Path;

use super::super::layers::Layers;
use super::super::{ConfigErrors, ServerSettings, TlsSettings};
use super::*;

/// Of the token "secret".
const SHA256: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
/// Of the password "other".
const OTHER: &str = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

fn load(file: &str, variables: &[(&str, &str)]) -> Result<ServerSettings, ConfigErrors> {
    let mut layers = Layers::of_defaults();
    layers.add_text(Path::new("f.toml"), &file.replace("SHA256", SHA256).replace("OTHER", OTHER));
    layers.add_variables(variables.iter().map(|(name, value)| (name.into(), value.into())));
    let (settings, from) = ServerSettings::read(layers);
    from.finish(settings)
}

/// The file is refused in these words, without any secret in them.
fn check_refused(file: &str, says: &str) {
    let told = load(file, &[]).expect_err(file).to_string();
    assert_eq!(told, says, "{file}");
}

#[test]
fn tokens_and_logins_are_read() {
    let file = r#"
        [[auth.tokens]]
        name = "ops"
        sha256 = "SHA256"
        scopes = ["admin"]
        [[auth.tokens]]
        name = "acme.7"
        sha256 = "OTHER"
        scopes = ["client:acme", "report"]
        requests_per_second = 10
        requests_in_flight = 2
        classes = ["enterprise", "ordinary"]
        picks_per_hour = 600
        count_max = 20
        [[auth.mqtt]]
        username = "gate-7"
        password_sha256 = "SHA256"
        device = "0xA"
        [[auth.mqtt]]
        username = "site"
        password_sha256 = "SHA256"
        prefix = "s12"
        [[auth.mqtt]]
        username = "label"
        password_sha256 = "SHA256"
        label = "site=12=a"
        [[auth.mqtt]]
        username = "admin"
        password_sha256 = "SHA256"
        admin = true
    "#;
    let auth = load(file, &[]).expect("right").auth;
    let [ops, acme] = &auth.tokens[..] else { panic!("two tokens") };
    assert_eq!((ops.name.as_str(), ops.digest), ("ops", Digest::of(b"secret")));
    assert_eq!((&ops.scopes[..], ops.requests_per_second), (&[Scope::Admin][..], None));
    assert_eq!(acme.scopes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["client:acme", "report"]);
    let limits = (acme.requests_per_second, acme.requests_in_flight);
    assert_eq!(limits, (NonZeroU32::new(10), NonZeroU32::new(2)));
    assert_eq!(ops.picks, PickLimits::default());
    let picks = PickLimits {
        classes: Some(["enterprise", "ordinary"].into()),
        picks_per_hour: NonZeroU32::new(600),
        count_max: NonZeroU32::new(20),
    };
    assert_eq!(acme.picks, picks);
    let logins: Vec<_> = auth.logins.iter().map(|login| &login.login).collect();
    let label = Login::Label { key: "site".to_owned(), value: "12=a".to_owned() };
    let device = Login::Device(DeviceId::new("0xA").expect("an id"));
    assert_eq!(logins, [&device, &Login::Prefix("s12".to_owned()), &label, &Login::Admin]);
}

const RIGHT_SHA256: &str = "write 64 hexadecimal digits, as printf %s SECRET | sha256sum gives them";
const RIGHT_SCOPES: &str = "write a list such as [\"read\"] of admin, read, report, commands, tasks, operate, jobs:NAMESPACE, \
    coordinate:NAMESPACE, streams:NAMESPACE (with :read or :append for only that) or client:ID";

fn token(name: &str, sha256: &str, scopes: &str) -> String {
    format!("[[auth.tokens]]\nname = {name}\nsha256 = {sha256}\nscopes = {scopes}\n")
}

#[test]
fn a_wrong_field_of_a_token_is_told_with_its_place() {
    let (right_sha256, right_scopes) = (RIGHT_SHA256, RIGHT_SCOPES);
    for (file, says) in [
        (
            "[[auth.tokens]]\n".to_owned(),
            format!(
                "f.toml:1:1: auth.tokens.name: is missing; write 1 to 64 letters, digits, '_', '-' and '.'\n\
                 f.toml:1:1: auth.tokens.scopes: is missing; {right_scopes}\n\
                 f.toml:1:1: auth.tokens.sha256: is missing; {right_sha256}"
            ),
        ),
        (
            token("\"a b\"", "\"SHA256\"", "[\"admin\"]"),
            "f.toml:2:1: auth.tokens.name: \"a b\" is not a name; write 1 to 64 letters, digits, '_', '-' and '.'"
                .to_owned(),
        ),
        (
            token("\"a\"", "\"my-secret-token\"", "[\"admin\"]"),
            format!("f.toml:3:1: auth.tokens.sha256: is not the hexadecimal form of a SHA-256; {right_sha256}"),
        ),
        (
            token("\"a\"", "1234", "[\"admin\"]"),
            format!("f.toml:3:1: auth.tokens.sha256: is a number, not a text in quotes; {right_sha256}"),
        ),
        (
            token("\"a\"", "\"E3B0C44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"", "[\"read\"]"),
            format!("f.toml:3:1: auth.tokens.sha256: is the SHA-256 of nothing at all; {right_sha256}"),
        ),
    ] {
        check_refused(&file, &says);
    }
}

#[test]
fn every_wrong_scope_of_a_token_is_told() {
    let says = ["f.toml:4:11: auth.tokens.scopes: \"raed\"", "f.toml:4:27: auth.tokens.scopes: \"writ\""]
        .map(|place| format!("{place} is not a scope; write {}", Scope::FORMS));
    check_refused(&token("\"a\"", "\"SHA256\"", "[\"raed\", \"read\", \"writ\"]"), &says.join("\n"));
}

#[test]
fn a_wrong_list_is_told_with_its_place() {
    let right_scopes = RIGHT_SCOPES;
    for (file, says) in [
        (
            token("\"a\"", "\"SHA256\"", "[]"),
            format!("f.toml:4:1: auth.tokens.scopes: is empty; {right_scopes}"),
        ),
        (
            token("\"a\"", "\"SHA256\"", "\"admin\""),
            format!("f.toml:4:1: auth.tokens.scopes: is a text, not a list; {right_scopes}"),
        ),
        (
            token("\"a\"", "\"SHA256\"", "[\"read\", \"jobs:\"]"),
            "f.toml:4:19: auth.tokens.scopes: \"jobs:\" is not a scope; write admin, read, report, commands, \
             tasks, operate, jobs:NAMESPACE, coordinate:NAMESPACE, streams:NAMESPACE (with :read or :append for only that) or client:ID"
                .to_owned(),
        ),
        (
            token("\"a\"", "\"SHA256\"", "[\"read\"]") + "requests_per_second = 0\nrequest_in_flight = 1\n",
            "f.toml:5:1: auth.tokens.requests_per_second: 0 is out of range; write a whole number from 1 to 1000000\n\
             f.toml:6:1: auth.tokens.request_in_flight: unknown key; did you mean requests_in_flight?"
                .to_owned(),
        ),
        (
            token("\"a\"", "\"SHA256\"", "[\"tasks\"]") + "classes = [\"small\"]\ncount_max = 100001\n",
            "f.toml:5:12: auth.tokens.classes: \"small\" is not a known word; write \"large\" or \"enterprise\" or \
             \"ordinary\"\n\
             f.toml:6:1: auth.tokens.count_max: 100001 is out of range; write a whole number from 1 to 100000"
                .to_owned(),
        ),
        (
            token("\"a\"", "\"SHA256\"", "[\"tasks\"]") + "classes = []\n",
            "f.toml:5:1: auth.tokens.classes: is empty; write a list such as [\"ordinary\"] of \"large\" or \
             \"enterprise\" or \"ordinary\""
                .to_owned(),
        ),
        (
            token("\"a\"", "\"SHA256\"", "[\"read\"]") + &token("\"a\"", "\"SHA256\"", "[\"read\"]"),
            "f.toml:5:1: auth.tokens.name: another token has that name; write each once\n\
             f.toml:5:1: auth.tokens.sha256: another token has that SHA-256; write each once"
                .to_owned(),
        ),
        ("auth.tokens = 1\n".to_owned(), "f.toml:1:6: auth.tokens: is a number, not a list of sections; write [[auth.tokens]]".to_owned()),
        (
            "auth.tokens = [\"x\"]\n".to_owned(),
            "f.toml:1:16: auth.tokens: is a list with a text in it; write [[auth.tokens]] above each entry".to_owned(),
        ),
        (
            "[[auth.token]]\nname = \"a\"\n".to_owned(),
            "f.toml:1:8: auth.token: unknown key; did you mean auth.tokens?".to_owned(),
        ),
    ] {
        check_refused(&file, &says);
    }
}

#[test]
fn a_login_speaks_for_one_thing() {
    let login =
        |rest: &str| format!("[[auth.mqtt]]\nusername = \"u\"\npassword_sha256 = \"SHA256\"\n{rest}\n");
    let one = "write exactly one of device, prefix, label and admin";
    for (rest, says) in [
        ("", format!("f.toml:1:1: auth.mqtt: does not say for which devices it speaks; {one}")),
        ("device = \"a\"\nadmin = true", format!("f.toml:1:1: auth.mqtt: device and admin are both there; {one}")),
        ("device = \"a/b\"", "f.toml:4:1: auth.mqtt.device: \"a/b\" is not an id; write the id of a device: 1 to 64 letters, digits, '-', '_', '.' and ':'".to_owned()),
        ("prefix = \"\"", "f.toml:4:1: auth.mqtt.prefix: \"\" is not the beginning of an id; write the beginning of ids of devices: 1 to 64 letters, digits, '-', '_', '.' and ':'".to_owned()),
        ("label = \"Site=1\"", "f.toml:4:1: auth.mqtt.label: \"Site=1\" is not a label; write a label: \"key=value\"".to_owned()),
        ("label = \"site\"", "f.toml:4:1: auth.mqtt.label: \"site\" is not a label; write a label: \"key=value\"".to_owned()),
        ("admin = false", "f.toml:4:1: auth.mqtt.admin: is false; write admin = true, or leave it out".to_owned()),
        ("devise = \"a\"", format!(
            "f.toml:1:1: auth.mqtt: does not say for which devices it speaks; {one}\n\
             f.toml:4:1: auth.mqtt.devise: unknown key; did you mean device?"
        )),
    ] {
        check_refused(&login(rest), &says);
    }
    let twice = login("admin = true").repeat(2);
    check_refused(&twice, "f.toml:5:1: auth.mqtt.username: another login has that username; write each once");
    check_refused(
        "[[auth.mqtt]]\nusername = \"\"\npassword_sha256 = \"hunter2\"\nadmin = true\n",
        "f.toml:2:1: auth.mqtt.username: has 0 bytes; write a text in quotes of 1 to 256 bytes\n\
         f.toml:3:1: auth.mqtt.password_sha256: is not the hexadecimal form of a SHA-256; write 64 hexadecimal digits, as \
         printf %s SECRET | sha256sum gives them",
    );
}

#[test]
fn lists_are_not_set_by_variables() {
    let told = load("", &[("FIELDPOST_AUTH__TOKENS", "x")]).expect_err("a list").to_string();
    let says = "environment variable FIELDPOST_AUTH__TOKENS: auth.tokens: is a list, which no variable can hold; write \
                [[auth.tokens]] in a file";
    assert_eq!(told, says);
}

#[test]
fn what_recognises_a_secret_is_not_shown() {
    let file = "[[auth.tokens]]\nname = \"ops\"\nsha256 = \"SHA256\"\nscopes = [\"admin\"]\n\
                [[auth.mqtt]]\nusername = \"gate\"\npassword_sha256 = \"OTHER\"\nadmin = true\n";
    let shown = format!("{:?}", load(file, &[]).expect("right").auth);
    assert!(shown.contains("ops") && shown.contains("gate"), "{shown}");
    // Neither as the text of a digest nor as its bytes.
    for secret in ["2bb80d", "d9298a", "43, 184", "217, 41"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn a_listener_may_leave_loopback_once_it_is_said_who_may_do_what() {
    let tokens = "[[auth.tokens]]\nname = \"ops\"\nsha256 = \"SHA256\"\nscopes = [\"admin\"]\n";
    let logins = "[[auth.mqtt]]\nusername = \"gate\"\npassword_sha256 = \"SHA256\"\nadmin = true\n";
    let (http, mqtt) = ("http.listen = \"0.0.0.0:80\"\n", "mqtt.listen = \"0.0.0.0:1883\"\n");
    for (file, refused) in [
        (format!("{http}{tokens}"), None),
        (format!("{mqtt}{logins}"), None),
        (format!("{http}{mqtt}{tokens}{logins}"), None),
        (format!("{http}auth.tokens = []\n"), Some("f.toml:1:6: http.listen: 0.0.0.0:80 can be reached")),
        (format!("{http}{logins}"), Some("f.toml:1:6: http.listen: 0.0.0.0:80 can be reached")),
        (format!("{mqtt}{tokens}"), Some("f.toml:1:6: mqtt.listen: 0.0.0.0:1883 can be reached")),
    ] {
        let told = load(&file, &[]).err().map(|errors| errors.to_string());
        assert_eq!(told.is_some(), refused.is_some(), "{file}: {told:?}");
        assert!(told.unwrap_or_default().starts_with(refused.unwrap_or_default()), "{file}");
    }
}

#[test]
fn certificate_and_key_come_together() {
    let tls = |cert: &str, key: &str| Some(TlsSettings { cert: cert.into(), key: key.into() });
    let variables = [("FIELDPOST_TLS__KEY", "other.pem")];
    let file = "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";
    assert_eq!(load(file, &[]).expect("right").tls, tls("cert.pem", "key.pem"));
    assert_eq!(load(file, &variables).expect("right").tls, tls("cert.pem", "other.pem"));
    check_refused(
        "[tls]\ncert = \"cert.pem\"\n",
        "f.toml:2:1: tls.cert: is given without the other; write both tls.cert and tls.key, or neither",
    );
    let told = load("", &variables).expect_err("a key alone").to_string();
    assert!(told.starts_with("environment variable FIELDPOST_TLS__KEY: tls.key: is given without"), "{told}");
}
