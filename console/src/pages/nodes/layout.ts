/**
 * The picture of the nodes: this one in the middle, the others in columns beside it (in a narrow
 * window on one side), a lane for each copy. Lanes never share a line, so their texts never meet.
 * Everything is in px of the picture, which is as wide as its place.
 */

/** What the picture knows of a copy. */
export interface DrawnCopy {
  key: string;
  node: string;
  direction: "to" | "from";
  tone: "ok" | "warn" | "bad" | "plain";
  paused: boolean;
  /** What its lane says: the stream, and how far behind. */
  name: string;
  lag: string;
  /** The same where there is little room. */
  short: string;
  /** The whole of it, for a pointer. */
  title: string;
}

/** One arrow: a copy, or several of one direction where a node has too many. */
export interface Lane extends DrawnCopy {
  /** Of the line, from this node to the other. */
  path: string;
  head: string;
  text: { x: number; y: number; anchor: "start" | "end"; shown: string };
}

export interface NodeBox {
  name: string;
  shown: string;
  x: number;
  y: number;
  width: number;
  height: number;
  lanes: Lane[];
}

export interface NodePicture {
  width: number;
  height: number;
  hub: { x: number; y: number; width: number; height: number };
  /** The line of its name. */
  hubText: number;
  peers: NodeBox[];
}

/** Lanes that a node has before those of one direction become one. */
const LANES_MAX = 6;
const [LANE_PX, BOX_PX_MIN, GAP_PX, EDGE_PX] = [26, 50, 16, 8];
const HEAD_PX = 8;
/** A letter of the lanes' texts, on average. */
const LETTER_PX = 6.6;
const NARROW_PX = 640;
/** Two columns from so many nodes on. */
const COLUMNS_FROM = 2;

type Tone = DrawnCopy["tone"];
const WORST: readonly Tone[] = ["bad", "warn", "ok", "plain"];

/** `text`, shortened to a width. */
export function fitted(text: string, px: number, letter = LETTER_PX): string {
  const letters = [...text];
  const room = Math.max(1, Math.floor(px / letter));
  return letters.length <= room ? text : `${letters.slice(0, Math.max(1, room - 1)).join("")}…`;
}

/** The arrows of a node: a copy each, or one for each direction with the worst state of its copies. */
export function lanesOf(copies: readonly DrawnCopy[]): DrawnCopy[] {
  if (copies.length <= LANES_MAX) return [...copies];
  return (["to", "from"] as const).flatMap((direction) => {
    const of = copies.filter((copy) => copy.direction === direction);
    if (of.length <= 1) return of;
    const tone = WORST.find((tone) => of.some((copy) => copy.tone === tone)) ?? "plain";
    const worst = of.filter((copy) => copy.tone === tone);
    const said = tone === "bad" ? ["fails", "fail"] : tone === "warn" ? ["waits", "wait"] : undefined;
    const rest = said === undefined ? "" : `${worst.length} ${said[worst.length === 1 ? 0 : 1] ?? ""}`;
    return [{
      key: `${of[0]?.node ?? ""} ${direction}`, node: of[0]?.node ?? "", direction, tone, paused: of.every(({ paused }) => paused),
      name: `${of.length} copies`, lag: rest, short: rest || `${of.length} copies`, title: of.map(({ title }) => title).join("\n"),
    }];
  });
}

