//! Topic aliases (MQTT 5): numbers that a client gave to topics, so that it need not write them
//! again on this connection.

use super::ending::Violation;
use super::limits::{TOPIC_ALIAS_BYTES_MAX, TOPIC_ALIASES_MAX};

/// The aliases of one connection; `[0]` is alias 1.
#[derive(Debug, Default)]
pub(super) struct Aliases(Vec<Box<str>>);

impl Aliases {
    /// The topic of a publish: its own, which its alias stands for from now on, or the one that the
    /// alias stands for.
    pub(super) fn resolve<'a>(
        &'a mut self,
        topic: &'a str,
        alias: Option<u16>,
    ) -> Result<&'a str, Violation> {
        let Some(alias) = alias else { return Ok(topic) };
        if !(1..=TOPIC_ALIASES_MAX).contains(&alias) {
            return Err(Violation::TopicAliasInvalid);
        }
        let at = usize::from(alias - 1);
        if topic.is_empty() {
            let known = self.0.get(at).filter(|known| !known.is_empty());
            return known.map(|known| &**known).ok_or(Violation::TopicAliasInvalid);
        }
        self.set(at, topic)?;
        Ok(topic)
    }

    fn set(&mut self, at: usize, topic: &str) -> Result<(), Violation> {
        if self.0.len() <= at {
            self.0.resize_with(at + 1, Box::default);
        }
        if *self.0[at] == *topic {
            return Ok(());
        }
        let others: usize = self.0.iter().map(|known| known.len()).sum::<usize>() - self.0[at].len();
        if others + topic.len() > TOPIC_ALIAS_BYTES_MAX {
            return Err(Violation::QuotaExceeded);
        }
        self.0[at] = topic.into();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_stands_for_the_last_topic_it_came_with() {
        let long = "x".repeat(TOPIC_ALIAS_BYTES_MAX);
        let mut aliases = Aliases::default();
        for (topic, alias, expect) in [
            ("a", None, Ok("a")),
            ("", Some(2), Err(Violation::TopicAliasInvalid)),
            ("a", Some(2), Ok("a")),
            ("", Some(1), Err(Violation::TopicAliasInvalid)),
            ("", Some(2), Ok("a")),
            ("b", Some(2), Ok("b")),
            ("", Some(2), Ok("b")),
            ("b", Some(0), Err(Violation::TopicAliasInvalid)),
            ("b", Some(TOPIC_ALIASES_MAX + 1), Err(Violation::TopicAliasInvalid)),
            (&long, Some(1), Err(Violation::QuotaExceeded)),
            (&long, Some(2), Ok(&*long)),
        ] {
            assert_eq!(aliases.resolve(topic, alias), expect, "{alias:?}");
        }
    }
}
