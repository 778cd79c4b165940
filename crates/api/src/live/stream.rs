//! One stream: what it shows, how far it has come, and which message is next.

use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use access::Caller;
use axum::body::Bytes;
use base::Problem;
use engine::followers::live::{LiveFollower, WatchTarget, WatchedDevices};
use engine::followers::registry::RegistryRows;
use engine::followers::{Followed, FollowedFeed};
use net::memory_budget::MemoryReservation;
use net::shares::SenderKey;
use tokio::select;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::feed::{FeedIdentity, FeedState, MESSAGE_BYTES_MAX};
use super::message::{ALIVE, message};
use super::position::{self, FeedPosition};
use super::rows::{RowSource, VisibleRows};
use super::topic::{LiveRequest, LiveTopic, sees_devices_of};
use super::visible::{VisibleChanges, VisibleDevices, VisibleQueues};
use super::{LiveLook, LiveStreamPermit};
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::authorization::{Visibility, still_knows};
use crate::overview;
use crate::path::{unknown_client, unknown_device};
use crate::routes::live::{campaigns, clients, operations, rollouts, source, tasks};
use crate::shape::{LiveBehindShape, LiveHelloShape};

/// Between two looks at a topic: it has ten messages a second at most.
const TICK: Duration = Duration::from_millis(100);
/// Between two looks at devices: each that was heard of is read and sent as a whole. Nobody reads
/// more of devices that report several times a second.
const DEVICES_INTERVAL: Duration = Duration::from_millis(500);
/// Between two looks at queues: their partitions are asked.
const QUEUES_INTERVAL: Duration = Duration::from_millis(500);
/// Queues that jobs went through are looked at again after this long, also where nothing happens
/// any more: rates fall by themselves.
const RATES_INTERVAL: Duration = Duration::from_secs(5);
/// Between two looks at rollouts, operations and clients: all that are shown are read.
const ROWS_INTERVAL: Duration = Duration::from_millis(500);
/// Between two looks at a feed that is behind: it will be left out again.
const BEHIND_INTERVAL: Duration = Duration::from_secs(1);
/// After so long without a message a comment says that the stream lives.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// How long what a caller may see is taken to be as it was.
const RIGHTS_TTL: Duration = Duration::from_secs(1);
/// As far away as the end of rights that do not end is taken to be.
const RIGHTS_LEFT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A stream.
pub(super) struct LiveStream {
    permit: LiveStreamPermit,
    caller: Option<Caller>,
    asked: LiveRequest,
    fingerprint: u64,
    whose: SenderKey,
    topics: Vec<TopicState>,
    follower: LiveFollower,
    samples: Option<watch::Receiver<Option<overview::OverviewTexts>>>,
    /// Messages that are made: at most one look's.
    made: VecDeque<Bytes>,
    /// What the message takes that the connection is taking.
    held: Option<MemoryReservation>,
    /// Things whose change may take rights away, a bit each.
    rights_follow: u32,
    rights_hold_until: Instant,
    /// When the caller's rights end by themselves, if they do.
    rights_end: Instant,
    alive_at: Instant,
    has_ended: bool,
}

struct TopicState {
    topic: LiveTopic,
    shows: TopicView,
    /// The things that it follows, a bit each.
    follows: u32,
    /// There may be something new.
    is_due: bool,
    /// In which moment it was told so last.
    told_in: u64,
    /// It is not looked at before that.
    look_at: Instant,
    /// It is looked at then, whether there is something new or not.
    look_by: Option<Instant>,
}

impl TopicState {
    /// When it is looked at, if it is.
    fn due_at(&self) -> Option<Instant> {
        let told = self.is_due.then_some(self.look_at);
        told.into_iter().chain(self.look_by).min()
    }
}

enum TopicView {
    Feed(Box<FeedState>),
    Devices(VisibleDevices),
    Queues(VisibleQueues),
    Rows(VisibleRows),
    Overview,
}

