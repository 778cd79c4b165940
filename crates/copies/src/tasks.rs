//! A task for each copy that runs, and a look at nodes that no copy speaks with.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base::hash;
use engine::Engine;
use engine::records::{CopyDirection, StreamCopy};
use engine::streams::{CopyKey, CopyTarget, PeerAsk, StreamCalls, StreamName};
use engine::target_tasks::TargetTasks;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ends::{CopyFailureKind, CopyHome, PageAsk, StreamEnd};
use crate::gathered_reports::bring_gathered;
use crate::here::{LocalCopy, LocalStream};
use crate::peer::{NodeLines, PeerStream};
use crate::places::BatchPlaces;
use crate::reports::{LocalReports, PeerReports};
use crate::run::run_copy;

/// How often nodes are asked whether they are there; those that a copy speaks with are known
/// anyway.
const PROBED_EVERY: Duration = Duration::from_secs(10);
/// And how soon those that were put or failed.
const LOOKED_EVERY: Duration = Duration::from_secs(1);
/// Nodes that are asked at one time.
const PROBED_AT_ONCE: usize = 16;
/// After how long a row is read again that could not be.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Runs copies until `shutdown` says so or its sender is gone. What is under way then goes again
/// after the next start, and is known there as a duplicate.
pub async fn run_copies(engine: Engine, mut shutdown: watch::Receiver<bool>) {
    let places = BatchPlaces::default();
    let lines = Arc::new(NodeLines::new(&engine, &places));
    let streams = engine.streams();
    let mut tasks = TargetTasks::default();
    let mut probes = JoinSet::new();
    probes.spawn(probe_nodes(engine.clone(), Arc::clone(&lines)));
    probes.spawn(answer_asks(streams.clone(), Arc::clone(&lines)));
    let (mut gathers, mut partitions) = (JoinSet::new(), HashMap::new());
    let gather = |gathers: &mut JoinSet<()>, partition| {
        (gathers.spawn(bring_gathered(engine.clone(), partition)).id(), partition)
    };
    let gather_again = |gathers: &mut JoinSet<()>, partition| {
        let engine = engine.clone();
        let again = async move {
            engine.until(engine.clock().now().after(TRY_AGAIN_AFTER)).await;
            bring_gathered(engine, partition).await;
        };
        (gathers.spawn(again).id(), partition)
    };
    partitions.extend(engine.device_partitions().map(|partition| gather(&mut gathers, partition)));
    loop {
        tasks.follow(streams.running_copies(), |target| {
            run_one(engine.clone(), (Arc::clone(&lines), places.clone()), target)
        });
        tokio::select! {
            _ = shutdown.wait_for(|stop| *stop) => return,
            () = streams.running_copies_changed() => {}
            error = tasks.panicked() => tracing::error!(%error, "the task of a copy failed; it begins anew"),
            // What is cancelled goes with the server.
            Some(Err(error)) = gathers.join_next() => {
                if error.is_cancelled() {
                    continue;
                }
                tracing::error!(%error, "the task that brings gathered reports failed; it begins anew");
                let partition = partitions.remove(&error.id());
                partitions.extend(partition.map(|partition| gather_again(&mut gathers, partition)));
            }
        }
    }
}

async fn run_one(engine: Engine, (lines, places): (Arc<NodeLines>, BatchPlaces), target: CopyTarget) {
    let seed = hash::derived(target.generation, target.key.copy.as_bytes());
    let CopyKey { stream, copy } = target.key.clone();
    let home = LocalCopy::new(&engine, target);
    let row = loop {
        match home.row().await {
            Ok(row) => break row,
            Err(problem) if problem.status == 404 => return,
            Err(problem) => {
                tracing::debug!(%stream, %copy, %problem, "a copy waits");
                home.until(home.now().after(TRY_AGAIN_AFTER)).await;
            }
        }
    };
    // Another direction or another end is another generation.
    let gone = match (row.direction, other_name(&row)) {
        _ if row.reports.is_some() => {
            let here = LocalReports::new(LocalStream::new(&engine, stream.clone(), &places));
            run_copy(&home, &here, &PeerReports::new(&lines, row.node), seed).await
        }
        (_, None) => return,
        (direction, Some(other)) => {
            let here = LocalStream::new(&engine, stream.clone(), &places);
            let is_self = *row.node == *StreamCopy::SELF;
            match (direction, is_self) {
                (CopyDirection::To, true) => {
                    run_copy(&home, &here, &LocalStream::new(&engine, other, &places), seed).await
                }
                (CopyDirection::From, true) => {
                    run_copy(&home, &LocalStream::new(&engine, other, &places), &here, seed).await
                }
                (CopyDirection::To, false) => {
                    run_copy(&home, &here, &PeerStream::new(&lines, row.node, other), seed).await
                }
                (CopyDirection::From, false) => {
                    run_copy(&home, &PeerStream::new(&lines, row.node, other), &here, seed).await
                }
            }
        }
    };
    tracing::debug!(%stream, %copy, %gone, "a copy has ended");
}

fn other_name(row: &StreamCopy) -> Option<StreamName> {
    StreamName::new(&row.other_namespace, &row.other_name).ok()
}

/// Asks nodes what calls want to know of them.
async fn answer_asks(streams: StreamCalls, lines: Arc<NodeLines>) {
    let mut asked = JoinSet::new();
    loop {
        tokio::select! {
            ask = streams.next_peer_ask(), if asked.len() < PROBED_AT_ONCE => {
                asked.spawn(answer(ask, Arc::clone(&lines)));
            }
            Some(_answered) = asked.join_next() => {}
        }
    }
}

async fn answer(ask: PeerAsk, lines: Arc<NodeLines>) {
    let PeerAsk { node, stream, newest } = ask;
    let page = PageAsk {
        after: u64::MAX >> 1,
        from: None,
        segments: Vec::new(),
        limit: 1,
        bytes_max: 1,
        waits: false,
    };
    let told = match PeerStream::new(&lines, node, stream).page(page).await {
        Ok(page) => page.newest,
        Err(failure) if failure.kind == CopyFailureKind::NotThere => 0,
        Err(_) => return,
    };
    // Whoever asked may have gone.
    let _gone = newest.send(told);
}

/// Asks nodes whether they are there, where nobody has spoken with them lately.
async fn probe_nodes(engine: Engine, lines: Arc<NodeLines>) {
    loop {
        let now = engine.clock().now();
        let nodes = engine.nodes().list(None, usize::MAX);
        let is_silent = |at: Option<base::Timestamp>| at.is_none_or(|at| at.after(PROBED_EVERY) <= now);
        let silent = nodes.into_iter().filter(|shown| is_silent(shown.contact.last_contact_at));
        let names: Vec<Box<str>> = silent.map(|shown| shown.node.name.clone()).collect();
        for some in names.chunks(PROBED_AT_ONCE) {
            futures_util::future::join_all(some.iter().map(|name| lines.probe(name))).await;
        }
        engine.until(engine.clock().now().after(LOOKED_EVERY)).await;
    }
}
