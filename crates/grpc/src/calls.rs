//! A call from its request to its last byte: counted by how it ended, and with its caller as long
//! as it lasts.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use access::{Admitted, NotAdmitted};
use base::locks::locked;
use bytes::Bytes;
use engine::queues::HandOver;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use net::metrics::Counted;
use tokio::sync::OwnedSemaphorePermit;
use tonic::body::Body as Answer;
use tonic::{Code, Status};

use crate::changes::{self, ChangedObject};
use crate::metrics::GrpcMetrics;
use crate::page_answer::{PageMemory, SendingPage};
use crate::receiving::Sends;
use crate::status::{CODE, coded, status};
use crate::watches::Watching;

/// The header or trailer that says how a call ended.
const STATUS: &str = "grpc-status";

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Jobs,
    Reports,
    Commands,
    Rollouts,
    Tasks,
    Streams,
    Coordination,
    Health,
}

/// A method, by its name in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) service: Service,
    pub(crate) name: &'static str,
    pub(crate) streams: bool,
}

/// Every method: its path, its service, its name, whether it streams.
const METHODS: [(&str, Service, &str, bool); 41] = [
    ("/fieldpost.v1.Jobs/Work", Service::Jobs, "Work", true),
    ("/fieldpost.v1.Jobs/Publish", Service::Jobs, "Publish", false),
    ("/fieldpost.v1.Jobs/Consume", Service::Jobs, "Consume", false),
    ("/fieldpost.v1.Jobs/Ack", Service::Jobs, "Ack", false),
    ("/fieldpost.v1.Jobs/Extend", Service::Jobs, "Extend", false),
    ("/fieldpost.v1.Jobs/Release", Service::Jobs, "Release", false),
    ("/fieldpost.v1.Jobs/Get", Service::Jobs, "Get", false),
    ("/fieldpost.v1.Jobs/Cancel", Service::Jobs, "Cancel", false),
    ("/fieldpost.v1.Reports/Send", Service::Reports, "Send", true),
    ("/fieldpost.v1.Commands/Send", Service::Commands, "Commands.Send", false),
    ("/fieldpost.v1.Commands/Get", Service::Commands, "Commands.Get", false),
    ("/fieldpost.v1.Commands/List", Service::Commands, "Commands.List", false),
    ("/fieldpost.v1.Commands/Cancel", Service::Commands, "Commands.Cancel", false),
    ("/fieldpost.v1.Commands/Retry", Service::Commands, "Commands.Retry", false),
    ("/fieldpost.v1.Commands/Call", Service::Commands, "Commands.Call", false),
    ("/fieldpost.v1.Rollouts/Create", Service::Rollouts, "Rollouts.Create", false),
    ("/fieldpost.v1.Rollouts/Get", Service::Rollouts, "Rollouts.Get", false),
    ("/fieldpost.v1.Rollouts/List", Service::Rollouts, "Rollouts.List", false),
    ("/fieldpost.v1.Rollouts/Call", Service::Rollouts, "Rollouts.Call", false),
    ("/fieldpost.v1.Rollouts/Devices", Service::Rollouts, "Rollouts.Devices", false),
    ("/fieldpost.v1.Rollouts/Watch", Service::Rollouts, "Rollouts.Watch", true),
    ("/fieldpost.v1.Tasks/Run", Service::Tasks, "Tasks.Run", true),
    ("/fieldpost.v1.Streams/Append", Service::Streams, "Streams.Append", true),
    ("/fieldpost.v1.Streams/Read", Service::Streams, "Streams.Read", true),
    ("/fieldpost.v1.Streams/Commit", Service::Streams, "Streams.Commit", false),
    ("/fieldpost.v1.Coordination/Pipeline", Service::Coordination, "Coordination.Pipeline", true),
    ("/fieldpost.v1.Coordination/AcquireLock", Service::Coordination, "Coordination.AcquireLock", false),
    ("/fieldpost.v1.Coordination/ExtendLock", Service::Coordination, "Coordination.ExtendLock", false),
    ("/fieldpost.v1.Coordination/ReleaseLock", Service::Coordination, "Coordination.ReleaseLock", false),
    ("/fieldpost.v1.Coordination/GetLock", Service::Coordination, "Coordination.GetLock", false),
    ("/fieldpost.v1.Coordination/AskLimit", Service::Coordination, "Coordination.AskLimit", false),
    ("/fieldpost.v1.Coordination/PutCached", Service::Coordination, "Coordination.PutCached", false),
    ("/fieldpost.v1.Coordination/GetCached", Service::Coordination, "Coordination.GetCached", false),
    ("/fieldpost.v1.Coordination/DeleteCached", Service::Coordination, "Coordination.DeleteCached", false),
    ("/fieldpost.v1.Coordination/Publish", Service::Coordination, "Coordination.Publish", false),
    ("/fieldpost.v1.Coordination/Listen", Service::Coordination, "Coordination.Listen", true),
    ("/fieldpost.v1.Coordination/PutControl", Service::Coordination, "Coordination.PutControl", false),
    ("/fieldpost.v1.Coordination/GetControl", Service::Coordination, "Coordination.GetControl", false),
    ("/fieldpost.v1.Coordination/DeleteControl", Service::Coordination, "Coordination.DeleteControl", false),
    ("/grpc.health.v1.Health/Check", Service::Health, "Check", false),
    ("/grpc.health.v1.Health/Watch", Service::Health, "Watch", true),
];

