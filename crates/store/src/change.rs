//! A batch made ready on its caller's thread: the frame for the log, and its changes as rows, so
//! that the one committer neither encodes nor decodes.
//!
//! Which rows a record has follows from its declaration ([`Record`]). An arm of [`changes_of`] only
//! says which record is put or deleted.

use std::sync::Arc;

use base::DeviceId;
use records::{
    Batch, CampaignRecord, CampaignState, Command, CommandState, Counts, DeadJob, Delivery, DeliveryProgress,
    DeviceSession, DeviceSlot, DeviceState, ExternalInterval, ExternalSpan, ExternalText, FinishedCommand,
    JobHead, JobId, KeptAnswer, Lock, Notice, NoticePost, Op, OpenCommand, Operation, OperationState, Pair,
    ParkedJob, PartitionHead, PeerNode, Pick, PickShare, PickTerms, PortalToken, Quarantined, Queue,
    QueueCounts, Reading, ReportIds, Rollout, RolloutDevices, RolloutMember, RolloutState, Seen, Sign,
    Stream, StreamBlock, StreamChunk, StreamCopy, StreamDue, StreamSubscription, StreamTail, TaskRecord,
    TaskState, Wish, WorkerControl,
};

use crate::codec::key::{self, Key};
use crate::codec::{SpanPlace, StreamPlace, SubscriptionPlace, TaskLists, TextPlace, encode_batch};
use crate::record::{Placed, Record, index_rows};
use crate::table::Table;

/// A batch on its way to the log and the tables.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) head: PartitionHead,
    /// In order.
    pub(crate) changes: Vec<Change>,
}

/// One change, as a store takes it.
#[derive(Debug)]
pub(crate) enum Change {
    Sign(SlotSign),
    Put {
        table: Table,
        key: Key,
        value: Box<[u8]>,
    },
    Delete {
        table: Table,
        key: Key,
    },
    /// All of a device that no key of its own names.
    DropDevice(DeviceSlot),
}

/// A sign of life with everything known that it says.
#[derive(Debug)]
pub(crate) struct SlotSign {
    pub(crate) slot: DeviceSlot,
    pub(crate) seen: Seen,
    pub(crate) reading: Option<Reading>,
}

impl Prepared {
    /// The changes of a batch, and its frame.
    pub(crate) fn with_frame(batch: Batch) -> (Self, Vec<u8>) {
        let frame = encode_batch(&batch);
        (Self::of(batch), frame)
    }

    /// The changes of a batch.
    pub(crate) fn of(batch: Batch) -> Self {
        let Batch { partition: _, head, ops } = batch;
        let mut changes = Vec::with_capacity(ops.len());
        for op in ops {
            changes_of(op, &head, &mut changes);
        }
        Self { head, changes }
    }
}

/// A record under the place that it says itself.
fn put<R: Placed>(record: &R, out: &mut Vec<Change>) {
    put_at::<R>(&record.place(), record, out);
}

fn put_at<R: Record>(place: &R::Place, record: &R, out: &mut Vec<Change>) {
    out.push(Change::Put { table: R::TABLE, key: R::key(place), value: record.to_boxed_row() });
    index_rows::<R>(place, |table, key, value| out.push(Change::Put { table, key, value: Box::from(value) }));
}

fn delete<R: Record>(place: &R::Place, out: &mut Vec<Change>) {
    out.push(Change::Delete { table: R::TABLE, key: R::key(place) });
    index_rows::<R>(place, |table, key, _| out.push(Change::Delete { table, key }));
}

/// A record, and what is kept apart of it.
fn delete_both<R: Record, S: Record>(place: &R::Place, apart: &S::Place, out: &mut Vec<Change>) {
    delete::<R>(place, out);
    delete::<S>(apart, out);
}