impl LiveStream {
    /// A stream that begins with `hello`.
    ///
    /// # Errors
    /// 404 for an unknown device or client, and what a look-up says.
    pub(super) async fn open(
        permit: LiveStreamPermit,
        caller: Option<Caller>,
        asked: LiveRequest,
        (fingerprint, whose): (u64, SenderKey),
        mut positions: Vec<(LiveTopic, FeedPosition)>,
    ) -> Result<Self, Problem> {
        let api = &permit.api;
        let now = Instant::now();
        let mut watched = Vec::new();
        let mut topics = Vec::new();
        for topic in asked.topics.iter().copied() {
            let known = positions.iter().position(|(of, _)| *of == topic);
            let position = known.map(|known| positions.swap_remove(known).1);
            let (shows, watches) = shows(api, caller.as_ref(), &asked, topic, position).await?;
            let follows = watches.map_or(0, |watches| {
                watched.push(watches);
                1 << (watched.len() - 1)
            });
            topics.push(TopicState {
                topic,
                shows,
                follows,
                is_due: true,
                told_in: 0,
                look_at: now,
                look_by: None,
            });
        }
        // A portal may be closed at any time.
        let rights_follow = caller.as_ref().and_then(Caller::portal).map_or(0, |_| {
            watched.push(WatchTarget::Registry(RegistryRows::Clients));
            1 << (watched.len() - 1)
        });
        let follower = api.engine().follow_live(watched)?;
        let samples = asked.topics.contains(&LiveTopic::Overview).then(|| overview::follow(api));
        let rights_end = now + rights_left(api, caller.as_ref());
        let version = api.host().map_or("", crate::ServerHost::version);
        let hello = LiveHelloShape::of(version, api.engine().clock().wall());
        let hello = serde_json::to_vec(&hello).expect("a shape is JSON");
        Ok(Self {
            caller,
            asked,
            fingerprint,
            whose,
            topics,
            follower,
            samples,
            made: VecDeque::from([message("hello", None, &[&hello])]),
            held: None,
            rights_follow,
            rights_hold_until: now + RIGHTS_TTL,
            rights_end,
            alive_at: now + KEEPALIVE_INTERVAL,
            has_ended: false,
            permit,
        })
    }

