/** No auth: everybody may do everything. A node with it listens on loopback addresses only. */
import type { Authenticator, Principal } from "./contract.js";

const everybody: Principal = { check: () => {} };

export const openAuthenticator: Authenticator = { isOpen: true, authenticate: () => everybody };
