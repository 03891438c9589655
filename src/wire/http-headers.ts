/** Names of the headers that door and client agree on, in lower case. */
/** The object's seq after a call that wrote, or that of the copy which answered. */
export const SEQ_HEADER = "moonport-seq";
/** Wall clock when the state that is sent was cut, milliseconds. */
export const CUT_HEADER = "moonport-at-ms";
/** Of a call: that a copy may answer; of its answer: that one did. */
export const CONSISTENCY_HEADER = "moonport-consistency";
export const FROM_HEADER = "moonport-from";
/** Of an answer that another node of the fleet gave: its name, and where clients reach it. */
export const NODE_HEADER = "moonport-node";
export const NODE_URL_HEADER = "moonport-node-url";
export const TIMEOUT_HEADER = "x-request-timeout-ms";
export const DEADLINE_HEADER = "x-request-deadline";
export const CALL_ID_HEADER = "idempotency-key";
/** Names the unit that made a response: its status and body are the unit's own. */
export const UNIT_HEADER = "moonport-unit";
