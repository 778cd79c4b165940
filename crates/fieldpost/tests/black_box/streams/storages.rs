//! Blocks that go to other storages: a folder that goes and comes back, a stopped S3 server,
//! PostgreSQL, and `kill -9` while blocks move. Afterwards a check finds nothing.

#[path = "../../../../storages/tests/conformance/s3_server.rs"]
mod s3_server;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use simulator::server::Site;
use storages::{PostgresLogin, PostgresStorage};
use store::conformance::check_a_storage;
use tempfile::TempDir;

use super::{S, append_numbers, numbers, read, read_all, set, until};
use crate::contract::rig::{BINARY, PATIENCE, Rig};
use crate::postgres;
use s3_server::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY};

/// A server with storages, and a place for these.
struct StorageRig {
    rig: Rig,
    place: TempDir,
}

/// A server with these `[[storages]]`; PLACE stands for its place.
async fn rig(storages: &str) -> StorageRig {
    let place = tempfile::tempdir().expect("a directory");
    let site = Site::new(Path::new(BINARY), &[]).expect("a directory");
    write_settings(place.path(), storages);
    let rig = Rig::launch(site, launcher(place.path())).await;
    StorageRig { rig, place }
}

fn write_settings(place: &Path, storages: &str) {
    let storages = storages.replace("PLACE", &place.display().to_string());
    std::fs::write(place.join("f.toml"), storages).expect("is written");
}

/// Starts the server with the file of settings.
fn launcher(place: &Path) -> [String; 4] {
    let script = format!("exec \"$@\" --config '{}'", place.join("f.toml").display());
    ["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()]
}

/// A disk named `cold`.
const COLD: &str = "[[storages]]\nname = \"cold\"\nkind = \"disk\"\npath = \"PLACE/cold\"\n";

/// Blocks of ten messages that go to storages a moment after they are stored.
async fn set_moves(rig: &Rig, moves: &Value) {
    let settings =
        json!({"block": {"messages": 10}, "keep": {"age": null}, "unload_after": "1s", "move": moves});
    set(rig, &settings).await;
}

/// Blocks that a storage has.
fn blocks_in(stream: &Value, storage: &str) -> u64 {
    stream["storages"][storage]["blocks"].as_u64().unwrap_or_default()
}

impl StorageRig {
    fn at(&self, name: &str) -> std::path::PathBuf {
        self.place.path().join(name)
    }

    /// All blocks are in a storage, and every message can be read.
    async fn all_in(&self, storage: &str, messages: u64) {
        until(&self.rig, |stream| blocks_in(stream, storage) == messages / 10).await;
        assert_eq!(numbers(&read_all(&self.rig).await, "payload"), (0..messages).collect::<Vec<_>>());
    }

    /// Nothing of the stream is read from memory any more.
    async fn unloaded(&self) {
        until(&self.rig, |stream| stream["bytes_in_memory"] == 0).await;
    }

    /// The server is stopped, and a check finds nothing, nor a file without a row.
    async fn check(self) {
        let data_dir = self.rig.site.data_dir();
        let kept = self.rig.stop_keeping_site().await;
        let checked = Command::new(BINARY)
            .args(["check", "--config"])
            .arg(self.place.path().join("f.toml"))
            .arg(&data_dir)
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(checked.status.success(), "{said}");
        assert!(!said.contains("have no row") && !said.contains("not looked at"), "{said}");
        assert!(said.contains("files of blocks in other storages"), "{said}");
        drop(kept);
    }
}

#[tokio::test]
async fn a_folder_that_is_taken_away_makes_its_blocks_unreadable_and_nothing_else() {
    let mut of = rig(COLD).await;
    set_moves(&of.rig, &json!([{"after": "1s", "to": "cold"}])).await;
    append_numbers(&of.rig, 0, 40).await;
    of.all_in("cold", 40).await;
    of.unloaded().await;
    let handlers = of.rig.get(&format!("{S}/handlers")).await;
    let moves = handlers["items"].as_array().expect("items").iter().find(|one| one["handler"] == "move");
    let moves = moves.expect("there is one");
    assert_eq!(
        (&moves["name"], &moves["blocks"], &moves["error"]),
        (&json!("cold"), &json!(4), &Value::Null)
    );
    let blocks = of.rig.get(&format!("{S}/blocks")).await;
    assert!(blocks["items"].as_array().expect("items").iter().all(|block| block["storage"] == "cold"));

    for is_restarted in [false, true] {
        std::fs::rename(of.at("cold"), of.at("away")).expect("is taken away");
        std::fs::create_dir(of.at("cold")).expect("a mount point");
        if is_restarted {
            of.rig.restart().await;
        }
        let path = format!("{S}/messages?after=0");
        let answer = of.rig.ask("GET", &path, "application/json", "").await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("storage_unavailable")));
        assert!(
            answer.json()["detail"].as_str().is_some_and(|detail| detail.contains("\"cold\"")),
            "{answer:?}"
        );
        let newest = append_numbers(&of.rig, 40, 1).await;
        let after = numbers(&newest, "id")[0] - 1;
        assert_eq!(read(&of.rig, &format!("?after={after}")).await["items"][0]["payload"], 40);
        assert_eq!(std::fs::read_dir(of.at("cold")).expect("is listed").count(), 0, "nothing is made anew");
        std::fs::remove_dir(of.at("cold")).expect("is removed");
        std::fs::rename(of.at("away"), of.at("cold")).expect("is brought back");
        assert_eq!(numbers(&read_all(&of.rig).await, "payload")[..40], (0..40).collect::<Vec<_>>());
    }
    of.check().await;
}

