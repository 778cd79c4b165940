//! The open files of the process, shared out: each connection is one, and so is each file of the
//! log.
//!
//! A storm of connections must not be why the log cannot open its next file. So connections get
//! what is left when everything else has its share, and neither listener can take all of it from
//! the other.

use net::listen::OpenFiles;
use tracing::{info, warn};

use crate::config::ServerSettings;

/// Files that the log, the tables, their threads and callers that are told that there is no room
/// need at most, with some to spare.
const OWN_FILES: usize = 256;
/// Connections to receivers of webhooks: as many as are sent at a time, and as many idle ones.
/// Where open files are few, they get one in [`WEBHOOKS_PART`], and some in any case.
const WEBHOOK_FILES: usize = 2 * notify::IN_FLIGHT_MAX;
const WEBHOOK_FILES_MIN: usize = 64;
const WEBHOOKS_PART: usize = 40;
/// Connections over MQTT that have not said who they are, where there are many files; otherwise one
/// in so many.
const HANDSHAKE_FILES: usize = 4_096;
const HANDSHAKE_PART: usize = 4;
/// One in so many is left to HTTP, and to those that have not said who they are, so that they can
/// be told.
const SPARE_PART: usize = 80;

/// Who may have how many.
#[derive(Clone, Debug)]
pub(super) struct OpenFileShares {
    /// What all connections together may take.
    pub(super) files: OpenFiles,
    pub(super) http: usize,
    pub(super) grpc: usize,
    pub(super) mqtt: usize,
    pub(super) mqtt_handshakes: usize,
    /// Webhooks that may be sent at a time.
    pub(super) webhooks: usize,
}

/// Raises the limit of open files as far as it goes, and shares it out.
pub(super) fn share(settings: &ServerSettings) -> OpenFileShares {
    // The usual soft limit is too low for a fleet.
    let files = rlimit::increase_nofile_limit(u64::MAX).unwrap_or_else(|error| {
        warn!(%error, "the limit of open files cannot be raised; many connections may be refused");
        rlimit::getrlimit(rlimit::Resource::NOFILE).map_or(1_024, |(soft, _)| soft)
    });
    let [http, grpc, mqtt] =
        [settings.http.connections_max, settings.grpc.connections_max, settings.mqtt.connections_max];
    let shares = OpenFileShares::of(usize::try_from(files).unwrap_or(usize::MAX), [http, grpc, mqtt]);
    if shares.http < http || shares.grpc < grpc || shares.mqtt < mqtt {
        info!(
            files,
            http = shares.http,
            grpc = shares.grpc,
            mqtt = shares.mqtt,
            webhooks = shares.webhooks,
            "the limit of open files allows for fewer connections than the settings do"
        );
    }
    shares
}

impl OpenFileShares {
    fn of(files: usize, [http, grpc, mqtt]: [usize; 3]) -> Self {
        let webhooks = (files / WEBHOOKS_PART).clamp(WEBHOOK_FILES_MIN, WEBHOOK_FILES);
        let rest = files.saturating_sub(OWN_FILES + webhooks).max(4);
        Self {
            files: OpenFiles::new(rest),
            http: http.min(rest / 2),
            grpc: grpc.min(rest / 2),
            mqtt: mqtt.min(rest - rest.div_ceil(SPARE_PART)),
            mqtt_handshakes: HANDSHAKE_FILES.min(rest / HANDSHAKE_PART),
            webhooks: webhooks / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_files_are_shared_out_and_many_leave_the_settings_as_they_are() {
        for (files, expect) in [
            (1_048_576, (16_384, 65_536, 4_096, 2_048)),
            (20_000, (9_622, 19_003, 4_096, 250)),
            (1_024, (352, 695, 176, 32)),
            (100, (2, 3, 1, 32)),
        ] {
            let shares = OpenFileShares::of(files, [16_384, 16_384, 65_536]);
            let OpenFileShares { http, grpc, mqtt, mqtt_handshakes, webhooks, .. } = shares;
            assert_eq!((http, mqtt, mqtt_handshakes, webhooks), expect, "{files}");
            assert_eq!(grpc, http, "{files}");
        }
    }
}
