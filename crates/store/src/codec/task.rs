//! Stored forms of tasks, of their picks, and of what devices have had of all picks.
//!
//! A pick is the hot one. While it is open it has two rows. Once it has ended, one of a campaign
//! has four, and one of a task three.

use std::borrow::Cow;

use base::{EntityId, Incarnation, Timestamp};
use records::{
    CampaignSlot, DevicePlace, EndPost, Pick, PickClass, PickClock, PickCounts, PickEnd, PickKey, PickMinute,
    PickOutcome, PickShare, PickTerms, TaskRecord, TaskRelation, TaskStanding, TaskState, TokenPicks,
};

use super::field::{choices, fields, stored, variants};
use super::key::{self, TableKey};
use crate::record::{Index, record};
use crate::table::Table;

stored!(
    PickTerms, "terms of picks", version 1:
    incarnation, payload, selector, exclude, devices, relation, spread_by, count, answer_timeout_ms, class,
    receiver, token, request
);

stored!(
    TaskRecord, "a task", version 2:
    id, incarnation, terms, created_at, wanted, deadline_ms, slot; since 2: request
);

stored!(
    TaskState, "how far a task has come", version 1:
    task, is_slot, standing, replaced_until, counts, ended, was_skipped, ended_at, post
);

stored!(
    Pick, "a pick", version 1:
    task, number, slot, device, place, picked_at, command, was_sent, end, late
);

stored!(
    PickKey, "what a pick is found by", version 1:
    task, number, place, picked_at, ended, of_campaign
);

stored!(
    PickShare, "what a device has had of all picks", version 1:
    place, reached, last_picked_at, turn, expired_in_a_row, benched_until
);

stored!(
    PickClock, "the clock of picks", version 2:
    at, reached, punishment_milli, minutes; since 2: token_hour, token_picks
);

fields! {
    CampaignSlot: campaign, number, due_at;
    DevicePlace: partition, slot;
    EndPost: attempts, due_at;
    PickCounts: picked, answered, failed, expired, replaced;
    PickEnd: at, number, outcome, result;
    PickMinute: minute, tasks, picked;
    TokenPicks: token, picks;
}

choices! {
    PickClass, "a class of picks": Large = 0, Enterprise = 1, Ordinary = 2;
    TaskStanding, "whether a task goes on": Running = 0, Done = 1, Cancelled = 2;
    PickOutcome, "what came of a pick": Answered = 0, Refused = 1, NotSent = 2, NoAnswer = 3, WentAway = 4,
        Cancelled = 5;
}

variants! {
    TaskRelation, "a relation of tasks": SameAs { 0: task } = 0, NotAs { 0: task } = 1;
}

record!(
    PickTerms: PickTerms by Incarnation,
    key: |incarnation| key::incarnation(*incarnation),
    place: |terms| Cow::Borrowed(&terms.incarnation),
);

/// All by which a task is found.
#[derive(Clone, Debug)]
pub(crate) struct TaskPlace {
    task: Incarnation,
    /// Of a slot nobody is shown the id.
    id: EntityId,
    slot: Option<CampaignSlot>,
}

record!(
    TaskRecord: Tasks by TaskPlace,
    key: |place| key::incarnation(place.task),
    place: |task| Cow::Owned(TaskPlace { task: task.incarnation, id: task.id, slot: task.slot }),
    indexes: [
        Index {
            table: Table::TasksById,
            rows: |place, row| {
                if place.slot.is_none() {
                    row(key::task_id(place.id), &key::incarnation(place.task));
                }
            },
            names: |_, task| Ok(TableKey::from_slice(task)),
        },
        Index {
            table: Table::SlotsByCampaign,
            rows: |place, row| {
                let key = |slot: &CampaignSlot| key::slot_of_campaign(slot.campaign, slot.due_at, place.task);
                place.slot.iter().for_each(|slot| row(key(slot), &[]));
            },
            names: |row, _| key::task_at_end_of(row),
        },
    ],
);

