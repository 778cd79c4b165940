//! Tasks, campaigns and their picks: what must be told of them.

use records::{EndPost, Pick, PickCounts, PickShare, TaskState};

use super::*;
use crate::conformance::traffic::Traffic;
use crate::conformance::{answered, campaign, ended, pick, running, task, terms};

/// A running slot with an open pick, and a task that has ended, whose receiver is to be told.
pub(super) fn everything() -> Vec<Op> {
    let (slot, plain) = (task(11), task(10));
    let one = |picked| PickCounts { picked, ..PickCounts::default() };
    let post = Some(EndPost { attempts: 1, due_at: Timestamp(9) });
    let counts = PickCounts { answered: 1, ..one(1) };
    let states = [
        TaskState { counts: PickCounts { answered: 1, ..one(2) }, ended: 1, ..running(&slot) },
        TaskState { counts, ended: 1, post, ..ended(&plain, 50) },
    ];
    let picks = [
        answered(&pick(&slot, 0, 20), 30, 0),
        Pick { place: Traffic::place(2), ..pick(&slot, 1, 20) },
        answered(&pick(&plain, 0, 20), 40, 0),
    ];
    let share = PickShare {
        place: Traffic::place(0),
        reached: 7,
        last_picked_at: Timestamp(20),
        turn: 0,
        expired_in_a_row: 0,
        benched_until: None,
    };
    let (campaign, state) = campaign("nightly");
    let mut ops = vec![
        Op::PutPickTerms(Box::new(terms())),
        Op::PutTask(Box::new(slot)),
        Op::PutTask(Box::new(plain)),
        Op::PutPickShare(share),
        Op::PutPickClock(Box::default()),
        Op::PutCampaign(Box::new(campaign)),
        Op::PutCampaignState(Box::new(state)),
    ];
    ops.extend(states.map(|state| Op::PutTaskState(Box::new(state))));
    ops.extend(picks.map(|pick: Pick| Op::PutPick(Box::new(pick))));
    ops
}

#[test]
fn what_tasks_campaigns_and_picks_lack_is_told() {
    let (slot, plain) = (task(11).incarnation, task(10).incarnation);
    for (table, key, expect) in [
        (Table::PickTerms, key::incarnation(terms().incarnation), "its row in pick_terms is missing"),
        (Table::Tasks, key::incarnation(slot), "its task is missing"),
        (Table::TaskStates, key::incarnation(plain), "its row in task_states is missing"),
        (Table::RunningTasks, key::incarnation(slot), "its row in running_tasks is missing"),
        (Table::UntoldTasks, key::incarnation(plain), "its row in untold_tasks is missing"),
        (Table::Picks, key::pick(slot, 1), "its picks are"),
        (Table::PicksByEnd, key::pick(plain, 0), "its row in picks_by_end is missing"),
        (Table::Campaigns, key::campaign("nightly"), "its row in campaigns is missing"),
        (Table::CampaignStates, key::campaign("nightly"), "its row in campaign_states is missing"),
    ] {
        let directory = directory();
        change(directory.path(), |writer| {
            let mut rows = writer.table(table)?;
            assert!(rows.get(PartitionId::CAMPAIGNS, &key)?.is_some(), "{table:?} has it");
            rows.remove(PartitionId::CAMPAIGNS, &key)
        });
        let (found, _) = check(directory.path());
        assert!(found.iter().any(|text| text.contains(expect)), "{table:?}: {found:?}");
    }
}