fn changes_of(op: Op, head: &PartitionHead, out: &mut Vec<Change>) {
    match op {
        Op::Sign(sign) => out.push(Change::Sign(slot_sign(sign, head))),
        Op::PutState(slot, state) => put_at(&slot, &state, out),
        Op::PutDevice(device) => put(&*device, out),
        Op::DeleteDevice(id, slot) => delete_device(&id, slot, out),
        Op::PutReportIds(slot, ids) => put_at(&slot, &*ids, out),
        Op::PutCounts(of, counts) => put_at::<Counts>(&of, &counts, out),
        Op::PutQuarantined(report) => put(&*report, out),
        Op::DeleteQuarantined(key) => delete::<Quarantined>(&key, out),
        Op::PutEvent(event) => put(&*event, out),
        Op::PutPair(pair) => put(&*pair, out),
        Op::DeletePair(slot, client) => delete::<Pair>(&(slot, client), out),
        Op::PutDelivery(delivery) => put_delivery(&delivery, out),
        Op::PutProgress(delivery, progress) => put_at(&delivery, &progress, out),
        Op::PutAttempt(attempt) => put(&attempt, out),
        Op::PutJob(job) => put(&*job, out),
        Op::DeleteJob(id) => delete_job(id, out),
        Op::DeleteJobHead(id) => delete::<JobHead>(&id, out),
        Op::DeleteJobBody(id) => out.push(delete_body(id)),
        Op::PutJobBody(id, body) => out.push(put_body(id, &body)),
        Op::ParkJob(job) => park_job(&job, out),
        Op::UnparkJob(key) => delete::<ParkedJob>(&key, out),
        Op::PutQueue(queue) => put(&*queue, out),
        Op::DeleteQueue(queue) => delete_both::<Queue, QueueCounts>(&queue, &queue, out),
        Op::PutQueueCounts(queue, counts) => put_at(&queue, &counts, out),
        Op::PutDead(dead) => put(&*dead, out),
        Op::DeleteDead(queue, number, id) => delete::<DeadJob>(&(queue, number, id), out),
        Op::PutAnswer(answer) => put(&*answer, out),
        Op::DeleteAnswer(key, at) => delete::<KeptAnswer>(&(key, at), out),
        Op::PutClient(client) => put(&*client, out),
        Op::DeleteClient(id) => delete::<records::Client>(&id, out),
        Op::PutCommand(command) => put(&*command, out),
        Op::DeleteCommand(at, slot) => delete_both::<Command, CommandState>(&(at, slot), &at, out),
        Op::PutCommandState(command, state) => put_at(&command, &*state, out),
        Op::PutOpenCommand(open) => put(&*open, out),
        Op::DeleteOpenCommand(open) => delete::<OpenCommand>(&open, out),
        Op::PutFinishedCommand(finished) => put(&finished, out),
        Op::DeleteFinishedCommand(finished) => delete::<FinishedCommand>(&finished, out),
        Op::PutWish(wish) => put(&*wish, out),
        Op::DeleteWish(slot, of) => delete::<Wish>(&(slot, of), out),
        Op::PutDeviceSession(session) => put(&*session, out),
        Op::DeleteDeviceSession(slot) => delete::<DeviceSession>(&slot, out),
        Op::PutTimelineEntry(entry) => put(&*entry, out),
        Op::PutRollout(rollout) => put(&*rollout, out),
        Op::DeleteRollout(id) => delete_both::<Rollout, RolloutState>(&id, &id, out),
        Op::PutRolloutState(state) => put(&*state, out),
        Op::PutRolloutDevices(devices) => put(&*devices, out),
        Op::DeleteRolloutDevices(rollout, number) => delete::<RolloutDevices>(&(rollout, number), out),
        Op::PutRolloutMember(member) => put(&*member, out),
        Op::PutPortalToken(token) => put(&*token, out),
        Op::PutNotice(notice) => put(&*notice, out),
        Op::DeleteNotice(at) => delete::<Notice>(&at, out),
        Op::PutNoticePost(post) => put(&post, out),
        Op::DeleteNoticePost(client, notice) => delete::<NoticePost>(&(client, notice), out),
        Op::DeletePortalToken(id) => delete::<PortalToken>(&id, out),
        Op::PutPeerNode(node) => put(&*node, out),
        Op::DeletePeerNode(name) => delete::<PeerNode>(&name, out),
        Op::DeleteRolloutMember(place, status) => delete::<RolloutMember>(&(*place, status), out),
        op => changes_of_plans(op, out),
    }
}

/// Those of operations, tasks and campaigns.
fn changes_of_plans(op: Op, out: &mut Vec<Change>) {
    match op {
        Op::PutOperation(operation) => put(&*operation, out),
        Op::DeleteOperation(id) => delete_both::<Operation, OperationState>(&id, &id, out),
        Op::PutOperationState(state) => put(&*state, out),
        Op::PutPickTerms(terms) => put(&*terms, out),
        Op::DeletePickTerms(terms) => delete::<PickTerms>(&terms, out),
        Op::PutTask(task) => put(&*task, out),
        Op::PutTaskState(state) => put_task_state(&state, out),
        Op::DeleteTask(task, state) => {
            delete_both::<TaskRecord, TaskState>(&task.place(), &state.place(), out);
        }
        Op::PutPick(pick) => put(&*pick, out),
        Op::DeletePick(pick) => delete::<Pick>(&pick, out),
        Op::PutPickShare(share) => put(&share, out),
        Op::DeletePickShare(place) => delete::<PickShare>(&place, out),
        Op::PutPickClock(clock) => put(&*clock, out),
        Op::PutCampaign(campaign) => put(&*campaign, out),
        Op::PutCampaignState(state) => put(&*state, out),
        Op::DeleteCampaign(id) => delete_both::<CampaignRecord, CampaignState>(&id, &id, out),
        Op::PutLock(lock) => put(&*lock, out),
        Op::DeleteLock(namespace, name) => delete::<Lock>(&key::named(&namespace, &name), out),
        Op::PutQueueControl(control) => put(&*control, out),
        Op::DeleteQueueControl(namespace, name) => {
            delete::<WorkerControl>(&key::named(&namespace, &name), out);
        }
        op => changes_of_streams(op, out),
    }
}

