//! A data directory that nobody may write to, from the start or from some moment on.

use std::error::Error;

use simulator::server::{ServerError, Site};

use crate::faults::disk::Disk;
use crate::faults::full_disk::ends;
use crate::faults::load::Load;
use crate::faults::scribe::Scribe;
use crate::faults::{PATIENCE, site};

const SEED: u64 = 8;
const ACKNOWLEDGED: u64 = 1_000;

/// A start is refused with the file, the error and what to do.
async fn start_is_refused(site: &Site, error: &str) -> Result<(), Box<dyn Error>> {
    let refused = site.start(PATIENCE).await.expect_err("nothing can be written");
    let ServerError::Ended { status, log_tail } = refused else { return Err(refused.into()) };
    assert_eq!(status.code(), Some(1), "{log_tail}");
    let file = site.data_dir().display().to_string();
    for part in [&file, error, "data_dir"] {
        assert!(log_tail.contains(part), "{part}: {log_tail}");
    }
    Ok(())
}

/// The log goes on in the file that is open, until it needs another one.
async fn protect_under_load(site: Site, disk: Disk) -> Result<(), Box<dyn Error>> {
    let (_, error) = disk.errors();
    let server = site.start(PATIENCE).await?;
    let load = Load::begin(&site, SEED).await?;
    let scribe = Scribe::begin(&site).await?;
    load.until_acknowledged(ACKNOWLEDGED).await;
    disk.protect()?;
    ends(&site, server, &load, error).await?;
    start_is_refused(&site, error).await?;

    disk.unprotect()?;
    let server = site.start(PATIENCE).await?;
    scribe.finish().await?;
    load.close().await?;
    let stopped = server.stop(PATIENCE).await?;
    assert!(stopped.success(), "{stopped}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_becomes_read_only_ends_intake_and_loses_nothing() {
    let mut site = site();
    let disk = Disk::below(&mut site).unwrap();
    protect_under_load(site, disk).await.unwrap();
}

#[tokio::test]
async fn a_directory_that_may_not_be_written_refuses_the_start() {
    let mut site = site();
    let disk = Disk::without_mounts(&mut site).unwrap();
    disk.protect().unwrap();
    start_is_refused(&site, disk.errors().1).await.unwrap();
    disk.unprotect().unwrap();
    let server = site.start(PATIENCE).await.unwrap();
    assert!(server.stop(PATIENCE).await.unwrap().success());
}
