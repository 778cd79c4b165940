//! Those who look after queues: they look at jobs, change and cancel them, set queues, pause and
//! delete them, and see to the dead.

use std::time::Duration;

use base::PartitionId;
use engine::kernel::reply::Reply;
use engine::queues::driving::{Dead, QueueCall};
use engine::queues::{JobRef, QueueInput, QueueName, QueuePage};
use records::{JobId, QueueOrder, QueueSettings};

use super::World;
use super::calls::{self, Answer, Then, Waiting};
use crate::queues::meant::Meant;

/// Items of a list: more than there ever are.
const LIMIT: usize = 10_000;

impl World {
    /// A job is looked at, changed, or cancelled.
    pub(super) fn touch(&mut self) {
        let (queue, job) = self.any_job_ref();
        let call = self.next_call();
        let id = if let JobRef::Id(id) = job { Some(id) } else { None };
        match self.machine.random.below(10) {
            0..=4 => {
                let (reply, receiver) = Reply::new();
                let job = if self.machine.random.chance(1, 4) { None } else { Some(job) };
                let input = QueueInput::Look { queue: queue.clone(), job: job.clone(), reply };
                let meant = Meant::Look { call, queue: queue.clone(), job };
                self.ask(&queue, (input, meant), calls::seen(receiver), Then::Nothing);
            }
            5..=7 => {
                let (reply, receiver) = Reply::new();
                let payload = if self.machine.random.chance(1, 2) { Some(self.any_payload()) } else { None };
                let due = self.any_due();
                self.history.touching(&job);
                let meant = Meant::Change {
                    call,
                    queue: queue.clone(),
                    job: job.clone(),
                    payload: payload.clone(),
                    due,
                };
                let input = QueueInput::Change { queue: queue.clone(), job, payload, due, reply };
                self.ask(&queue, (input, meant), calls::seen(receiver), Then::Nothing);
            }
            _ => {
                let (reply, receiver) = Reply::new();
                self.history.touching(&job);
                let meant = Meant::Cancel { call, queue: queue.clone(), job: job.clone() };
                let input = QueueInput::Cancel { queue: queue.clone(), job, reply };
                self.ask(&queue, (input, meant), Waiting::on(receiver, Answer::Done), Then::Cancelled(id));
            }
        }
    }

    pub(super) fn cancel(&mut self, queue: &QueueName, job: JobId) {
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let job_ref = JobRef::Id(job);
        self.history.touching(&job_ref);
        let meant = Meant::Cancel { call, queue: queue.clone(), job: job_ref.clone() };
        let input = QueueInput::Cancel { queue: queue.clone(), job: job_ref, reply };
        self.ask(queue, (input, meant), Waiting::on(receiver, Answer::Done), Then::Cancelled(Some(job)));
    }

    fn any_job_ref(&mut self) -> (QueueName, JobRef) {
        if self.machine.random.chance(1, 3) || self.seen_jobs.is_empty() {
            let alias = format!("alias{}", self.machine.random.below(self.plan.names));
            return (self.any_queue(), JobRef::Alias(alias.into()));
        }
        let index = self.machine.random.below(self.seen_jobs.len() as u64) as usize;
        let (queue, job) = self.seen_jobs[index].clone();
        (queue, JobRef::Id(job))
    }

    /// A queue as a whole is looked at or changed, or its dead letters are.
    pub(super) fn manage(&mut self) {
        let queue = self.any_queue();
        match self.machine.random.below(40) {
            0..=9 => self.ask_stats(&queue),
            10..=12 => self.ask_list(),
            13..=18 => {
                let settings = self.any_settings();
                self.set(&queue, settings);
            }
            19..=22 => self.pause(&queue, true),
            23..=29 => self.pause(&queue, false),
            30 => self.delete(&queue),
            31..=33 => self.ask_dead(&queue),
            34..=37 => self.respawn(&queue),
            _ => self.delete_dead(&queue),
        }
    }

    pub(super) fn ask_stats(&mut self, queue: &QueueName) {
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let input = QueueInput::Queue(QueueCall::Stats(queue.clone(), reply));
        let meant = Meant::QueueStats { call, queue: queue.clone() };
        self.ask(
            queue,
            (input, meant),
            Waiting::on(receiver, |stats| Answer::QueueStats(vec![stats])),
            Then::Nothing,
        );
    }

    fn ask_list(&mut self) {
        let partition = self.any_partition();
        let namespace = self.machine.random.chance(1, 2).then(|| "shop".to_owned());
        self.list(partition, namespace);
    }

