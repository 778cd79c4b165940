//! The service `Tasks` of gRPC: the same tasks as over HTTP, told of as they go on.

use grpc::proto::run_task_response::Told;
use grpc::proto::tasks_client::TasksClient;
use grpc::proto::{NewTask, PickOutcome, RunTaskRequest, RunTaskResponse, Task, TaskResult, TaskStatus};
use serde_json::json;
use tokio::time::timeout;
use tonic::{Code, Streaming};

use crate::commands::over_grpc::{channel, refused};
use crate::contract::rig::PATIENCE;
use crate::tasks::fleet::{Fleet, Habit};
use crate::tasks::{names, until, with_devices};

fn of(count: u32) -> RunTaskRequest {
    let task = NewTask { payload: b"{\"ask\":1}".to_vec().into(), count, ..NewTask::default() };
    RunTaskRequest { task: Some(task), idempotency_key: String::new() }
}

async fn next(run: &mut Streaming<RunTaskResponse>) -> Told {
    let message = timeout(PATIENCE, run.message()).await.expect("in time").expect("it goes on");
    message.expect("it has not ended").told.expect("something is told")
}

/// All that is told: the task as it was begun, the results, and the task as it ended.
async fn whole(mut run: Streaming<RunTaskResponse>) -> (Task, Vec<TaskResult>, Task) {
    let Told::Begun(begun) = next(&mut run).await else { panic!("the task comes first") };
    let mut results = Vec::new();
    loop {
        match next(&mut run).await {
            Told::Result(result) => results.push(result),
            Told::Ended(task) => {
                assert_eq!(run.message().await.expect("it ends well"), None);
                return (begun.task.expect("a task"), results, task);
            }
            Told::Begun(again) => panic!("{again:?} was told before"),
        }
    }
}

#[tokio::test]
async fn a_task_is_told_of_until_it_has_ended() {
    let rig = with_devices(3).await;
    let mut fleet = Fleet::come(&rig, &names(3)).await;
    let mut tasks = TasksClient::new(channel(&rig).await);
    let run = tasks.run(of(3)).await.expect("begun").into_inner();
    let (begun, results, ended) = whole(run).await;
    assert_eq!((begun.wanted, begun.id.as_str()), (3, ended.id.as_str()));
    assert_eq!((ended.status(), ended.picked, ended.answered), (TaskStatus::Done, 3, 3));
    assert_eq!(results.len(), 3);
    for result in &results {
        assert_eq!(result.outcome(), PickOutcome::Answered, "{result:?}");
        let said: serde_json::Value = serde_json::from_slice(&result.result).expect("JSON");
        assert_eq!(said["from"], json!(result.device_id));
    }
    assert_eq!(fleet.counts().values().sum::<usize>(), 3);
    assert_eq!(rig.get(&format!("/v1/tasks/{}", ended.id)).await["status"], "done");
}

#[tokio::test]
async fn whoever_hangs_up_leaves_the_task_alone() {
    let rig = with_devices(1).await;
    let mut fleet = Fleet::come(&rig, &names(1)).await;
    fleet.set("d0", Habit::IsSilent);
    let mut tasks = TasksClient::new(channel(&rig).await);
    let mut run = tasks.run(of(1)).await.expect("begun").into_inner();
    let Told::Begun(begun) = next(&mut run).await else { panic!("the task comes first") };
    let heard = fleet.next().await;
    drop(run);
    fleet.answer(&heard).await;
    let id = begun.task.expect("a task").id;
    let ended = until(&rig, &id, |task| task["status"] == "done").await;
    assert_eq!(ended["answered"], 1, "{ended}");
}

#[tokio::test]
async fn a_task_that_cannot_be_is_refused_as_over_http() {
    let rig = with_devices(1).await;
    let mut tasks = TasksClient::new(channel(&rig).await);
    for (change, code) in [
        ((|task| task.count = 0) as fn(&mut NewTask), "invalid_number"),
        (|task| task.selector = Some("A=1".to_owned()), "bad_selector"),
        (|task| task.class = 9, "unknown_word"),
        (|task| task.notify_secret = vec![0; 32].into(), "conflicting_fields"),
    ] {
        let mut request = of(1);
        change(request.task.as_mut().expect("a task"));
        let told = refused(tasks.run(request).await);
        assert_eq!(told, (Code::InvalidArgument, code.to_owned()));
    }
    let no_task = refused(tasks.run(RunTaskRequest::default()).await);
    assert_eq!(no_task, (Code::InvalidArgument, "missing_field".to_owned()));
}