/** Where everything is. `names` are the other nodes, in order. */
export function placed(names: readonly string[], copies: readonly DrawnCopy[], width: number): NodePicture {
  const narrow = width < NARROW_PX;
  const sides = narrow || names.length < COLUMNS_FROM ? 1 : 2;
  const box = narrow ? Math.min(112, width * 0.34) : 156;
  const hubWidth = narrow ? Math.min(76, width * 0.23) : 112;
  const waiting = names.map((name) => {
    const lanes = lanesOf(copies.filter(({ node }) => node === name));
    return { name, lanes, height: Math.max(BOX_PX_MIN, lanes.length * LANE_PX + 10) };
  });
  const columns = split(waiting, sides);
  const height = Math.max(BOX_PX_MIN + 30, ...columns.map(tall)) + 2 * EDGE_PX;
  const hubHeight = Math.min(height - 2 * EDGE_PX, Math.max(72, ...columns.map((column) => column.reduce((sum, { lanes }) => sum + lanes.length, 0) * 9 + 24)));
  // In a narrow window this node stands beside all others, so that no arrow bends.
  const hubTall = narrow ? height - 2 * EDGE_PX : hubHeight;
  const hub = { x: sides === 1 ? EDGE_PX : (width - hubWidth) / 2, y: (height - hubTall) / 2, width: hubWidth, height: hubTall };
  const peers = columns.flatMap((column, side) => {
    const isLeft = side === 1;
    const x = isLeft ? EDGE_PX : width - EDGE_PX - box;
    return inColumn(column, height).map(({ node, y }) => ({
      name: node.name, shown: fitted(node.name, box - 20, 8), x, y, width: box, height: node.height, lanes: [] as Lane[], waits: node.lanes, isLeft,
    }));
  });
  for (const isLeft of [false, true]) {
    const lanes = peers.filter((peer) => peer.isLeft === isLeft).flatMap((peer) => peer.waits.map((copy, n) => ({ peer, copy, n })));
    const step = Math.min(18, (hub.height - 16) / Math.max(1, lanes.length));
    const first = hub.y + hub.height / 2 - (step * (lanes.length - 1)) / 2;
    lanes.forEach(({ peer, copy, n }, at) => {
      const y = peer.y + peer.height / 2 + (n - (peer.waits.length - 1) / 2) * LANE_PX;
      const ends = { hubX: isLeft ? hub.x : hub.x + hub.width, hubY: narrow ? y : first + at * step, peerX: isLeft ? peer.x + peer.width : peer.x, peerY: y };
      peer.lanes.push(laneOf(copy, ends, isLeft, narrow));
    });
  }
  return { width, height, hub, hubText: narrow ? hub.y + Math.min(hub.height / 2, BOX_PX_MIN) : hub.y + hub.height / 2, peers: peers.map(({ waits: _, isLeft: __, ...peer }) => peer) };
}

interface Ends {
  hubX: number;
  hubY: number;
  peerX: number;
  peerY: number;
}

/** A line that is straight at the other node, where its text is, and bends towards this one. */
function laneOf(copy: DrawnCopy, { hubX, hubY, peerX, peerY }: Ends, isLeft: boolean, narrow: boolean): Lane {
  const away = isLeft ? -1 : 1;
  const between = Math.abs(peerX - hubX);
  const straight = between * (narrow ? 0.72 : 0.8);
  const bendX = peerX - away * straight;
  const middle = (hubX + bendX) / 2;
  const isTo = copy.direction === "to";
  const path = `M${px(hubX)} ${px(hubY)}C${px(middle)} ${px(hubY)} ${px(middle)} ${px(peerY)} ${px(bendX)} ${px(peerY)}H${px(peerX)}`;
  const [tipX, tipY, back] = isTo ? [peerX, peerY, -away * HEAD_PX] : [hubX, hubY, away * HEAD_PX];
  const head = `M${px(tipX)} ${px(tipY)}l${px(back)} -4.5v9z`;
  const room = straight - HEAD_PX - 6;
  const shown = narrow ? fitted(copy.short, room) : textOf(copy, room);
  return { ...copy, path, head, text: { x: peerX - away * (HEAD_PX + 4), y: peerY - 5, anchor: isLeft ? "start" : "end", shown } };
}

/** The stream and how far behind. Of a long name its namespace goes first, then its end. */
function textOf({ name, lag }: DrawnCopy, room: number): string {
  const joined = (part: string): string => [part, lag].filter((one) => one !== "").join(" · ");
  const last = name.slice(name.lastIndexOf("/") + 1);
  const fits = [name, last].find((part) => joined(part).length * LETTER_PX <= room);
  return joined(fits ?? fitted(last, room - (lag.length + 3) * LETTER_PX));
}

function px(n: number): string {
  return String(Math.round(n * 10) / 10);
}

interface Sized {
  height: number;
}

function tall(column: readonly Sized[]): number {
  return column.reduce((sum, { height }) => sum + height + GAP_PX, -GAP_PX);
}

/** Into as many columns, about as tall as one another; the order is kept. */
function split<T extends Sized>(nodes: readonly T[], sides: number): T[][] {
  if (sides === 1) return [[...nodes]];
  const whole = tall(nodes);
  let cut = 1;
  while (cut < nodes.length && tall(nodes.slice(0, cut)) < whole / 2 - GAP_PX) cut += 1;
  return [nodes.slice(0, cut), nodes.slice(cut)];
}

/** One below the other, with the rest of the height between and around them. */
function inColumn<T extends Sized>(column: readonly T[], height: number): { node: T; y: number }[] {
  const spare = (height - 2 * EDGE_PX - tall(column)) / (column.length + 1);
  let y = EDGE_PX + spare;
  return column.map((node) => {
    const at = { node, y };
    y += node.height + GAP_PX + spare;
    return at;
  });
}
