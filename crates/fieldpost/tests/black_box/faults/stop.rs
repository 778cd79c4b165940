//! SIGTERM under load: what was begun is finished, in time even when a receiver never answers, and
//! nothing is lost.

use std::error::Error;
use std::time::Duration;

use simulator::receiver::Behaviour;

use crate::faults::load::Load;
use crate::faults::scribe::Scribe;
use crate::faults::{PATIENCE, site};

const SEED: u64 = 9;
/// The contract's 20 s, and what a busy machine may need beyond that.
const STOP_WITHIN: Duration = Duration::from_secs(20 + 25);
/// Before each stop.
const ACKNOWLEDGED: u64 = 2_000;

async fn stop_under_load() -> Result<(), Box<dyn Error>> {
    let mut site = site();
    // An attempt may take longer than the stop.
    site.set("FIELDPOST_NOTIFY__TIMEOUT", "60s");
    let mut server = site.start(PATIENCE).await?;
    let mut load = Load::begin(&site, SEED).await?;
    let scribe = Scribe::begin(&site).await?;
    for trouble in [Behaviour::Up, Behaviour::Failing(500), Behaviour::Hanging] {
        load.troubled.behave(trouble.clone()).await;
        load.until_acknowledged(ACKNOWLEDGED).await;
        let stopped = server.stop(STOP_WITHIN).await?;
        assert!(stopped.success(), "{trouble:?}: {stopped}");
        load.troubled.behave(Behaviour::Up).await;
        server = site.start(PATIENCE).await?;
        scribe.check().await?;
    }
    load.until_acknowledged(ACKNOWLEDGED).await;
    scribe.finish().await?;
    load.close().await?;
    let stopped = server.stop(STOP_WITHIN).await?;
    assert!(stopped.success(), "{stopped}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_ends_in_time_and_loses_nothing() {
    stop_under_load().await.unwrap();
}