#[tokio::test]
async fn a_kill_at_any_point_leaves_each_block_in_one_place() {
    let mut of = rig(&format!("{COLD}{}", COLD.replace("cold", "deep"))).await;
    let moves = json!([{"after": "1ms", "to": "cold"}, {"after": "300ms", "to": "deep"}]);
    set_moves(&of.rig, &moves).await;
    let mut appended = 0;
    for round in 0..6_u64 {
        append_numbers(&of.rig, appended, 200).await;
        appended += 200;
        // Some have gone, and others are on their way.
        until(&of.rig, |stream| blocks_in(stream, "cold") + blocks_in(stream, "deep") > round * 20).await;
        of.rig.restart().await;
        assert_eq!(numbers(&read_all(&of.rig).await, "payload"), (0..appended).collect::<Vec<_>>());
    }
    of.all_in("deep", appended).await;
    // The latest file goes once its row is durable.
    let local = of.rig.site.data_dir();
    wait_for(|| files(&local).is_empty() && files(&of.at("cold")).is_empty());
    assert_eq!(files(&of.at("deep")).len() as u64, appended / 10);
    of.check().await;
}

/// The files of blocks in a folder and the folders in it.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("is listed").flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "block") {
            all.push(path);
        }
    }
    all
}

fn wait_for(is_so: impl Fn() -> bool) {
    let until = std::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(std::time::Instant::now() < until, "it comes to that");
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_whose_server_is_stopped_holds_up_nothing_else() {
    let place = tempfile::tempdir().expect("a directory");
    let directory = place.path().to_owned();
    let start = move || S3Server::start(&directory);
    let mut server = tokio::task::spawn_blocking(start).await.expect("it starts");
    let bucket = format!(
        "[[storages]]\nname = \"bucket\"\nkind = \"s3\"\nurl = \"s3://{BUCKET}/fieldpost\"\nendpoint = \"{}\"\n\
         access_key = \"{ACCESS_KEY}\"\nsecret_key_file = \"{}/secret\"\n",
        server.endpoint(),
        place.path().display()
    );
    std::fs::write(place.path().join("secret"), format!("{SECRET_KEY}\n")).expect("is written");
    let of = rig(&format!("{COLD}{bucket}")).await;
    set_moves(&of.rig, &json!([{"after": "1ms", "to": "cold"}, {"after": "500ms", "to": "bucket"}])).await;
    append_numbers(&of.rig, 0, 30).await;
    of.all_in("bucket", 30).await;
    of.unloaded().await;
    let mut server = tokio::task::spawn_blocking(move || {
        server.stop();
        server
    })
    .await
    .expect("it stops");
    let answer = of.rig.ask("GET", &format!("{S}/messages?after=0"), "application/json", "").await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("storage_unavailable")));
    append_numbers(&of.rig, 30, 30).await;
    // What is to go there waits in the storage before it.
    until(&of.rig, |stream| blocks_in(stream, "cold") == 3).await;
    let path = format!("{S}/handlers");
    let waits =
        |one: &Value| one["name"] == "bucket" && one["error"].is_string() && one["state"] == "waiting";
    let is_told = |handlers: &Value| handlers["items"].as_array().expect("items").iter().any(waits);
    let _: Value = of.rig.api.until(&path, PATIENCE, is_told).await.expect("it is told");
    let server = tokio::task::spawn_blocking(move || {
        server.start_again();
        server
    })
    .await
    .expect("it starts");
    of.all_in("bucket", 60).await;
    of.check().await;
    tokio::task::spawn_blocking(move || drop(server)).await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_keeps_blocks() {
    let database = tokio::task::spawn_blocking(postgres::database).await.expect("there is one");
    let url = database.url();
    let conformance = url.clone();
    let checked = move || {
        let table = PostgresStorage::open(&PostgresLogin { url: conformance, password: None });
        check_a_storage(&table.expect("a URL"), "00ab");
    };
    tokio::task::spawn_blocking(checked).await.expect("it keeps its promises");
    let of = rig(&format!("[[storages]]\nname = \"table\"\nkind = \"postgres\"\nurl = \"{url}\"\n")).await;
    set_moves(&of.rig, &json!([{"after": "1ms", "to": "table"}])).await;
    append_numbers(&of.rig, 0, 50).await;
    of.all_in("table", 50).await;
    let log = std::fs::read_to_string(of.rig.site.log_path()).expect("a log");
    assert!(!log.contains(postgres::PASSWORD), "no secret is told");
    of.check().await;
}

