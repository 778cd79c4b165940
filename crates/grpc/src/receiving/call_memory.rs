//! The memory of a call's only message, from its last byte until the call is answered. What was
//! read out of the message waits for the disk that long.
//!
//! A call and the body that it reads run on one task, so they share a place there. A call that
//! waits for more than a commit, or for other memory, gives it back before. One that has some goes
//! on when its caller hangs up.

use std::cell::Cell;

use net::detach::Detaching;
use net::memory_budget::MemoryReservation;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task_local;

use super::{MessagePlace, PlaceFrom};

task_local! {
    /// Of the budget, and of the share of the connection.
    static HELD: Cell<Option<(MemoryReservation, OwnedSemaphorePermit)>>;
}

/// The outcome of a call, which has the memory of its only message meanwhile.
pub(crate) fn until_answered<F: Future + Send + 'static>(
    call: F,
) -> Detaching<impl Future<Output = F::Output> + Send + 'static> {
    Detaching::new(while_called(call))
}

/// The same for a call that goes with its caller.
pub(super) async fn while_called<F: Future>(call: F) -> F::Output {
    HELD.scope(Cell::new(None), call).await
}

/// The message is all there: the call that runs has its memory from here on. From what that is
/// taken.
pub(super) fn hand_over(place: MessagePlace) -> PlaceFrom {
    let MessagePlace { from, memory, permits, .. } = place;
    // Outside of a call nothing is kept.
    let _no_call = HELD.try_with(|held| held.set(Some((memory, permits))));
    from
}

/// Gives back what the call has of its message.
pub(crate) fn give_back() {
    // Behind the answer, and in a pipeline, there is none.
    let _of_message = HELD.try_with(Cell::take);
}
