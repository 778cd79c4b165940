//! A call that has memory of the budget is not dropped when its caller hangs up. What was read out
//! of its body may wait for the disk, and takes that memory until the answer is known.
//!
//! Such a call goes on by itself until it is answered, or has given all of its memory back. Then it
//! is dropped, like any other whose caller hangs up.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::task::futures::TaskLocalFuture;
use tokio::task_local;

/// What a call that goes on without its caller takes beside what it read, about, in bytes.
pub const CALL_BYTES: usize = 8 * 1_024;

task_local! {
    /// The call that takes memory here.
    static CALL: Weak<()>;
}

/// A call that takes memory as the one that it is.
type KnownCall<F> = TaskLocalFuture<Weak<()>, F>;

/// What a reservation keeps of the call that takes it, so that the call is known to have memory.
pub(crate) fn this_call() -> Option<Arc<()>> {
    CALL.try_with(Weak::upgrade).ok().flatten()
}

/// A call that goes on without its caller for as long as it has memory of the budget.
#[derive(Debug)]
pub struct Detaching<F: Future + Send + 'static> {
    /// Until it is answered.
    call: Option<Pin<Box<KnownCall<F>>>>,
    /// Every reservation of the call has another one.
    memory: Arc<()>,
}

impl<F: Future + Send + 'static> Detaching<F> {
    /// The call has the memory that is taken while it is polled.
    #[must_use]
    pub fn new(call: F) -> Self {
        let memory = Arc::new(());
        let call = CALL.scope(Arc::downgrade(&memory), call);
        Self { call: Some(Box::pin(call)), memory }
    }
}

impl<F: Future + Send + 'static> Future for Detaching<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // A call that panics is gone with that.
        let mut call = self.call.take().expect("nobody polls it after its answer");
        let answer = call.as_mut().poll(cx);
        if answer.is_pending() {
            self.call = Some(call);
        }
        answer
    }
}

impl<F: Future + Send + 'static> Drop for Detaching<F> {
    fn drop(&mut self) {
        let Some(mut call) = self.call.take() else { return };
        let memory = std::mem::take(&mut self.memory);
        if Arc::strong_count(&memory) == 1 {
            return;
        }
        // Outside of the runtime nothing goes on.
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(poll_fn(move |cx| {
            let is_over = call.as_mut().poll(cx).is_ready() || Arc::strong_count(&memory) == 1;
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        }));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::oneshot;
    use tokio::task::yield_now;

    use super::*;
    use crate::memory_budget::{FREE_BYTES, MemoryBudget, Purpose};
    use crate::shares::SenderKey;

    /// Lets all others run that can.
    async fn settled() {
        for _ in 0..10 {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_call_with_memory_goes_on_without_its_caller() {
        let budget = MemoryBudget::default();
        let memory = budget.part(Purpose::Bodies);
        for gives_back in [false, true] {
            let ((durable, answer), (ended, end)) = (oneshot::channel::<()>(), oneshot::channel());
            let part = memory.clone();
            let mut call = Box::pin(Detaching::new(async move {
                let held = part.take(&SenderKey::Unknown, FREE_BYTES).await;
                let held = (!gives_back).then_some(held);
                let answered = answer.await;
                ended.send(answered.is_ok()).expect("it is waited for");
                drop(held);
            }));
            assert!(call.as_mut().now_or_never().is_none());
            let held = if gives_back { 0 } else { FREE_BYTES };
            assert_eq!(budget.held_bytes(), held);
            drop(call);
            settled().await;
            assert_eq!(budget.held_bytes(), held, "gives back: {gives_back}");
            assert_eq!(durable.send(()).is_ok(), !gives_back, "whether somebody is there for it");
            assert_eq!(end.await.is_ok(), !gives_back);
            settled().await;
            assert_eq!(budget.held_bytes(), 0);
        }
    }

    #[tokio::test]
    async fn a_call_without_its_caller_ends_when_it_has_given_its_memory_back() {
        let budget = MemoryBudget::default();
        let part = budget.part(Purpose::Messages);
        let ((durable, committed), (other, waits)) = (oneshot::channel(), oneshot::channel::<()>());
        let mut call = Box::pin(Detaching::new(async move {
            let held = part.take(&SenderKey::Unknown, FREE_BYTES).await;
            committed.await.expect("it becomes durable");
            drop(held);
            waits.await.expect("nobody waits that long");
        }));
        assert!(call.as_mut().now_or_never().is_none());
        drop(call);
        settled().await;
        assert!(!other.is_closed());
        durable.send(()).expect("it goes on");
        settled().await;
        assert!(other.is_closed(), "it is dropped");
        assert_eq!(budget.held_bytes(), 0);
    }

    #[tokio::test]
    async fn who_waits_is_given_the_answer() {
        assert_eq!(Detaching::new(async { 7 }).await, 7);
    }
}
