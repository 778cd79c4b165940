//! The network between nodes, whatever nodes they are: it keeps requests and answers for any time,
//! loses them, and brings requests twice. Its lines are cut, both ways, with requests on them.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use base::{Problem, Timestamp};
use copies::{CopyBatch, CopyFailure, CopyFailureKind, PageAsk, SinkAnswer, SourcePage};
use engine::kernel::reply::Reply;
use engine::streams::input::MoveCopyCall;
use engine::streams::{CopyKey, CopyMove, CopyProgress, StreamName, StreamsInput};
use records::StreamCopy;
use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use super::exchange::{Ask, Exchange, Request, Waiting, WaitingForEnd, not_accepting, tell};
use super::plan::NetworkPlan;
use crate::harness::counts::counts;
use crate::harness::machine::Machine;
use crate::harness::violation::{Checked, Invariant};
use crate::streams::world::as_node::StreamsNode;

/// How long a page waits for its first message on another node.
const WAIT: Duration = Duration::from_secs(3);
/// How often things settle at one moment.
const ROUNDS_MAX: usize = 10_000;

counts! {
    /// What was seen of nodes and of the network between them.
    NetworkCounts:
    lives,
    /// Requests to other nodes,
    requests,
    /// of which the network lost, or brought twice,
    requests_lost,
    requests_twice,
    /// that came when nobody waited any more,
    requests_late,
    /// that found nobody,
    requests_failed,
    /// and answers that it lost.
    answers_lost,
    cuts,
    /// Batches that were answered,
    batches,
    /// and moves of positions.
    moves,
}

/// All that is on its way. What a node has taken of a batch is a `T`.
pub(super) struct Network<T> {
    machine: Rc<Machine>,
    plan: NetworkPlan,
    pub(super) exchange: Exchange,
    pub(super) travelling: Vec<Request>,
    pub(super) pages: Vec<WaitingPage>,
    pub(super) batches: Vec<TakenBatch<T>>,
    moves: Vec<TakenMove>,
    pub(super) answers: Vec<AnswerOnItsWay>,
    cuts: BTreeSet<(usize, usize)>,
    /// The time that has passed for the nodes.
    passed_to: Timestamp,
    /// Nothing is lost any more, and whoever is under load takes what comes.
    is_quiet: bool,
    pub(super) counts: NetworkCounts,
}

/// A page that waits for a message on its node.
pub(super) struct WaitingPage {
    pub(super) request: Request,
    pub(super) began: u64,
    pub(super) after: u64,
    pub(super) until: Option<Timestamp>,
}

/// A batch that a node took and has not answered.
pub(super) struct TakenBatch<T> {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) deadline: Option<Timestamp>,
    pub(super) waiting: WaitingForEnd<SinkAnswer>,
    pub(super) taken: T,
}

struct TakenMove {
    waiting: Waiting<Result<CopyProgress, Problem>>,
    outcome: Receiver<Result<CopyProgress, Problem>>,
}

pub(super) struct AnswerOnItsWay {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) deadline: Option<Timestamp>,
    pub(super) answer: Answer,
}

pub(super) enum Answer {
    Page(WaitingForEnd<SourcePage>, Result<SourcePage, CopyFailure>),
    Append(WaitingForEnd<SinkAnswer>, Result<SinkAnswer, CopyFailure>),
}

impl Answer {
    pub(super) fn give(self) {
        match self {
            Self::Page(waiting, page) => tell(waiting, page),
            Self::Append(waiting, answer) => tell(waiting, answer),
        }
    }
}

/// One of all that is on its way, by its place among its like.
enum OnItsWay {
    Request(usize),
    Page(usize),
    Answer(usize),
}

