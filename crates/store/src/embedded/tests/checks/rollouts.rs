//! Rollouts: what must be told of them.

use std::sync::Arc;

use records::{
    MemberPlace, MemberStatus, Rollout, RolloutCommand, RolloutCounts, RolloutCursor, RolloutDevices,
    RolloutMember, RolloutStage, RolloutStanding, RolloutState, RolloutStop, RolloutWindow, RolloutWork,
};

use super::*;

const ROLLOUT: Incarnation = Incarnation(2);

fn rollout() -> Rollout {
    Rollout {
        id: "firmware-7".into(),
        incarnation: ROLLOUT,
        created_at: Timestamp(5),
        request: u128::MAX,
        work: RolloutWork::Command(Box::new(RolloutCommand {
            payload: Arc::from(&b"{}"[..]),
            ttl_ms: Some(60_000),
            not_before: None,
            ack_timeout_ms: None,
            run_timeout_ms: Some(1),
            attempts_max: None,
            origin: Some("ci".into()),
            key: None,
            priority: -3,
            notify: None,
        })),
        selector: Some("site=12".into()),
        is_named: true,
        rate: Some(60),
        in_flight: None,
        stages: vec![RolloutStage { share_ppm: 10_000, soak_ms: 600_000, approve: true }],
        window: Some(RolloutWindow { cron: "0 2 * * *".into(), for_ms: 3_600_000, tz: None }),
        stop: Some(RolloutStop { failed_ppm: 100_000, after: 50 }),
        include_later: false,
    }
}

fn member(device: &str, status: MemberStatus) -> RolloutMember {
    let device = DeviceId::new(device).expect("an id");
    RolloutMember {
        place: MemberPlace::of(ROLLOUT, &device, 0),
        status,
        is_recalled: false,
        turn: 1,
        handed_at: Some(Timestamp(9)),
        command: None,
        tz: Some("Asia/Tokyo".into()),
    }
}

fn state() -> RolloutState {
    let mut counts = RolloutCounts::default();
    counts.0[MemberStatus::Waiting as usize] = 1;
    counts.0[MemberStatus::Failed as usize] = 1;
    RolloutState {
        id: rollout().id,
        standing: RolloutStanding::Paused,
        collecting: Some(RolloutCursor::Named(1)),
        counts,
        stage: 1,
        boundary: Some(7),
        stage_ended: 1,
        last_ended_at: Some(Timestamp(8)),
        approved: false,
        next_us: 9_000,
        ended: 1,
        failed: 1,
        waits_for: records::RolloutWait::Nothing,
        passed_at: None,
        ended_at: None,
    }
}

pub(super) fn everything() -> Vec<Op> {
    let named = RolloutDevices {
        rollout: ROLLOUT,
        number: 1,
        devices: vec![member("c", MemberStatus::Waiting).place.device],
    };
    vec![
        Op::PutRollout(Box::new(rollout())),
        Op::PutRolloutState(Box::new(state())),
        Op::PutRolloutDevices(Box::new(named)),
        Op::PutRolloutMember(Box::new(member("a", MemberStatus::Waiting))),
        Op::PutRolloutMember(Box::new(member("b", MemberStatus::Scheduled))),
        Op::DeleteRolloutMember(
            Box::new(member("b", MemberStatus::Scheduled).place),
            MemberStatus::Scheduled,
        ),
        Op::PutRolloutMember(Box::new(member("b", MemberStatus::Failed))),
    ]
}

#[test]
fn what_rollouts_and_their_devices_lack_is_told() {
    let lost = member("a", MemberStatus::Waiting).place;
    for (table, key, expect) in [
        (Table::Rollouts, key::rollout("firmware-7"), "its rollout is missing"),
        (Table::RolloutStates, key::rollout("firmware-7"), "its row in rollout_states is missing"),
        (Table::RolloutMembers, key::member(&lost), "its devices are"),
        (
            Table::MembersByStatus,
            key::member_of_status(&lost, MemberStatus::Waiting),
            "its row in rollout_members_by_status is missing",
        ),
    ] {
        let directory = directory();
        change(directory.path(), |writer| {
            let mut rows = writer.table(table)?;
            assert!(rows.get(PartitionId::REGISTRY, &key)?.is_some(), "{table:?} has it");
            rows.remove(PartitionId::REGISTRY, &key)
        });
        let (found, _) = check(directory.path());
        assert!(found.iter().any(|text| text.contains(expect)), "{table:?}: {found:?}");
    }
}
