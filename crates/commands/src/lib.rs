//! Commands to devices: each waits for its turn, goes out while its device is reachable, and goes
//! out again until the device answers.
//!
//! [`CommandLanes`] decides what becomes of each command of a partition. What it decides from is in
//! the store ([`CommandStore`]), and every change goes there. It has no clock, sends nothing itself
//! ([`Moved`] tells the caller what goes out), and does not look into payloads. The time that it is
//! given never goes back.
//!
//! # The life of a command
//! ```text
//!            send, not_before to come        send           retry
//!                       |                      |              |
//!                       v                      v              |
//!                 +-----------+   time   +-----------+        |
//!                 | scheduled,|--------->| scheduled,|<-------'
//!                 |   held    |          |  waiting  |
//!                 +-----------+          +-----------+
//!                                              | its turn, lane open; or a poll
//!                                              v
//!           ack_timeout, tries left: again .-----------.   progress   .-----------. progress
//!                                      .---| published |------------->|  running  |---.
//!                                      '-->'-----------'<-------------'-----------'<--'
//!                                              |      run_timeout, tries left |
//!                                              '---------------+--------------'
//!                                                              v
//!                                       acknowledged <--- answer, ok
//!                                             failed <--- answer, not ok; no answer, no tries left
//!
//!            expired <--- expires_at, wherever it stands
//!          cancelled <--- cancel, wherever it stands
//!         superseded <--- a newer one with its key, while it is scheduled
//! ```
//! | from | to | because | unless |
//! |---|---|---|---|
//! | - | held | [`CommandLanes::send`] with a `not_before` to come | |
//! | - | waiting | [`CommandLanes::send`] | it goes out at once |
//! | held | waiting | its `not_before` has come: [`CommandLanes::advance`] | it has expired |
//! | waiting | published | it is its turn: tries + 1 | its time is over: it expires |
//! | published, running | published | its time to answer is over: tries + 1 | no tries left |
//! | published | published | [`LaneChange::Open`]: tries + 1 | no tries left |
//! | published, running | failed | its time to answer is over, no tries left | |
//! | published, running | running | [`CommandLanes::progress`] | |
//! | published, running | acknowledged, failed | [`CommandLanes::answer`] | |
//! | waiting again | running, acknowledged, failed | what the device says of an earlier try | |
//! | held, waiting | superseded | [`CommandLanes::send`] or `retry` of a newer one with its key | |
//! | any of these | expired | its `expires_at` has come: [`CommandLanes::advance`] | |
//! | any of these | cancelled | [`CommandLanes::cancel`] | |
//! | failed, expired, cancelled | waiting | [`CommandLanes::retry`] | it goes out at once |
//! | failed, expired, cancelled | held | [`CommandLanes::retry`] with a `not_before` to come | |
//! | ended | - | `keep` later: [`CommandLanes::advance`] | |
//!
//! Held and waiting are both the status `scheduled`. The time to answer is the command's
//! `ack_timeout`, or its `run_timeout` since the latest progress. Nothing goes out again in a
//! closed lane.
//!
//! The `ttl` is counted from when the command was given, from its `not_before`, or from when it was
//! retried, whichever is latest. A retried command whose `not_before` is still to come is held
//! again. One with a key gives way to a newer one that waits: the retry is refused. Whatever its
//! device said before is forgotten. That it went out is not: an answer counts before the next try
//! too. The `ttl` of a pick's command ends when it goes out: its device has its whole time to
//! answer.
//!
//! A command with `notify` expires, or fails for want of an answer, only while there is room for
//! its outcome. Until then its end is put off, and it does not go out; other commands expire and
//! come due before it. If it waits, it leaves its line when its turn comes. If it is unanswered, it
//! keeps its place in the window. An answer ends it at once, and so does a cancellation.
//!
//! **Answers**: the first one ends a command. After the end the first one that says something else
//! is kept as `late`, and changes nothing else. The same answer again, and what comes after a late
//! one, is [`AnswerOutcome::Repeated`]. An answer to a command that never went out to the device is
//! [`AnswerOutcome::Unknown`]. A failure that the device told has a result, `null` if it gave none;
//! a failure for want of an answer has none.
//!
//! # The order of a device's commands
//! A **lane** is open while its device is reachable. Commands go out in it by priority, the highest
//! first, then by age. At most [`PublishPace::in_flight`] are unanswered at a time, and two
//! publishes are never closer than [`PublishPace::gap`], repeats included. Repeats go before what
//! waits. [`LaneChange::SetPace`] changes both at once. A gap that goes on is measured anew from
//! its publish. What is unanswered beyond a narrower window stays with the device.
//!
//! What was not answered when a lane closes goes out again when it opens, and nothing of the device
//! goes before it. A device that is at work is not asked again before its `run_timeout` is over. On
//! its last try a command fails at its deadline, whether the lane is open or not.
//!
//! A **poll** gives the first unanswered command again, with a try more once its deadline is over.
//! Only when nothing is unanswered it gives the next one, whatever the window.
//!
//! # Parts
//! | part | owns |
//! |---|---|
//! | `unanswered` | a command that went out: its deadline, and what follows |
//! | `lane` | the window of a device, and what goes out next |
//! | `gaps` | when each device may be published to again |
//! | `table` | the lanes in memory, and when each does something by itself |
//! | `place` | the rows of a command beside its own, and the first times of such rows |
//! | `step` | a call: the time, the parts, the store, what the caller is told |
//!
//! The rules are in `lanes/`, each file with one subject: sending (and retry), publishing, opening,
//! polling, answering, ending (and cancel), advance.
//!
//! # Cost
//! A waiting or held command takes no memory. A lane takes about 100 bytes while it is open, and
//! about 250 more for each unanswered command. When closed, it keeps only commands on their last
//! try. Beside that, small unanswered commands are remembered with their payloads, within a bound
//! for each and for all of a partition. The others are read from the store when they move on.
//!
//! A call about a device looks at each of its unanswered commands a few times. A poll, in a closed
//! lane, reads them.
//!
//! In an open lane where nothing waits, send, publish and answer read nothing from the store.
//! Exceptions are commands that have a key or are not remembered. A closed lane wakes nobody, but
//! for a last try whose deadline comes.

mod gaps;
mod lane;
mod lanes;
mod outcome;
mod place;
mod step;
mod store;
mod table;
mod unanswered;

pub use lane::PublishPace;
pub use lanes::{CommandLanes, LaneChange};
pub use outcome::{AdvanceResult, AnswerOutcome, CommandRefusal, How, Moved};
pub use store::CommandStore;
