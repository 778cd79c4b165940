//! The forms that a setting may have: an address, a whole number in a range, a duration, a size, a
//! word, a switch.
//!
//! A shape says what is wrong with a value and what would be right; it knows no key. Values of
//! variables are always texts, so every shape also reads its value from one.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use base::size;
use gateway::amqp::{AmqpQueueName, AmqpUrl};
use gateway::decode::kinds::{JsonPointer, TopicTemplate};
use serde_json::Value as Json;

use super::layers::WrittenValue;

/// Whether a setting may be shown to whoever may look at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exposure {
    /// It is no secret.
    Shown,
    /// It is one, or may hold one.
    Hidden,
}

/// One form of setting.
pub(super) trait Shape {
    /// Whether settings of this form may be shown. There is no default: each form decides.
    const EXPOSURE: Exposure;
    /// What it is read as.
    type Value: Clone + PartialEq;
    /// Reads a value; the error says what is wrong with it.
    fn parse(&self, written: &WrittenValue) -> Result<Self::Value, String>;
    /// What would be right, to follow "write".
    fn right(&self) -> String;
}

/// A text that is written as one, in quotes, or comes from a variable.
pub(super) fn text(written: &WrittenValue) -> Result<&str, String> {
    match written {
        WrittenValue::Text(text) => Ok(text),
        WrittenValue::Untyped(text) => text.to_str().ok_or_else(|| "is not UTF-8".to_owned()),
        WrittenValue::Whole(_) => Err("is a number, not a text in quotes".to_owned()),
        WrittenValue::Switch(_) => Err("is true or false, not a text in quotes".to_owned()),
        other => Err(format!("is {other}, not a text in quotes")),
    }
}

/// An IP address with a port.
pub(super) struct AddressShape;

impl Shape for AddressShape {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = SocketAddr;

    fn parse(&self, written: &WrittenValue) -> Result<SocketAddr, String> {
        let text = text(written)?;
        text.parse().map_err(|_| format!("\"{text}\" is not an IP address with a port"))
    }

    fn right(&self) -> String {
        "an IP address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"".to_owned()
    }
}

/// An IP address with a port, or "" for off.
pub(super) struct AddressOrOff;

impl Shape for AddressOrOff {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = Option<SocketAddr>;

    fn parse(&self, written: &WrittenValue) -> Result<Self::Value, String> {
        if text(written)?.is_empty() { Ok(None) } else { AddressShape.parse(written).map(Some) }
    }

    fn right(&self) -> String {
        format!("{}, or \"\" for off", AddressShape.right())
    }
}

/// A directory, which need not exist yet.
pub(super) struct DirectoryShape;

impl Shape for DirectoryShape {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = PathBuf;

    fn parse(&self, written: &WrittenValue) -> Result<PathBuf, String> {
        let path = match written {
            WrittenValue::Untyped(path) => PathBuf::from(path),
            other => PathBuf::from(text(other)?),
        };
        if path.as_os_str().is_empty() { Err("is empty".to_owned()) } else { Ok(path) }
    }

    fn right(&self) -> String {
        "the path of a directory, such as \"./fieldpost-data\"".to_owned()
    }
}

/// A file that is there when the server starts, or "" for none.
pub(super) struct FileOrNone;

impl Shape for FileOrNone {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = Option<PathBuf>;

    fn parse(&self, written: &WrittenValue) -> Result<Self::Value, String> {
        let path = match written {
            WrittenValue::Untyped(path) => PathBuf::from(path),
            other => PathBuf::from(text(other)?),
        };
        Ok(Some(path).filter(|path| !path.as_os_str().is_empty()))
    }

    fn right(&self) -> String {
        "the path of a file in PEM, or \"\" for none".to_owned()
    }
}

