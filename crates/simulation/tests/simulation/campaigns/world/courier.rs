//! The courier: it carries orders to the fleet, and tells the machine what came of them, what
//! devices did, and which were found. Nothing of it outlives the process.

use engine::campaigns::{CampaignsInput, PickReport, PickUpdate};
use engine::kernel::reply::Reply;

use super::{Answer, Then, World};
use crate::harness::calls::Waiting;
use crate::harness::violation::Checked;

/// Orders and moves that are carried at a time.
const CARRIED_MAX: usize = 20;

impl World {
    /// Something is carried. Whether there was anything.
    pub(super) fn carry(&mut self) -> Checked<bool> {
        self.take_messages();
        if !self.has_room() {
            return Ok(false);
        }
        let Some(server) = &mut self.server else { return Ok(false) };
        let count = |waiting: usize| waiting.min(CARRIED_MAX);
        if let Some(search) = server.searches.pop_front() {
            let found = self.find(search.terms.devices.as_deref(), search.terms.spread_by.is_some());
            return Ok(self.tell(PickUpdate::Found(search.task, found)));
        }
        if !server.orders.is_empty() {
            let orders: Vec<_> = server.orders.drain(..count(server.orders.len())).collect();
            let mut reports = Vec::new();
            for order in orders {
                self.machine.trace.note(format_args!("{:?} {:?} {}", order.what, order.task, order.number));
                let outcome = self.carry_out(&order)?;
                reports.push(PickReport { task: order.task, number: order.number, outcome });
            }
            return Ok(self.tell(PickUpdate::Reported(reports)));
        }
        if !server.moves.is_empty() {
            let moves = server.moves.drain(..count(server.moves.len())).collect();
            return Ok(self.tell(PickUpdate::Moved(moves)));
        }
        match server.updates.pop_front() {
            Some(update) => Ok(self.tell(update)),
            None => Ok(false),
        }
    }

    /// What the machine has for others since this was last asked.
    fn take_messages(&mut self) {
        let Some(server) = &mut self.server else { return };
        let messages = server.context.take_pick_messages();
        server.orders.extend(messages.to_partitions.into_values().flatten().flatten());
        server.updates.extend(messages.to_machine);
        server.searches.extend(server.context.take_pick_searches());
    }

    fn tell(&mut self, update: PickUpdate) -> bool {
        let (reply, receiver) = Reply::new();
        let input = CampaignsInput::Update(update, reply);
        self.ask(input, Waiting::on(receiver, |()| Answer::Kept), Then::Nothing)
    }
}
