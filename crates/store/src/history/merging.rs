//! Which blobs of a slice and day are to be made one.
//!
//! Checkpoints leave a blob of each slice every minute or so. While a day lasts, [`FAN_IN`] or so
//! of the same level become one of the next level. So each reading is written again no more often
//! than there are levels. When a day is over, what is left of it becomes one. A blob that is large
//! enough is left alone from then on.
//!
//! Blobs keep their readings until all are too old. Only blobs that were sealed within the same
//! week after their day are merged. So late readings do not keep those that came in time for
//! longer.

use super::BlobIndex;

/// About so many blobs of a level are merged at once.
pub(crate) const FAN_IN: u32 = 64;
/// Bytes of blobs that are merged at once.
const MERGED_BYTES_MAX: usize = 512 * 1_024;
/// A blob of so many bytes is merged no more.
const LARGE_BYTES: usize = MERGED_BYTES_MAX / 2;
/// Days after a day within which a blob must have been sealed to be merged with others: a reading
/// is kept for so much longer.
const ERA_DAYS: i64 = 7;
/// Of a day that is over, blobs are merged when the largest is at most so many times as large as
/// all others.
const LARGEST_TO_OTHERS_MAX: usize = 4;

/// The places, among the blobs of a slice and `day` in their order, of those to be merged now; two
/// at least.
///
/// Merging them makes fewer blobs, so that there is nothing to merge at some time.
pub(crate) fn plan<'i>(
    day: i32,
    today: i32,
    fan_in: u32,
    blobs: impl Iterator<Item = &'i BlobIndex>,
) -> Option<Vec<usize>> {
    let blobs: Vec<_> = blobs.collect();
    // reports of the day before may be on their way, from devices and from checkpoints
    let is_over = i64::from(day) + 1 < i64::from(today);
    let mut groups: Vec<((i64, u8), Vec<usize>)> = Vec::new();
    let candidates = blobs.iter().enumerate().filter(|(_, blob)| (blob.bytes as usize) < LARGE_BYTES);
    for (place, blob) in candidates {
        let era = (i64::from(blob.sealed) - i64::from(day)).max(0) / ERA_DAYS;
        let group = (era, if is_over { 0 } else { blob.level });
        match groups.iter_mut().find(|(other, _)| *other == group) {
            Some((_, places)) => places.push(place),
            None => groups.push((group, vec![place])),
        }
    }
    let is_due = |places: &[usize]| match is_over {
        true => pays(places, &blobs) || places.len() >= fan_in as usize,
        false => places.len() >= fan_in as usize / 2,
    };
    let mut due = groups.into_iter().map(|(_, places)| places).filter(|places| is_due(places));
    due.find_map(|places| first_that_fit(places, &blobs))
}

/// Whether the blobs are not just a large one and a few small ones that came late.
fn pays(places: &[usize], blobs: &[&BlobIndex]) -> bool {
    let bytes = || places.iter().map(|place| blobs[*place].bytes as usize);
    let largest = bytes().max().unwrap_or(0);
    places.len() > 1 && largest <= (bytes().sum::<usize>() - largest) * LARGEST_TO_OTHERS_MAX
}

fn first_that_fit(mut places: Vec<usize>, blobs: &[&BlobIndex]) -> Option<Vec<usize>> {
    let mut bytes = 0;
    let fit = places.iter().take_while(|place| {
        bytes += blobs[**place].bytes as usize;
        bytes <= MERGED_BYTES_MAX
    });
    // two that are not large always fit
    let fit = fit.count();
    places.truncate(fit);
    (fit > 1).then_some(places)
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::*;
    use crate::history::{ReadingSpan, SliceDevices};

    const DAY: i32 = 20_000;

    fn blob(level: u8, bytes: u32, sealed: i32) -> BlobIndex {
        let span = ReadingSpan { min: Timestamp(0), max: Timestamp(0) };
        BlobIndex { count: 1, bytes, span, sealed, level, devices: SliceDevices::default(), inline: None }
    }

    fn fresh(count: usize) -> Vec<BlobIndex> {
        vec![blob(0, 100, DAY); count]
    }

    fn check(blobs: &[BlobIndex], today: i32, expect: Option<&[usize]>) {
        assert_eq!(plan(DAY, today, 4, blobs.iter()).as_deref(), expect);
    }

    #[test]
    fn blobs_of_a_day_that_lasts_wait_for_others_of_their_level() {
        check(&fresh(1), DAY, None);
        check(&fresh(3), DAY, Some(&[0, 1, 2]));
        check(&[blob(1, 100, DAY), blob(0, 100, DAY)], DAY, None);
        check(&[blob(1, 300, DAY), blob(0, 9, DAY), blob(1, 300, DAY)], DAY + 1, Some(&[0, 2]));
    }

    #[test]
    fn blobs_of_a_day_that_is_over_become_one() {
        check(&[blob(1, 300, DAY), blob(0, 100, DAY)], DAY + 2, Some(&[0, 1]));
        check(&fresh(1), DAY + 2, None);
    }

    #[test]
    fn a_large_blob_is_not_written_again_for_a_small_one() {
        let late = |count| [vec![blob(3, 100_000, DAY)], vec![blob(0, 9, DAY); count]].concat();
        check(&late(2), DAY + 2, None);
        check(&late(3), DAY + 2, Some(&[0, 1, 2, 3]));
        check(&[blob(2, 300_000, DAY), blob(2, 300_000, DAY)], DAY + 2, None);
    }

    #[test]
    fn what_is_merged_at_once_is_bounded() {
        check(&vec![blob(0, 200_000, DAY); 9], DAY, Some(&[0, 1]));
    }

    #[test]
    fn late_readings_do_not_keep_those_that_came_in_time() {
        let blobs = [blob(0, 9, DAY + 1), blob(0, 9, DAY + 40), blob(0, 9, DAY + 6), blob(0, 9, DAY + 41)];
        check(&blobs, DAY + 50, Some(&[0, 2]));
        check(&blobs[1..2], DAY + 50, None);
        check(&[blob(0, 9, DAY + 40), blob(0, 9, DAY + 41)], DAY + 50, Some(&[0, 1]));
        assert_eq!(plan(i32::MIN, i32::MAX, 4, fresh(2).iter()), Some(vec![0, 1]));
    }
}
