//! What is broken on purpose in runs with several nodes.

use crate::harness::fault_injection::InjectedFault;

pub(super) const ANSWERED_WHEN_TAKEN: InjectedFault =
    InjectedFault::Around("a peer answers messages when it takes them, before they are durable");
pub(super) const NOT_ASKED_DURABLE: InjectedFault =
    InjectedFault::Around("a peer takes messages in the save mode of its stream");
pub(super) const UNSAVED_COPIED: InjectedFault =
    InjectedFault::Around("copies read messages that are not durable");
pub(super) const ORIGIN_REUSED: InjectedFault =
    InjectedFault::Around("a restored node keeps the lineage of its backup");
pub(super) const ORIGIN_NOT_SENT: InjectedFault =
    InjectedFault::Around("messages without a source are sent without one");
pub(super) const RESET_NOT_NOTICED: InjectedFault =
    InjectedFault::Around("streams are called by the name of their node alone");
pub(super) const COPIES_NOT_WAITED_FOR: InjectedFault =
    InjectedFault::Around("streams are told not to keep what is not copied");
pub(super) const RECEIPT_BEFORE_ANSWER: InjectedFault =
    InjectedFault::Around("receipts name every node that is copied to");
pub(super) const POSITION_FORGOTTEN: InjectedFault =
    InjectedFault::Around("a page is said to reach further than its messages");
pub(super) const REPORTS_WITHOUT_IDS: InjectedFault =
    InjectedFault::Around("reports go to the centre without ids");
pub(super) const GATHERED_TAKEN_AT_ONCE: InjectedFault =
    InjectedFault::Around("gathered reports go before their stream has them");