/// Those of streams.
fn changes_of_streams(op: Op, out: &mut Vec<Change>) {
    match op {
        Op::PutStream(stream) => put_stream(&stream, out),
        Op::DeleteStream(stream) => delete::<Stream>(&stream.place(), out),
        Op::PutStreamTail(tail) => put(&*tail, out),
        Op::DeleteStreamTail(stream) => delete::<StreamTail>(&stream, out),
        Op::PutStreamDue(due) => put(&due, out),
        Op::DeleteStreamDue(due) => delete::<StreamDue>(&(due.at, due.stream), out),
        Op::PutStreamChunk(chunk) => put(&*chunk, out),
        Op::DeleteStreamChunk(stream, first) => delete::<StreamChunk>(&(stream, first), out),
        Op::PutStreamBlock(block) => put(&*block, out),
        Op::DeleteStreamBlock(stream, first) => delete::<StreamBlock>(&(stream, first), out),
        Op::PutExternalInterval(interval) => put(&*interval, out),
        Op::DeleteExternalInterval(stream, source, from) => {
            delete::<ExternalInterval>(&(stream, source, from), out);
        }
        Op::PutExternalSpan(span) => put(&*span, out),
        Op::DeleteExternalSpan(span) => delete::<ExternalSpan>(&SpanPlace::of(&span), out),
        Op::PutExternalText(text) => put(&*text, out),
        Op::DeleteExternalText(text) => delete::<ExternalText>(&TextPlace::of(&text), out),
        Op::PutSubscription(subscription) => put_subscription(&subscription, out),
        Op::DeleteSubscription(stream, name) => {
            delete::<StreamSubscription>(&SubscriptionPlace::anywhere(stream, &name), out);
        }
        Op::PutStreamCopy(copy) => put(&*copy, out),
        Op::DeleteStreamCopy(stream, name) => delete::<StreamCopy>(&(stream, name), out),
        op => unreachable!("{op:?} is no change of streams"),
    }
}

/// One that is deleted leaves its name.
fn put_stream(stream: &Stream, out: &mut Vec<Change>) {
    out.extend(StreamPlace::left_by(stream).map(|(table, key)| Change::Delete { table, key }));
    put(stream, out);
}

/// One that is not pushed is not among those that are.
fn put_subscription(subscription: &StreamSubscription, out: &mut Vec<Change>) {
    let left = SubscriptionPlace::left_by(subscription);
    out.extend(left.map(|(table, key)| Change::Delete { table, key }));
    put(subscription, out);
}

/// In the lists that it is in now, and in no other.
fn put_task_state(state: &TaskState, out: &mut Vec<Change>) {
    let left = TaskLists::left_by(state).into_iter();
    out.extend(left.map(|(table, key)| Change::Delete { table, key }));
    put(state, out);
}

fn delete_job(id: JobId, out: &mut Vec<Change>) {
    delete::<JobHead>(&id, out);
    out.push(delete_body(id));
}

fn park_job(job: &ParkedJob, out: &mut Vec<Change>) {
    delete::<JobHead>(&job.head.id, out);
    put(job, out);
}

/// Its profile, its state and the ids of its reports; the rest is hidden, and swept later.
fn delete_device(id: &DeviceId, slot: DeviceSlot, out: &mut Vec<Change>) {
    out.push(Change::Delete { table: Table::Devices, key: key::device(id) });
    delete::<DeviceState>(&slot, out);
    delete::<ReportIds>(&slot, out);
    out.push(Change::Put { table: Table::Deleted, key: key::slot(slot), value: Box::default() });
    out.push(Change::DropDevice(slot));
}

fn put_delivery(delivery: &Delivery, out: &mut Vec<Change>) {
    put_at::<DeliveryProgress>(&delivery.id.into(), &delivery.progress, out);
    put(delivery, out);
}

fn slot_sign(sign: Sign, head: &PartitionHead) -> SlotSign {
    let Sign { slot, way, readings, newest_ts, reading } = sign;
    let seen = Seen { at: head.now, way, attended: head.attended.ways[way.index()], readings, newest_ts };
    let reading = reading.map(|reading| Reading {
        number: readings,
        ts: reading.ts.unwrap_or(head.now),
        value: reading.value,
        changed: reading.changed,
    });
    SlotSign { slot, seen, reading }
}

/// Bytes as they were given: what a job carries has no form that could change.
fn put_body(id: JobId, body: &Arc<[u8]>) -> Change {
    Change::Put { table: Table::JobBodies, key: key::job(id), value: Box::from(&**body) }
}

fn delete_body(id: JobId) -> Change {
    Change::Delete { table: Table::JobBodies, key: key::job(id) }
}