fn line(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

pub(super) fn is_over(deadline: Option<Timestamp>, now: Timestamp) -> bool {
    deadline.is_some_and(|deadline| deadline <= now)
}

impl<T> Network<T> {
    pub(super) fn new(plan: NetworkPlan, machine: &Rc<Machine>) -> Self {
        Self {
            machine: Rc::clone(machine),
            plan,
            exchange: Exchange::default(),
            travelling: Vec::new(),
            pages: Vec::new(),
            batches: Vec::new(),
            moves: Vec::new(),
            answers: Vec::new(),
            cuts: BTreeSet::new(),
            passed_to: machine.now(),
            is_quiet: false,
            counts: NetworkCounts::default(),
        }
    }

    pub(super) fn become_quiet(&mut self) {
        self.is_quiet = true;
        self.cuts.clear();
    }

    /// A node's process has ended, and its connections with it; or it has begun.
    pub(super) fn process_changed(&mut self, node: usize, is_up: bool) {
        self.counts.lives += u64::from(is_up);
        self.travelling.retain(|request| request.to != node);
        self.pages.retain(|page| page.request.to != node);
        self.answers.retain(|answer| answer.to != node);
    }

    /// When somebody waits no more.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        let travelling = self.travelling.iter().filter_map(|request| request.deadline);
        let pages = self.pages.iter().flat_map(|page| [page.until, page.request.deadline]).flatten();
        let batches = self.batches.iter().filter_map(|batch| batch.deadline);
        let answers = self.answers.iter().filter_map(|answer| answer.deadline);
        travelling.chain(pages).chain(batches).chain(answers).min()
    }

    pub(super) fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cuts.contains(&line(one, other))
    }

    /// Cuts the line between two nodes, or makes it whole.
    pub(super) fn change_line(&mut self, one: usize, other: usize) {
        if !self.cuts.remove(&line(one, other)) {
            self.cuts.insert(line(one, other));
            self.counts.cuts += 1;
        }
    }

    /// Lines that are cut.
    pub(super) fn cuts(&self) -> &BTreeSet<(usize, usize)> {
        &self.cuts
    }

    /// What copies have asked for goes on its way.
    pub(super) fn take_up_requests(&mut self) {
        for request in self.exchange.take() {
            self.counts.requests += u64::from(request.is_remote());
            self.travelling.push(request);
        }
    }

    /// Whoever waited too long waits no more.
    fn time_out(&mut self) {
        let now = self.machine.now();
        for request in self.travelling.iter_mut().filter(|request| is_over(request.deadline, now)) {
            request.give_up();
            self.counts.requests_late += 1;
        }
        self.travelling.retain(|request| !request.is_abandoned());
        self.pages.retain(|page| !page.request.is_abandoned());
        let pages = self.pages.iter_mut().map(|page| &mut page.request);
        pages.filter(|request| is_over(request.deadline, now)).for_each(Request::give_up);
        for batch in self.batches.iter_mut().filter(|batch| is_over(batch.deadline, now)) {
            (batch.deadline, batch.waiting) = (None, None);
        }
        self.answers.retain(|answer| !is_over(answer.deadline, now));
    }

    fn any_on_its_way(&self) -> Option<OnItsWay> {
        let (requests, pages) = (self.travelling.len(), self.pages.len());
        let all = requests + pages + self.answers.len();
        if all == 0 {
            return None;
        }
        let index = self.machine.random.below(all as u64) as usize;
        Some(if index < requests {
            OnItsWay::Request(index)
        } else if index < requests + pages {
            OnItsWay::Page(index - requests)
        } else {
            OnItsWay::Answer(index - requests - pages)
        })
    }

    /// A page waits on its node, longer than for what is there only where it is another node's.
    fn wait_for_page(&mut self, request: Request, after: u64) {
        let until = request.is_remote().then(|| self.machine.now().after(WAIT));
        self.pages.push(WaitingPage { request, began: after, after, until });
    }

    /// Whoever waits for an answer gets it, unless it is lost.
    pub(super) fn give(&mut self, answer: Answer) {
        if !self.is_quiet && self.machine.random.below(1_000) < self.plan.answer_lost {
            self.counts.answers_lost += 1;
        } else {
            answer.give();
        }
    }

    /// Whoever moves a copy is told what came of it. How many copies began anew.
    pub(super) fn take_moves(&mut self) -> u64 {
        let mut resets = 0;
        for TakenMove { waiting, mut outcome } in std::mem::take(&mut self.moves) {
            match outcome.try_recv() {
                Err(TryRecvError::Empty) => self.moves.push(TakenMove { waiting, outcome }),
                // Nobody answers: whoever waits is told so.
                Err(TryRecvError::Closed) => drop(waiting),
                Ok(progress) => {
                    self.counts.moves += u64::from(matches!(progress, Ok(CopyProgress::Moved)));
                    resets += u64::from(matches!(progress, Ok(CopyProgress::Reset)));
                    tell(waiting, progress);
                }
            }
        }
        resets
    }
}

/// Nodes with a network between them.
pub(super) trait NodesWorld {
    /// What a node has taken of a batch.
    type Taken;

    fn network(&self) -> &Network<Self::Taken>;

    fn network_mut(&mut self) -> &mut Network<Self::Taken>;

    fn streams(&self, node: usize) -> &dyn StreamsNode;

    fn streams_mut(&mut self, node: usize) -> &mut dyn StreamsNode;

    /// So many milliseconds pass for every node.
    fn pass(&mut self, ms: i64);

    /// Notes in the trace that a copy of a node is to be moved.
    fn note_move(&self, node: usize, key: &CopyKey, change: &CopyMove);

    /// A node takes a batch of another one, or of its own, and answers it some time.
    fn take_batch(
        &mut self,
        line: (usize, usize, Option<Timestamp>),
        stream: StreamName,
        batch: &CopyBatch,
        waiting: WaitingForEnd<SinkAnswer>,
    );

    /// What comes of a request that is lost.
    fn break_off(&mut self, _: &Request) {}

