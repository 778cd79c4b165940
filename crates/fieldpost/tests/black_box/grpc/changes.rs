//! What the log says of changes over gRPC.

use grpc::proto::commands_client::CommandsClient;
use grpc::proto::coordination_client::CoordinationClient;
use grpc::proto::jobs_client::JobsClient;
use grpc::proto::rollouts_client::RolloutsClient;
use grpc::proto::run_task_response::Told;
use grpc::proto::tasks_client::TasksClient;
use grpc::proto::{
    CallRolloutRequest, CancelCommandRequest, CreateRolloutRequest, DeleteControlRequest, NewCommand,
    NewRollout, NewTask, PutControlRequest, QueueControl, RetryCommandRequest, RolloutCall, RunTaskRequest,
    SendCommandRequest, WorkState,
};

use crate::grpc::access::{Guarded, by};
use crate::grpc::rig::{NS, QUEUE, numbered, publish};
use crate::wire;

fn plain() -> NewCommand {
    NewCommand { payload: (&b"1"[..]).into(), ..NewCommand::default() }
}

fn new_rollout() -> CreateRolloutRequest {
    let (command, selector) = (Some(plain()), Some(String::new()));
    let rollout = Some(NewRollout { command, selector, ..NewRollout::default() });
    CreateRolloutRequest { rollout, ..CreateRolloutRequest::default() }
}

#[tokio::test]
async fn every_change_leaves_a_line_with_its_caller_and_work_leaves_none() {
    let server = Guarded::start().await;
    let headers = [("Authorization", "Bearer admin"), ("Content-Type", "application/json")];
    let http = server.site.http.address().await;
    let made = wire::ask(http, "POST", "/v1/devices", &headers, br#"{"id":"0xA"}"#).await;
    assert_eq!(made.status, 201);
    let channel = server.channel().await;

    let mut commands = CommandsClient::new(channel.clone());
    let send = SendCommandRequest {
        device_id: "0xA".to_owned(),
        command: Some(plain()),
        ..SendCommandRequest::default()
    };
    let sent = commands.send(by("commander", send)).await.expect("sent").into_inner();
    let command = sent.command.expect("a command").id;
    commands.cancel(by("commander", CancelCommandRequest { id: command.clone() })).await.expect("cancelled");
    commands.retry(by("commander", RetryCommandRequest { id: command.clone() })).await.expect("anew");

    let mut rollouts = RolloutsClient::new(channel.clone());
    assert!(rollouts.create(by("reader", new_rollout())).await.is_err(), "it may not");
    let created = rollouts.create(by("commander", new_rollout())).await.expect("begun").into_inner();
    let rollout = created.rollout.expect("a rollout").id;
    let pause = CallRolloutRequest { id: rollout.clone(), call: RolloutCall::Pause.into() };
    rollouts.call(by("commander", pause)).await.expect("paused");

    let mut coordination = CoordinationClient::new(channel.clone());
    let (namespace, queue) = (NS.to_owned(), QUEUE.to_owned());
    let control = Some(QueueControl { state: WorkState::Drain.into(), ..QueueControl::default() });
    let put = PutControlRequest { namespace: namespace.clone(), queue: queue.clone(), control };
    coordination.put_control(by("mailer", put)).await.expect("said");
    coordination.delete_control(by("mailer", DeleteControlRequest { namespace, queue })).await.expect("gone");

    let task = NewTask { payload: b"1".to_vec().into(), count: 1, ..NewTask::default() };
    let run = RunTaskRequest { task: Some(task), idempotency_key: String::new() };
    let mut told = TasksClient::new(channel.clone()).run(by("admin", run)).await.expect("begun").into_inner();
    let first = told.message().await.expect("it goes on").expect("a message").told;
    let Some(Told::Begun(begun)) = first else { panic!("{first:?} comes first") };
    let task = begun.task.expect("a task").id;

    JobsClient::new(channel).publish(by("mailer", publish(vec![numbered(1)]))).await.expect("published");

    check_lines(
        &server.site.log(),
        [
            ("Commands.Cancel", "commander", command.clone()),
            ("Commands.Retry", "commander", command),
            ("Rollouts.Create", "commander", rollout.clone()),
            ("Rollouts.Call", "commander", format!("{rollout} pause")),
            ("Coordination.PutControl", "mailer", format!("{NS}/{QUEUE}")),
            ("Coordination.DeleteControl", "mailer", format!("{NS}/{QUEUE}")),
            ("Tasks.Run", "admin", task),
        ],
    );
}

/// One line for each of these changes, in their order, and no other.
fn check_lines<const N: usize>(log: &str, expect: [(&str, &str, String); N]) {
    let changes: Vec<_> = log
        .lines()
        .filter(|line| line.contains("changed through the API") && line.contains("way=\"grpc\""))
        .collect();
    assert_eq!(changes.len(), expect.len(), "{log}");
    for (line, (method, caller, object)) in changes.into_iter().zip(expect) {
        let parts = [
            format!("method=\"{method}\""),
            format!("caller=\"{caller}\""),
            format!("object=\"{object}\""),
            "peer=127.0.0.1:".to_owned(),
        ];
        for part in parts {
            assert!(line.contains(&part), "{part} is not in {line}");
        }
    }
}
