import { findsOut } from "./found-out.js";
import { JOURNALS } from "./variants/journals.js";
import { WATCHING } from "./variants/watching.js";

findsOut({ ...JOURNALS, ...WATCHING });