    /// Gives a page, if it is time to. Whether it did.
    fn look_at_page(&mut self, index: usize) -> bool;

    /// An answer comes, if it can.
    fn bring_answer(&mut self, index: usize) -> bool;

    /// All answers that can come. Whether there was any.
    fn bring_answers(&mut self) -> bool;

    /// The time of the world passes for every node and for every request.
    fn follow_time(&mut self) {
        let network = self.network_mut();
        let now = network.machine.now();
        let ms = now.0 - network.passed_to.0;
        if ms > 0 {
            network.passed_to = now;
            self.pass(ms);
        }
        self.network_mut().time_out();
    }

    /// Does everything that can be done at this moment, in rounds. Whether there was anything.
    fn settle(&mut self, round: impl Fn(&mut Self) -> Checked<bool>) -> Checked<bool> {
        self.follow_time();
        let mut any = false;
        for _ in 0..ROUNDS_MAX {
            if !round(self)? {
                return Ok(any);
            }
            any = true;
        }
        Err(Invariant::COPIES_COME_TO_REST.broken("there is no end to what nodes do at one moment"))
    }

    /// A request comes to where it goes, or a page or an answer goes on.
    fn bring_any(&mut self) {
        let _is_gone = match self.network().any_on_its_way() {
            None => false,
            Some(OnItsWay::Request(index)) => self.bring(index),
            Some(OnItsWay::Page(index)) => self.look_at_page(index),
            Some(OnItsWay::Answer(index)) => self.bring_answer(index),
        };
    }

    /// All that can be brought at this moment. Whether there was any.
    fn bring_all(&mut self) -> bool {
        let mut any = false;
        for index in (0..self.network().travelling.len()).rev() {
            any |= self.bring(index);
        }
        for index in (0..self.network().pages.len()).rev() {
            any |= self.look_at_page(index);
        }
        self.bring_answers() || any
    }

    fn bring(&mut self, index: usize) -> bool {
        let network = self.network();
        let Some(request) = network.travelling.get(index) else { return false };
        let (from, to, deadline) = (request.from, request.to, request.deadline);
        let (is_remote, is_quiet) = (request.is_remote(), network.is_quiet);
        if is_remote && network.is_cut(from, to) {
            return false;
        }
        let node = self.streams(to);
        let is_up = node.context().is_some();
        if is_up && !node.takes_input() && !is_quiet {
            // It is under load: whoever asks waits.
            return false;
        }
        let request = self.network_mut().travelling.remove(index);
        if is_remote && !is_quiet && self.is_lost(&request) {
            return true;
        }
        if !is_up {
            self.network_mut().counts.requests_failed += u64::from(is_remote);
            request.fail(CopyFailure::new(CopyFailureKind::NotNow, "nobody listens"));
            return true;
        }
        match request.ask {
            Ask::Row(key, waiting) => self.give_row(to, &key, waiting),
            Ask::Move(key, row, change, waiting) => self.move_copy(to, (key, row), change, waiting),
            Ask::Page(_, PageAsk { after, .. }, _) => {
                self.network_mut().wait_for_page(request, after);
                self.look_at_page(self.network().pages.len() - 1);
            }
            Ask::Append(stream, batch, waiting) => {
                self.take_batch((from, to, deadline), stream, &batch, waiting);
            }
        }
        true
    }

    /// The network loses a request, or brings it once more. Whether it does not come whole.
    fn is_lost(&mut self, request: &Request) -> bool {
        let network = self.network_mut();
        if network.machine.random.below(1_000) < network.plan.lost {
            network.counts.requests_lost += 1;
            self.break_off(request);
            return true;
        }
        if network.machine.random.below(1_000) < network.plan.twice
            && let Some(again) = request.again()
        {
            network.counts.requests_twice += 1;
            network.travelling.push(again);
        }
        false
    }

    fn give_row(&mut self, node: usize, key: &CopyKey, waiting: Waiting<Result<StreamCopy, Problem>>) {
        let Some(context) = self.streams(node).context() else { return };
        let row = context.streams.copy_row(&*context.kernel.store, key);
        self.streams_mut(node).was_read();
        tell(waiting, row);
    }

    fn move_copy(
        &mut self,
        node: usize,
        (key, row): (CopyKey, Box<StreamCopy>),
        change: CopyMove,
        waiting: Waiting<Result<CopyProgress, Problem>>,
    ) {
        self.note_move(node, &key, &change);
        let (reply, outcome) = Reply::new();
        let CopyKey { stream, copy } = key;
        let call = MoveCopyCall { stream, copy, row, change, reply };
        if self.streams_mut(node).tell_streams(StreamsInput::MoveCopy(Box::new(call))) {
            self.network_mut().moves.push(TakenMove { waiting, outcome });
        } else {
            tell(waiting, Err(not_accepting()));
        }
    }
}
