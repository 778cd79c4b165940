//! What a stream is asked for: topics, and of which device, client, devices or queues.

use std::collections::BTreeSet;

use access::Caller;
use base::{ClientId, DeviceId, Problem};
use engine::queues::QueueName;

use crate::ApiState;
use crate::authorization::{check_row, own_clients};
use crate::params::Params;

/// Devices or queues that a stream shows at most.
const VISIBLE_MAX: usize = 200;
/// Items that its feeds begin with, unless it says otherwise, and at most.
const LAST_DEFAULT: usize = 50;
const LAST_MAX: usize = 200;

/// Longest id of a rollout, an operation, a task or a campaign, in bytes.
const ID_BYTES_MAX: usize = 64;

/// Something to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LiveTopic {
    Overview = 1,
    Events = 2,
    Deliveries = 3,
    Commands = 4,
    Timeline = 5,
    Devices = 6,
    Queues = 7,
    Notices = 8,
    Rollouts = 9,
    Operations = 10,
    Client = 11,
    Tasks = 12,
    Campaigns = 13,
}

base::names! {
    /// Every topic.
    pub(crate) LiveTopic: Overview = "overview", Events = "events", Deliveries = "deliveries",
        Commands = "commands", Timeline = "timeline", Devices = "devices", Queues = "queues",
        Notices = "notices", Rollouts = "rollouts", Operations = "operations", Client = "client",
        Tasks = "tasks", Campaigns = "campaigns"
}

/// What a stream is asked for.
#[derive(Clone, Debug)]
pub(super) struct LiveRequest {
    pub(super) topics: BTreeSet<LiveTopic>,
    pub(super) device: Option<DeviceId>,
    pub(super) client: Option<ClientId>,
    pub(super) ids: BTreeSet<DeviceId>,
    pub(super) queues: BTreeSet<QueueName>,
    pub(super) last: usize,
    pub(super) rollouts: BTreeSet<String>,
    pub(super) operations: BTreeSet<String>,
    pub(super) tasks: BTreeSet<String>,
    pub(super) campaigns: BTreeSet<String>,
    /// Of queues of which the operations are; a token of that namespace has to say it.
    pub(super) namespace: Option<String>,
}

impl LiveRequest {
    /// Reads the parameters, and no others.
    ///
    /// # Errors
    /// `invalid_parameter`, `unknown_parameter`.
    pub(super) fn read(mut params: Params) -> Result<Self, Problem> {
        let words = LiveTopic::ALL.map(LiveTopic::as_str).join(", ");
        let right = format!("some of {words}, with commas between");
        let topics = params.take("topics", &right, |text| each(text, LiveTopic::ALL.len(), topic))?;
        let (device, client) = (params.device("device")?, params.client("client")?);
        let right = format!("up to {VISIBLE_MAX} ids of devices, with commas between");
        let ids = params.take("ids", &right, |text| each(text, VISIBLE_MAX, DeviceId::new))?;
        let right = format!("up to {VISIBLE_MAX} queues such as mail/out, with commas between");
        let queues = params.take("queues", &right, |text| each(text, VISIBLE_MAX, queue))?;
        let right = format!("a number from 1 to {LAST_MAX}");
        let last = params
            .take("last", &right, |text| text.parse().ok().filter(|last| (1..=LAST_MAX).contains(last)))?;
        let right = format!("up to {VISIBLE_MAX} ids, with commas between");
        let rollouts = params.take("rollout", &right, |text| each(text, VISIBLE_MAX, id))?;
        let operations = params.take("operation", &right, |text| each(text, VISIBLE_MAX, id))?;
        let tasks = params.take("task", &right, |text| each(text, VISIBLE_MAX, id))?;
        let campaigns = params.take("campaign", &right, |text| each(text, VISIBLE_MAX, id))?;
        let namespace = params.take("namespace", "text", |text| Some(text.to_owned()))?;
        params.end()?;
        let asked = Self {
            topics: topics.unwrap_or_default(),
            device,
            client,
            ids: ids.unwrap_or_default(),
            queues: queues.unwrap_or_default(),
            last: last.unwrap_or(LAST_DEFAULT),
            rollouts: rollouts.unwrap_or_default(),
            operations: operations.unwrap_or_default(),
            tasks: tasks.unwrap_or_default(),
            campaigns: campaigns.unwrap_or_default(),
            namespace,
        };
        asked.check_complete(&words)?;
        Ok(asked)
    }

