//! Being told when the machine's clocks step: the wall clock was set, or the machine has slept.
//!
//! The kernel ends a timer on the wall clock when either happens (`timerfd_create(2)`,
//! `TFD_TIMER_CANCEL_ON_SET`), so nobody has to look. What the engine clock makes of a step is in
//! [`crate::clock`].

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd, RawFd};

/// The end of the time that the kernel counts, in seconds since 1970: 64 bits of nanoseconds.
const NEVER_SECS: libc::time_t = libc::time_t::MAX / 1_000_000_000;

/// Can be read when the clocks have stepped since they were last asked about. For
/// [`ClockSteps::take`] only: nothing else is to read it.
#[derive(Debug)]
pub struct ClockSteps {
    timer: File,
}

impl ClockSteps {
    /// Watches the clocks from now on.
    ///
    /// # Errors
    /// When the machine gives no such timer.
    pub fn watch() -> io::Result<Self> {
        let steps = Self { timer: File::from(timer()?) };
        steps.arm()?;
        Ok(steps)
    }

    /// Answers that the clocks have stepped since this was last asked, and watches on. Look at them
    /// afterwards: this may answer for several steps.
    ///
    /// # Errors
    /// `WouldBlock` when they have not; any other when they cannot be watched any more.
    pub fn take(&self) -> io::Result<()> {
        match (&self.timer).read(&mut [0; 8]) {
            // It has rung, which it will not, or
            Ok(_) => self.arm(),
            // it was cancelled.
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => self.arm(),
            Err(error) => Err(error),
        }
    }

    #[allow(unsafe_code, reason = "timerfd_settime has no safe wrapper in std")]
    fn arm(&self) -> io::Result<()> {
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let never = libc::timespec { tv_sec: NEVER_SECS, tv_nsec: 0 };
        let spec = libc::itimerspec { it_interval: zero, it_value: never };
        let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
        // SAFETY: the descriptor is open, `spec` is valid for the whole call, and the old value may
        // be null.
        let armed = unsafe {
            libc::timerfd_settime(self.timer.as_raw_fd(), flags, &raw const spec, std::ptr::null_mut())
        };
        is_armed(if armed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) })
    }
}

/// A step between the last read and this call is told by an error. The timer is armed all the same,
/// and no read will tell of that step: whoever arms it looks at the clocks afterwards.
fn is_armed(set: io::Result<()>) -> io::Result<()> {
    match set {
        Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => Ok(()),
        set => set,
    }
}

impl AsRawFd for ClockSteps {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }
}

#[allow(unsafe_code, reason = "timerfd_create has no safe wrapper in std")]
fn timer() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_go_on_as_they_do_have_not_stepped() {
        let steps = ClockSteps::watch().expect("the machine has such timers");
        for _ in 0..2 {
            assert_eq!(steps.take().expect_err("no step").kind(), io::ErrorKind::WouldBlock);
            steps.arm().expect("is armed again");
        }
    }

    #[test]
    fn a_step_while_the_timer_is_armed_leaves_it_armed() {
        let set = |errno| is_armed(Err(io::Error::from_raw_os_error(errno)));
        assert!(set(libc::ECANCELED).is_ok());
        assert_eq!(set(libc::EINVAL).expect_err("is not armed").raw_os_error(), Some(libc::EINVAL));
        assert!(is_armed(Ok(())).is_ok());
    }
}
