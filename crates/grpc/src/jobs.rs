//! The service `Jobs`: each call is read, judged, asked of the engine, and answered.

use std::sync::Arc;
use std::time::Duration;

use access::{Admitted, RequestedAction};
use base::limits::{CONSUME_WAIT_MAX, JOBS_PER_CALL_MAX};
use base::{Clock, Problem};
use compact_str::CompactString;
use engine::Engine;
use engine::queues::{ConsumeTerms, FollowedControl, HandOver, JobRelease, QueueCalls, QueueName};
use tonic::{Request, Response, Status, Streaming};

use crate::answer_memory::AnswerMemory;
use crate::callers::{caller_and_message, caller_sender_and_message};
use crate::calls::SharedHandOver;
use crate::coordination::control_shown;
use crate::metrics::GrpcMetrics;
use crate::proto::{self, cancel_request, get_request, jobs_server};
use crate::receiving::{CallMessages, give_back};
use crate::status::{into_response, status};
use crate::stopping::StopSignal;
use crate::time::{moment, read_span, read_wait};
use crate::{asked, publish, shape, work};

/// The calls about jobs.
pub(crate) struct JobsService {
    queues: QueueCalls,
    clock: Arc<dyn Clock>,
    answers: AnswerMemory,
    stop: StopSignal,
    metrics: GrpcMetrics,
}

impl JobsService {
    pub(crate) fn new(
        engine: &Engine,
        answers: AnswerMemory,
        stop: StopSignal,
        metrics: &GrpcMetrics,
    ) -> Self {
        let (queues, clock) = (engine.queues(), Arc::clone(engine.clock()));
        Self { queues, clock, answers, stop, metrics: metrics.clone() }
    }

    async fn publish(
        &self,
        caller: &Admitted,
        request: proto::PublishRequest,
    ) -> Result<proto::PublishResponse, Problem> {
        caller.may(RequestedAction::Work { namespace: &request.namespace })?;
        let queue = QueueName::new(&request.namespace, &request.queue)?;
        let idempotency = publish::once(&request, &queue, caller.name())?;
        let count = request.jobs.len();
        if !(1..=JOBS_PER_CALL_MAX).contains(&count) {
            let detail = format!("jobs must be 1 to {JOBS_PER_CALL_MAX}, not {count}");
            return Err(Problem::not_allowed("too_many_jobs", detail));
        }
        let wall = self.clock.wall();
        let jobs = request.jobs.into_iter().enumerate().map(|(place, job)| publish::job(place, job, wall));
        let published = self.queues.publish(&queue, jobs.collect::<Result<_, _>>()?, idempotency).await?;
        Ok(proto::PublishResponse { jobs: published.iter().map(shape::published).collect() })
    }

    async fn consume(
        &self,
        caller: &Admitted,
        request: proto::ConsumeRequest,
    ) -> Result<(proto::ConsumeResponse, Option<HandOver>), Problem> {
        caller.may(RequestedAction::Work { namespace: &request.namespace })?;
        let names = asked::queues(&request.namespace, &request.queues)?;
        let wait = read_wait(request.wait.as_ref(), Duration::ZERO, CONSUME_WAIT_MAX)?;
        let max = request.max.map_or(1, |max| max as usize);
        let want = ConsumeTerms { max, ttr: asked::ttr(request.ttr.as_ref())?, wait, process: None };
        // Who waits for jobs holds nothing that others need.
        drop(request);
        give_back();
        let mut stop = self.stop.clone();
        let mut control = names.first().map(|first| self.queues.follow_control(first));
        let (jobs, hand_over) = tokio::select! {
            biased;
            leased = self.queues.consume(&names, want) => leased?,
            () = changed(&mut control) => (Vec::new(), HandOver::default()),
            // What was on its way is given back, and nobody waits for a server that has gone.
            () = stop.stopping() => return Ok((proto::ConsumeResponse::default(), None)),
        };
        let jobs = jobs.into_iter().map(|job| {
            let queue = names[job.queue].queue();
            shape::consumed(job, queue)
        });
        let control = names.first().and_then(|first| self.queues.control(first));
        let control = control.map(|control| control_shown(Some(&control)));
        Ok((proto::ConsumeResponse { jobs: jobs.collect(), control }, Some(hand_over)))
    }

    async fn ack(
        &self,
        caller: &Admitted,
        request: proto::AckRequest,
    ) -> Result<proto::AckResponse, Problem> {
        caller.may(RequestedAction::Work { namespace: &request.namespace })?;
        let queue = QueueName::new(&request.namespace, &request.queue)?;
        let count = request.reservations.len();
        if count > JOBS_PER_CALL_MAX {
            let detail = format!("reservations must be at most {JOBS_PER_CALL_MAX}, not {count}");
            return Err(Problem::not_allowed("too_many_jobs", detail));
        }
        let (mut tokens, mut stale) = (Vec::with_capacity(count), Vec::new());
        for reservation in request.reservations {
            match asked::reservation_token(&reservation) {
                Ok(reservation) => tokens.push(reservation),
                Err(_) => stale.push(reservation),
            }
        }
        let acked = self.queues.ack(&queue, tokens.clone()).await?;
        stale.extend(acked.stale.iter().map(|place| tokens[*place].text()));
        Ok(proto::AckResponse { acked: acked.acked as u32, stale })
    }

