//! Stages of rollouts whose devices show nothing: they are deleted, or called off before anything
//! went out.

use engine::OnlyIf;

use super::*;

/// A stage of one of ten devices.
const ONE_OF_TEN: RolloutStage = RolloutStage { share_ppm: 100_000, soak_ms: 0, approve: false };

impl Fleet {
    /// The device whose turn is the first.
    fn first_of(&self, rollout: &str) -> DeviceId {
        let first = self.engine.queries().rollout_devices(rollout, None, None, 1).expect("readable");
        first[0].place.device.clone()
    }

    async fn delete(&self, device: DeviceId) {
        self.engine.delete_device(device, OnlyIf::default()).await.expect("deleted");
    }
}

#[tokio::test]
async fn a_stage_goes_on_when_its_only_device_is_deleted_with_its_command() {
    let fleet = Fleet::of(10, 10).await;
    let rollout = fleet.begin(|new| new.stages = vec![ONE_OF_TEN]).await;
    until(|| fleet.count(&rollout, MemberStatus::Published) == 1).await;
    fleet.delete(fleet.first_of(&rollout)).await;
    until(|| fleet.published().len() == 10).await;
    assert_eq!(fleet.count(&rollout, MemberStatus::Cancelled), 1);
}

#[tokio::test]
async fn a_stage_goes_on_when_its_absent_devices_are_deleted() {
    let fleet = Fleet::of(10, 0).await;
    let rollout = fleet.begin(|new| new.stages = vec![ONE_OF_TEN]).await;
    let first = fleet.first_of(&rollout);
    for number in (0..10).filter(|number| id(*number) != first) {
        fleet.come(number).await;
    }
    assert_eq!(fleet.published().len(), 0, "the stage waits for its device");
    fleet.delete(first).await;
    until(|| fleet.count(&rollout, MemberStatus::Published) == 9).await;
    assert_eq!(fleet.count(&rollout, MemberStatus::Cancelled), 1);
    fleet.answer_until(&rollout, RolloutStanding::Done, true).await;
}

#[tokio::test]
async fn a_stage_goes_on_when_its_only_command_is_called_off_before_it_went_out() {
    let fleet = Fleet::of(10, 10).await;
    // Each device is busy with another command: what a rollout hands out waits behind it.
    for number in 0..10 {
        let mut busy = NewCommand::new(Arc::from(&b"1"[..]));
        busy.ack_timeout = Some(Duration::from_secs(600));
        fleet.engine.commands().send(id(number), busy).await.expect("sent");
    }
    let rollout = fleet.begin(|new| new.stages = vec![ONE_OF_TEN]).await;
    let command = || {
        let scheduled =
            fleet.engine.queries().rollout_devices(&rollout, Some(MemberStatus::Scheduled), None, 1);
        scheduled.expect("readable").first().and_then(|member| member.command)
    };
    until(|| command().is_some()).await;
    fleet.engine.commands().cancel(command().expect("there is one")).await.expect("cancelled");
    until(|| fleet.count(&rollout, MemberStatus::Scheduled) == 9).await;
    assert_eq!(fleet.count(&rollout, MemberStatus::Cancelled), 1);
}

#[tokio::test]
async fn a_rollout_is_done_when_the_devices_that_it_waits_for_are_deleted() {
    let fleet = Fleet::of(3, 2).await;
    let rollout = fleet.begin(|_| {}).await;
    until(|| fleet.published().len() == 2).await;
    let mut answered = 0;
    fleet.answer_all(&mut answered, true).await;
    fleet.delete(id(2)).await;
    until(|| fleet.rollout(&rollout).state.standing == RolloutStanding::Done).await;
    assert_eq!(fleet.count(&rollout, MemberStatus::Cancelled), 1);
}

#[tokio::test]
async fn a_device_whose_deletion_was_not_told_is_missed_after_a_restart() {
    let fleet = Fleet::of(10, 0).await;
    let rollout = fleet.begin(|new| new.stages = vec![ONE_OF_TEN]).await;
    let first = fleet.first_of(&rollout);
    fleet.engine.stop().await;
    let partition = hash::device_partition(&first, PARTITIONS);
    let view = fleet.store.view(partition).expect("readable");
    let slot = view.device(&first).expect("readable").expect("registered").slot;
    let mut batch = Batch::new(partition);
    batch.head = view.head().clone();
    batch.head.seq += 1;
    batch.ops = vec![Op::DeleteDevice(first.clone(), slot)];
    drop(view);
    fleet.store.commit(batch, Box::new(|outcome| assert!(matches!(outcome, CommitOutcome::Durable))));
    let fleet = Fleet::start(&fleet.store).await;
    for number in (0..10).filter(|number| id(*number) != first) {
        fleet.come(number).await;
    }
    until(|| fleet.count(&rollout, MemberStatus::Published) == 9).await;
    assert_eq!(fleet.count(&rollout, MemberStatus::Cancelled), 1);
}
