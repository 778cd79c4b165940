//! Keys of parts that this version does not have yet.
//!
//! Each is checked like any other key, so that a file stays right when the part comes. At its
//! default it is without effect; where it asks for something the start is refused, because a
//! setting that is silently ignored would be a promise that nobody keeps. Whoever builds a part
//! moves its keys from here into [`super::Settings`].

use super::reader::Reader;
use super::shape::{Shape, Span, Whole};
use super::{DAY, Duration, HOUR, MS};

const COUNT: Whole = Whole { least: 1, most: 1_000 };

/// Checks them all.
pub(super) fn check(from: &mut Reader) {
    check_commands(from);
    nothing_below(from, "kinds", "message formats of kinds are");
}

fn check_commands(from: &mut Reader) {
    let what = "commands to devices are";
    only_default(from, "commands.ack_timeout", &Span(MS, DAY), what);
    only_default(from, "commands.max_attempts", &COUNT, what);
    only_default(from, "commands.in_flight", &COUNT, what);
    only_default(from, "commands.gap", &Span(Duration::ZERO, HOUR), what);
}

fn only_default<S: Shape>(from: &mut Reader, key: &'static str, shape: &S, what: &str) {
    let found = from.read(key, shape);
    if found.value != found.default {
        refuse(from, key, what);
    }
}

fn refuse(from: &mut Reader, key: &'static str, what: &str) {
    let wrong = format!("{what} not part of this version, so this cannot be kept");
    let right = format!("leave it out, or at its default, {}", from.default_of(key));
    from.refuse(key, &wrong, &right);
}

fn nothing_below(from: &mut Reader, section: &str, what: &str) {
    for (key, origin) in from.take_section(section) {
        let wrong = format!("{what} not part of this version, so this cannot be kept");
        from.refuse_at(origin, &key, wrong, "leave it out".to_owned());
    }
}
