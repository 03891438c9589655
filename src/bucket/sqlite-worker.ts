/**
 * A thread of the embedded bucket: one connection, one role. The writer takes everything that has arrived and commits it
 * as one group, so that a thousand objects' flights share one fsync; the reader answers one request after the other.
 */
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { MoonportError } from "../errors.js";
import {
  type ChangeRequest,
  type FromWorker,
  mapAnswerBytes,
  mapRequestBytes,
  Packer,
  type ReadRequest,
  type StoreAnswer,
  type StoreRequest,
  type ToWorker,
  unpacker,
  type WorkerStart,
} from "./sqlite-protocol.js";
import { SqliteReader } from "./sqlite-reader.js";
import { storageFaultOf } from "./sqlite-schema.js";
import { SqliteStore } from "./sqlite-store.js";

/** Answers beyond this go out before the rest of their batch is read, so that many large reads never stand in memory at once. */
const ANSWER_BYTES = 8 * 1024 * 1024;

interface Batch {
  readonly batch: number;
  readonly requests: readonly StoreRequest[];
}

interface Server {
  serve(batches: readonly Batch[]): void;
  close(): void;
}

function runWorker(port: MessagePort, start: WorkerStart): void {
  const server = open(port, start);
  // The thread ends by having nothing to listen to. Closing the port could overtake the message that says why.
  if (!server) return;
  port.on("message", (first: ToWorker) => {
    const { batches, stop } = arrived(port, first);
    if (batches.length > 0) server.serve(batches);
    if (!stop) return;
    server.close();
    port.close();
  });
  send(port, { kind: "ready" });
}

function open(port: MessagePort, start: WorkerStart): Server | undefined {
  try {
    return start.role === "writer"
      ? writeServer(port, new SqliteStore(start.path, start.busyTimeoutMs, start))
      : readServer(port, new SqliteReader(start.path, start.busyTimeoutMs));
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    send(port, { kind: "unopened", message, storage: storageFaultOf(error) });
    return undefined;
  }
}

/** `first` and whatever else is there already. */
function arrived(port: MessagePort, first: ToWorker): { batches: Batch[]; stop: boolean } {
  const batches: Batch[] = [];
  for (let message: ToWorker | undefined = first; message; message = nextMessage(port)) {
    if (message.kind === "stop") return { batches, stop: true };
    const bytesOf = unpacker(message.blob);
    batches.push({
      batch: message.batch,
      requests: message.requests.map((request) => mapRequestBytes(request, bytesOf)),
    });
  }
  return { batches, stop: false };
}

function nextMessage(port: MessagePort): ToWorker | undefined {
  return (receiveMessageOnPort(port) as { message: ToWorker } | undefined)?.message;
}

function writeServer(port: MessagePort, store: SqliteStore): Server {
  return {
    serve(batches) {
      const answers = store.applyGroup(batches.flatMap((batch) => batch.requests as readonly ChangeRequest[]));
      let taken = 0;
      for (const { batch, requests } of batches) {
        const own = answers.slice(taken, taken + requests.length);
        taken += requests.length;
        sendAnswers(port, batch, own, true, store);
      }
      store.leaveTurn();
    },
    close: () => store.close(),
  };
}

function readServer(port: MessagePort, reader: SqliteReader): Server {
  const nothing = { commits: 0, garbage: false };
  return {
    serve(batches) {
      for (const { batch, requests } of batches) {
        let answers: StoreAnswer[] = [];
        let bytes = 0;
        for (const request of requests) {
          const answer = reader.answer(request as ReadRequest);
          answers.push(answer);
          bytes += "bytes" in answer ? answer.bytes.length : 0;
          if (bytes < ANSWER_BYTES) continue;
          sendAnswers(port, batch, answers, false, nothing);
          [answers, bytes] = [[], 0];
        }
        sendAnswers(port, batch, answers, true, nothing);
      }
    },
    close: () => reader.close(),
  };
}

function sendAnswers(
  port: MessagePort,
  batch: number,
  answers: readonly StoreAnswer[],
  last: boolean,
  state: { readonly commits: number; readonly garbage: boolean },
): void {
  const packer = new Packer();
  const packed = answers.map((answer) => mapAnswerBytes(answer, packer.add));
  const { commits, garbage } = state;
  send(port, { kind: "answers", batch, answers: packed, blob: packer.blob(), last, commits, garbage });
}

function send(port: MessagePort, message: FromWorker): void {
  port.postMessage(message, message.kind === "answers" ? [message.blob] : []);
}

if (!parentPort) throw MoonportError.of("internal", "sqlite-worker.js runs as a worker thread only");
runWorker(parentPort, workerData as WorkerStart);
