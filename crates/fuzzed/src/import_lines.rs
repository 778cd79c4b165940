//! A body of devices to import.
//!
//! Each line that is not blank is created, updated or rejected once, under its own number. The same
//! body again, cut elsewhere, creates nothing, and rejects the same lines for the same reasons.

use base::limits::REJECTIONS_LISTED_MAX;

use crate::pieces;
use crate::report_lines::lines_of;
use crate::server::{FuzzedServer, with_server};

const NDJSON: &str = "application/x-ndjson";
const PIECES_MAX: u64 = 256;
/// The lock and the meter that every server begins with.
const DEVICES_AT_FIRST: usize = 2;

/// Imports the body twice.
pub fn run(data: &[u8]) {
    with_server(2, async |server: &FuzzedServer| {
        let first = server.post("/v1/devices/import", NDJSON, &pieces::cut(data, PIECES_MAX)).await;
        assert_eq!(first.status, 200, "lines are refused one by one: {first:?}");
        let [created, updated, rejected] =
            ["created", "updated", "rejected_count"].map(|name| first.count(name));
        let lines = lines_of(data);
        assert_eq!(created + updated + rejected, lines.len() as u64, "each line has one outcome: {first:?}");
        let listed = first.rejected();
        assert_eq!(listed.len() as u64, rejected.min(REJECTIONS_LISTED_MAX as u64));
        assert!(listed.is_sorted_by(|(a, _), (b, _)| a < b), "in the order of the lines: {listed:?}");
        let is_line = |(number, _): &(u64, String)| lines.iter().any(|(line, _)| line == number);
        assert!(listed.iter().all(is_line), "only lines are rejected: {listed:?}");

        let again = server.post("/v1/devices/import", NDJSON, &[data]).await;
        assert_eq!(again.count("created"), 0, "what is there is not created");
        assert_eq!(again.count("updated"), created + updated);
        assert_eq!(again.rejected(), listed, "the same lines are refused for the same reasons");
        check_list(server, created).await;
    });
}

/// The list of devices shows what was created.
async fn check_list(server: &FuzzedServer, created: u64) {
    let list = server.get("/v1/devices?limit=1000").await;
    let shown = list.body["items"].as_array().map_or(0, Vec::len);
    assert_eq!(shown, (DEVICES_AT_FIRST + created as usize).min(1_000), "{list:?}");
}
