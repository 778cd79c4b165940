//! How often a device is expected to report.

use std::time::Duration;

use base::Problem;
use base::duration::{self, DURATION_MAX};
use base::limits::REPORT_INTERVAL_MS_MIN;

use crate::RegistryRefusal;

/// A device's report interval, in milliseconds as it is kept.
///
/// # Errors
/// `invalid_interval` when it is shorter than a second or longer than ten years.
pub fn report_interval_ms(interval: Duration) -> Result<u64, Problem> {
    let shortest = Duration::from_millis(REPORT_INTERVAL_MS_MIN);
    if (shortest..=DURATION_MAX).contains(&interval) {
        return Ok(u64::try_from(interval.as_millis()).expect("ten years of milliseconds fit"));
    }
    let detail = format!(
        "report_interval is {}; it may be from {} to {}",
        duration::format(interval),
        duration::format(shortest),
        duration::format(DURATION_MAX)
    );
    Err(RegistryRefusal::InvalidInterval.problem(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_second_to_ten_years() {
        let ms = Duration::from_millis;
        for (interval, expect) in [
            (ms(1_000), Ok(1_000)),
            (ms(3_600_000), Ok(3_600_000)),
            (DURATION_MAX, Ok(315_619_200_000)),
            (ms(999), Err("invalid_interval")),
            (Duration::ZERO, Err("invalid_interval")),
            (DURATION_MAX + ms(1), Err("invalid_interval")),
            (Duration::MAX, Err("invalid_interval")),
        ] {
            assert_eq!(report_interval_ms(interval).map_err(|problem| problem.code), expect, "{interval:?}");
        }
    }
}
