//! Commands: devices that are told to do something over MQTT, and somebody who tells them over
//! REST.
//!
//! [`CommandedDevices`] subscribe to their topics and answer by their [`ResponseProfile`]: at once,
//! late, with a refusal, twice, or not at all. [`CommandLoad`] sends commands at a rate that does
//! not wait for anything. Both write into one [`CommandLedger`], by which each command is found
//! again. It counts at the senders' and the devices' own ends.

mod device;
mod ledger;
mod load;
mod outcomes;
mod packet;
mod response_profile;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::endpoint::Endpoint;
use crate::traffic::DeviceIds;

use device::DeviceConnection;
pub use ledger::{CommandCounts, CommandLatencies, CommandLedger};
pub use load::{CommandLoad, LoadPlan};
pub use outcomes::{Outcomes, outcomes};
pub use response_profile::ResponseProfile;

/// Most devices of one connection: a server lets a connection subscribe to so many topics.
pub const DEVICES_PER_CONNECTION_MAX: u32 = 64;

/// Between two looks at counts, which do not announce themselves: counting must cost nothing.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Devices that are connected, get commands and answer them.
#[derive(Debug)]
pub struct CommandedDevices {
    ledger: Arc<CommandLedger>,
    stop: watch::Sender<bool>,
    connections: JoinSet<()>,
}

impl CommandedDevices {
    /// Connects `devices` over so many connections, each of which speaks for a part of them and
    /// connects again when it breaks. There are more if one would have too many devices.
    #[must_use]
    pub fn connect(
        endpoint: &Endpoint,
        devices: &DeviceIds,
        connections: u32,
        profile: ResponseProfile,
        ledger: &Arc<CommandLedger>,
    ) -> Self {
        let count =
            connections.max(devices.count().div_ceil(DEVICES_PER_CONNECTION_MAX)).min(devices.count());
        let (stop, stopped) = watch::channel(false);
        let mut running = JoinSet::new();
        for number in 0..count {
            let part = devices.lane(number, count);
            let connection =
                DeviceConnection::new(endpoint.clone(), devices.clone(), part, profile, Arc::clone(ledger));
            running.spawn(connection.run(stopped.clone()));
        }
        Self { ledger: Arc::clone(ledger), stop, connections: running }
    }

    /// Waits until `count` devices are subscribed; false when they are not within `patience`.
    pub async fn subscribed(&self, count: u64, patience: Duration) -> bool {
        self.ledger.until(patience, |counts| counts.subscribed >= count).await
    }

    /// Says goodbye on every connection.
    pub async fn disconnect(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.connections.join_next().await {
            ended.expect("a connection neither panics nor is aborted");
        }
    }

    /// Breaks every connection without a word.
    pub async fn vanish(mut self) {
        self.connections.shutdown().await;
        self.ledger.all_vanished();
    }
}
