import { findsOut } from "./found-out.js";
import { HANDOVERS } from "./variants/handovers.js";

findsOut(HANDOVERS);