    async fn extend(
        &self,
        caller: &Admitted,
        request: proto::ExtendRequest,
    ) -> Result<proto::ExtendResponse, Problem> {
        caller.may(RequestedAction::Work { namespace: &request.namespace })?;
        let queue = QueueName::new(&request.namespace, &request.queue)?;
        let ttr = request.ttr.ok_or_else(|| Problem::not_allowed("missing_field", "ttr has to be there"))?;
        let ttr = read_span("ttr", &ttr)?;
        let until = self.queues.extend(&queue, asked::reservation_token(&request.reservation)?, ttr).await?;
        Ok(proto::ExtendResponse { until: Some(moment(until)) })
    }

    async fn release(
        &self,
        caller: &Admitted,
        request: proto::ReleaseRequest,
    ) -> Result<proto::ReleaseResponse, Problem> {
        caller.may(RequestedAction::Work { namespace: &request.namespace })?;
        let queue = QueueName::new(&request.namespace, &request.queue)?;
        let release = job_release(request.delay.as_ref(), &request.error)?;
        self.queues.release(&queue, asked::reservation_token(&request.reservation)?, release).await?;
        Ok(proto::ReleaseResponse {})
    }

    async fn get(
        &self,
        caller: &Admitted,
        request: proto::GetRequest,
    ) -> Result<proto::GetResponse, Problem> {
        caller.may(RequestedAction::Look { namespace: &request.namespace })?;
        let queue = QueueName::new(&request.namespace, &request.queue)?;
        let job = match &request.job {
            Some(get_request::Job::Id(id)) => asked::job(Some(id), None),
            Some(get_request::Job::Alias(alias)) => asked::job(None, Some(alias)),
            None => asked::job(None, None),
        };
        let job = self.queues.job(&queue, job?).await?;
        Ok(proto::GetResponse { job: Some(shape::view(job, queue.queue())) })
    }

    async fn cancel(
        &self,
        caller: &Admitted,
        request: proto::CancelRequest,
    ) -> Result<proto::CancelResponse, Problem> {
        caller.may(RequestedAction::Work { namespace: &request.namespace })?;
        let queue = QueueName::new(&request.namespace, &request.queue)?;
        let job = match &request.job {
            Some(cancel_request::Job::Id(id)) => asked::job(Some(id), None),
            Some(cancel_request::Job::Alias(alias)) => asked::job(None, Some(alias)),
            None => asked::job(None, None),
        };
        self.queues.cancel(&queue, job?).await?;
        Ok(proto::CancelResponse {})
    }
}

/// How a job is given back; an empty error is none.
pub(crate) fn job_release(delay: Option<&prost_types::Duration>, error: &str) -> Result<JobRelease, Problem> {
    let delay = delay.map_or(Ok(Duration::ZERO), |delay| read_span("delay", delay))?;
    Ok(JobRelease { delay, error: (!error.is_empty()).then(|| CompactString::new(error)) })
}

/// Returns when the workers are told something else; never where there is no queue.
async fn changed(control: &mut Option<FollowedControl>) {
    match control {
        Some(control) => control.changed().await,
        None => std::future::pending().await,
    }
}

#[tonic::async_trait]
impl jobs_server::Jobs for JobsService {
    async fn publish(
        &self,
        request: Request<proto::PublishRequest>,
    ) -> Result<Response<proto::PublishResponse>, Status> {
        let (caller, request) = caller_and_message(request)?;
        into_response(JobsService::publish(self, &caller, request).await)
    }

    async fn consume(
        &self,
        request: Request<proto::ConsumeRequest>,
    ) -> Result<Response<proto::ConsumeResponse>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        let (answer, hand_over) =
            JobsService::consume(self, &caller, request).await.map_err(|problem| status(&problem))?;
        // Where there is no memory for it, its jobs go back.
        let mut response = self.answers.answer(&sender, answer).map_err(|problem| status(&problem))?;
        // The jobs are their consumer's once the connection has taken the answer.
        response.extensions_mut().insert(SharedHandOver::of(hand_over));
        Ok(response)
    }

    async fn ack(&self, request: Request<proto::AckRequest>) -> Result<Response<proto::AckResponse>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        let acked = JobsService::ack(self, &caller, request).await.map_err(|problem| status(&problem))?;
        Ok(self.answers.answer_always(&sender, acked))
    }

    async fn extend(
        &self,
        request: Request<proto::ExtendRequest>,
    ) -> Result<Response<proto::ExtendResponse>, Status> {
        let (caller, request) = caller_and_message(request)?;
        into_response(JobsService::extend(self, &caller, request).await)
    }

    async fn release(
        &self,
        request: Request<proto::ReleaseRequest>,
    ) -> Result<Response<proto::ReleaseResponse>, Status> {
        let (caller, request) = caller_and_message(request)?;
        into_response(JobsService::release(self, &caller, request).await)
    }

    async fn get(&self, request: Request<proto::GetRequest>) -> Result<Response<proto::GetResponse>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        let got = JobsService::get(self, &caller, request).await;
        got.and_then(|job| self.answers.answer(&sender, job)).map_err(|problem| status(&problem))
    }

    async fn cancel(
        &self,
        request: Request<proto::CancelRequest>,
    ) -> Result<Response<proto::CancelResponse>, Status> {
        let (caller, request) = caller_and_message(request)?;
        into_response(JobsService::cancel(self, &caller, request).await)
    }

    type WorkStream = work::WorkAnswers;

    async fn work(
        &self,
        request: Request<Streaming<proto::WorkRequest>>,
    ) -> Result<Response<Self::WorkStream>, Status> {
        let request = CallMessages::of(request, crate::MESSAGE_BYTES_MAX);
        let (caller, sender, requests) = caller_sender_and_message(request)?;
        let memory = (self.answers.clone(), sender);
        let begun =
            work::begin(self.queues.clone(), caller, memory, requests, self.stop.clone(), &self.metrics);
        Ok(begun.into_response())
    }
}
