//! Messages to whoever listens now, kept nowhere.
//!
//! Each listener has a queue of its own with two bounds. One that reads too slowly is told so
//! behind what is in its queue, and is a listener no more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base::Problem;
use base::limits::CHANNELS_PER_LISTENER_MAX;
use base::locks::locked;
use bytes::Bytes;
use compact_str::CompactString;
use tokio::sync::mpsc;

use crate::CoordinationName;

/// Messages that wait for a listener at most.
const WAITING_MESSAGES_MAX: usize = 256;
/// Bytes of messages that wait for a listener at most, but for one that waits alone.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// The same of all listeners together. One message that waits for several counts for each.
const ALL_WAITING_BYTES_MAX: usize = 64 << 20;

/// What a listener hears: channels of one namespace, by name or by how they begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelPatterns {
    namespace: CompactString,
    names: BTreeSet<CompactString>,
    beginnings: BTreeSet<CompactString>,
}

impl ChannelPatterns {
    /// Reads `name,name2,beginning*`.
    ///
    /// # Errors
    /// 422 `invalid_name`, `reserved_name` or `too_many_channels`.
    pub fn parse(namespace: &str, text: &str) -> Result<Self, Problem> {
        CoordinationName::check_namespace(namespace)?;
        let (mut names, mut beginnings) = (BTreeSet::new(), BTreeSet::new());
        for (place, one) in text.split(',').enumerate() {
            if place >= CHANNELS_PER_LISTENER_MAX {
                let detail = format!("a listener names at most {CHANNELS_PER_LISTENER_MAX} channels");
                return Err(Problem::not_allowed("too_many_channels", detail));
            }
            match one.strip_suffix('*') {
                Some("") => drop(beginnings.insert(CompactString::default())),
                Some(beginning) => {
                    CoordinationName::check_name("the beginning of a channel", beginning)?;
                    beginnings.insert(beginning.into());
                }
                None => {
                    CoordinationName::check_name("a channel", one)?;
                    names.insert(one.into());
                }
            }
        }
        Ok(Self { namespace: namespace.into(), names, beginnings })
    }

    /// Whether a channel is among them.
    #[must_use]
    pub fn match_channel(&self, channel: &CoordinationName) -> bool {
        self.namespace == channel.namespace()
            && (self.names.contains(channel.name())
                || self.beginnings.iter().any(|beginning| channel.name().starts_with(&**beginning)))
    }
}

/// What a listener is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelEvent {
    /// A message: its channel without the namespace, and its JSON text.
    Message(CompactString, Bytes),
    /// It read too slowly, and hears nothing more.
    TooSlow,
}

/// As many listen as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyListeners;

/// The listeners. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Channels {
    shared: Arc<ChannelHub>,
}

#[derive(Debug)]
struct ChannelHub {
    listeners: Mutex<Listeners>,
    listeners_max: usize,
    waiting_bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Listeners {
    by_id: HashMap<u64, Listening>,
    /// Those that name a channel, by namespace and name.
    by_name: BTreeMap<CoordinationName, BTreeSet<u64>>,
    /// Those that name the beginning of channels, by namespace and beginning.
    by_beginning: BTreeMap<CoordinationName, BTreeSet<u64>>,
    /// Those that are not dropped: also such as were too slow, whose messages are still there.
    open: usize,
    next: u64,
}

#[derive(Debug)]
struct Listening {
    patterns: ChannelPatterns,
    messages: mpsc::Sender<(CompactString, Bytes)>,
    state: Arc<ListenerState>,
}

#[derive(Debug, Default)]
struct ListenerState {
    waiting_bytes: AtomicUsize,
    is_too_slow: AtomicBool,
}

/// One that listens, until it is dropped.
#[derive(Debug)]
pub struct ChannelListener {
    id: u64,
    channels: Channels,
    messages: mpsc::Receiver<(CompactString, Bytes)>,
    state: Arc<ListenerState>,
    has_ended: bool,
}

impl Channels {
    /// Nobody listens; this many may.
    #[must_use]
    pub fn new(listeners_max: usize) -> Self {
        let waiting_bytes = AtomicUsize::default();
        Self { shared: Arc::new(ChannelHub { listeners: Mutex::default(), listeners_max, waiting_bytes }) }
    }

