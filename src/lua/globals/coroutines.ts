/**
 * `coroutine`, written for a host that puts calls aside.
 *
 * When the call's slice is over inside a coroutine of the class, the coroutine is left, then the one that resumed it, and
 * so on to the call's own thread; resumed, the same chain is built again. No `coroutine.resume` ever sees such a pause.
 */
import { type LuaFunction, type LuaState, STATUS, type TValue, TYPE } from "../fengari/types.js";
import { argument, argumentCount, isFunction, type Runtime } from "../runtime.js";

/** Hands a coroutine's results, or its error, to whoever resumed it. */
type Finish = (L: LuaState, co: LuaState, failed: boolean) => number;

interface Paused {
  readonly co: LuaState;
  readonly finish: Finish;
}

export function coroutineFunctions(runtime: Runtime): Record<string, LuaFunction> {
  const { lua } = runtime.fengari;
  const isMethod = (L: LuaState): boolean => runtime.active[0] === L;

  const proceed = (L: LuaState, co: LuaState, count: number, finish: Finish): number => {
    runtime.active.push(co);
    const status = lua.lua_resume(co, L, count);
    runtime.active.pop();
    if (status === STATUS.yield && runtime.pausing) return lua.lua_yieldk(L, 0, { co, finish }, again);
    return finish(L, co, status !== STATUS.ok && status !== STATUS.yield);
  };
  const again = (L: LuaState, _status: number, paused: Paused): number => proceed(L, paused.co, 0, paused.finish);

  const start = (L: LuaState, co: LuaState, count: number, finish: Finish): number => {
    if (co.status === STATUS.ok && lua.lua_gettop(co) === 0) {
      // As a failed resume leaves it: the message on the coroutine's own stack.
      runtime.push(co, runtime.string("cannot resume dead coroutine"));
      return finish(L, co, true);
    }
    if (!lua.lua_checkstack(co, count)) throw runtime.fail(L, "too many arguments to resume");
    lua.lua_xmove(L, co, count);
    return proceed(L, co, count, finish);
  };

  const moveResults = (L: LuaState, co: LuaState): number => {
    const count = lua.lua_gettop(co);
    if (!lua.lua_checkstack(L, count + 1)) throw runtime.fail(L, "too many results to resume");
    lua.lua_xmove(co, L, count);
    return count;
  };

  const finishResume: Finish = (L, co, failed) => {
    runtime.push(L, runtime.boolean(!failed));
    if (!failed) return moveResults(L, co) + 1;
    lua.lua_xmove(co, L, 1);
    return 2;
  };

  const finishWrap: Finish = (L, co, failed) => {
    if (!failed) return moveResults(L, co);
    lua.lua_xmove(co, L, 1);
    throw lua.lua_error(L);
  };

  const make = (L: LuaState, what: string): LuaState => {
    const body = argument(L, 1);
    if (!isFunction(body)) throw runtime.fail(L, `coroutine.${what}(f) takes a function`);
    const co = lua.lua_newthread(L);
    lua.lua_pop(L, 1);
    runtime.push(co, runtime.value(body.type, body.value));
    return co;
  };

  const threadOf = (L: LuaState, what: string): LuaState => {
    const value = argument(L, 1);
    if (value?.type !== TYPE.thread) throw runtime.fail(L, `coroutine.${what}(co) takes a coroutine`);
    return value.value as LuaState;
  };

  const statusOf = (L: LuaState, co: LuaState): string => {
    if (co === L) return "running";
    if (runtime.active.includes(co)) return "normal";
    if (co.status === STATUS.yield) return "suspended";
    return co.status === STATUS.ok && lua.lua_gettop(co) > 0 ? "suspended" : "dead";
  };

  return {
    create: (L) => runtime.push(L, runtime.value(TYPE.thread, make(L, "create"))),
    resume: (L) => {
      const co = threadOf(L, "resume");
      if (runtime.active.includes(co)) {
        runtime.push(L, runtime.boolean(false));
        runtime.push(L, runtime.string("cannot resume non-suspended coroutine"));
        return 2;
      }
      return start(L, co, argumentCount(L) - 1, finishResume);
    },
    wrap: (L) => {
      const co = make(L, "wrap");
      const wrapped: LuaFunction = (inner) => {
        if (runtime.active.includes(co)) throw runtime.fail(inner, "cannot resume non-suspended coroutine");
        return start(inner, co, argumentCount(inner), finishWrap);
      };
      runtime.carriers.add(wrapped);
      return runtime.push(L, runtime.function(wrapped));
    },
    yield: (L) => {
      if (isMethod(L)) throw runtime.fail(L, "attempt to yield from outside a coroutine");
      return lua.lua_yieldk(L, argumentCount(L), null, null);
    },
    status: (L) => runtime.push(L, runtime.string(statusOf(L, threadOf(L, "status")))),
    isyieldable: (L) => runtime.push(L, runtime.boolean(!isMethod(L) && L.nny === 0)),
    running: (L) => {
      runtime.push(L, runtime.value(TYPE.thread, L));
      runtime.push(L, runtime.boolean(isMethod(L)));
      return 2;
    },
  };
}

/** Whether a value holds a coroutine or an iterator under way, which would carry state from call to call. */
export function carriesState(runtime: Runtime, value: TValue): boolean {
  if (value.type === TYPE.thread || value.type === TYPE.jsClosure) return true;
  return value.type === TYPE.jsFunction && runtime.carriers.has(value.value as LuaFunction);
}
