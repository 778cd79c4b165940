//! What a seed decides of a run with tasks and campaigns before it begins. The faults of the
//! machine are those of every run.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::random::Random;
use engine::EngineSettings;
use engine::settings::CampaignSettings;

use crate::devices::plan::machine_of;
use crate::harness::workload;

/// How often the scheduler picks what goes on around the machine of campaigns, relative to each
/// other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    /// Tasks that are begun and cancelled.
    pub(crate) tasks: u64,
    /// Campaigns that are made, changed, paused, resumed and removed.
    pub(crate) campaigns: u64,
    /// The courier.
    pub(crate) carry: u64,
    /// What devices do with their commands.
    pub(crate) devices: u64,
    /// Sessions that begin and end; none where all devices stay.
    pub(crate) presence: u64,
    /// Devices that are deleted.
    pub(crate) deletions: u64,
}

/// A fleet, and those who ask for tasks and campaigns.
#[derive(Clone)]
pub(crate) struct CampaignsPlan {
    pub(crate) settings: Arc<EngineSettings>,
    pub(crate) weights: Weights,
    pub(crate) devices: u64,
    /// Campaigns at a time.
    pub(crate) campaigns: u64,
    /// Some tasks and campaigns are spread over values.
    pub(crate) spreads: bool,
    /// Some campaigns are panels.
    pub(crate) panels: bool,
}

/// A run.
pub(crate) type Plan = workload::Plan<CampaignsPlan>;

/// A token whose picks are bounded, one whose picks are not, and one that is not configured.
pub(crate) const TOKEN: &str = "lab";
pub(crate) const UNBOUND_TOKEN: &str = "ops";
pub(crate) const GONE_TOKEN: &str = "gone";
/// A selection is all devices, or one of the halves.
pub(crate) const HALVES: u32 = 2;
/// Values of what picks are spread over.
pub(crate) const VALUES: u32 = 3;
/// Most groups of devices that are always in the same selections, and have the same value.
pub(crate) const GROUPS_MAX: usize = (HALVES * VALUES) as usize;

/// Steps of a run before it becomes quiet.
const STEPS: u64 = 700;

impl Plan {
    /// The run of `seed`.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0000_ca3a_1675_0000);
        let (mut machine, settings) = machine_of(seed);
        machine.steps = STEPS / 2 + random.below(STEPS);
        machine.partitions = 1;
        // What devices had is not taken by the power, which fails the machine of campaigns alone.
        machine.syncs_later = None;
        let rate = random.chance(1, 4).then(|| 1 + random.below(50) as u32);
        let device_picks_per_hour = random.chance(1, 6).then(|| 1 + random.below(6) as u32);
        let token_picks_per_hour = match random.chance(1, 2) {
            true => [(TOKEN.into(), Some(1 + random.below(60) as u32)), (UNBOUND_TOKEN.into(), None)].into(),
            false => BTreeMap::new(),
        };
        let campaigns = CampaignSettings {
            rate,
            device_picks_per_hour,
            token_picks_per_hour,
            ..CampaignSettings::default()
        };
        let settings = EngineSettings { campaigns, ..(*settings).clone() };
        let weights = Weights {
            tasks: 20 + random.below(80),
            campaigns: 10 + random.below(40),
            carry: 200 + random.below(300),
            devices: 100 + random.below(300),
            presence: if random.chance(3, 5) { 0 } else { 20 + random.below(80) },
            deletions: if random.chance(1, 2) { 0 } else { 1 + random.below(20) },
        };
        let (spreads, panels) = (random.chance(1, 3), random.chance(1, 3));
        let (devices, campaigns) = (2 + random.below(30), 1 + random.below(5));
        let workload =
            CampaignsPlan { settings: Arc::new(settings), weights, devices, campaigns, spreads, panels };
        Self { machine, workload }
    }
}

impl CampaignsPlan {
    /// All devices are there whenever the process is, and answer.
    pub(crate) fn all_stay(&self) -> bool {
        self.weights.presence == 0
    }

    /// Whether picks of devices that are always in the same selections differ by at most 1. Panels
    /// pick the same again, and quotas leave devices out.
    pub(crate) fn is_fair(&self) -> bool {
        self.all_stay() && !self.panels && !self.bounds_devices()
    }

    /// Whether a device may have only so many picks in an hour.
    pub(crate) fn bounds_devices(&self) -> bool {
        self.settings.campaigns.device_picks_per_hour.is_some()
    }

    /// Devices whose numbers leave the same rest by this are always in the same selections, and
    /// have the same value.
    pub(crate) fn groups(&self) -> u32 {
        if self.spreads { HALVES * VALUES } else { HALVES }
    }
}
