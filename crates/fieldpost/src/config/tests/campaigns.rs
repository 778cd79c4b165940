//! How fast devices are picked, and how often one is.

use std::num::NonZeroU32;

use access::{Digest, PickLimits, Scope, Token};

use super::*;

#[test]
fn picks_have_limits_as_a_whole_by_device_and_by_token() {
    let (sha256, other) = ("ab".repeat(32), "cd".repeat(32));
    let file = format!(
        "[fleet]\npicks_per_hour = 12\n[campaigns]\nrate = 500\n\
         [[auth.tokens]]\nname = \"probe\"\nsha256 = \"{sha256}\"\nscopes = [\"tasks\"]\npicks_per_hour = 600\n\
         [[auth.tokens]]\nname = \"ops\"\nsha256 = \"{other}\"\nscopes = [\"tasks\"]\n"
    );
    check(&file, &[("FIELDPOST_CAMPAIGNS__RESULTS", "2d")], |settings| {
        let picks = PickLimits { picks_per_hour: NonZeroU32::new(600), ..PickLimits::default() };
        settings.auth.tokens = vec![Token {
            name: "probe".to_owned(),
            digest: Digest::from_bytes([0xab; Digest::BYTES]),
            scopes: vec![Scope::Tasks],
            requests_per_second: None,
            requests_in_flight: None,
            picks,
        }];
        settings.auth.tokens.push(Token {
            name: "ops".to_owned(),
            digest: Digest::from_bytes([0xcd; Digest::BYTES]),
            picks: PickLimits::default(),
            ..settings.auth.tokens[0].clone()
        });
        settings.campaigns = CampaignSettings {
            rate: Some(500),
            results: 2 * DAY,
            device_picks_per_hour: Some(12),
            token_picks_per_hour: [("probe".into(), Some(600)), ("ops".into(), None)].into(),
        };
    });
    check_refused(
        "[fleet]\npicks_per_hour = 1000001\n[campaigns]\nresults = \"1s\"\n",
        &[],
        "f.toml:2:1: fleet.picks_per_hour: 1000001 is out of range; write a whole number from 0 to 1000000\n\
         f.toml:4:1: campaigns.results: \"1s\" is out of range; write a duration from \"1m\" to \"3650d\"",
    );
}