    /// The next message; `None` when the stream has ended: the server stops, or the caller may no
    /// longer see what it shows.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.made.pop_front() {
                self.alive_at = Instant::now() + KEEPALIVE_INTERVAL;
                return Some(message);
            }
            self.held = None;
            if self.has_ended {
                return None;
            }
            let api = self.permit.api.clone();
            let step = async {
                match self.due(Instant::now()) {
                    Some(at) => self.look(at).await,
                    None => self.wait().await,
                }
            };
            select! {
                biased;
                () = api.stopped() => return None,
                made = step => {
                    if let Err(problem) = made {
                        self.end(&problem);
                    }
                }
            }
        }
    }

    /// The topic that may be looked at, and has waited longest for it.
    fn due(&self, now: Instant) -> Option<usize> {
        let due = self.topics.iter().enumerate().filter_map(|(at, topic)| Some((topic.due_at()?, at)));
        due.min().filter(|(due_at, _)| *due_at <= now).map(|(_, at)| at)
    }

    /// Waits until there is something to look at, or to say.
    async fn wait(&mut self) -> Result<(), Problem> {
        let due = self.topics.iter().filter_map(TopicState::due_at).min();
        let look_at = due.unwrap_or(self.alive_at).min(self.alive_at).min(self.rights_end);
        // Of a topic that will be looked at nothing more needs to be told: the look takes it.
        let idle = self.topics.iter().filter(|topic| !topic.is_due);
        let awaited = idle.fold(self.rights_follow, |all, topic| all | topic.follows);
        let Self { follower, samples, .. } = self;
        select! {
            changed = follower.changed(awaited), if awaited != 0 => {
                self.mark_due(|topic| topic.follows & changed != 0);
                if self.rights_follow & changed != 0 {
                    self.check_rights().await?;
                }
            }
            () = sampled(samples) => self.mark_due(|topic| matches!(topic.shows, TopicView::Overview)),
            () = sleep_until(look_at) => {
                let now = Instant::now();
                if now >= self.rights_end {
                    self.check_rights().await?;
                    let left = rights_left(&self.permit.api, self.caller.as_ref());
                    self.rights_end = now + left.max(TICK);
                }
                if now >= self.alive_at {
                    self.check_rights().await?;
                    self.made.push_back(ALIVE);
                }
            }
        }
        Ok(())
    }

    fn mark_due(&mut self, which: impl Fn(&TopicState) -> bool) {
        // On the next moment that all streams look at: what one reads then serves the others.
        let (at, tick) = next_look(self.permit.api.shared.live.epoch, Instant::now());
        for topic in self.topics.iter_mut().filter(|topic| which(topic)) {
            topic.told_in = tick;
            if !topic.is_due {
                topic.is_due = true;
                topic.look_at = topic.look_at.max(at);
            }
        }
    }

    /// Looks at a topic, and makes a message of what is new.
    async fn look(&mut self, at: usize) -> Result<(), Problem> {
        if Instant::now() >= self.rights_hold_until {
            self.check_rights().await?;
        }
        let (api, whose) = (self.permit.api.clone(), self.whose.clone());
        // New items and those that moved, each with one too many.
        let bytes = MESSAGE_BYTES_MAX * 3;
        let mut held = api.shared.memory_of_pages.take_soon(&whose, bytes).await?;
        let epoch = api.shared.live.epoch;
        let (next, tick) = next_look(epoch, Instant::now());
        let look = LiveLook { api: &api, tick, whose: &whose };
        let state = &mut self.topics[at];
        state.is_due = false;
        state.look_at = next;
        state.look_by = None;
        let told = self.follower.take(state.follows) != 0;
        match &mut state.shows {
            TopicView::Feed(_) => self.look_at_feed(at, &look).await?,
            TopicView::Devices(devices) => {
                self.follower.shown().await;
                let clients = sees_devices_of(&api, self.caller.as_ref()).await?;
                let changed = devices.changed(&look, self.follower.touched(), clients.as_deref()).await?;
                if changed.more {
                    // It was cut, or may be older than what this stream was told of.
                    state.is_due = true;
                } else {
                    state.look_at = next_moment(epoch, Instant::now(), DEVICES_INTERVAL).0;
                }
                self.add_changed(LiveTopic::Devices, &changed);
            }
            TopicView::Queues(queues) => {
                state.look_at = next_moment(epoch, Instant::now(), QUEUES_INTERVAL).0;
                let changed = queues.changed(&look).await?;
                // What another stream asked for at this moment may be from before that.
                state.is_due |= told || state.told_in == tick;
                state.look_by = queues.has_rates().then(|| Instant::now() + RATES_INTERVAL);
                self.add_changed(LiveTopic::Queues, &changed);
            }
            TopicView::Rows(rows) => {
                state.look_at = next_moment(epoch, Instant::now(), ROWS_INTERVAL).0;
                let topic = state.topic;
                if let Some(changed) = rows.changed(&look).await? {
                    state.is_due |= changed.more;
                    self.send_changed(topic, &changed);
                }
            }
            TopicView::Overview => {
                let sample = self.samples.as_mut().and_then(|samples| samples.borrow_and_update().clone());
                if let Some(sample) = sample {
                    self.add(LiveTopic::Overview, &[&sample.to(self.caller.as_ref())]);
                }
            }
        }
        held.shrink(self.made.iter().map(Bytes::len).sum());
        self.held = Some(held);
        Ok(())
    }

    async fn look_at_feed(&mut self, at: usize, look: &LiveLook<'_>) -> Result<(), Problem> {
        let stamp = self.follower.shown().await;
        let state = &mut self.topics[at];
        let TopicView::Feed(feed) = &mut state.shows else { return Ok(()) };
        let looked = feed.look(look).await?;
        let moved = feed.moved(look, &looked).await?;
        if looked.more || moved.more || looked.end <= stamp {
            // There is more, or may be: another stream has read it before this was shown.
            state.is_due = true;
        }
        if feed.is_behind() {
            state.look_at = state.look_at.max(Instant::now() + BEHIND_INTERVAL);
        }
        let topic = state.topic;
        if looked.behind {
            look.api.shared.live.behind.count(topic.as_str());
            let about = serde_json::to_vec(&LiveBehindShape::of(topic.as_str())).expect("a shape is JSON");
            self.made.push_back(message("behind", None, &[&about]));
        }
        if looked.count > 0 || looked.first || !moved.items.is_empty() {
            let first: &[u8] = if looked.first { b"],\"first\":true" } else { b"],\"first\":false" };
            let moved: [&[u8]; 3] = match moved.items.is_empty() {
                true => [b"", b"", b""],
                false => [b",\"moved\":[", &moved.items, b"]"],
            };
            let parts =
                [b"{\"items\":[", &looked.items[..], first].into_iter().chain(moved).chain([&b"}"[..]]);
            self.add(topic, &parts.collect::<Vec<&[u8]>>());
        }
        Ok(())
    }

    fn add_changed(&mut self, topic: LiveTopic, changed: &VisibleChanges) {
        if !changed.is_empty() {
            self.send_changed(topic, changed);
        }
    }

    fn send_changed(&mut self, topic: LiveTopic, changed: &VisibleChanges) {
        let gone: &[&[u8]] = if changed.gone.is_empty() { &[] } else { &[b"],\"gone\":[", &changed.gone] };
        let parts: Vec<&[u8]> = [&b"{\"items\":["[..], &changed.items]
            .into_iter()
            .chain(gone.iter().copied())
            .chain([&b"]}"[..]])
            .collect();
        self.add(topic, &parts);
    }

    fn add(&mut self, topic: LiveTopic, parts: &[&[u8]]) {
        let id = self.id();
        self.permit.api.shared.live.messages.count(topic.as_str());
        self.made.push_back(message(topic.as_str(), id.as_deref(), parts));
    }

    /// Where a stream goes on that has all messages up to now; none without feeds.
    fn id(&self) -> Option<String> {
        let mut positions = self.topics.iter().filter_map(|topic| match &topic.shows {
            TopicView::Feed(feed) => feed.position.as_ref().map(|position| (topic.topic, position)),
            _ => None,
        });
        let first = positions.next()?;
        Some(position::write(self.fingerprint, std::iter::once(first).chain(positions)))
    }

    /// Whether the caller may still see what it asked for.
    async fn check_rights(&mut self) -> Result<(), Problem> {
        let api = &self.permit.api;
        if let Some(caller) = self.caller.as_ref().filter(|caller| !still_knows(api, caller)) {
            let detail = format!("token {:?} was deleted, or its scopes were changed", caller.name());
            return Err(Problem::new(401, "unauthorized", detail));
        }
        self.asked.check_rights(api, self.caller.as_ref()).await?;
        self.rights_hold_until = Instant::now() + RIGHTS_TTL;
        Ok(())
    }

    /// Says why it ends.
    fn end(&mut self, problem: &Problem) {
        self.has_ended = true;
        self.made.push_back(message("end", None, &[&ApiAnswer::refused(problem).body]));
    }
}

