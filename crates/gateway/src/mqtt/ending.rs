//! Why a connection ends, and what follows: the reason of MQTT 5, the label it is counted under,
//! and whether the will is applied.

use engine::records::DisconnectReason;
use rmqtt_codec::v5::DisconnectReasonCode as Code;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MqttEnding {
    /// The client said goodbye; with MQTT 5 it may ask for its will all the same.
    Goodbye {
        with_will: bool,
        /// In place of what the CONNECT asked for, in seconds (MQTT 5).
        session_expiry_secs: Option<u32>,
    },
    /// The network connection is gone.
    Gone,
    /// Nothing came for one and a half times the keep-alive.
    Silent,
    /// A packet that it began took too long to come.
    Trickling,
    /// It began a large packet, and there is no room for more of these.
    NoRoom,
    /// Another connection came with the same client id; with `clean_start` it does not want the
    /// session.
    TakenOver { clean_start: bool },
    /// Its login has more connections than it may, and this is the oldest of them.
    OverLoginLimit,
    /// The client broke the rules of the protocol.
    Broke(Violation),
    /// The engine accepts nothing more; what is not acknowledged is unknown.
    NotAccepting,
    /// The listener stops.
    Stopping,
}

/// Which rule a client broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    Malformed,
    Protocol,
    PacketTooLarge,
    TopicInvalid,
    TopicAliasInvalid,
    ReceiveMaximumExceeded,
    QuotaExceeded,
    SubscriptionIdNotSupported,
}

impl MqttEnding {
    /// What the client is told with MQTT 5; `None` if there is nobody to tell, or nothing.
    pub(super) fn code(self) -> Option<Code> {
        match self {
            Self::Goodbye { .. } | Self::Gone => None,
            Self::Silent | Self::Trickling => Some(Code::KeepAliveTimeout),
            Self::TakenOver { .. } => Some(Code::SessionTakenOver),
            Self::OverLoginLimit => Some(Code::QuotaExceeded),
            Self::Broke(violation) => Some(violation.code()),
            Self::NoRoom | Self::NotAccepting => Some(Code::ServerBusy),
            Self::Stopping => Some(Code::ServerShuttingDown),
        }
    }

    /// Whether the session may outlive the connection: not when the server stops, nor when the
    /// login is over its limit, which counts waiting sessions too.
    pub(super) fn leaves_session(self) -> bool {
        !matches!(self, Self::NotAccepting | Self::Stopping | Self::OverLoginLimit)
    }

    /// The reason that the timeline of a device shows.
    pub(super) fn reason(self) -> DisconnectReason {
        match self {
            Self::Goodbye { .. } => DisconnectReason::ClientDisconnect,
            Self::Gone => DisconnectReason::ConnectionLost,
            Self::Silent | Self::Trickling => DisconnectReason::KeepAlive,
            Self::TakenOver { .. } => DisconnectReason::TakenOver,
            Self::NoRoom | Self::OverLoginLimit => DisconnectReason::Kicked,
            Self::Broke(_) => DisconnectReason::ProtocolError,
            Self::NotAccepting | Self::Stopping => DisconnectReason::ServerStopped,
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Goodbye { .. } => "goodbye",
            Self::Gone => "gone",
            Self::Silent => "keep_alive",
            Self::Trickling => "packet_too_slow",
            Self::NoRoom => "no_room",
            Self::TakenOver { .. } => "taken_over",
            Self::OverLoginLimit => "outnumbered",
            Self::Broke(violation) => violation.label(),
            Self::NotAccepting => "not_accepting",
            Self::Stopping => "stopping",
        }
    }

    /// A will speaks of a client that was lost. When it is the server that goes, nothing is known
    /// of the client.
    pub(super) fn applies_will(self) -> bool {
        match self {
            Self::Goodbye { with_will, .. } => with_will,
            Self::Gone
            | Self::Silent
            | Self::Trickling
            | Self::NoRoom
            | Self::TakenOver { .. }
            | Self::OverLoginLimit
            | Self::Broke(_) => true,
            Self::NotAccepting | Self::Stopping => false,
        }
    }
}

impl Violation {
    fn code(self) -> Code {
        match self {
            Self::Malformed => Code::MalformedPacket,
            Self::Protocol => Code::ProtocolError,
            Self::PacketTooLarge => Code::PacketTooLarge,
            Self::TopicInvalid => Code::TopicNameInvalid,
            Self::TopicAliasInvalid => Code::TopicAliasInvalid,
            Self::ReceiveMaximumExceeded => Code::ReceiveMaximumExceeded,
            Self::QuotaExceeded => Code::QuotaExceeded,
            Self::SubscriptionIdNotSupported => Code::SubscriptionIdentifiersNotSupported,
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Protocol => "protocol_error",
            Self::PacketTooLarge => "packet_too_large",
            Self::TopicInvalid => "topic_invalid",
            Self::TopicAliasInvalid => "topic_alias_invalid",
            Self::ReceiveMaximumExceeded => "receive_maximum_exceeded",
            Self::QuotaExceeded => "quota_exceeded",
            Self::SubscriptionIdNotSupported => "subscription_id_not_supported",
        }
    }
}

impl From<Violation> for MqttEnding {
    fn from(violation: Violation) -> Self {
        Self::Broke(violation)
    }
}

impl From<engine::intake::NotAccepting> for MqttEnding {
    fn from(_: engine::intake::NotAccepting) -> Self {
        Self::NotAccepting
    }
}
