//! Where the server listens, and what it answers to there.

use axum::http::HeaderValue;

use super::*;

#[test]
fn names_of_hosts_and_origins_are_lists() {
    // Without tokens the origins have no effect.
    let names = |settings: &mut ServerSettings, place: &str| {
        let what = "http.origins: has no effect without [[auth.tokens]]; list tokens, or leave it out";
        settings.warnings = vec![format!("{place}: {what}: only the server's own pages may call it")];
        settings.http.hosts = vec!["depot.example".to_owned(), "b".to_owned()];
        settings.http.origins = vec![HeaderValue::from_static("https://c.example")];
    };
    let file = r#"http = { hosts = ["Depot.example", "b"], origins = ["https://c.example"] }"#;
    check(file, &[], |settings| names(settings, "f.toml:1:42"));
    let variables =
        [("FIELDPOST_HTTP__HOSTS", "depot.example, b"), ("FIELDPOST_HTTP__ORIGINS", "https://c.example")];
    check("", &variables, |settings| names(settings, "environment variable FIELDPOST_HTTP__ORIGINS"));
    check_refused(
        r#"http.origins = ["https://c.example/"]"#,
        &[],
        "f.toml:1:6: http.origins: \"https://c.example/\" cannot be one; write a list of at most 64, such as \
         [\"https://console.example\"], without a path",
    );
}

#[test]
fn a_listener_off_loopback_is_refused() {
    for address in ["0.0.0.0:1883", "[::]:1883", "192.168.1.5:1883", "[::ffff:10.0.0.1]:1883"] {
        check_refused(
            &format!("mqtt.listen = \"{address}\""),
            &[],
            &format!(
                "f.toml:1:6: mqtt.listen: {address} can be reached from other machines, and no [[auth.mqtt]] says who \
                 may do what; list them, or write a loopback address, such as 127.0.0.1:1883"
            ),
        );
    }
    for key in ["listen", "admin_listen"] {
        check_refused(
            &format!("lmstfy.{key} = \"0.0.0.0:7777\""),
            &[],
            &format!(
                "f.toml:1:8: lmstfy.{key}: 0.0.0.0:7777 can be reached from other machines, and no [[auth.tokens]] says \
                 who may do what; list them, or write a loopback address, such as 127.0.0.1:7777"
            ),
        );
    }
    for address in ["127.0.0.2:1883", "[::1]:1883", "[::ffff:127.0.0.1]:1883"] {
        check(&format!("mqtt.listen = \"{address}\""), &[], |settings| {
            settings.mqtt.listen = Some(address.parse().expect("an address"));
        });
    }
}

#[test]
fn two_listeners_do_not_share_an_address() {
    check_refused(
        "[mqtt]\nlisten = \"127.0.0.1:8080\"\n",
        &[],
        "f.toml:2:1: mqtt.listen: is the address of http.listen too; two listeners need two ports",
    );
    check_refused(
        "[lmstfy]\nlisten = \"127.0.0.1:7777\"\nadmin_listen = \"127.0.0.1:7777\"\n",
        &[],
        "f.toml:3:1: lmstfy.admin_listen: is the address of lmstfy.listen too; two listeners need two ports",
    );
    check(
        "http.listen = \"127.0.0.1:0\"\nmqtt.listen = \"127.0.0.1:0\"\nlmstfy.listen = \"127.0.0.1:0\"",
        &[],
        |settings| {
            settings.http.listen.set_port(0);
            settings.mqtt.listen = Some(settings.http.listen);
            settings.lmstfy.listen = Some(settings.http.listen);
        },
    );
}