/// The next moment at which all streams look, and the number of the one before.
fn next_look(epoch: Instant, now: Instant) -> (Instant, u64) {
    next_moment(epoch, now, TICK)
}

/// The same of those that look more seldom.
fn next_moment(epoch: Instant, now: Instant, every: Duration) -> (Instant, u64) {
    let every = every.as_millis() as u64;
    let moment = now.duration_since(epoch).as_millis() as u64 / every;
    (epoch + Duration::from_millis((moment + 1) * every), moment)
}

/// For how long a caller has its rights at most: a portal ends by itself.
fn rights_left(api: &ApiState, caller: Option<&Caller>) -> Duration {
    let portal = caller.and_then(Caller::portal);
    portal.map_or(RIGHTS_LEFT_MAX, |portal| {
        portal.expires_at.since(api.engine().clock().now()).min(RIGHTS_LEFT_MAX)
    })
}

/// Resolves when there is another sample; never where nobody looks at them.
async fn sampled(samples: &mut Option<watch::Receiver<Option<overview::OverviewTexts>>>) {
    if let Some(samples) = samples
        && samples.changed().await.is_ok()
    {
        return;
    }
    pending::<()>().await;
}

/// What a topic shows, and what it waits for.
async fn shows(
    api: &ApiState,
    caller: Option<&Caller>,
    asked: &LiveRequest,
    topic: LiveTopic,
    position: Option<FeedPosition>,
) -> Result<(TopicView, Option<WatchTarget>), Problem> {
    let feed = match topic {
        LiveTopic::Overview => return Ok((TopicView::Overview, None)),
        LiveTopic::Devices => {
            let devices = VisibleDevices::find(api, &asked.ids).await?;
            let set: WatchedDevices = devices.places().collect();
            return Ok((TopicView::Devices(devices), Some(WatchTarget::Devices(set))));
        }
        LiveTopic::Queues => {
            let queues = api.queues();
            let partitions = asked.queues.iter().map(|queue| queues.partition_of(queue)).collect();
            return Ok((
                TopicView::Queues(VisibleQueues::new(&asked.queues)),
                Some(WatchTarget::Queues(partitions)),
            ));
        }
        LiveTopic::Rollouts => return Ok(rows(RegistryRows::Rollouts, rollouts(api), &asked.rollouts)),
        LiveTopic::Tasks => return Ok(rows(RegistryRows::Tasks, tasks(api), &asked.tasks)),
        LiveTopic::Campaigns => {
            return Ok(rows(RegistryRows::Campaigns, campaigns(api), &asked.campaigns));
        }
        LiveTopic::Operations => {
            let source = operations(api, caller, asked.namespace.clone());
            return Ok(rows(RegistryRows::Operations, source, &asked.operations));
        }
        LiveTopic::Client => {
            let ids = asked.client.iter().map(ToString::to_string).collect();
            return Ok(rows(RegistryRows::Clients, clients(api), &ids));
        }
        LiveTopic::Events => FollowedFeed::Events,
        LiveTopic::Deliveries => FollowedFeed::DeliveriesByStatus,
        LiveTopic::Commands => FollowedFeed::CommandsByStatus,
        LiveTopic::Timeline => FollowedFeed::Timeline,
        LiveTopic::Notices => FollowedFeed::Notices,
    };
    if let Some(client) = asked.client.as_ref().filter(|client| api.queries().client(client).is_none()) {
        return Err(unknown_client(client.as_str()));
    }
    let sees = Visibility::of_caller(caller);
    let device = asked.device.as_ref().filter(|_| feed != FollowedFeed::Notices);
    let watched = match device {
        None => Some(WatchTarget::Feed(Followed { feed, device: None })),
        Some(id) => {
            let (queries, device) = (api.queries(), id.clone());
            match api.shared.lookups.run(move || queries.place(&device)).await? {
                None if sees == Visibility::Everything => return Err(unknown_device(id.as_str())),
                // Of a device that is unknown there will be nothing.
                None => None,
                device => Some(WatchTarget::Feed(Followed { feed, device })),
            }
        }
    };
    let feed = FeedIdentity { topic, device: asked.device.clone(), client: asked.client.clone(), sees };
    let source = source(api, topic, (feed.device.as_ref(), feed.client.as_ref()), sees);
    Ok((TopicView::Feed(Box::new(FeedState::new(source, feed, asked.last, position))), watched))
}

fn rows(
    rows: RegistryRows,
    source: Arc<dyn RowSource>,
    ids: &BTreeSet<String>,
) -> (TopicView, Option<WatchTarget>) {
    (TopicView::Rows(VisibleRows::new(source, ids.clone())), Some(WatchTarget::Registry(rows)))
}
