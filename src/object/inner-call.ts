/** A call from object to object, as it leaves. */
import type { ObjectIdentity } from "../identity.js";
import type { Caller } from "../lua/contract.js";
import type { PlainValue } from "../values.js";

export interface InnerCall {
  readonly object: ObjectIdentity;
  readonly method: string;
  readonly args: readonly PlainValue[];
  readonly caller: Caller;
  /** Absent where a repeat does nothing anyway. */
  readonly callId?: string;
  /** Monotonic. */
  readonly expiresMs: number;
  /** Who waits for it, the outermost first. */
  readonly chain: readonly string[];
}