#[tokio::test]
async fn a_storage_that_is_not_among_the_settings_any_more_is_named() {
    let mut of = rig(COLD).await;
    set_moves(&of.rig, &json!([{"after": "1ms", "to": "cold"}])).await;
    append_numbers(&of.rig, 0, 20).await;
    of.all_in("cold", 20).await;
    let unknown = json!({"move": [{"after": "1d", "to": "deep"}]}).to_string();
    let refused = of.rig.json("PUT", &format!("{S}/settings"), &unknown).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (422, Some("unknown_storage")));
    write_settings(of.place.path(), "");
    of.rig.restart().await;
    let answer = of.rig.ask("GET", &format!("{S}/messages?after=0"), "application/json", "").await;
    let problem = answer.json();
    assert_eq!((answer.status, problem["code"].as_str()), (503, Some("storage_unavailable")));
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(detail.contains("\"cold\"") && detail.contains("settings"), "{detail}");
    write_settings(of.place.path(), COLD);
    of.rig.restart().await;
    of.all_in("cold", 20).await;
    of.check().await;
}

#[tokio::test]
async fn a_restored_server_reads_blocks_where_they_lie_and_deletes_none() {
    let of = rig(COLD).await;
    set_moves(&of.rig, &json!([{"after": "1ms", "to": "cold"}])).await;
    append_numbers(&of.rig, 0, 20).await;
    of.all_in("cold", 20).await;
    let data_dir = of.rig.site.data_dir();
    let kept = of.rig.stop_keeping_site().await;
    let made = Command::new(BINARY)
        .arg("backup")
        .arg(of.place.path().join("backup"))
        .arg("--data-dir")
        .arg(&data_dir)
        .output()
        .expect("runs");
    assert!(made.status.success(), "{made:?}");
    let before = files(&of.place.path().join("cold"));
    let restored = of.place.path().join("restored");
    let told = Command::new(BINARY)
        .args(["restore", "--data-dir"])
        .arg(&restored)
        .arg(of.place.path().join("backup"))
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.status.success() && said.contains("2 blocks") && said.contains("\"cold\""), "{said}");
    std::fs::remove_dir_all(&data_dir).expect("is removed");
    std::fs::rename(&restored, &data_dir).expect("takes its place");
    let rig = Rig::launch(kept, launcher(of.place.path())).await;
    assert_eq!(numbers(&read_all(&rig).await, "payload"), (0..20).collect::<Vec<_>>());
    assert_eq!(rig.json("DELETE", S, "").await.status, 204);
    let again = StorageRig { rig, place: of.place };
    append_numbers(&again.rig, 0, 10).await;
    set_moves(&again.rig, &json!([{"after": "1ms", "to": "cold"}])).await;
    wait_for(|| files(&again.at("cold")).len() > before.len());
    assert!(before.iter().all(|file| file.is_file()), "what the original brought there stays");
}
