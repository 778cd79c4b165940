//! The task between those who signal and the registry.

use std::future::pending;

use base::{DeviceId, Timestamp, hash};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::links::NoticeLinks;
use super::lost_together::LostGroup;
use super::{NoticeInput, NoticeSettings, Signal};
use crate::context::EngineContext;
use crate::registry::RegistryInput;

/// Signals that the registry is told of in one input.
const SIGNALS_PER_INPUT: usize = 500;

/// Carries signals, and ends windows of losses, until the registry takes nothing more.
pub(crate) async fn carry(
    context: EngineContext,
    registry: mpsc::Sender<RegistryInput>,
    settings: NoticeSettings,
) {
    let links = &*context.notices;
    loop {
        let ends_at = links.window_ends_at(settings.lost_window);
        let signals = tokio::select! {
            signals = links.pending.take() => signals,
            () = links.window_begun() => continue,
            () = until(&context, ends_at) => {
                end_window(&context, links, settings).await;
                continue;
            }
        };
        for signals in signals.chunks(SIGNALS_PER_INPUT) {
            if registry.send(NoticeInput::Signals(signals.to_vec()).into()).await.is_err() {
                return;
            }
        }
    }
}

async fn until(context: &EngineContext, at: Option<Timestamp>) {
    match at {
        Some(at) => context.kernel.alarm().until(at).await,
        None => pending().await,
    }
}

async fn end_window(context: &EngineContext, links: &NoticeLinks, settings: NoticeSettings) {
    let Some(least) = settings.lost_together else { return };
    for group in links.end_window(least) {
        let asked = context.clone();
        // Without the device's labels there is nothing to tell them by.
        if let Ok(Some(signal)) = spawn_blocking(move || signal(&asked, &group)).await {
            links.signal(signal);
        }
    }
}

fn signal(context: &EngineContext, group: &LostGroup) -> Option<Signal> {
    let labels = labels_of(context, &group.example);
    labels.and_then(|labels| group.signal(&labels))
}

/// A store that fails is told by those who write to it.
fn labels_of(context: &EngineContext, device: &DeviceId) -> Option<Vec<(String, String)>> {
    let store = &context.kernel.store;
    let view = store.view(hash::device_partition(device, store.partitions())).ok()?;
    view.device(device).ok()?.map(|profile| profile.labels)
}
