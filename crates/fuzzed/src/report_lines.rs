//! A body of NDJSON reports, as it comes over a network.
//!
//! However the body is cut into pieces, the answer is the same. Each line that is not blank is
//! accepted or rejected once, under its own number. A line that decoding refuses is rejected with
//! decoding's code.

use base::limits::{NDJSON_LINE_BYTES_MAX, REJECTIONS_LISTED_MAX};
use gateway::decode::{self, DecodeRules};

use crate::pieces;
use crate::server::{BEGIN, FuzzedServer, with_server};

const NDJSON: &str = "application/x-ndjson";
const PIECES_MAX: u64 = 256;

/// Posts the body, whole and in pieces.
pub fn run(data: &[u8]) {
    with_server(2, async |server: &FuzzedServer| {
        let whole = server.post("/v1/reports", NDJSON, &[data]).await;
        let in_pieces = server.post("/v1/reports", NDJSON, &pieces::cut(data, PIECES_MAX)).await;
        assert_eq!(whole, in_pieces, "pieces do not matter");
        assert_eq!(whole.status, 200, "lines are refused one by one: {whole:?}");
        let lines = lines_of(data);
        let (accepted, rejected) = (whole.count("accepted"), whole.count("rejected_count"));
        assert_eq!(accepted + rejected, lines.len() as u64, "each line has one outcome");
        let listed = whole.rejected();
        assert_eq!(listed.len() as u64, rejected.min(REJECTIONS_LISTED_MAX as u64));
        assert!(listed.is_sorted_by(|(a, _), (b, _)| a < b), "in the order of the lines: {listed:?}");
        check_codes(&lines, &listed, rejected);
    });
}

/// The lines that are not blank, with their numbers.
pub(crate) fn lines_of(data: &[u8]) -> Vec<(u64, &[u8])> {
    let mut lines: Vec<_> = (1..).zip(data.split(|byte| *byte == b'\n')).collect();
    lines.retain(|(_, line)| line.len() > NDJSON_LINE_BYTES_MAX || !line.trim_ascii().is_empty());
    lines
}

fn check_codes(lines: &[(u64, &[u8])], listed: &[(u64, String)], rejected: u64) {
    let rules = DecodeRules { device_ids: base::DeviceIdForm::DEFAULT, wall: BEGIN };
    for (number, line) in lines {
        let told = listed.iter().find(|(listed, _)| listed == number).map(|(_, code)| code.as_str());
        let expect = match decode::object(line, None, rules) {
            _ if line.len() > NDJSON_LINE_BYTES_MAX => Some("line_too_long"),
            Err(problem) => Some(problem.code),
            Ok(_) => None,
        };
        let beyond_the_list = rejected > REJECTIONS_LISTED_MAX as u64 && told.is_none();
        assert!(
            expect.is_none() || expect == told || beyond_the_list,
            "line {number}: {told:?}, not {expect:?}"
        );
    }
    let of_no_line = listed.iter().find(|(listed, _)| lines.iter().all(|(number, _)| number != listed));
    assert!(of_no_line.is_none(), "a blank line is refused: {of_no_line:?}");
}
