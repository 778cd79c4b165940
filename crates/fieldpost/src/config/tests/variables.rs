//! Variables of the environment, and the flag, over the file.

use std::os::unix::ffi::OsStringExt;

use super::*;

#[test]
fn a_variable_overrides_the_file() {
    check(
        "data_dir = \"a\"\nnotify.max_attempts = 3\nnotify.timeout = \"1s\"\nnotify.allow_private = true",
        &[
            ("FIELDPOST_DATA_DIR", "b"),
            ("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "7"),
            ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "false"),
            ("FIELDPOST_MQTT__LISTEN", ""),
        ],
        |settings| {
            settings.data_dir = "b".into();
            settings.notify.max_attempts = 7;
            settings.notify.timeout = SECOND;
            settings.mqtt.listen = None;
        },
    );
}

#[test]
fn the_flag_overrides_the_variable() {
    let variable = ("FIELDPOST_DATA_DIR".into(), "b".into());
    let settings =
        ServerSettings::load(None, [variable], Some(Path::new("c")), no_file).expect("right settings");
    assert_eq!(settings.data_dir, Path::new("c"));
}

#[test]
fn variables_that_are_not_settings_are_ignored() {
    let variables =
        [("FIELDPOST_LOG", "debug"), ("FIELDPOST_HTTP_PORT", "x"), ("HTTP__LISTEN", "x"), ("PATH", "/bin")];
    check("", &variables, |_| {});
}

#[test]
fn an_unknown_variable_with_two_underscores_is_refused_by_name() {
    check_refused(
        "",
        &[("FIELDPOST_HTTP__LITSEN", "127.0.0.1:1")],
        "environment variable FIELDPOST_HTTP__LITSEN: http.litsen: unknown key; did you mean http.listen?",
    );
    check_refused(
        "",
        &[("FIELDPOST_http__listen", "127.0.0.1:1")],
        "environment variable FIELDPOST_http__listen: http__listen: unknown key; did you mean http.listen?",
    );
}

#[test]
fn a_variable_with_one_underscore_in_place_of_two_is_refused_with_its_right_name() {
    for (name, key, right) in [
        ("FIELDPOST_HTTP_LISTEN", "http.listen", "FIELDPOST_HTTP__LISTEN"),
        ("FIELDPOST_LMSTFY_ADMIN_LISTEN", "lmstfy.admin_listen", "FIELDPOST_LMSTFY__ADMIN_LISTEN"),
        ("FIELDPOST_notify_max_attempts", "notify.max_attempts", "FIELDPOST_NOTIFY__MAX_ATTEMPTS"),
    ] {
        let says = format!(
            "environment variable {name}: {key}: has one underscore between section and key, so it would be \
             ignored; write {right}, with two"
        );
        check_refused("", &[(name, "1")], &says);
    }
    // A key of the file that does not exist is its own mistake, and makes no variable right or
    // wrong.
    let told = load("http.port = 1", &[("FIELDPOST_HTTP_PORT", "1")]).expect_err("unknown").to_string();
    assert!(told.starts_with("f.toml:1:6: http.port: unknown key") && !told.contains('\n'), "{told}");
}

#[test]
fn a_variable_with_two_underscores_behind_the_prefix_is_refused_with_its_right_name() {
    for (name, key, right) in [
        ("FIELDPOST__HTTP_LISTEN", "http.listen: ", "FIELDPOST_HTTP__LISTEN"),
        ("FIELDPOST__HTTP__LISTEN", "http.listen: ", "FIELDPOST_HTTP__LISTEN"),
        ("FIELDPOST___MQTT_MIRROR", "mqtt.mirror: ", "FIELDPOST_MQTT__MIRROR"),
        ("FIELDPOST__DATA_DIR", "data_dir: ", "FIELDPOST_DATA_DIR"),
        ("FIELDPOST__NOTHING", "", "FIELDPOST_<SECTION>__<KEY>, such as FIELDPOST_HTTP__LISTEN"),
    ] {
        let says =
            format!("environment variable {name}: {key}has two underscores behind FIELDPOST; write {right}");
        check_refused("", &[(name, "bogus")], &says);
    }
}

#[test]
fn a_wrong_variable_is_refused_by_name() {
    check_refused(
        "",
        &[("FIELDPOST_NOTIFY__TIMEOUT", "10")],
        "environment variable FIELDPOST_NOTIFY__TIMEOUT: notify.timeout: \"10\" is not a duration such as \"250ms\", \
         \"30s\" or \"1h30m\"; write a duration from \"1ms\" to \"10m\"",
    );
    let told = ServerSettings::load(
        None,
        [("FIELDPOST_HTTP__LISTEN".into(), OsString::from_vec(vec![0xff]))],
        None,
        no_file,
    );
    let told = told.expect_err("not UTF-8").to_string();
    assert!(
        told.starts_with("environment variable FIELDPOST_HTTP__LISTEN: http.listen: is not UTF-8; "),
        "{told}"
    );
}

#[test]
fn a_mistake_in_the_file_is_told_even_where_a_variable_overrides_it() {
    check_refused(
        "notify.max_attempts = 0",
        &[("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "5")],
        "f.toml:1:8: notify.max_attempts: 0 is out of range; write a whole number from 1 to 1000",
    );
}
