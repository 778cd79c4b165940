//! The program itself: its settings, its ready file, its exit codes and what it says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use simulator::server::Site;

use crate::contract::rig::{BINARY, PATIENCE, Rig};

/// Runs the program to its end, without any setting of whoever runs the test.
fn run(arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut command = Command::new(BINARY);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FIELDPOST_"))
    {
        command.env_remove(name);
    }
    command.args(arguments).envs(settings.iter().copied()).output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

#[test]
fn a_config_file_is_checked_with_line_and_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("f.toml");
    let path = file.to_str().expect("text");
    for (text, code, parts) in [
        ("", 0, vec!["ok"]),
        ("[notify]\nretry_base = \"1m30s\"\n", 0, vec!["ok"]),
        ("[http]\nlitsen = \"x\"\n", 2, vec![":2:", "http.litsen", "http.listen"]),
        ("\n[nothing]\n", 2, vec![":2:", "nothing"]),
        (
            "[notify]\nmax_attempts = 0\ntimeout = 10\n",
            2,
            vec![":2:", "notify.max_attempts", ":3:", "notify.timeout"],
        ),
        ("[devices]\nunknown = \"maybe\"\n", 2, vec![":2:", "devices.unknown", "register"]),
        ("[http\n", 2, vec![":1:"]),
    ] {
        fs::write(&file, text).expect("written");
        let output = run(&["check-config", path], &[]);
        assert_eq!(output.status.code(), Some(code), "{text}: {}", said(&output));
        for part in parts {
            assert!(said(&output).contains(part), "{part} is not in {}", said(&output));
        }
    }
}

/// A self-signed certificate and its key, in PEM.
fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    (made.cert.pem(), made.signing_key.serialize_pem())
}

#[test]
fn a_certificate_is_checked_by_its_files_and_refused_alike_by_a_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let ((cert, key), (_, another_key)) = (certificate(), certificate());
    for (name, text) in [("c.pem", &*cert), ("k.pem", &*key), ("other.pem", &*another_key), ("no.pem", "-")] {
        fs::write(path(name), text).expect("written");
    }
    let file = path("f.toml");
    for (cert, key, says) in [
        ("c.pem", "k.pem", &[][..]),
        ("absent.pem", "k.pem", &[(2, "tls.cert", "absent.pem cannot be read")]),
        ("c.pem", "absent.pem", &[(3, "tls.key", "absent.pem cannot be read")]),
        ("a.pem", "b.pem", &[(2, "tls.cert", "a.pem cannot be"), (3, "tls.key", "b.pem cannot be")]),
        ("no.pem", "k.pem", &[(2, "tls.cert", "no.pem has no certificate in PEM")]),
        ("c.pem", "no.pem", &[(3, "tls.key", "no.pem has no private key in PEM")]),
        ("c.pem", "other.pem", &[(3, "tls.key", "cannot be used together")]),
    ] {
        let text = format!("[tls]\ncert = \"{}\"\nkey = \"{}\"\n", path(cert), path(key));
        fs::write(&file, text).expect("written");
        let checked = run(&["check-config", &file], &[]);
        let expect = if says.is_empty() { 0 } else { 2 };
        assert_eq!(checked.status.code(), Some(expect), "{cert} {key}: {}", said(&checked));
        if says.is_empty() {
            continue;
        }
        let data = path("data");
        let started = run(&["serve", "--config", &file, "--data-dir", &data], &[]);
        assert_eq!(started.status.code(), Some(2), "{cert} {key}: {}", said(&started));
        assert_eq!(said(&started), said(&checked), "a start says what a check says");
        assert_eq!(said(&checked).lines().count(), says.len(), "{}", said(&checked));
        for ((line, key, wrong), told) in says.iter().zip(said(&checked).lines()) {
            let begin = format!("{file}:{line}:1: {key}: ");
            assert!(told.starts_with(&begin) && told.contains(wrong), "{told} is not {begin}.. {wrong}");
        }
        assert!(!fs::exists(&data).expect("the folder can be looked into"));
    }
}

#[test]
fn a_wrong_setting_ends_the_start_before_anything_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    for (name, value, part) in [
        ("FIELDPOST_NOTHING__X", "1", "FIELDPOST_NOTHING__X"),
        ("FIELDPOST_HTTP__NOTHING", "1", "http.nothing"),
        ("FIELDPOST_HTTP__LISTEN", "here", "http.listen"),
        ("FIELDPOST_HTTP__LISTEN", "0.0.0.0:0", "loopback"),
        ("FIELDPOST_MQTT__LISTEN", "[::]:0", "loopback"),
        ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "yes", "notify.allow_private"),
        ("FIELDPOST_DURABILITY__SYNC", "sometimes", "durability.sync"),
        ("FIELDPOST_AMQP__URL", "http://127.0.0.1/", "amqp.url"),
        ("FIELDPOST_DATA_DIR", "", "data_dir"),
    ] {
        let output = run(&["serve", "--data-dir", data.to_str().expect("text")], &[(name, value)]);
        assert_eq!(output.status.code(), Some(2), "{name}={value}: {}", said(&output));
        assert!(said(&output).contains(part), "{part} is not in {}", said(&output));
        assert!(!data.exists(), "{name}={value}");
    }
}

