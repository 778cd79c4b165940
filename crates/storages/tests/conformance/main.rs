//! Every storage that this machine can have keeps the promises of the port. PostgreSQL is tried
//! where there is one for tests.

mod s3_server;

use s3_server::{ACCESS_KEY, BUCKET, S3Server, SECRET_KEY};
use storages::{FolderStorage, MadeStorages, S3Settings, S3Storage};
use store::BlockStorage;
use store::conformance::check_a_storage;

fn settings(server: &S3Server) -> S3Settings {
    S3Settings {
        url: format!("s3://{BUCKET}/streams/of/tests"),
        endpoint: Some(server.endpoint()),
        region: None,
        access_key: Some(ACCESS_KEY.to_owned()),
        secret_key: Some(SECRET_KEY.to_owned()),
    }
}

#[test]
fn a_folder_keeps_blocks() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("disk");
    let folder = FolderStorage::open("cold", &path, &MadeStorages::of(directory.path()));
    check_a_storage(&folder, "00ab");
    assert!(folder.get_range("../a.block", 0, 0).is_err(), "names stay within the folder");
}

#[test]
fn a_bucket_keeps_blocks() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = S3Server::start(directory.path());
    let bucket = S3Storage::open(&settings(&server)).expect("settings make sense");
    check_a_storage(&bucket, "00ab");
    let whole = S3Settings { url: format!("s3://{BUCKET}"), ..settings(&server) };
    let bucket = S3Storage::open(&whole).expect("settings make sense");
    check_a_storage(&bucket, "00ab");
}

#[test]
fn a_bucket_that_cannot_be_used_says_so_and_comes_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = S3Server::start(directory.path());
    let bucket = S3Storage::open(&settings(&server)).expect("settings make sense");
    bucket.put("00ab/a.block", b"messages").expect("is written");
    let wrong = S3Settings { secret_key: Some("wrong".to_owned()), ..settings(&server) };
    let refused = S3Storage::open(&wrong).expect("settings make sense").probe();
    assert!(refused.is_err_and(|error| error.kind() == std::io::ErrorKind::Other));
    server.stop();
    let away = bucket.get_range("00ab/a.block", 0, 8).expect_err("is away");
    assert_eq!(away.kind(), std::io::ErrorKind::Other, "{away}");
    assert!(bucket.put("00ab/b.block", b"x").is_err() && bucket.delete("00ab/a.block").is_err());
    server.start_again();
    let read = std::iter::repeat_with(|| bucket.get_range("00ab/a.block", 0, 8)).find_map(Result::ok);
    assert_eq!(read.as_deref(), Some(&b"messages"[..]));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let right = S3Settings {
        url: "s3://bucket".to_owned(),
        endpoint: None,
        region: None,
        access_key: Some("key".to_owned()),
        secret_key: Some("secret".to_owned()),
    };
    assert_eq!(right.check(), Ok(()));
    for (wrong, part) in [
        (S3Settings { url: "https://bucket".to_owned(), ..right.clone() }, "s3://BUCKET"),
        (S3Settings { endpoint: Some("s3.example.com".to_owned()), ..right.clone() }, "endpoint"),
        (S3Settings { secret_key: None, ..right }, "secret_key_file"),
    ] {
        assert!(wrong.check().is_err_and(|text| text.contains(part)), "{part}");
        assert!(!format!("{wrong:?}").contains("secret"), "{wrong:?}");
    }
}