/// The lists that a task is in.
#[derive(Clone, Debug)]
pub(crate) struct TaskLists {
    task: Incarnation,
    is_slot: bool,
    is_running: bool,
    is_untold: bool,
    ended_at: Option<Timestamp>,
}

impl TaskLists {
    /// Those of a task that goes on, also while it is called off, which one that has ended is no
    /// longer in.
    fn left_by(state: &TaskState) -> impl Iterator<Item = (Table, TableKey)> {
        let key = || key::incarnation(state.task);
        let running = state.ended_at.is_some().then(|| (Table::RunningTasks, key()));
        let untold = state.post.is_none().then(|| (Table::UntoldTasks, key()));
        running.into_iter().chain(untold)
    }
}

record!(
    TaskState: TaskStates by TaskLists,
    key: |lists| key::incarnation(lists.task),
    place: |state| Cow::Owned(TaskLists {
        task: state.task,
        is_slot: state.is_slot,
        is_running: state.ended_at.is_none(),
        is_untold: state.post.is_some(),
        ended_at: state.ended_at,
    }),
    left: |state| TaskLists::left_by(state),
    indexes: [
        Index {
            table: Table::RunningTasks,
            rows: |lists, row| if lists.is_running { row(key::incarnation(lists.task), &[]) },
            names: |row, _| Ok(TableKey::from_slice(row)),
        },
        Index {
            table: Table::UntoldTasks,
            rows: |lists, row| if lists.is_untold { row(key::incarnation(lists.task), &[]) },
            names: |row, _| Ok(TableKey::from_slice(row)),
        },
        Index {
            table: Table::EndedTasks,
            rows: |lists, row| {
                let key = |at| key::ended_task(lists.is_slot, at, lists.task);
                lists.ended_at.iter().for_each(|at| row(key(*at), &[]));
            },
            names: |row, _| key::task_at_end_of(row),
        },
    ],
);

record!(
    /// A row of an index holds the pick's number.
    Pick: Picks by PickKey,
    key: |pick| key::pick(pick.task, pick.number),
    place: |pick| Cow::Owned(pick.key()),
    indexes: [
        Index {
            table: Table::PicksByDevice,
            rows: |pick, row| {
                row(key::pick_of_device(pick.place, pick.picked_at, pick.task), &pick.number.to_be_bytes());
            },
            names: |row, number| key::pick_from(&key::task_at_end_of(row)?, number),
        },
        Index {
            table: Table::PicksByEnd,
            rows: |pick, row| if let (Some((_, ended)), None) = (pick.ended, &pick.of_campaign) {
                row(key::pick(pick.task, ended), &pick.number.to_be_bytes());
            },
            names: |row, number| key::pick_from(row.get(..8).unwrap_or_default(), number),
        },
        Index {
            table: Table::PicksByCampaign,
            rows: |pick, row| if let (Some((at, ended)), Some((campaign, _))) = (pick.ended, &pick.of_campaign) {
                let order = key::result(&key::incarnation(*campaign), at, pick.task, ended);
                row(order, &pick.number.to_be_bytes());
            },
            names: |row, number| key::pick_from(key::task_of_result(row)?, number),
        },
        Index {
            table: Table::PicksByCampaignDevice,
            rows: |pick, row| if let (Some((at, ended)), Some((campaign, device))) = (pick.ended, &pick.of_campaign) {
                let order = key::result(&key::device_of_campaign(*campaign, device), at, pick.task, ended);
                row(order, &pick.number.to_be_bytes());
            },
            names: |row, number| key::pick_from(key::task_of_result(row)?, number),
        },
    ],
);

record!(
    PickShare: PickShares by DevicePlace,
    key: |place| key::device_place(*place),
    place: |share| Cow::Borrowed(&share.place),
);

record!(
    /// There is one.
    PickClock: PickClock by (),
    key: |()| key::pick_clock(),
    place: |_clock| Cow::Owned(()),
);
