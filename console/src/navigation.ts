/**
 * The sidebar, in order. An item is shown once a page has its path and the caller may see it; those
 * that have no page yet keep their place here.
 */
export interface NavItem {
  path: string;
  title: string;
  /** Pressed after `g`, goes there. */
  key: string;
  group: "Fleet" | "Delivery" | "Server";
}

export const navItems: readonly NavItem[] = [
  { path: "/", title: "Overview", key: "o", group: "Fleet" },
  { path: "/devices", title: "Devices", key: "d", group: "Fleet" },
  { path: "/fleet", title: "Fleet", key: "f", group: "Fleet" },
  { path: "/events", title: "Events", key: "v", group: "Fleet" },
  { path: "/commands", title: "Commands", key: "c", group: "Fleet" },
  { path: "/rollouts", title: "Rollouts", key: "r", group: "Fleet" },
  { path: "/tasks", title: "Tasks", key: "k", group: "Fleet" },
  { path: "/campaigns", title: "Campaigns", key: "a", group: "Fleet" },
  { path: "/clients", title: "Clients", key: "l", group: "Delivery" },
  { path: "/deliveries", title: "Deliveries", key: "e", group: "Delivery" },
  { path: "/queues", title: "Queues", key: "q", group: "Delivery" },
  { path: "/streams", title: "Streams", key: "t", group: "Delivery" },
  { path: "/coordination", title: "Coordination", key: "m", group: "Delivery" },
  { path: "/relays", title: "Relays", key: "y", group: "Delivery" },
  { path: "/quarantine", title: "Quarantine", key: "u", group: "Delivery" },
  { path: "/operations", title: "Operations", key: "p", group: "Server" },
  { path: "/notices", title: "Notices", key: "n", group: "Server" },
  { path: "/nodes", title: "Nodes", key: "i", group: "Server" },
  { path: "/system", title: "System", key: "s", group: "Server" },
];
