//! Posts notices to the clients that want them: leased a few at a time, each a signed post like any
//! notification.

use std::sync::Arc;

use engine::notices::{NoticeDue, PostOutcome};
use engine::records::NoticeKey;
use engine::{Answer, Engine};
use futures_util::future::join_all;
use tokio::sync::watch;

use crate::body;
use crate::sender::Sender;

/// Notices that are posted at a time. A receiver that hangs holds up the next ones for as long as
/// an attempt may take.
const POSTED_MAX: usize = 32;

/// Posts notices until `shutdown` says so or its sender is gone. What is under way then is posted
/// again after the next start.
pub(crate) async fn run(engine: Engine, sender: Arc<Sender>, mut shutdown: watch::Receiver<bool>) {
    tokio::select! {
        _ = shutdown.wait_for(|stop| *stop) => {}
        () = post_all(&engine, &sender) => {}
    }
}

/// Returns when the server is not accepting.
async fn post_all(engine: &Engine, sender: &Sender) {
    loop {
        // At once: some may be left of the process before.
        let Ok(due) = engine.lease_notices(POSTED_MAX).await else { return };
        let is_last = due.len() < POSTED_MAX;
        join_all(due.into_iter().map(|due| post(engine, sender, due))).await;
        if is_last {
            engine.notices_due().await;
        }
    }
}

async fn post(engine: &Engine, sender: &Sender, due: NoticeDue) {
    let NoticeDue { client, notice } = due;
    let body = Arc::from(body::notice(&notice).into_bytes());
    let answer = sender.attempt(&client, notice.id, body).await.answer;
    let outcome = match answer {
        Answer::Status { code: 200..=299, .. } => PostOutcome::Took,
        Answer::Status { code: 410, .. } => PostOutcome::Gone,
        Answer::Status { retry_after, .. } => PostOutcome::Failed(retry_after),
        Answer::Error(_) | Answer::Withheld => PostOutcome::Failed(None),
    };
    let told = async {
        engine.note_answer(&client, answer).await?;
        engine.notice_tried(client.incarnation, NoticeKey::from(notice.id), outcome).await
    };
    if told.await.is_err() {
        tracing::debug!("not accepting; a notice that was posted is posted again");
    }
}
