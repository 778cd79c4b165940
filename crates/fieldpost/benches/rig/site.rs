//! A fresh server for a measurement, as the simulator starts it, with the settings that all of them
//! share.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use simulator::server::{RunningServer, Site};

use super::Failure;

/// A start with millions of things to load takes a while.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running server on an empty data directory. Devices register by reporting; webhooks may go to
/// this machine.
pub(crate) struct Fieldpost {
    pub(crate) site: Site,
    server: RunningServer,
}

impl Fieldpost {
    pub(crate) async fn start() -> Result<Self, Failure> {
        Self::start_with(&[]).await
    }

    /// With `more` than the settings that all of them share.
    pub(crate) async fn start_with(more: &[(&str, &str)]) -> Result<Self, Failure> {
        Self::start_site(Self::site(more)?).await
    }

    /// With a file of settings too.
    pub(crate) async fn start_with_config(config: &Path) -> Result<Self, Failure> {
        let mut site = Self::site(&[])?;
        let and_config = format!("exec \"$@\" --config '{}'", config.display());
        site.start_through(["sh", "-c", &and_config, "sh"]);
        Self::start_site(site).await
    }

    fn site(more: &[(&str, &str)]) -> Result<Site, Failure> {
        let shared = [
            ("FIELDPOST_DEVICES__UNKNOWN", "register"),
            ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true"),
            ("FIELDPOST_DURABILITY__SYNC", "always"),
        ];
        let settings = [&shared, more].concat();
        Ok(Site::new(Path::new(env!("CARGO_BIN_EXE_fieldpost")), &settings)?)
    }

    async fn start_site(site: Site) -> Result<Self, Failure> {
        let server = site.start(PATIENCE).await?;
        Ok(Self { site, server })
    }

    /// Where its API is.
    pub(crate) async fn url(&self) -> String {
        format!("http://{}", self.site.http.address().await)
    }

    /// Where gRPC listens.
    pub(crate) fn grpc(&self) -> Result<SocketAddr, Failure> {
        let ready = std::fs::read(self.site.log_path().with_file_name("ready.json"))?;
        let ready: serde_json::Value = serde_json::from_slice(&ready)?;
        Ok(ready["grpc"].as_str().ok_or("gRPC is not on")?.parse()?)
    }

    pub(crate) fn process_id(&self) -> Result<u32, Failure> {
        Ok(self.server.process_id().ok_or("the server has ended")?)
    }

    /// Stops it and starts it again on the same data; how long the start took until it was ready.
    pub(crate) async fn restart(self) -> Result<(Self, Duration), Failure> {
        let Self { site, server } = self;
        let status = server.stop(PATIENCE).await?;
        if !status.success() {
            return Err(format!("the server ended with {status}").into());
        }
        let begun = Instant::now();
        let server = site.start(PATIENCE).await?;
        Ok((Self { site, server }, begun.elapsed()))
    }

    pub(crate) async fn stop(self) -> Result<(), Failure> {
        let status = self.server.stop(PATIENCE).await?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}").into()) }
    }
}