/// Whether a service of this name, such as `fieldpost.v1.Jobs`, is served.
pub(crate) fn is_served(name: &str) -> bool {
    let mut services = METHODS.iter().filter_map(|(path, ..)| path.strip_prefix('/')?.split_once('/'));
    services.any(|(service, _)| service == name)
}

/// Those that leave a line in the log.
const CHANGES: [&str; 7] = [
    "Commands.Cancel",
    "Commands.Retry",
    "Rollouts.Create",
    "Rollouts.Call",
    "Tasks.Run",
    "Coordination.PutControl",
    "Coordination.DeleteControl",
];

impl Method {
    /// The method at a path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        let found = METHODS.iter().find(|(of_method, ..)| *of_method == path);
        found.map(|(_, service, name, streams)| Self { service: *service, name, streams: *streams })
    }

    /// Whatever callers make up.
    pub(crate) fn unknown() -> Self {
        Self { service: Service::Health, name: "unknown", streams: true }
    }

    /// Whether it changes what there is, and is no work.
    fn is_change(self) -> bool {
        CHANGES.contains(&self.name)
    }

    /// What its callers send.
    pub(crate) fn sends(self) -> Sends {
        match self.service {
            Service::Jobs | Service::Reports if self.streams => Sends::Stream,
            Service::Streams if self.name == "Streams.Append" => Sends::Stream,
            Service::Coordination if self.name == "Coordination.Pipeline" => Sends::Stream,
            Service::Jobs
            | Service::Reports
            | Service::Commands
            | Service::Rollouts
            | Service::Tasks
            | Service::Streams
            | Service::Coordination
            | Service::Health => Sends::One,
        }
    }
}

/// A call under way. Dropped before it ended, it counts as cancelled.
pub(crate) struct OngoingCall {
    method: Method,
    metrics: GrpcMetrics,
    began: Instant,
    ended: bool,
    peer: SocketAddr,
    /// Under way as long as this lives.
    caller: Option<Admitted>,
    /// Held as long as it lasts.
    place: Option<WatchPlace>,
}

/// What a watch takes of the share of its connection and of that of all of them.
pub(crate) struct WatchPlace {
    pub(crate) _of_connection: OwnedSemaphorePermit,
    pub(crate) _watching: Watching,
    pub(crate) _counted: Counted,
}

impl OngoingCall {
    pub(crate) fn begins(method: Method, peer: SocketAddr, metrics: &GrpcMetrics) -> Self {
        Self {
            method,
            metrics: metrics.clone(),
            began: Instant::now(),
            ended: false,
            peer,
            caller: None,
            place: None,
        }
    }

    /// The call has this place until it is over.
    pub(crate) fn takes(&mut self, place: WatchPlace) {
        self.place = Some(place);
    }

    /// The call was not taken in.
    pub(crate) fn not_admitted(self, NotAdmitted { problem, login }: &NotAdmitted) -> Response<Answering> {
        let login = login.as_ref().map_or("", |login| &*login.0);
        self.metrics.refusals.of_call(self.method.name, problem.code, login, self.peer);
        self.refused(status(problem))
    }

    pub(crate) fn is_of(&mut self, caller: Admitted) {
        self.caller = Some(caller);
    }

    /// The call is refused before it is looked at.
    pub(crate) fn refused(self, status: Status) -> Response<Answering> {
        self.answered(status.into_http())
    }

    /// The call lasts until its answer has left, or is given up.
    pub(crate) fn answered(mut self, response: Response<Answer>) -> Response<Answering> {
        let coded = Status::from_header_map(response.headers()).as_ref().and_then(coded);
        let mut response = coded.map_or(response, |refused| refused.into_http());
        // An answer that begins well comes from whoever has done it, and is no refusal.
        if self.method.is_change() && !response.headers().contains_key(STATUS) {
            let object = response.extensions_mut().remove::<ChangedObject>();
            let caller = self.caller.as_ref().map_or("", |caller| caller.name());
            changes::log(self.method.name, object.as_ref(), caller, self.peer);
        }
        self.note(response.headers());
        let hand_over = response.extensions_mut().remove::<SharedHandOver>();
        let page = response.extensions_mut().remove::<PageMemory>().map(SendingPage::new);
        response.map(|body| Answering { body, call: self, hand_over, page })
    }