    /// Listens from now on.
    ///
    /// # Errors
    /// When as many listen as may.
    pub fn listen(&self, patterns: ChannelPatterns) -> Result<ChannelListener, TooManyListeners> {
        let mut all = locked(&self.shared.listeners);
        if all.open >= self.shared.listeners_max {
            return Err(TooManyListeners);
        }
        let id = all.next;
        all.next += 1;
        all.open += 1;
        let (messages, receiver) = mpsc::channel(WAITING_MESSAGES_MAX);
        let state = Arc::<ListenerState>::default();
        for name in &patterns.names {
            let name = CoordinationName::unchecked(&patterns.namespace, name);
            all.by_name.entry(name).or_default().insert(id);
        }
        for beginning in &patterns.beginnings {
            let beginning = CoordinationName::unchecked(&patterns.namespace, beginning);
            all.by_beginning.entry(beginning).or_default().insert(id);
        }
        all.by_id.insert(id, Listening { patterns, messages, state: Arc::clone(&state) });
        drop(all);
        Ok(ChannelListener { id, channels: self.clone(), messages: receiver, state, has_ended: false })
    }

    /// Gives a message to whoever listens to its channel, once; answers to how many.
    #[must_use]
    pub fn publish(&self, channel: &CoordinationName, message: &Bytes) -> usize {
        let mut all = locked(&self.shared.listeners);
        let mut hear: BTreeSet<u64> = all.by_name.get(channel).cloned().unwrap_or_default();
        for length in 0..=channel.name().len() {
            let beginning = CoordinationName::unchecked(channel.namespace(), &channel.name()[..length]);
            hear.extend(all.by_beginning.get(&beginning).into_iter().flatten());
        }
        let mut receivers = 0;
        for id in hear {
            let Some(listening) = all.by_id.get(&id) else { continue };
            if listening.give(channel, message, &self.shared.waiting_bytes) {
                receivers += 1;
            } else {
                all.remove(id);
            }
        }
        receivers
    }

