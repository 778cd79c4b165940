//! How many devices of many may fail before it counts as a failure.

/// How many devices may fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MaxFailed {
    /// So many.
    Count(u64),
    /// This share of those that have ended, in percent.
    Percent(f64),
}

impl MaxFailed {
    /// Whether so many of all that have ended are too many.
    pub(crate) fn is_exceeded(self, failed: u64, ended: u64) -> bool {
        match self {
            Self::Count(most) => failed > most,
            Self::Percent(most) => failed as f64 * 100.0 > most * ended as f64,
        }
    }
}

/// How many may fail, on the command line.
pub(crate) fn max_failed(text: &str) -> Result<MaxFailed, String> {
    let wrong = || "a number such as 3, or a share such as 2% or 0.5%".to_owned();
    match text.strip_suffix('%') {
        Some(share) => {
            let percent = share.parse().ok().filter(|percent: &f64| (0.0..=100.0).contains(percent));
            percent.map(MaxFailed::Percent).ok_or_else(wrong)
        }
        None => text.parse().map(MaxFailed::Count).map_err(|_| wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_those_that_have_ended() {
        for (text, failed, ended, expect) in [
            ("0", 0, 10, Ok(false)),
            ("0", 1, 10, Ok(true)),
            ("3", 3, 3, Ok(false)),
            ("2%", 2, 100, Ok(false)),
            ("2%", 3, 100, Ok(true)),
            ("0.5%", 1, 100, Ok(true)),
            ("2%", 0, 0, Ok(false)),
            ("101%", 0, 0, Err(())),
            ("many", 0, 0, Err(())),
            ("-1", 0, 0, Err(())),
        ] {
            let found = max_failed(text).map(|most| most.is_exceeded(failed, ended)).map_err(drop);
            assert_eq!(found, expect, "{text} {failed}/{ended}");
        }
    }
}
