import { findsOut } from "./found-out.js";
import { RELEASES } from "./variants/releases.js";

findsOut(RELEASES);