/// A whole number in a range, both ends included.
pub(super) struct Whole {
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Shape for Whole {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = u64;

    fn parse(&self, written: &WrittenValue) -> Result<u64, String> {
        let number = match written {
            WrittenValue::Whole(number) => *number,
            WrittenValue::Untyped(_) => {
                let text = text(written)?;
                text.parse().map_err(|_| format!("\"{text}\" is not a whole number"))?
            }
            WrittenValue::Text(text) => return Err(format!("\"{text}\" is a text, not a number")),
            WrittenValue::Switch(_) => return Err("is true or false, not a number".to_owned()),
            other => return Err(format!("is {other}, not a whole number")),
        };
        let in_range = u64::try_from(number).ok().filter(|number| (self.least..=self.most).contains(number));
        in_range.ok_or_else(|| format!("{number} is out of range"))
    }

    fn right(&self) -> String {
        format!("a whole number from {} to {}", self.least, self.most)
    }
}

/// A duration in a range, both ends included.
pub(super) struct DurationRange(pub(super) Duration, pub(super) Duration);

impl Shape for DurationRange {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = Duration;

    fn parse(&self, written: &WrittenValue) -> Result<Duration, String> {
        if let WrittenValue::Whole(number) = written {
            return Err(format!("{number} has no unit"));
        }
        let text = text(written)?;
        let span = base::duration::parse(text).map_err(|error| format!("\"{text}\" is {error}"))?;
        let in_range = (self.0..=self.1).contains(&span);
        if in_range { Ok(span) } else { Err(format!("\"{text}\" is out of range")) }
    }

    fn right(&self) -> String {
        let [least, most] = [self.0, self.1].map(base::duration::format);
        format!("a duration from \"{least}\" to \"{most}\"")
    }
}

/// A size in bytes in a range, both ends included.
pub(super) struct Bytes(pub(super) u64, pub(super) u64);

impl Shape for Bytes {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = u64;

    fn parse(&self, written: &WrittenValue) -> Result<u64, String> {
        if let WrittenValue::Whole(number) = written {
            return Err(format!("{number} has no unit"));
        }
        let text = text(written)?;
        let bytes = size::parse(text).ok_or_else(|| format!("\"{text}\" is not a size"))?;
        let in_range = (self.0..=self.1).contains(&bytes);
        if in_range { Ok(bytes) } else { Err(format!("\"{text}\" is out of range")) }
    }