    fn note(&mut self, headers: &HeaderMap) {
        let Some(status) = headers.get(STATUS) else { return };
        let status = Code::from_bytes(status.as_bytes());
        // One that was not taken in is told of by whoever did not.
        if status == Code::PermissionDenied && !self.ended {
            let code = headers.get(CODE).and_then(|code| code.to_str().ok()).unwrap_or_default();
            let login = self.caller.as_ref().map_or("", |caller| caller.name());
            self.metrics.refusals.of_call(self.method.name, code, login, self.peer);
        }
        self.ends(status);
    }

    fn ends(&mut self, code: Code) {
        if !self.ended {
            self.ended = true;
            self.metrics.ended(self.method.name, code);
            if !self.method.streams {
                self.metrics.took(self.method.name, self.began.elapsed());
            }
        }
    }
}

impl Drop for OngoingCall {
    fn drop(&mut self) {
        self.ends(Code::Cancelled);
    }
}

/// The body of an answer, which ends its call.
pub(crate) struct Answering {
    body: Answer,
    call: OngoingCall,
    hand_over: Option<SharedHandOver>,
    page: Option<SendingPage>,
}

/// Jobs that are their consumer's once the connection has taken the answer with them; given back if
/// it never does. Beside an answer, where everything can be cloned.
#[derive(Clone, Debug)]
pub(crate) struct SharedHandOver(Arc<Mutex<Option<HandOver>>>);

impl SharedHandOver {
    pub(crate) fn of(hand_over: Option<HandOver>) -> Self {
        Self(Arc::new(Mutex::new(hand_over)))
    }

    fn done(&self) {
        let hand_over = locked(&self.0).take();
        if let Some(hand_over) = hand_over {
            hand_over.done();
        }
    }
}

impl Body for Answering {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let answering = &mut *self;
        let body = Pin::new(&mut answering.body);
        let frame = ready!(match &mut answering.page {
            Some(page) => page.poll_frame(body, cx),
            None => body.poll_frame(cx),
        });
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            // Behind the last byte of the message.
            if let Some(hand_over) = self.hand_over.take() {
                hand_over.done();
            }
            self.call.note(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.page.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_of_the_description_has_a_name() {
        let described = [
            include_str!("../proto/fieldpost/v1/jobs.proto"),
            include_str!("../proto/fieldpost/v1/reports.proto"),
            include_str!("../proto/fieldpost/v1/commands.proto"),
            include_str!("../proto/fieldpost/v1/rollouts.proto"),
            include_str!("../proto/fieldpost/v1/tasks.proto"),
            include_str!("../proto/fieldpost/v1/streams.proto"),
            include_str!("../proto/fieldpost/v1/coordination.proto"),
        ];
        let mut found = 0;
        for text in described {
            let (_, service) = text.split_once("\nservice ").expect("a service");
            let (service, calls) = service.split_once(' ').expect("its name");
            assert!(is_served(&format!("fieldpost.v1.{service}")), "{service}");
            for line in calls.lines().filter_map(|line| line.strip_prefix("  rpc ")) {
                let (name, _) = line.split_once('(').expect("its message");
                let method = Method::at(&format!("/fieldpost.v1.{service}/{name}"));
                // Where two services have a call of one name, the later one's has the service's
                // too.
                let short = |method: Method| method.name.rsplit('.').next().unwrap_or_default();
                assert_eq!(
                    method.map(|method| (short(method), method.streams)),
                    Some((name, line.contains("stream")))
                );
                found += 1;
            }
        }
        assert_eq!(found, METHODS.len() - 2, "the others are of the health service");
        assert!(!is_served("fieldpost.v1.Nothing") && !is_served("fieldpost.v1.Jobs/Ack"));
    }

    #[test]
    fn every_method_looks_works_or_changes() {
        /// A new method goes here or to [`CHANGES`].
        const OTHERS: [&str; 34] = [
            "Work",
            "Publish",
            "Consume",
            "Ack",
            "Extend",
            "Release",
            "Get",
            "Cancel",
            "Send",
            "Commands.Send",
            "Commands.Get",
            "Commands.List",
            "Commands.Call",
            "Rollouts.Get",
            "Rollouts.List",
            "Rollouts.Devices",
            "Rollouts.Watch",
            "Streams.Append",
            "Streams.Read",
            "Streams.Commit",
            "Coordination.Pipeline",
            "Coordination.AcquireLock",
            "Coordination.ExtendLock",
            "Coordination.ReleaseLock",
            "Coordination.GetLock",
            "Coordination.AskLimit",
            "Coordination.PutCached",
            "Coordination.GetCached",
            "Coordination.DeleteCached",
            "Coordination.Publish",
            "Coordination.Listen",
            "Coordination.GetControl",
            "Check",
            "Watch",
        ];
        let mut sorted: Vec<_> = CHANGES.into_iter().chain(OTHERS).collect();
        let mut all = METHODS.map(|(_, _, name, _)| name);
        sorted.sort_unstable();
        all.sort_unstable();
        assert_eq!(sorted, all);
    }
}
