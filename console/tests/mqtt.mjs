/** Devices that are connected over MQTT 3.1.1 and answer what they are asked. As much of it as that takes. */
import { connect } from "node:net";
import { once } from "node:events";

const [CONNECT, CONNACK, PUBLISH, SUBSCRIBE, SUBACK] = [0x10, 0x20, 0x30, 0x82, 0x90];

/**
 * Connects devices of a site; each answers with what `answer(id, payload)` gives: `{ ok, result }`, or
 * nothing. They are connected once this has returned, until `t` is over.
 */
export async function probes(t, site, ids, answer, kind = "lock") {
  const sockets = await Promise.all(ids.map((id) => probe(site, id, kind, answer)));
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  return sockets;
}

async function probe(site, id, kind, answer) {
  const [host, port] = site.mqtt.split(":");
  const socket = connect(Number(port), host);
  await once(socket, "connect");
  const [down, up] = [`dev/${kind}/${id}`, `dev/${kind}/${id}/ack`];
  const said = new Map();
  const hears = (type) => new Promise((heard) => said.set(type, heard));
  let rest = Buffer.alloc(0);
  socket.on("error", () => {});
  socket.on("data", (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    for (let packet = first(rest); packet !== undefined; packet = first(rest)) {
      rest = rest.subarray(packet.length);
      said.get(packet.type & 0xf0)?.();
      if ((packet.type & 0xf0) === PUBLISH) {
        const { message_id, payload } = JSON.parse(payloadOf(packet));
        const given = answer(id, payload);
        if (given !== undefined) socket.write(framed(PUBLISH, text(up), Buffer.from(JSON.stringify({ message_id, ...given }))));
      }
    }
  });
  const connected = hears(CONNACK);
  socket.write(framed(CONNECT, text("MQTT"), Buffer.from([4, 2, 0, 0]), text(id)));
  await connected;
  const subscribed = hears(SUBACK);
  socket.write(framed(SUBSCRIBE, Buffer.from([0, 1]), text(down), Buffer.from([0])));
  await subscribed;
  return socket;
}

function text(given) {
  const bytes = Buffer.from(given);
  return Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 255]), bytes]);
}

function framed(type, ...parts) {
  const body = Buffer.concat(parts);
  const length = [];
  for (let left = body.length; length.length === 0 || left > 0; left >>= 7) length.push((left & 127) | (left > 127 ? 128 : 0));
  return Buffer.concat([Buffer.from([type, ...length]), body]);
}

/** The first whole packet of what has come. */
function first(bytes) {
  let [length, at] = [0, 1];
  for (; at < bytes.length; at += 1) {
    length |= (bytes[at] & 127) << (7 * (at - 1));
    if (bytes[at] < 128) break;
  }
  const whole = at + 1 + length;
  return at < bytes.length && bytes.length >= whole ? { type: bytes[0], body: bytes.subarray(at + 1, whole), length: whole } : undefined;
}

/** Of a message without an id: the subscription has QoS 0. */
function payloadOf({ body }) {
  return body.subarray(2 + body.readUInt16BE(0)).toString();
}
