import { findsOut } from "./found-out.js";
import { DIRECTORIES } from "./variants/directories.js";
import { OBLIGATIONS } from "./variants/obligations.js";

findsOut({ ...OBLIGATIONS, ...DIRECTORIES });
