import { findsOut } from "./found-out.js";
import { CLAIMS } from "./variants/claims.js";
import { SHIPPING } from "./variants/shipping.js";

findsOut({ ...CLAIMS, ...SHIPPING });
