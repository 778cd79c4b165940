/**
 * Every page: a line here, and a file below pages/. A page is loaded when it is shown first. `permission`
 * is what the caller must have for it to be offered. The values of `:names` in the path come
 * as properties of the component.
 */
import type { Component } from "svelte";
import type { Permission } from "./lib/caller.svelte";

export interface PageRoute {
  path: string;
  title: string;
  permission: Permission;
  load: () => Promise<{ default: Component<Record<string, string>> }>;
}

// Components say themselves which properties they take: the names in their paths.
type AnyComponent = Component<any>;

function page(path: string, title: string, permission: Permission, load: () => Promise<{ default: AnyComponent }>): PageRoute {
  return { path, title, permission, load };
}

export const pages: readonly PageRoute[] = [
  page("/", "Overview", "look.devices", () => import("./pages/Overview.svelte")),
  page("/devices", "Devices", "look.devices", () => import("./pages/Devices.svelte")),
  page("/devices/:id", "Device", "look.devices", () => import("./pages/Device.svelte")),
  page("/commands", "Commands", "look.devices", () => import("./pages/Commands.svelte")),
  page("/commands/:id", "Command", "look.devices", () => import("./pages/Command.svelte")),
  page("/rollouts", "Rollouts", "look.devices", () => import("./pages/Rollouts.svelte")),
  page("/rollouts/:id", "Rollout", "look.devices", () => import("./pages/Rollout.svelte")),
  page("/fleet", "Fleet", "look.fleet", () => import("./pages/Fleet.svelte")),
  page("/tasks", "Tasks", "look.picks", () => import("./pages/Tasks.svelte")),
  page("/tasks/:id", "Task", "look.picks", () => import("./pages/Task.svelte")),
  page("/campaigns", "Campaigns", "look.picks", () => import("./pages/Campaigns.svelte")),
  page("/campaigns/:id", "Campaign", "look.picks", () => import("./pages/Campaign.svelte")),
  page("/events", "Events", "look", () => import("./pages/Events.svelte")),
  page("/clients", "Clients", "look", () => import("./pages/Clients.svelte")),
  page("/clients/:id", "Client", "look", () => import("./pages/Client.svelte")),
  page("/deliveries", "Deliveries", "look", () => import("./pages/Deliveries.svelte")),
  page("/deliveries/:id", "Delivery", "look", () => import("./pages/Delivery.svelte")),
  page("/queues", "Queues", "look.queue", () => import("./pages/Queues.svelte")),
  page("/queues/:ns/:queue", "Queue", "look.queue", () => import("./pages/Queue.svelte")),
  page("/queues/:ns/:queue/dead", "Dead letters", "look.queue", () => import("./pages/queue/DeadLink.svelte")),
  page("/queues/:ns/:queue/jobs/:id", "Job", "look.queue", () => import("./pages/Job.svelte")),
  page("/streams", "Streams", "look.stream", () => import("./pages/Streams.svelte")),
  page("/streams/:ns/:stream", "Stream", "look.stream", () => import("./pages/Stream.svelte")),
  page("/streams/:ns/:stream/messages/:id", "Message", "look.stream", () => import("./pages/StreamMessage.svelte")),
  page("/coordination", "Coordination", "coordinate", () => import("./pages/Coordination.svelte")),
  page("/relays", "Relays", "look", () => import("./pages/Relays.svelte")),
  page("/quarantine", "Quarantine", "look", () => import("./pages/Quarantine.svelte")),
  page("/operations", "Operations", "look.queue", () => import("./pages/Operations.svelte")),
  page("/notices", "Notices", "look", () => import("./pages/Notices.svelte")),
  page("/nodes", "Nodes", "admin", () => import("./pages/Nodes.svelte")),
  page("/system", "System", "look", () => import("./pages/System.svelte")),
];
