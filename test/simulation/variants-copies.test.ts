import { findsOut } from "./found-out.js";
import { COPIES } from "./variants/copies.js";

findsOut(COPIES);
