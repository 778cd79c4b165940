//! Why a connection ended or was not made, as a word for the metrics and advice for the operator.

use engine::intake::NotAccepting;
use lapin::ErrorKind;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};

/// The end of a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum AmqpEnding {
    /// The server stops.
    #[error("the server stops")]
    Stopping,
    /// The engine takes nothing in.
    #[error(transparent)]
    NotAccepting(#[from] NotAccepting),
    /// RabbitMQ cancelled the consumer: the queue was deleted, or its node went away.
    #[error("RabbitMQ cancelled the consumer; was the queue deleted?")]
    Cancelled,
    /// RabbitMQ did not finish the handshake.
    #[error("RabbitMQ did not answer in time")]
    TimedOut,
    /// The connection or its channel broke or was closed by RabbitMQ.
    #[error(transparent)]
    Broken(#[from] lapin::Error),
}

impl AmqpEnding {
    /// For the metrics.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Stopping => "stopping",
            Self::NotAccepting(_) => "not_accepting",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Broken(error) => match error.kind() {
                ErrorKind::ProtocolError(error) => match error.kind() {
                    AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)
                    | AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => "refused",
                    AMQPErrorKind::Soft(_) => "channel_closed",
                    AMQPErrorKind::Hard(_) => "connection_closed",
                },
                ErrorKind::MissingHeartbeatError => "silent",
                _ => "broken",
            },
        }
    }

    /// What the operator may do about it.
    pub(super) fn advice(&self) -> &'static str {
        let Self::Broken(error) = self else { return "nothing, if it is rare" };
        let ErrorKind::ProtocolError(error) = error.kind() else {
            return "is RabbitMQ running, and do host and port of amqp.url lead to it?";
        };
        match error.kind() {
            AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => {
                "look at user and password in amqp.url, and at that user's permissions on the queue"
            }
            AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => {
                "look at the virtual host in amqp.url: / is written %2f; may that user enter it?"
            }
            AMQPErrorKind::Hard(AMQPHardError::CONNECTIONFORCED) => {
                "nothing, if RabbitMQ was stopped on purpose"
            }
            _ => "look at the log of RabbitMQ",
        }
    }
}

/// Whether a queue is not there.
pub(super) fn is_not_found(error: &lapin::Error) -> bool {
    let ErrorKind::ProtocolError(error) = error.kind() else { return false };
    matches!(error.kind(), AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND))
}

#[cfg(test)]
mod tests {
    use lapin::protocol::AMQPError;

    use super::*;

    fn protocol(kind: AMQPErrorKind) -> lapin::Error {
        ErrorKind::ProtocolError(AMQPError::new(kind, "said".into())).into()
    }

    #[test]
    fn every_ending_has_its_word() {
        let io = lapin::Error::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        for (ending, word) in [
            (AmqpEnding::Stopping, "stopping"),
            (AmqpEnding::NotAccepting(NotAccepting), "not_accepting"),
            (AmqpEnding::Cancelled, "cancelled"),
            (AmqpEnding::TimedOut, "timed_out"),
            (io.into(), "broken"),
            (lapin::Error::from(ErrorKind::MissingHeartbeatError).into(), "silent"),
            (protocol(AMQPSoftError::ACCESSREFUSED.into()).into(), "refused"),
            (protocol(AMQPHardError::NOTALLOWED.into()).into(), "refused"),
            (protocol(AMQPSoftError::PRECONDITIONFAILED.into()).into(), "channel_closed"),
            (protocol(AMQPHardError::CONNECTIONFORCED.into()).into(), "connection_closed"),
        ] {
            assert_eq!(ending.word(), word);
        }
    }

    #[test]
    fn advice_names_the_setting_to_look_at() {
        let refused = AmqpEnding::from(protocol(AMQPSoftError::ACCESSREFUSED.into()));
        assert!(refused.advice().contains("password in amqp.url"));
        let no_such_host = AmqpEnding::from(protocol(AMQPHardError::NOTALLOWED.into()));
        assert!(no_such_host.advice().contains("virtual host"));
    }

    #[test]
    fn only_a_queue_that_is_not_there_is_not_found() {
        assert!(is_not_found(&protocol(AMQPSoftError::NOTFOUND.into())));
        assert!(!is_not_found(&protocol(AMQPSoftError::ACCESSREFUSED.into())));
    }
}
