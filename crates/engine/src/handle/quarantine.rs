//! Refused messages on their way to the quarantine: those of a slice may be more than one batch
//! takes.

use crate::devices::input::RefusedMessage;

/// Bytes that the messages of one input may have together; one at least goes with each.
const BYTES_PER_INPUT: usize = 1 << 20;

/// Messages in order, as many together as one input takes.
pub(super) fn pieces(messages: Vec<RefusedMessage>) -> Vec<Vec<RefusedMessage>> {
    let (mut pieces, mut bytes) = (Vec::<Vec<RefusedMessage>>::new(), 0);
    for message in messages {
        bytes += message.payload.len();
        match pieces.last_mut().filter(|_| bytes <= BYTES_PER_INPUT) {
            Some(piece) => piece.push(message),
            None => {
                bytes = message.payload.len();
                pieces.push(vec![message]);
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use base::Problem;

    use super::*;

    fn message(bytes: usize) -> RefusedMessage {
        RefusedMessage {
            routing: 0,
            device: None,
            topic: None,
            problem: Problem::unreadable("not JSON"),
            payload: vec![0; bytes],
            cut: false,
        }
    }

    #[test]
    fn no_input_has_more_than_it_may_and_the_order_stays() {
        let sizes = [10, BYTES_PER_INPUT, BYTES_PER_INPUT / 2, BYTES_PER_INPUT / 2, 1, BYTES_PER_INPUT + 1];
        let pieces = pieces(sizes.into_iter().map(message).collect());
        let sizes_of = |piece: &Vec<RefusedMessage>| -> Vec<usize> {
            piece.iter().map(|message| message.payload.len()).collect()
        };
        let half = BYTES_PER_INPUT / 2;
        let expected =
            [vec![10], vec![BYTES_PER_INPUT], vec![half, half], vec![1], vec![BYTES_PER_INPUT + 1]];
        assert_eq!(pieces.iter().map(sizes_of).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn without_a_message_there_is_no_input() {
        assert!(pieces(Vec::new()).is_empty());
    }
}