    /// How many listen.
    #[must_use]
    pub fn listeners(&self) -> usize {
        locked(&self.shared.listeners).by_id.len()
    }
}

impl Listening {
    /// Whether there was room for it. `all_waiting` is what waits for all listeners.
    fn give(&self, channel: &CoordinationName, message: &Bytes, all_waiting: &AtomicUsize) -> bool {
        let waiting = self.state.waiting_bytes.load(Ordering::Acquire);
        let has_room = waiting == 0
            || waiting + message.len() <= WAITING_BYTES_MAX
                && all_waiting.load(Ordering::Acquire) + message.len() <= ALL_WAITING_BYTES_MAX;
        // Counted first: the listener may take it at once.
        self.state.waiting_bytes.fetch_add(message.len(), Ordering::AcqRel);
        all_waiting.fetch_add(message.len(), Ordering::AcqRel);
        let given = has_room && self.messages.try_send((channel.name().into(), message.clone())).is_ok();
        if !given {
            self.state.waiting_bytes.fetch_sub(message.len(), Ordering::AcqRel);
            all_waiting.fetch_sub(message.len(), Ordering::AcqRel);
            self.state.is_too_slow.store(true, Ordering::Release);
        }
        given
    }
}

impl Listeners {
    fn remove(&mut self, id: u64) {
        let Some(Listening { patterns, .. }) = self.by_id.remove(&id) else { return };
        let leave = |places: &mut BTreeMap<CoordinationName, BTreeSet<u64>>, name: &str| {
            let name = CoordinationName::unchecked(&patterns.namespace, name);
            if let Some(there) = places.get_mut(&name) {
                there.remove(&id);
                if there.is_empty() {
                    places.remove(&name);
                }
            }
        };
        patterns.names.iter().for_each(|name| leave(&mut self.by_name, name));
        patterns.beginnings.iter().for_each(|beginning| leave(&mut self.by_beginning, beginning));
    }
}

impl ChannelListener {
    /// The next message; `None` behind the last.
    pub async fn next(&mut self) -> Option<ChannelEvent> {
        if let Some((channel, message)) = self.messages.recv().await {
            self.state.waiting_bytes.fetch_sub(message.len(), Ordering::AcqRel);
            self.channels.shared.waiting_bytes.fetch_sub(message.len(), Ordering::AcqRel);
            return Some(ChannelEvent::Message(channel, message));
        }
        let is_too_slow = self.state.is_too_slow.load(Ordering::Acquire) && !self.has_ended;
        self.has_ended = true;
        is_too_slow.then_some(ChannelEvent::TooSlow)
    }
}

impl Drop for ChannelListener {
    fn drop(&mut self) {
        let mut all = locked(&self.channels.shared.listeners);
        all.remove(self.id);
        all.open -= 1;
        // Nothing is given to it any more.
        let waiting = self.state.waiting_bytes.load(Ordering::Acquire);
        self.channels.shared.waiting_bytes.fetch_sub(waiting, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(name: &str) -> CoordinationName {
        CoordinationName::unchecked("shop", name)
    }

    fn listen(channels: &Channels, to: &str) -> ChannelListener {
        channels.listen(ChannelPatterns::parse("shop", to).expect("patterns")).expect("room")
    }

    #[test]
    fn patterns_name_channels_or_how_they_begin() {
        for (patterns, refused) in
            [("a,b*", false), ("*", false), ("a*b", true), ("", true), ("a,", true), ("a b", true)]
        {
            assert_eq!(ChannelPatterns::parse("shop", patterns).is_err(), refused, "{patterns:?}");
        }
        let patterns = ChannelPatterns::parse("shop", "a,b*").expect("patterns");
        for (name, matches) in [("a", true), ("ab", false), ("b", true), ("bc", true), ("c", false)] {
            assert_eq!(patterns.match_channel(&channel(name)), matches, "{name}");
        }
        assert!(!patterns.match_channel(&CoordinationName::unchecked("other", "a")));
    }

    #[tokio::test]
    async fn one_that_matches_twice_gets_a_message_once() {
        let channels = Channels::new(9);
        let mut twice = listen(&channels, "orders,ord*");
        let _other = listen(&channels, "bills");
        let message = Bytes::from("1");
        assert_eq!(channels.publish(&channel("orders"), &message), 1);
        assert_eq!(twice.next().await, Some(ChannelEvent::Message("orders".into(), message.clone())));
        drop(twice);
        assert_eq!((channels.publish(&channel("orders"), &message), channels.listeners()), (0, 1));
    }

    #[tokio::test]
    async fn a_slow_listener_is_ended_behind_what_it_was_given() {
        let channels = Channels::new(9);
        let mut slow = listen(&channels, "*");
        let message = Bytes::from("1");
        for _ in 0..WAITING_MESSAGES_MAX {
            assert_eq!(channels.publish(&channel("a"), &message), 1);
        }
        assert_eq!(channels.publish(&channel("a"), &message), 0);
        assert_eq!(channels.listeners(), 0);
        for _ in 0..WAITING_MESSAGES_MAX {
            assert!(matches!(slow.next().await, Some(ChannelEvent::Message(..))));
        }
        assert_eq!(slow.next().await, Some(ChannelEvent::TooSlow));
        assert_eq!(slow.next().await, None);
    }

    #[tokio::test]
    async fn a_listener_that_was_too_slow_keeps_its_place_until_it_is_dropped() {
        let channels = Channels::new(1);
        let slow = listen(&channels, "a");
        let large = Bytes::from(vec![b'1'; WAITING_BYTES_MAX]);
        assert_eq!(channels.publish(&channel("a"), &large), 1, "one that waits alone");
        assert_eq!(channels.publish(&channel("a"), &Bytes::from("1")), 0);
        let patterns = ChannelPatterns::parse("shop", "a").expect("patterns");
        assert_eq!(channels.listen(patterns.clone()).err(), Some(TooManyListeners));
        drop(slow);
        assert_eq!(channels.shared.waiting_bytes.load(Ordering::Acquire), 0);
        assert!(channels.listen(patterns).is_ok());
    }

    #[tokio::test]
    async fn what_waits_for_all_listeners_is_bounded() {
        let listeners = ALL_WAITING_BYTES_MAX / WAITING_BYTES_MAX + 1;
        let channels = Channels::new(listeners);
        let mut all: Vec<_> = (0..listeners).map(|_| listen(&channels, "a")).collect();
        let half = Bytes::from(vec![b'1'; WAITING_BYTES_MAX / 2]);
        assert_eq!(channels.publish(&channel("a"), &half), listeners);
        assert_eq!(channels.publish(&channel("a"), &half), listeners - 2);
        for listener in &mut all {
            assert!(matches!(listener.next().await, Some(ChannelEvent::Message(..))));
        }
        assert_eq!(channels.publish(&channel("a"), &half), listeners - 2, "there is room again");
    }

    #[test]
    fn so_many_may_listen() {
        let channels = Channels::new(1);
        let first = listen(&channels, "a");
        let patterns = ChannelPatterns::parse("shop", "a").expect("patterns");
        assert_eq!(channels.listen(patterns.clone()).err(), Some(TooManyListeners));
        drop(first);
        assert!(channels.listen(patterns).is_ok());
    }
}