    /// What a topic cannot do without is there.
    fn check_complete(&self, words: &str) -> Result<(), Problem> {
        let lacks = |topic, is_there: bool| self.topics.contains(&topic) && !is_there;
        let detail = if self.topics.is_empty() {
            format!("topics is missing; it must be some of {words}, with commas between")
        } else if lacks(LiveTopic::Timeline, self.device.is_some()) {
            "the topic timeline takes device=ID".to_owned()
        } else if lacks(LiveTopic::Client, self.client.is_some()) {
            "the topic client takes client=ID".to_owned()
        } else if lacks(LiveTopic::Devices, !self.ids.is_empty()) {
            format!("the topic devices takes ids=ID,ID,.. of up to {VISIBLE_MAX} devices")
        } else if lacks(LiveTopic::Tasks, !self.tasks.is_empty()) {
            format!("the topic tasks takes task=ID,ID,.. of up to {VISIBLE_MAX} tasks")
        } else if lacks(LiveTopic::Queues, !self.queues.is_empty()) {
            format!("the topic queues takes queues=NAMESPACE/QUEUE,.. of up to {VISIBLE_MAX} queues")
        } else {
            return Ok(());
        };
        Err(Problem::not_allowed("invalid_parameter", detail))
    }

    /// Whether the caller may see all of it now: for each topic what the list of its name takes.
    /// Of devices a client's token is shown its own.
    ///
    /// # Errors
    /// 403 `forbidden`, and what a look-up says.
    pub(super) async fn check_rights(&self, api: &ApiState, caller: Option<&Caller>) -> Result<(), Problem> {
        let device = self.device.as_ref().map(|device| ("device", device.as_str()));
        let client = self.client.as_ref().map(|client| ("client", client.as_str()));
        let query: Vec<_> = device.into_iter().chain(client).collect();
        for topic in &self.topics {
            match topic {
                LiveTopic::Overview => check_row(api, caller, "/v1/overview", &[], &[]).await?,
                LiveTopic::Events => check_row(api, caller, "/v1/events", &[], &query).await?,
                LiveTopic::Deliveries => check_row(api, caller, "/v1/deliveries", &[], &query).await?,
                LiveTopic::Notices => check_row(api, caller, "/v1/notices", &[], &[]).await?,
                LiveTopic::Commands => check_row(api, caller, "/v1/commands", &[], &query).await?,
                LiveTopic::Timeline => {
                    check_row(api, caller, "/v1/devices/{id}/timeline", &[], &query).await?;
                }
                LiveTopic::Devices => {
                    let all = check_row(api, caller, "/v1/devices", &[], &[]).await;
                    if caller.is_none_or(|caller| own_clients(caller).is_empty()) {
                        all?;
                    }
                }
                LiveTopic::Rollouts => check_row(api, caller, "/v1/rollouts", &[], &[]).await?,
                LiveTopic::Tasks => check_row(api, caller, "/v1/tasks/{id}", &[], &[]).await?,
                LiveTopic::Campaigns => check_row(api, caller, "/v1/campaigns", &[], &[]).await?,
                LiveTopic::Operations => {
                    let of = self.namespace.as_deref().map(|namespace| ("namespace", namespace));
                    check_row(api, caller, "/v1/operations", &[], &Vec::from_iter(of)).await?;
                }
                LiveTopic::Client => {
                    let path: Vec<_> = client.map(|(_, client)| ("id", client)).into_iter().collect();
                    check_row(api, caller, "/v1/clients/{id}", &path, &[]).await?;
                }
                LiveTopic::Queues => {
                    for namespace in self.namespaces() {
                        let path = [("ns", namespace)];
                        check_row(api, caller, "/v1/queues/{ns}/{queue}", &path, &[]).await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn namespaces(&self) -> BTreeSet<&str> {
        self.queues.iter().map(QueueName::namespace).collect()
    }
}

/// Whose devices the caller may see; `None` for all.
///
/// # Errors
/// What a look-up says.
pub(super) async fn sees_devices_of(
    api: &ApiState,
    caller: Option<&Caller>,
) -> Result<Option<Vec<ClientId>>, Problem> {
    match (caller, check_row(api, caller, "/v1/devices", &[], &[]).await) {
        (_, Ok(())) => Ok(None),
        (Some(caller), Err(problem)) if problem.status == 403 => Ok(Some(own_clients(caller))),
        (_, Err(problem)) => Err(problem),
    }
}

fn each<T: Ord>(text: &str, most: usize, read: impl Fn(&str) -> Option<T>) -> Option<BTreeSet<T>> {
    let parts = text.split(',').map(str::trim);
    let all: BTreeSet<T> = parts.take(most + 1).map(read).collect::<Option<_>>()?;
    (text.split(',').count() <= most).then_some(all)
}

/// An id of a rollout, an operation, a task or a campaign: what has no such id is not there.
fn id(text: &str) -> Option<String> {
    (1..=ID_BYTES_MAX).contains(&text.len()).then(|| text.to_owned())
}

fn topic(text: &str) -> Option<LiveTopic> {
    LiveTopic::ALL.into_iter().find(|topic| topic.as_str() == text)
}

fn queue(text: &str) -> Option<QueueName> {
    let (namespace, queue) = text.split_once('/')?;
    QueueName::new(namespace, queue).ok()
}