    fn right(&self) -> String {
        let [least, most] = [self.0, self.1].map(size::format);
        format!("a size from \"{least}\" to \"{most}\", in B, KB, MB, GB, TB, KiB, MiB, GiB or TiB")
    }
}

/// One of a few words.
pub(super) struct Word<T: 'static>(pub(super) &'static [(&'static str, T)]);

impl<T: Clone + PartialEq> Shape for Word<T> {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = T;

    fn parse(&self, written: &WrittenValue) -> Result<T, String> {
        let text = text(written)?;
        let meant = self.0.iter().find(|(word, _)| *word == text);
        meant.map(|(_, value)| value.clone()).ok_or_else(|| format!("\"{text}\" is not a known word"))
    }

    fn right(&self) -> String {
        let words: Vec<_> = self.0.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        words.join(" or ")
    }
}

/// `true` or `false`.
pub(super) struct Switch;

impl Shape for Switch {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = bool;

    fn parse(&self, written: &WrittenValue) -> Result<bool, String> {
        match written {
            WrittenValue::Switch(on) => Ok(*on),
            WrittenValue::Untyped(text) if text == "true" => Ok(true),
            WrittenValue::Untyped(text) if text == "false" => Ok(false),
            WrittenValue::Untyped(text) => Err(format!("\"{}\" is neither", text.display())),
            WrittenValue::Text(text) => Err(format!("\"{text}\" is a text")),
            WrittenValue::Whole(number) => Err(format!("{number} is a number")),
            other => Err(format!("is {other}")),
        }
    }

    fn right(&self) -> String {
        "true or false, without quotes".to_owned()
    }
}

/// The URL of a RabbitMQ server, or "" for off. What is wrong with it is told without repeating it:
/// it may hold a password.
pub(super) struct AmqpUrlOrOff;

impl Shape for AmqpUrlOrOff {
    const EXPOSURE: Exposure = Exposure::Hidden;
    type Value = Option<AmqpUrl>;

    fn parse(&self, written: &WrittenValue) -> Result<Self::Value, String> {
        let text = text(written)?;
        if text.is_empty() {
            return Ok(None);
        }
        AmqpUrl::parse(text).map(Some).map_err(|wrong| wrong.to_string())
    }

    fn right(&self) -> String {
        "a URL such as \"amqp://user:password@host:5672/vhost\" (amqps for TLS, the virtual host / as %2f), or \"\" for off"
            .to_owned()
    }
}

/// The name of a queue of RabbitMQ.
pub(super) struct AmqpQueueShape;

impl Shape for AmqpQueueShape {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = AmqpQueueName;

    fn parse(&self, written: &WrittenValue) -> Result<AmqpQueueName, String> {
        let text = text(written)?;
        AmqpQueueName::new(text).ok_or_else(|| format!("has {} bytes", text.len()))
    }

    fn right(&self) -> String {
        format!("a text in quotes of 1 to {} bytes", AmqpQueueName::BYTES_MAX)
    }
}

/// What this server calls itself, or "" for the lineage of its data.
pub(super) struct NodeName;

impl Shape for NodeName {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = Option<Box<str>>;

    fn parse(&self, written: &WrittenValue) -> Result<Self::Value, String> {
        let name = text(written)?;
        if name.is_empty() {
            return Ok(None);
        }
        engine::nodes::check_node_name(name).map_err(|_| format!("{name:?} cannot be one"))?;
        Ok(Some(name.into()))
    }

    fn right(&self) -> String {
        "a text in quotes of 1 to 64 of A-Z a-z 0-9 _ and -, but self; \"\" for the lineage of the data"
            .to_owned()
    }
}

/// A number of messages that the AMQP protocol can carry, and that is not its word for "without a
/// limit".
pub(super) struct Prefetch;

impl Prefetch {
    const RANGE: Whole = Whole { least: 1, most: u16::MAX as u64 };
}

impl Shape for Prefetch {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = NonZeroU16;

    fn parse(&self, written: &WrittenValue) -> Result<NonZeroU16, String> {
        let number = Self::RANGE.parse(written)?;
        let messages = u16::try_from(number).ok().and_then(NonZeroU16::new);
        messages.ok_or_else(|| format!("{number} is out of range"))
    }

    fn right(&self) -> String {
        Self::RANGE.right()
    }
}

/// A topic with a place for the id of a device.
pub(super) struct DeviceTopic;

impl Shape for DeviceTopic {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = TopicTemplate;

    fn parse(&self, written: &WrittenValue) -> Result<TopicTemplate, String> {
        let text = text(written)?;
        TopicTemplate::new(text).ok_or_else(|| format!("\"{text}\" is not such a topic"))
    }

    fn right(&self) -> String {
        TopicTemplate::FORM.to_owned()
    }
}

/// A place in a JSON value.
pub(super) struct Pointer;

impl Shape for Pointer {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = JsonPointer;

    fn parse(&self, written: &WrittenValue) -> Result<JsonPointer, String> {
        let text = text(written)?;
        JsonPointer::new(text).ok_or_else(|| format!("\"{text}\" is not one"))
    }

    fn right(&self) -> String {
        JsonPointer::FORM.to_owned()
    }
}

/// A value that JSON has too: a text, a whole number or a switch.
pub(super) struct Scalar;

impl Shape for Scalar {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = Json;

    fn parse(&self, written: &WrittenValue) -> Result<Json, String> {
        match written {
            WrittenValue::Text(text) => Ok(text.as_str().into()),
            WrittenValue::Whole(number) => Ok((*number).into()),
            WrittenValue::Switch(on) => Ok((*on).into()),
            other => Err(format!("is {}", other.kind())),
        }
    }

    fn right(&self) -> String {
        "a text in quotes, a whole number, true or false".to_owned()
    }
}
