//! Commands through the client crate: sent, waited for, called off, with a simulated device that
//! answers.

use std::sync::Arc;
use std::time::Duration;

use fieldpost_client::{CommandFilter, CommandStatus, Method, NewCommand, Path, Request};
use simulator::commands::{CommandLedger, CommandedDevices, ResponseProfile};
use simulator::traffic::DeviceIds;

use crate::client::rig::{PATIENCE, Rig};

fn ring() -> NewCommand {
    NewCommand::json("ring").expect("a text")
}

#[tokio::test]
async fn a_device_is_told_once_it_is_there_and_its_answer_is_the_end() {
    let rig = Rig::start().await;
    let registering =
        Request::new(Method::POST, Path::of(&["devices"])).json(r#"{"id":"gate0","kind":"gate"}"#);
    rig.client.send(&registering).await.and_then(|answer| answer.success()).expect("registered");
    let (device, commands) = (rig.client.device("gate0"), rig.client.commands());

    let waiting = device.send(&ring().origin("test").key("bell")).await.expect("sent");
    let off = device.send(&ring().priority(-1)).await.expect("sent");
    commands.cancel(&off.id).await.expect("called off");
    let code = commands.cancel(&off.id).await.expect_err("it has ended").code().map(str::to_owned);
    assert_eq!(code.as_deref(), Some("finished"));
    let open = device.call(&ring(), Duration::from_millis(1)).await.expect("a command");
    assert_eq!((open.status, open.tries), (CommandStatus::Scheduled, 0));
    device.wish("volume", &5).await.expect("wished");

    let ledger = Arc::new(CommandLedger::default());
    let devices = DeviceIds::new("gate", 1).of_kind("gate");
    let connected = CommandedDevices::connect(rig.mqtt(), &devices, 1, ResponseProfile::default(), &ledger);
    for id in [&waiting.id, &open.id] {
        let ended = commands.wait(id, PATIENCE).await.expect("a command");
        assert_eq!((ended.status, ended.tries), (CommandStatus::Acknowledged, 1));
    }
    assert!(ledger.until(PATIENCE, |counts| counts.settled == 3).await, "{:?}", ledger.counts());
    let entries = device.desired().await.expect("entries");
    let confirmed = entries[0].confirmed.as_deref().map(|value| value.get());
    assert_eq!((entries.len(), confirmed, entries[0].pending), (1, Some("5"), false));
    let filter = CommandFilter::all().device("gate0").status(CommandStatus::Cancelled);
    let cancelled = commands.list(&filter, None).await.expect("a page");
    assert_eq!(cancelled.items.iter().map(|command| &command.id).collect::<Vec<_>>(), [&off.id]);
    commands.retry(&off.id).await.expect("tried anew");
    assert_eq!(
        commands.wait(&off.id, PATIENCE).await.expect("a command").status,
        CommandStatus::Acknowledged
    );
    connected.disconnect().await;
}
