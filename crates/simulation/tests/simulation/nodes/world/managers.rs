//! Those who put copies and take them away, and what befalls whole nodes.

use engine::kernel::reply::Reply;
use engine::streams::input::PutCopyCall;
use engine::streams::{NewCopy, StreamsInput};
use records::StreamCopy;

use super::World;
use crate::harness::node::Node;
use crate::harness::violation::Checked;
use crate::nodes::fault_injection::ORIGIN_REUSED;
use crate::nodes::plan::{node_name, node_seed};
use crate::nodes::sim_node::NodeBackup;
use crate::streams::world::as_node::StreamsNode;
use crate::streams::world::stream_name;

impl World {
    /// Somebody puts a copy that is wanted, or pauses, resumes or deletes one.
    pub(super) fn manage_copies(&mut self) {
        let copies = &self.plan.copies;
        if copies.is_empty() {
            return;
        }
        let index = self.machine.random.below(copies.len() as u64) as usize;
        match self.machine.random.below(8) {
            0 => self.delete_copy(index),
            1 | 2 => self.pause_copy(index, true),
            3 | 4 => self.pause_copy(index, false),
            _ => self.put_copy(index),
        }
    }

    /// Puts all copies that a node is to have.
    pub(super) fn put_copies_of(&mut self, node: usize) {
        for index in 0..self.plan.copies.len() {
            if self.plan.copies[index].holder == node {
                self.put_copy(index);
            }
        }
    }

    fn put_copy(&mut self, index: usize) {
        let wanted = self.plan.copies[index].clone();
        let node = match wanted.other == wanted.holder {
            true => StreamCopy::SELF.into(),
            false => node_name(wanted.other).into(),
        };
        let copy = NewCopy {
            name: format!("c{index}").into(),
            direction: wanted.direction,
            node,
            other: stream_name(&format!("s{}", wanted.other_stream)),
            segments: wanted.segments,
            from: None,
            live_permille: wanted.live_permille,
            rate: wanted.rate,
            reports: None,
        };
        self.machine.trace.note(format_args!("n{}: put {copy:?}", wanted.holder));
        let (reply, _nobody_waits) = Reply::new();
        let stream = stream_name(&format!("s{}", wanted.stream));
        let input = StreamsInput::PutCopy(Box::new(PutCopyCall { stream, copy, reply }));
        let _takes = self.nodes[wanted.holder].node.users_mut().tell_streams(input);
    }

    fn pause_copy(&mut self, index: usize, paused: bool) {
        let wanted = &self.plan.copies[index];
        self.machine.trace.note(format_args!("n{}: c{index} rests: {paused}", wanted.holder));
        let (reply, _nobody_waits) = Reply::new();
        let stream = stream_name(&format!("s{}", wanted.stream));
        let input = StreamsInput::PauseCopy { stream, copy: format!("c{index}").into(), paused, reply };
        let _takes = self.nodes[wanted.holder].node.users_mut().tell_streams(input);
    }

    fn delete_copy(&mut self, index: usize) {
        let wanted = &self.plan.copies[index];
        self.machine.trace.note(format_args!("n{}: c{index} goes", wanted.holder));
        let (reply, _nobody_waits) = Reply::new();
        let stream = stream_name(&format!("s{}", wanted.stream));
        let input = StreamsInput::DeleteCopy { stream, copy: format!("c{index}").into(), reply };
        let _takes = self.nodes[wanted.holder].node.users_mut().tell_streams(input);
    }

    /// All copies run from now on.
    pub(super) fn resume_copies(&mut self) {
        (0..self.plan.copies.len()).for_each(|index| self.pause_copy(index, false));
    }

    /// Somebody deletes a stream of a node.
    pub(super) fn delete_stream(&mut self) {
        let (node, name) = (self.any_node(), self.any_stream());
        self.machine.trace.note(format_args!("n{node}: {name} goes"));
        let (reply, _nobody_waits) = Reply::new();
        let input = StreamsInput::Delete { stream: stream_name(&name), reply };
        if self.nodes[node].node.users_mut().tell_streams(input) {
            self.nodes[node].set_back += 1;
            self.counts.streams_deleted += 1;
            // Whoever made it to be copied wants it copied again.
            if self.machine.random.chance(1, 2) {
                self.put_copies_of(node);
            }
        }
    }

    /// A node is backed up, or comes back with another disk.
    pub(super) fn change_disk(&mut self) -> Checked {
        let number = self.any_node();
        match self.machine.random.below(3) {
            0 => self.replace(number, false),
            1 => self.replace(number, true),
            _ => self.back_up(number),
        }
    }

    fn back_up(&mut self, number: usize) -> Checked {
        let Some(seq) = self.nodes[number].context().and_then(|context| {
            let view = context.kernel.store.view(base::PartitionId::of_streams(0)).ok()?;
            Some(view.head().seq)
        }) else {
            return Ok(());
        };
        let bytes = self.nodes[number].node.backup();
        self.look_at(number)?;
        let node = &mut self.nodes[number];
        let Some(bytes) = bytes else { return Ok(()) };
        // Of what was not told yet a backup may hold more than somebody knows.
        let Ok(model) = node.node.users().model().at(seq, crate::harness::track::Past::Life) else {
            return Ok(());
        };
        let mut seen = node.seen.clone();
        seen.retain(|stream, messages| {
            let Some(found) = model.streams.get(stream).filter(|found| !found.is_deleted) else {
                return false;
            };
            for (_, number) in messages.by_id.split_off(&(found.last + 1)) {
                messages.by_number.remove(&number);
            }
            true
        });
        let model = model.clone();
        self.machine.trace.note(format_args!("n{number}: a backup at batch {seq}, {} bytes", bytes.len()));
        node.backup = Some(NodeBackup { bytes, seq, model, seen });
        Ok(())
    }

    /// The node comes back with an empty disk, or with its backup.
    fn replace(&mut self, number: usize, with_backup: bool) -> Checked {
        let backup = self.nodes[number].backup.take().filter(|_| with_backup);
        if with_backup && backup.is_none() {
            return Ok(());
        }
        let now = self.now();
        let seed = self.machine.plan.seed;
        let node = &mut self.nodes[number];
        node.node.kill();
        (node.image, node.set_back) = (node.image + 1, node.set_back + 1);
        let keeps_lineage = backup.is_some() && self.machine.injects(ORIGIN_REUSED);
        let seed = if keeps_lineage { node.node.plan().seed } else { node_seed(seed, number, node.image) };
        let trace = self.machine.trace.of(&node_name(number));
        let plan = self.plan.of_node(number, seed);
        match backup {
            None => {
                self.counts.imaged += 1;
                node.node = Node::new(plan, trace, now);
                node.seen.clear();
            }
            Some(NodeBackup { bytes, seq, model, seen }) => {
                self.counts.restored += 1;
                node.node = Node::restored(plan, trace, (now, &bytes))?;
                node.node.users_mut().begin_with(seq, model);
                node.seen = seen;
            }
        }
        self.machine.trace.note(format_args!("n{number}: another disk, from a backup: {with_backup}"));
        self.wants_copies.insert(number);
        self.look_at(number)
    }
}
