/** Who keeps that objects stand in the session's owing list as long as their rows are not told (W1). */
import type { ObjectIdentity } from "../identity.js";

export interface RowDebts {
  /**
   * The object's row, or that it is gone, is to be told.
   * @param isFound it may have been told before: whoever's list the object is on has not been given up yet
   */
  offered(object: ObjectIdentity, isFound: boolean): void;
  /** The directory has the newest that was offered. */
  told(object: ObjectIdentity): void;
}