#[tokio::test]
async fn the_ready_file_names_only_the_listeners_that_are_on() {
    let rig = Rig::start(&[("FIELDPOST_SOMETHING", "ignored"), ("FIELDPOST_GRPC__LISTEN", "")]).await;
    let text = fs::read(rig.site.log_path().with_file_name("ready.json")).expect("it was written");
    let ready: Value = serde_json::from_slice(&text).expect("one JSON object");
    let names: BTreeSet<&str> = ready.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(["http", "mqtt"]));
    assert_eq!(ready["http"], rig.site.http.address().await.to_string());
}

#[tokio::test]
async fn the_ready_file_and_the_ready_line_name_every_listener() {
    let site = Site::new(
        Path::new(BINARY),
        &[
            ("FIELDPOST_GRPC__LISTEN", "127.0.0.1:0"),
            ("FIELDPOST_LMSTFY__LISTEN", "127.0.0.1:0"),
            ("FIELDPOST_LMSTFY__ADMIN_LISTEN", "127.0.0.1:0"),
        ],
    )
    .expect("a directory");
    let server = site.start_until_it_says(" ready http=", PATIENCE).await.expect("ready");
    let text = fs::read(site.log_path().with_file_name("ready.json")).expect("it was written");
    let ready: Value = serde_json::from_slice(&text).expect("one JSON object");
    let log = site.log();
    let line = log.lines().find(|line| line.contains(" ready ")).expect("a line that says ready");
    for name in ["http", "mqtt", "grpc", "lmstfy", "lmstfy_admin"] {
        let address: std::net::SocketAddr = ready[name].as_str().expect(name).parse().expect("an address");
        assert_ne!(address.port(), 0, "{name}");
        assert!(line.contains(&format!(" {name}={address}")), "{name} is not in {line}");
    }
    assert!(server.stop(PATIENCE).await.expect("stopped").success());
}

#[tokio::test]
async fn a_port_that_is_taken_ends_the_start_and_is_named() {
    let rig = Rig::start(&[]).await;
    let taken = rig.site.http.address().await.to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let ready = rig.site.log_path().with_file_name("ready.json");
    let [data, file] = [folder.path(), &*ready].map(|path| path.to_str().expect("text"));
    let output = run(
        &["serve", "--log-format", "json", "--data-dir", data, "--ready-file", file],
        &[("FIELDPOST_HTTP__LISTEN", &taken), ("FIELDPOST_MQTT__LISTEN", "127.0.0.1:0")],
    );
    assert!(ready.exists(), "it is that of the server which has the port");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains(&taken), "{}", said(&output));
    assert!(output.stdout.is_empty(), "log lines go to stderr");
    for line in said(&output).lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn asked_to_stop_with_connections_open_it_ends_in_good_time() {
    let rig = Rig::start(&[]).await;
    let http = tokio::net::TcpStream::connect(rig.site.http.address().await).await.expect("it listens");
    let mqtt = tokio::net::TcpStream::connect(rig.site.mqtt.address().await).await.expect("it listens");
    assert!(rig.stop().await.success());
    drop((http, mqtt));
}

#[tokio::test]
async fn the_allocator_has_an_arena_for_every_two_cores_unless_it_is_told_otherwise() {
    let arenas = std::thread::available_parallelism().expect("some").get().div_ceil(2);
    for (settings, expect) in [
        (&[][..], format!("narenas:{arenas},")),
        (&[("_RJEM_MALLOC_CONF", "narenas:3")][..], "narenas:3".to_owned()),
    ] {
        let rig = Rig::start(settings).await;
        let process = rig.process_id().expect("it runs");
        let environment = fs::read(format!("/proc/{process}/environ")).expect("it is ours");
        let environment = String::from_utf8_lossy(&environment).into_owned();
        assert!(environment.contains(&format!("_RJEM_MALLOC_CONF={expect}")), "{environment}");
    }
}

/// A small program stands for ours, whose optimised build takes minutes.
#[test]
fn debug_information_moves_into_a_file_that_the_program_leads_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let [source, program, moved] = ["small.c", "small", "small.debug"].map(|name| folder.path().join(name));
    let done = |mut command: Command| {
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{command:?}: {}", said(&output));
        said(&output)
    };
    let sections = |file: &Path| {
        let mut objdump = Command::new("objdump");
        objdump.arg("--section-headers").arg(file);
        done(objdump)
    };
    fs::write(&source, "int main(void) { return 0; }\n").expect("written");
    let mut cc = Command::new("cc");
    cc.arg("-g").arg("-o").args([&program, &source]);
    done(cc);
    assert!(sections(&program).contains(".debug_info"), "there is some to move");
    // Also after a build that had nothing to do.
    for _ in 0..2 {
        let mut split = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/split-debug"));
        split.arg(&program);
        done(split);
        let left = sections(&program);
        assert!(!left.contains(".debug_") && left.contains(".gnu_debuglink"), "{left}");
        assert!(sections(&moved).contains(".debug_info"));
        let bytes = fs::read(&program).expect("it is there");
        assert!(String::from_utf8_lossy(&bytes).contains("small.debug"), "the link names the file");
    }
    done(Command::new(&program));
}
