/** Why something was told: every item of a timeline in one plain sentence. */
import type { Shape } from "./api";
import { isDelivered } from "./deliveries";
import { spanOf } from "./durations";

export type TimelineItem = Shape<"TimelineItem">;
type Detail = TimelineItem["detail"];

const VALUE_CHARS_MAX = 120;

/** A value as a short text. */
export function valueText(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > VALUE_CHARS_MAX ? `${text.slice(0, VALUE_CHARS_MAX)}…` : text;
}

const DISCONNECT_REASONS: Record<NonNullable<Detail["reason"]>, string> = {
  client_disconnect: "It disconnected",
  connection_lost: "Its connection broke",
  keep_alive: "It was silent for longer than its keep alive, and was disconnected",
  taken_over: "Another connection came with its client id, and took its place",
  server_stopped: "The server stopped, and its connection with it",
  kicked: "It was disconnected by an administrator",
  protocol_error: "It was disconnected, because it broke the protocol",
};

const ERRORS: Record<NonNullable<Detail["error"]>, string> = {
  interrupted: "was interrupted, because the server stopped",
  address_refused: "was not made: the receiver's address is not allowed",
  name_unresolved: "failed: the receiver's name has no address",
  connect_failed: "failed: nobody answers at the receiver's address",
  tls_failed: "failed: no secure connection came about",
  timed_out: "failed: the receiver did not answer in time",
  connection_broken: "failed: the connection broke",
  tls_untrusted: "failed: the receiver's certificate is not trusted",
  tls_expired: "failed: the receiver's certificate has ended",
  tls_wrong_name: "failed: the receiver's certificate is for another name",
  tls_not_spoken: "failed: the receiver does not speak TLS",
};

/** The sentence of an item, with its full stop. */
export function explained({ type, detail }: TimelineItem): string {
  const tries = detail.tries ?? 0;
  switch (type) {
    case "device.changed":
      return detail.previous === null || detail.previous === undefined
        ? `It reported its first value, ${valueText(detail.value)}: its clients are told.`
        : `Its value changed from ${valueText(detail.previous)} to ${valueText(detail.value)}: its clients are told.`;
    case "device.lost":
      return "It was silent for longer than it may be, and counts as lost: its clients are told.";
    case "device.restored":
      return "It was heard of again after it was lost: its clients are told.";
    case "connected":
      return `It connected${detail.address ? ` from ${detail.address}` : ""}.`;
    case "disconnected":
      return disconnected(detail);
    case "delivery.attempt":
      return attempted(detail);
    case "delivery.delivered":
      return "A client received the notification.";
    case "delivery.failed":
      return "The notification was given up: no attempt got through.";
    case "delivery.superseded":
      return "A newer notification took the place of one that had not got through.";
    case "delivery.cancelled":
      return "The notification was cancelled: the client is no longer told of this device.";
    case "link.added":
      return `Client ${detail.client_id ?? ""} is told of this device from here on.`;
    case "link.removed":
      return `Client ${detail.client_id ?? ""} is no longer told of this device.`;
    case "command.scheduled":
      return "A command was accepted and waits for its turn.";
    case "command.published":
      return tries > 1 ? `The command went out again, for the ${ordinal(tries)} time.` : "The command went out to the device.";
    case "command.running":
      return "The device says that it is at work on the command.";
    case "command.acknowledged":
      return "The device carried out the command.";
    case "command.failed":
      return tries > 1 ? `The command failed: ${tries} tries.` : "The command failed.";
    case "command.expired":
      return "The command's time was over before the device did it.";
    case "command.superseded":
      return "A newer command with the same key took the place of this one.";
    case "command.cancelled":
      return "The command was cancelled.";
  }
}

function disconnected({ reason, duration_ms }: Detail): string {
  const why = reason === undefined ? "It disconnected" : DISCONNECT_REASONS[reason];
  return duration_ms == null ? `${why}.` : `${why}, after ${spanOf(duration_ms)}.`;
}

function attempted(detail: Detail): string {
  const { status_code, error, duration_ms } = detail;
  const after = duration_ms == null ? "" : ` (${spanOf(duration_ms)})`;
  if (error != null) return `An attempt to tell a client ${ERRORS[error]}${after}.`;
  return isDelivered(detail)
    ? `A client was told, and took it with ${status_code}${after}.`
    : `A client was told, and refused it with ${status_code}${after}.`;
}

function ordinal(n: number): string {
  const ending = n % 100 > 10 && n % 100 < 14 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
  return `${n}${ending}`;
}

/** Tells one item from another: items have no id of their own. */
export function keyOfItem({ at, type, detail }: TimelineItem): string {
  return `${at} ${type} ${JSON.stringify(detail)}`;
}