    pub(super) fn list(&mut self, partition: PartitionId, namespace: Option<String>) {
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let of = namespace.as_deref().map(Into::into);
        let input = QueueInput::Queue(QueueCall::List { namespace: of, after: None, limit: LIMIT, reply });
        let meant = Meant::List { call, namespace };
        self.ask_partition(
            partition,
            (input, meant),
            Waiting::on(receiver, |listed: QueuePage| Answer::QueueStats(listed.queues)),
            Then::Nothing,
        );
    }

    fn any_settings(&mut self) -> QueueSettings {
        let mut settings = QueueSettings::default();
        if self.machine.random.chance(1, 3) {
            return settings;
        }
        if self.machine.random.chance(1, 3) {
            settings.order = QueueOrder::Lifo;
        }
        settings.concurrency =
            self.machine.random.chance(1, 3).then(|| 1 + self.machine.random.below(3) as u32);
        settings.rate = self
            .machine
            .random
            .chance(1, 3)
            .then(|| [0.5, 1.0, 2.0, 5.0][self.machine.random.below(4) as usize]);
        settings.jobs_max = self.machine.random.chance(1, 4).then(|| 1 + self.machine.random.below(20));
        settings.dead_max = self.machine.random.chance(1, 4).then(|| self.machine.random.below(4));
        settings.dead_max_age_ms =
            self.machine.random.chance(1, 4).then(|| 1 + self.machine.random.below(600_000));
        settings
    }

    pub(super) fn set(&mut self, queue: &QueueName, settings: QueueSettings) {
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let input = QueueInput::Queue(QueueCall::Set(queue.clone(), settings, reply));
        let meant = Meant::Set { call, queue: queue.clone(), settings };
        if settings.dead_max.is_some() || settings.dead_max_age_ms.is_some() {
            self.history.deleting_dead(queue);
        }
        self.ask(queue, (input, meant), Waiting::on(receiver, Answer::Done), Then::Nothing);
    }

    pub(super) fn pause(&mut self, queue: &QueueName, paused: bool) {
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let input = QueueInput::Queue(QueueCall::Pause(queue.clone(), paused, reply));
        let meant = Meant::Pause { call, queue: queue.clone(), paused };
        self.ask(queue, (input, meant), Waiting::on(receiver, Answer::Done), Then::Nothing);
    }

    pub(super) fn delete(&mut self, queue: &QueueName) {
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let input = QueueInput::Queue(QueueCall::Delete(queue.clone(), reply));
        let meant = Meant::Delete { call, queue: queue.clone() };
        self.history.deleting(queue);
        self.ask(queue, (input, meant), Waiting::on(receiver, Answer::Done), Then::Nothing);
    }

    pub(super) fn ask_dead(&mut self, queue: &QueueName) {
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let input = QueueInput::Dead { queue: queue.clone(), after: None, limit: LIMIT, reply };
        let meant = Meant::Dead { call, queue: queue.clone() };
        self.ask(queue, (input, meant), Waiting::on(receiver, Answer::Dead), Then::Nothing);
    }

    fn delete_dead(&mut self, queue: &QueueName) {
        let which = self.any_dead(queue);
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let input = QueueInput::DeleteDead(queue.clone(), which.clone(), reply);
        let meant = Meant::DeleteDead { call, queue: queue.clone(), which };
        self.history.deleting_dead(queue);
        self.ask(
            queue,
            (input, meant),
            Waiting::on(receiver, |count| Answer::Count(Ok(count))),
            Then::Nothing,
        );
    }

    fn any_dead(&mut self, queue: &QueueName) -> Dead {
        let dead = self.model_of(queue).queues.get(queue).map(|queue| queue.shown_dead()).unwrap_or_default();
        if self.machine.random.chance(1, 2) || dead.is_empty() {
            return Dead::Oldest(1 + self.machine.random.below(3) as usize);
        }
        let index = self.machine.random.below(dead.len() as u64) as usize;
        // The same one twice, and one that is not dead.
        let other = self.seen_jobs.last().map(|(_, job)| *job);
        Dead::Ids([dead[index].id, dead[index].id].into_iter().chain(other).collect())
    }

    fn respawn(&mut self, queue: &QueueName) {
        let which = self.any_dead(queue);
        let ttl = self
            .machine
            .random
            .chance(1, 3)
            .then(|| Duration::from_secs(1 + self.machine.random.below(1_000)));
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let input = QueueInput::Respawn { queue: queue.clone(), which: which.clone(), ttl, reply };
        let meant = Meant::Respawn { call, queue: queue.clone(), which, ttl };
        self.history.respawning(queue);
        self.ask(
            queue,
            (input, meant),
            Waiting::on(receiver, |some| Answer::Count(some.map(|some| some.count))),
            Then::Nothing,
        );
    }
}
