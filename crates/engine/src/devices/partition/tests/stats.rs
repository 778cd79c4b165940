//! What metrics show of a partition's devices and notifications.

use super::*;

#[test]
fn devices_are_shown_by_their_connection_and_deliveries_while_they_are_pending() {
    let mut rig = Rig::linked();
    assert_eq!(rig.shown(), [1, 0, 0, 0]);
    rig.report("0xA", number(1));
    assert_eq!(rig.shown(), [0, 1, 0, 1], "the change is to be told");
    let due = rig.lease_one();
    assert_eq!(rig.shown(), [0, 1, 0, 1], "it is under way");
    rig.report("0xA", number(0));
    assert_eq!(rig.shown(), [0, 1, 0, 2], "another one waits for its end");
    rig.ended(&due, status(204));
    assert_eq!(rig.shown(), [0, 1, 0, 1]);
    rig.restart();
    rig.attend();
    assert_eq!(rig.shown(), [0, 1, 0, 1], "a start finds what there was");
    rig.create("0xB").expect("registered");
    rig.pass_slowly(HOUR + SECOND);
    assert_eq!(rig.shown()[..3], [0, 0, 2]);
    rig.delete("0xA").expect("deleted");
    assert_eq!(rig.shown(), [0, 0, 1, 0], "what was to be told of it is not told any more");
}
