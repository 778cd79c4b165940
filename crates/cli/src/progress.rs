//! How far an import has come, as a line for a terminal: a bar where the size of the input is
//! known.

/// Characters of the bar.
const BAR_CHARS: u64 = 20;

/// A bar, the percentage, and what is known; without a size, only that.
pub(super) fn line(done: u64, size: Option<u64>, known: &str) -> String {
    match size.filter(|size| *size > 0) {
        Some(size) => {
            // A file may grow while it is read.
            let done = done.min(size);
            let filled = scaled(done, size, BAR_CHARS);
            let bar = "#".repeat(filled as usize) + &"-".repeat((BAR_CHARS - filled) as usize);
            format!("[{bar}] {:>3}%  {known}", scaled(done, size, 100))
        }
        None => known.to_owned(),
    }
}

fn scaled(done: u64, size: u64, whole: u64) -> u64 {
    (u128::from(done) * u128::from(whole) / u128::from(size)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_filled_in_proportion() {
        for (done, size, shows) in [
            (0, Some(10), "[--------------------]   0%  x"),
            (5, Some(10), "[##########----------]  50%  x"),
            (10, Some(10), "[####################] 100%  x"),
            (11, Some(10), "[####################] 100%  x"),
            (u64::MAX / 2, Some(u64::MAX), "[#########-----------]  49%  x"),
            (7, None, "x"),
            (0, Some(0), "x"),
        ] {
            assert_eq!(line(done, size, "x"), shows, "{done} of {size:?}");
        }
    }
}
