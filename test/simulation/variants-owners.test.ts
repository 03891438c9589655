import { findsOut } from "./found-out.js";
import { OWNERS } from "./variants/owners.js";
import { SESSIONS } from "./variants/sessions.js";

findsOut({ ...OWNERS, ...SESSIONS });
