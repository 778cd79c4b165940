//! An import on its way: its lines checked, their clients looked up, and each partition's share
//! handed in.

use std::collections::HashSet;

use base::{Incarnation, Problem, hash};
use fleet::RegistryRules;

use super::Engine;
use crate::ImportDevice;
use crate::devices::input::{DeviceInput, ImportOutcome, LinkedClient, ToImport};
use crate::kernel::partition_handle::{NotAccepting, PartitionHandle};
use crate::kernel::reply::Reply;
use crate::refusals::unknown_client;

/// Lines of one input: each may end the notifications of a hundred clients, and have a thousand
/// commands go out. Together they stay far below what a batch may weigh.
const LINES_PER_INPUT: usize = 16;

type Outcomes = Vec<Result<ImportOutcome, Problem>>;

/// Imports devices side by side in their partitions: what became of each, in order.
pub(super) async fn import(engine: &Engine, devices: Vec<ImportDevice>) -> Result<Outcomes, NotAccepting> {
    let rules = engine.settings().registry_rules();
    let partitions = engine.shared.partitions.len();
    let mut split: Vec<Vec<ToImport>> = (0..partitions).map(|_| Vec::new()).collect();
    let mut outcomes: Vec<Option<Result<ImportOutcome, Problem>>> = Vec::with_capacity(devices.len());
    let mut linked = HashSet::new();
    for (index, device) in (0..).zip(devices) {
        match checked(engine, device, &rules, index) {
            Ok(line) => {
                linked.extend(line.clients.iter().flatten().map(|client| client.incarnation));
                let partition = hash::device_partition(line.import.id(), partitions as u16);
                split[usize::from(partition.0)].push(line);
                outcomes.push(None);
            }
            Err(problem) => outcomes.push(Some(Err(problem))),
        }
    }
    let shares = engine.shared.partitions.iter().zip(split).filter(|(_, lines)| !lines.is_empty());
    let asked = shares.map(|(partition, lines)| hand_in(partition, lines));
    for answers in futures_util::future::try_join_all(asked).await? {
        for (index, answer) in answers {
            outcomes[index as usize] = Some(answer);
        }
    }
    sweep_deleted(engine, linked).await?;
    Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(NotAccepting.into()))).collect())
}

fn checked(
    engine: &Engine,
    device: ImportDevice,
    rules: &RegistryRules,
    index: u32,
) -> Result<ToImport, Problem> {
    let import = device.check(rules)?;
    let known = |id| {
        let client = engine.directory().by_id(id).ok_or_else(|| unknown_client(id))?;
        Ok(LinkedClient { incarnation: client.incarnation, id: client.id.clone() })
    };
    let clients = import.clients().map(|ids| ids.iter().map(known).collect::<Result<_, Problem>>());
    Ok(ToImport { index, clients: clients.transpose()?, import })
}

/// The places of all inputs are taken at once: the lines of another call come before them, or
/// behind.
async fn hand_in(
    partition: &PartitionHandle<DeviceInput>,
    lines: Vec<ToImport>,
) -> Result<Vec<(u32, Result<ImportOutcome, Problem>)>, NotAccepting> {
    let (mut answers, mut lines) = (Vec::new(), lines.into_iter());
    while lines.len() > 0 {
        let inputs = lines.len().div_ceil(LINES_PER_INPUT).min(partition.inbox.max_capacity());
        let places = partition.inbox.reserve_many(inputs).await.map_err(|_| NotAccepting)?;
        for place in places {
            let (reply, answer) = Reply::new();
            place.send(DeviceInput::Import { lines: lines.by_ref().take(LINES_PER_INPUT).collect(), reply });
            answers.push(answer);
        }
    }
    let mut outcomes = Vec::new();
    for answer in answers {
        outcomes.extend(answer.await.map_err(|_| NotAccepting)?);
    }
    Ok(outcomes)
}

/// A client that was deleted meanwhile may have been swept before its new links were there.
async fn sweep_deleted(engine: &Engine, linked: HashSet<Incarnation>) -> Result<(), NotAccepting> {
    for client in linked {
        if engine.directory().get(client).is_none() {
            engine.sweep(client).await?;
        }
    }
    Ok(())
}
