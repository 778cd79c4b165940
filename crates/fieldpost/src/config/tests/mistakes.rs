//! What is said of a file that is wrong, and where.

use super::*;

#[test]
fn a_wrong_value_is_told_with_its_place_and_what_would_be_right() {
    let duration = "write a duration from";
    let id_len = "write a whole number from 1 to 64";
    let address = "write an IP address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"";
    for (file, says) in [
        ("devices.id_max_len = 65", format!("devices.id_max_len: 65 is out of range; {id_len}")),
        ("devices.id_max_len = -1", format!("devices.id_max_len: -1 is out of range; {id_len}")),
        ("devices.id_max_len = 1.5", format!("devices.id_max_len: is a number with a fraction, not a whole number; {id_len}")),
        ("devices.id_max_len = \"16\"", format!("devices.id_max_len: \"16\" is a text, not a number; {id_len}")),
        (
            "devices.id_max_len = 99999999999999999999",
            format!("devices.id_max_len: is a number that is far too large, not a whole number; {id_len}"),
        ),
        ("devices.id_chars = \"any\"", "devices.id_chars: \"any\" is not a known word; write \"alnum\" or \"extended\"".into()),
        ("devices.unknown = \"drop\"", "devices.unknown: \"drop\" is not a known word; write \"reject\" or \"register\"".into()),
        ("notify.timeout = 10", format!("notify.timeout: 10 has no unit; {duration} \"1ms\" to \"10m\"")),
        ("notify.timeout = \"0s\"", format!("notify.timeout: \"0s\" is out of range; {duration} \"1ms\" to \"10m\"")),
        ("notify.retry_max = \"11y\"", format!(
            "notify.retry_max: \"11y\" is not a duration such as \"250ms\", \"30s\" or \"1h30m\"; {duration} \"1ms\" to \"30d\""
        )),
        ("notify.max_attempts = 0", "notify.max_attempts: 0 is out of range; write a whole number from 1 to 1000".into()),
        ("notify.allow_private = \"true\"", "notify.allow_private: \"true\" is a text; write true or false, without quotes".into()),
        ("http.listen = \"localhost:80\"", format!("http.listen: \"localhost:80\" is not an IP address with a port; {address}")),
        ("http.listen = \"\"", format!("http.listen: \"\" is not an IP address with a port; {address}")),
        ("http.listen = 8080", format!("http.listen: is a number, not a text in quotes; {address}")),
        ("mqtt.listen = \"1883\"", format!("mqtt.listen: \"1883\" is not an IP address with a port; {address}, or \"\" for off")),
        ("data_dir = \"\"", "data_dir: is empty; write the path of a directory, such as \"./fieldpost-data\"".into()),
        ("amqp.prefetch = 70000", "amqp.prefetch: 70000 is out of range; write a whole number from 1 to 65535".into()),
        ("quarantine.max_bytes = \"1\"", "quarantine.max_bytes: \"1\" is not a size; write a size from \"64KB\" to \"1TB\", in B, KB, MB, GB, TB, KiB, MiB, GiB or TiB".into()),
    ] {
        let column = if file.starts_with("data_dir") { 3 } else { file.find('.').expect("a dotted key") + 4 };
        check_refused(&format!("\n  {file}"), &[], &format!("f.toml:2:{column}: {says}"));
    }
}

#[test]
fn unknown_keys_and_sections_are_told_with_what_was_probably_meant() {
    check_refused(
        "[htpp]\nlisten = \"\"\n[http]\nbanner = 1\ndata_dir = \"x\"\nlistn = \"\"\n[zzz]\n",
        &[],
        "f.toml:1:2: htpp: unknown section; did you mean [http]?\n\
         f.toml:4:1: http.banner: unknown key; the commented default file lists every key\n\
         f.toml:5:1: http.data_dir: unknown key; data_dir stands before the first [section]\n\
         f.toml:6:1: http.listn: unknown key; did you mean http.listen?\n\
         f.toml:7:2: zzz: unknown section; the sections are amqp, auth, campaigns, commands, coordination, devices, durability, fleet, grpc, history, http, \
         jobs, kinds, lmstfy, mqtt, node, notices, notify, operations, quarantine, relay, store, streams, tls and [[storages]]",
    );
    check_refused(
        "[storages]\nname = \"cold\"\n[storage]\n",
        &[],
        "f.toml:1:2: storages: is a section, not a list of sections; write [[storages]]\n\
         f.toml:3:2: storage: unknown section; did you mean [[storages]]?",
    );
    check_refused("http = 1", &[], "f.toml:1:1: http: unknown key; it is a section: write [http]");
}

#[test]
fn what_is_wrong_with_the_files_of_a_certificate_is_told_at_the_keys_that_name_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("f.toml");
    std::fs::write(&file, "[tls]\ncert = \"c.pem\"\nkey = \"k.pem\"\n").expect("written");
    let fault = |key, wrong: &str| Fault { key, wrong: wrong.to_owned(), right: "mend it" };
    let faults = |tls: &TlsSettings| {
        assert_eq!(*tls, TlsSettings { cert: "c.pem".into(), key: "k.pem".into() });
        vec![fault("tls.key", "is odd"), fault("tls.cert", "is not there")]
    };
    let told = ServerSettings::load(Some(&file), [], None, faults).expect_err("two faults").to_string();
    let at = file.display();
    assert_eq!(
        told,
        format!("{at}:2:1: tls.cert: is not there; mend it\n{at}:3:1: tls.key: is odd; mend it")
    );
    let variable = ("FIELDPOST_TLS__CERT".into(), "c.pem".into());
    let told =
        ServerSettings::load(Some(&file), [variable], None, faults).expect_err("two faults").to_string();
    assert!(told.contains("environment variable FIELDPOST_TLS__CERT: tls.cert: is not there"), "{told}");
}

#[test]
fn what_has_no_effect_is_a_warning() {
    let file = "[http]\norigins = [\"https://console.example\"]\n";
    let settings = load(file, &[]).expect("it is right");
    let warning = "f.toml:2:1: http.origins: has no effect without [[auth.tokens]]; \
                   list tokens, or leave it out: only the server's own pages may call it";
    assert_eq!(settings.warnings, [warning]);
    let digest = "a".repeat(64);
    let tokens = format!("[[auth.tokens]]\nname = \"ops\"\nsha256 = \"{digest}\"\nscopes = [\"admin\"]\n");
    let settings = load(&format!("{file}{tokens}"), &[]).expect("it is right");
    assert_eq!(settings.warnings, Vec::<String>::new());
}

#[test]
fn text_that_is_not_toml_is_told_with_its_place() {
    let told = load("[http]\nlisten = 127.0.0.1:1\n", &[]).expect_err("not TOML").to_string();
    assert!(told.starts_with("f.toml:2:"), "{told}");
    assert!(told.contains("not TOML"), "{told}");
    let told = load("[http]\nlisten = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"\n", &[])
        .expect_err("twice")
        .to_string();
    assert!(told.starts_with("f.toml:3:1: not TOML: duplicate key"), "{told}");
}

#[test]
fn a_file_that_cannot_be_read_is_told_by_name() {
    let told = ServerSettings::load(Some(Path::new("/nowhere/f.toml")), [], None, no_file)
        .expect_err("no file")
        .to_string();
    assert!(told.starts_with("/nowhere/f.toml: cannot be read: No such file"), "{told}");
}

#[test]
fn the_interval_of_syncs_is_free_while_they_are_not_at_intervals() {
    check("durability.sync_interval = \"5s\"", &[], |_| {});
}
