//! What only the program around the engine can tell operators: its certificate, and its disk.

use std::path::PathBuf;
use std::time::Duration;

use base::Timestamp;
use engine::Engine;
use engine::notices::{Condition, Detail, Signal, SignalTopic};
use engine::records::NoticeKind;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::free_space::{Space, space_of};

/// How often the disk is asked: nothing tells when it fills.
const DISK_EVERY: Duration = Duration::from_secs(60);

/// Signals when the certificate is about to end. Signals that it is not at the start, if so, and
/// when another takes its place.
pub(super) async fn watch_certificate(
    engine: Engine,
    mut expires: watch::Receiver<Timestamp>,
    cert: PathBuf,
    before: Duration,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let at = *expires.borrow_and_update();
        let told_at = Timestamp(at.0.saturating_sub(base::time::millis(before)));
        if told_at > engine.clock().now() {
            engine.signal(of_certificate(Condition::Cleared, Detail::default()));
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            changed = expires.changed() => {
                if changed.is_err() {
                    break;
                }
                engine.signal(of_certificate(Condition::Cleared, Detail::default()));
                continue;
            }
            () = engine.until(told_at) => {}
        }
        let detail = Detail::default().text("certificate", &cert.display().to_string());
        let detail = detail.text("ends_at", &at.to_string());
        engine.signal(of_certificate(Condition::Firing(NoticeKind::CertificateEnding), detail));
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            changed = expires.changed() => {
                if changed.is_err() {
                    break;
                }
                expires.mark_changed();
            }
        }
    }
    // Whoever followed the files has stopped, and so will the rest.
    let _stopped = stop.wait_for(|stop| *stop).await;
}

fn of_certificate(condition: Condition, detail: Detail) -> Signal {
    Signal { topic: SignalTopic::Certificate, subject: "certificate".into(), condition, detail }
}

/// Signals when less than `least` bytes are free on the disk with the data, and when there are a
/// quarter more again.
pub(super) async fn watch_disk(
    engine: Engine,
    data_dir: PathBuf,
    least: u64,
    mut stop: watch::Receiver<bool>,
) {
    let mut ticks = interval(DISK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
        }
        let Some(Space { free, .. }) = space_of(&data_dir).await else { continue };
        if let Some(condition) = condition_of_disk(free, least) {
            let detail = Detail::default().number("free_bytes", free).number("limit_bytes", least);
            let subject = "disk".into();
            engine.signal(Signal { topic: SignalTopic::Storage, subject, condition, detail });
        }
    }
}

/// Between the limit and a quarter more nothing changes.
fn condition_of_disk(free: u64, least: u64) -> Option<Condition> {
    if free < least {
        Some(Condition::Firing(NoticeKind::StorageLow))
    } else if free >= least.saturating_add(least / 4) {
        Some(Condition::Cleared)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_goes_back_and_forth_at_the_limit_stays_as_it_was() {
        let low = Some(Condition::Firing(NoticeKind::StorageLow));
        for (free, expect) in [(99, low), (100, None), (124, None), (125, Some(Condition::Cleared))] {
            assert_eq!(condition_of_disk(free, 100), expect, "{free}");
        }
    }
}
