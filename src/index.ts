/** What a program that embeds Moonport may use; docs/embedding.md shows how. `moonport/client` is for programs without a node. */
export type { Access, Authenticator, Principal, Right } from "./auth/contract.js";
export type { FindOptions, FindQuery } from "./client/find.js";
export type { AnyMethods, Snapshot } from "./client/object-handle.js";
export type { SendOutcome, Sent } from "./client/send.js";
export type { Subscription, SubscriptionItem } from "./client/subscription.js";
export type { View } from "./client/view.js";
export type {
  ChangedAnswer,
  CommandInfo,
  CommandState,
  DelayApi,
  DelayedCommand,
  DelayFilter,
  LogEntry,
  ObjectTimers,
  RunRecord,
  SendTime,
  ShardTally,
  TimerDetails,
} from "./delay/contract.js";
export type { MoonportObject } from "./embed/handle.js";
export type {
  ActingFor,
  CallOptions,
  DeployOptions,
  ListenOptions,
  LogOptions,
  MoonportOptions,
  ReplacedTexts,
  RollbackOptions,
  SendOptions,
  SubscribeOptions,
  UnitCall,
  UnitOptions,
  ViewOptions,
} from "./embed/options.js";
export type { MoonportPast } from "./embed/past.js";
export { CLASS_ERROR, ERROR_CODES, type ErrorCode, type ErrorCodeEntry, MoonportError } from "./errors.js";
export type { FleetConfig } from "./fleet/fleet-config.js";
export type { LinkTls } from "./links/link-tls.js";
export { Moonport } from "./moonport.js";
export type {
  ClassInfo,
  DirectoryStatus,
  ExportedDatabase,
  FleetStatus,
  FoundPage,
  FoundRow,
  HistoryEra,
  Inspection,
  NodeInfo,
  NodeStatus,
  ObjectHistory,
  PointInTime,
  Restoration,
  Restored,
  UnitResponse,
} from "./node-api.js";
export type { Observation, Observer } from "./observation.js";
export type { AppReleases, Deployed, NodeRelease, Release, ServedApp } from "./release/contract.js";
export { SETTINGS, type SettingName, settingsFromEnvironment } from "./settings/settings.js";
export type { NativeClass, NativeClasses, NativeContext, NativeMethod } from "./units/native.js";
export type { PlainObject, PlainValue } from "./values.js";
export { VERSION } from "./version.js";
export type { Logger } from "./world/logger.js";
