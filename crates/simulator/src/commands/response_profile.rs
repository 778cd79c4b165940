//! How devices answer: which command is refused, answered late or twice, or not at all, and which
//! devices leave or say nothing ever.

use std::time::Duration;

use crate::random::{Probability, SeededRandom};

/// How devices answer. Each share of the commands is treated in its own way; the others are done
/// and answered once. The seed and a command's id alone decide, so that a command is treated alike
/// each time that it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseProfile {
    /// How long a device takes for its answer.
    pub answer_after: Duration,
    /// Answered with `ok: false`.
    pub refuse: Probability,
    /// Never answered.
    pub silent: Probability,
    /// Answered twice.
    pub twice: Probability,
    /// Answered only after `late_by` more.
    pub late: Probability,
    /// How much later a late answer is.
    pub late_by: Duration,
    /// Not answered: the device breaks its connection, and the others of this connection with it.
    pub leave: Probability,
    /// How long it stays away.
    pub leave_for: Duration,
    /// The share of devices that never answer anything.
    pub mute: Probability,
    /// What chance depends on.
    pub seed: u64,
}

/// What a device does with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reaction {
    /// Whether it is done.
    pub(super) ok: bool,
    /// How often it is answered.
    pub(super) times: u8,
    /// When.
    pub(super) after: Duration,
    /// Whether the device leaves.
    pub(super) leaves: bool,
}

impl ResponseProfile {
    /// Whether the shares leave room for each other.
    #[must_use]
    pub fn fit(&self) -> bool {
        let shares =
            [self.refuse, self.silent, self.twice, self.late, self.leave].map(Probability::per_million);
        shares.iter().sum::<u32>() <= Probability::ALWAYS.per_million()
    }

    /// Whether every command is answered soon.
    #[must_use]
    pub fn answer_all(&self) -> bool {
        [self.silent, self.late, self.leave, self.mute].iter().all(|share| *share == Probability::NEVER)
    }

    /// What becomes of the command with this hash of its id, at this device.
    pub(super) fn reaction(&self, device: u32, command: u64) -> Reaction {
        let once = Reaction { ok: true, times: 1, after: self.answer_after, leaves: false };
        if SeededRandom::part(self.seed, device.into()).happens(self.mute) {
            return Reaction { times: 0, ..once };
        }
        let ways = [
            (self.refuse, Reaction { ok: false, ..once }),
            (self.silent, Reaction { times: 0, ..once }),
            (self.twice, Reaction { times: 2, ..once }),
            (self.late, Reaction { after: self.answer_after + self.late_by, ..once }),
            (self.leave, Reaction { times: 0, leaves: true, ..once }),
        ];
        let drawn = SeededRandom::seeded(self.seed ^ command).below(Probability::ALWAYS.per_million().into());
        let mut edge = 0;
        for (share, reaction) in ways {
            edge += u64::from(share.per_million());
            if drawn < edge {
                return reaction;
            }
        }
        once
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_share_and_a_command_is_treated_alike() {
        let share = |share| Probability::new(share).expect("a share");
        let profile = ResponseProfile {
            answer_after: Duration::from_millis(5),
            refuse: share(0.1),
            silent: share(0.2),
            twice: share(0.3),
            late: share(0.1),
            late_by: Duration::from_secs(1),
            leave: share(0.1),
            leave_for: Duration::ZERO,
            mute: Probability::NEVER,
            seed: 7,
        };
        assert!(profile.fit() && !profile.answer_all());
        assert!(!ResponseProfile { refuse: share(0.5), ..profile }.fit());
        let all: Vec<_> = (0..10_000).map(|command| profile.reaction(3, command)).collect();
        let count = |is: fn(&Reaction) -> bool| all.iter().filter(|reaction| is(reaction)).count();
        let close = |count: usize, to: usize| count.abs_diff(to) < 200;
        assert!(close(count(|reaction| !reaction.ok), 1_000));
        assert!(close(count(|reaction| reaction.times == 0), 3_000));
        assert!(close(count(|reaction| reaction.times == 2), 3_000));
        assert!(close(count(|reaction| reaction.after > Duration::from_secs(1)), 1_000));
        assert!(close(count(|reaction| reaction.leaves), 1_000));
        assert_eq!(profile.reaction(3, 42), profile.reaction(3, 42));
    }

    #[test]
    fn a_mute_device_answers_nothing_and_the_others_everything() {
        let profile = ResponseProfile {
            mute: Probability::new(0.2).expect("a share"),
            seed: 7,
            ..ResponseProfile::default()
        };
        assert!(!profile.answer_all());
        let answers =
            |device| (0..10).filter(|command| profile.reaction(device, *command).times == 1).count();
        assert!((0..1_000).all(|device| [0, 10].contains(&answers(device))));
        let mute = (0..1_000).filter(|device| answers(*device) == 0).count();
        assert!((150..250).contains(&mute), "{mute}");
    }
}
