/**
 * The watchdog's thread. It runs without an event loop of its own, and whatever it does it does synchronously: the main thread
 * may be blocked for good, and every message, stream and callback goes through that.
 */
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { workerData } from "node:worker_threads";
import { makeDirectoryDurably } from "../directories.js";
import { endProcess } from "./end-process.js";
import { RunningReader } from "./running-record.js";
import { Silence } from "./silence.js";
import { STALL_EXIT_CODE, type Stall, stallFileName, stallText } from "./stall.js";
import type { WatchdogStart } from "./thread-watchdog.js";

const STDERR = 2;

function watch(start: WatchdogStart): void {
  const reader = new RunningReader(start.shared);
  const silence = new Silence(start.roundMs);
  let lookedMs = performance.now();
  let isTold = false;
  while (!reader.isStopped) {
    reader.sleep(start.roundMs);
    const nowMs = performance.now();
    const silentMs = silence.after(reader.beats, nowMs - lookedMs);
    lookedMs = nowMs;
    if (silentMs === 0) isTold = false;
    // Whoever debugs the process may have halted it.
    if (silentMs < start.stallMs || isTold || reader.isDebugged) continue;
    isTold = true;
    stalled(start, reader, silentMs);
  }
}

function stalled(start: WatchdogStart, reader: RunningReader, silentMs: number): void {
  const { beats } = reader;
  const stall: Stall = {
    id: randomUUID(),
    atMs: Date.now(),
    silentMs: Math.round(silentMs),
    pid: process.pid,
    ...reader.running(),
  };
  // It came round while it was looked at.
  if (reader.beats !== beats || reader.isStopped) return;
  const ends = stall.entry !== undefined || start.outsideClassCode === "end";
  tell(start, stall, ends);
  if (!ends) return;
  writeDown(start, stall);
  endProcess(STALL_EXIT_CODE, (ms) => reader.sleep(ms));
}

function tell({ format }: WatchdogStart, stall: Stall, ends: boolean): void {
  const message = `${stallText(stall)}${ends ? `; the process ends (exit code ${STALL_EXIT_CODE})` : ""}`;
  const { id: _id, atMs, ...fields } = stall;
  const time = new Date(atMs).toISOString();
  const line =
    format === "json" ? JSON.stringify({ level: "fatal", time, ...fields, msg: message }) : `stalled: ${message}`;
  say(`${line}\n`);
}

/** A full pipe nobody reads must not keep the process alive. */
function say(text: string): void {
  try {
    fs.writeSync(STDERR, text);
  } catch {
    // It is written down all the same.
  }
}

/** On disk when it returns. A folder that cannot be written to is no reason to go on hanging. */
function writeDown({ folder }: WatchdogStart, stall: Stall): void {
  try {
    makeDirectoryDurably(folder);
    const file = fs.openSync(path.join(folder, stallFileName(stall)), "wx");
    fs.writeFileSync(file, `${JSON.stringify(stall)}\n`);
    fs.fsyncSync(file);
    fs.closeSync(file);
    const names = fs.openSync(folder, "r");
    fs.fsyncSync(names);
    fs.closeSync(names);
  } catch (error) {
    say(`the stall could not be written down in ${folder}: ${(error as Error).message}\n`);
  }
}

watch(workerData as WatchdogStart);
