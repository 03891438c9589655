/**
 * What is changed in fengari 0.1.5, and why. `find` must stand in the file exactly once; `meter` is in scope of every file
 * (meter.ts). Each edit, or each group that only makes sense together, has a test in test/lua/edits.test.ts that fails
 * without it.
 */
export interface SourceEdit {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  readonly why: string;
}

const CHECK_STEPS = "if (--meter.countdown <= 0) meter.spent();";
/** Longer than any number prints, `%.99f` included: 309 digits, a point and 99 more. */
const NUMERAL_BYTES_MAX = 500;

const protectedCalls: readonly SourceEdit[] = [
  {
    name: "pcall keeps call status",
    file: "lapi.js",
    find: "ci.callstatus &= ~lstate.CIST_OAH | L.allowhook;",
    replace: "ci.callstatus = (ci.callstatus & ~lstate.CIST_OAH) | L.allowhook;",
    why: "&= binds before |: after a caught error in a coroutine hooks stayed off",
  },
  {
    name: "a kill passes every protected call",
    file: "ldo.js",
    find: `    } catch (e) {
        if (lj.status === LUA_OK) {
            /* error was not thrown via luaD_throw, i.e. it is a JS error */`,
    replace: `    } catch (e) {
        if (meter.killed !== null) {
            L.errorJmp = lj.previous;
            L.nCcalls = oldnCcalls;
            throw e;
        }
        if (lj.status === LUA_OK) {
            /* error was not thrown via luaD_throw, i.e. it is a JS error */`,
    why: "no Lua handler may run, and nothing may catch, once a budget is used up",
  },
  {
    name: "a JS throw becomes a Lua error anywhere",
    file: "ldo.js",
    find: `            let atnativeerror = L.l_G.atnativeerror;
            if (atnativeerror) {
                try {
                    lj.status = LUA_OK;

                    lapi.lua_pushcfunction(L, atnativeerror);
                    lapi.lua_pushlightuserdata(L, e);
                    luaD_callnoyield(L, L.top - 2, 1);
`,
    replace: `            {
                try {
                    lj.status = LUA_OK;

                    L.stack[L.top++] = meter.nativeError(L, e);
`,
    why: "pushing through the API checks the frame's top, which a Lua frame always touches: the handler itself failed, pcall was bypassed and the stack left as it was",
  },
  {
    name: "a JS throw becomes a Lua error anywhere, end",
    file: "ldo.js",
    find: `                } catch (e2) {
                    if (lj.status === LUA_OK) {
                        /* also failed */
                        lj.status = -1;
                    }
                }
            } else {
                lj.status = -1;
            }`,
    replace: `                } catch (e2) {
                    if (meter.killed !== null) {
                        L.errorJmp = lj.previous;
                        L.nCcalls = oldnCcalls;
                        throw e2;
                    }
                    if (lj.status === LUA_OK) {
                        /* also failed */
                        lj.status = -1;
                    }
                }
            }`,
    why: "second half of the edit above; a message handler may be killed as well",
  },
];

const handlers: readonly SourceEdit[] = [
  {
    name: "an error handler that fails is not called again",
    file: "ldebug.js",
    find: `        lobject.setobjs2s(L, L.top - 2, errfunc); /* push function */
        ldo.luaD_callnoyield(L, L.top - 2, 1);`,
    replace: `        lobject.setobjs2s(L, L.top - 2, errfunc); /* push function */
        L.errfunc = 0;
        ldo.luaD_callnoyield(L, L.top - 2, 1);
        L.errfunc = errfunc;`,
    why: "it was called with its own error until the stack ran out, which is the end of the whole call",
  },
];

const yields: readonly SourceEdit[] = [
  {
    name: "a yield that cannot be says why",
    file: "ldo.js",
    find: 'to_luastring("attempt to yield across a JS-call boundary", true)',
    replace:
      'to_luastring("attempt to yield inside a comparison of table.sort, a function given to gsub, or a metamethod", true)',
    why: "nobody who writes a class knows what a JS-call boundary is",
  },
];

const strings: readonly SourceEdit[] = [
  {
    name: "strings carry their text",
    file: "lstring.js",
    find: `        this.hash = null;
        this.realstring = str;
    }

    getstr() {
        return this.realstring;
    }

    tsslen() {
        return this.realstring.length;
    }`,
    replace: `        this.hash = null;
        this.text = null;
        this.realstring = str;
    }

    /* Without bytes the string was made from ASCII text, which then is its hash, too. */
    getstr() {
        if (this.realstring === null) this.realstring = bytesOfAscii(this.hash);
        return this.realstring;
    }

    tsslen() {
        return this.realstring === null ? this.hash.length : this.realstring.length;
    }`,
    why: "most strings pass through Lua untouched: their bytes need never be made",
  },
  {
    name: "strings compare by text",
    file: "lstring.js",
    find: "    return a == b || luastring_eq(a.realstring, b.realstring);",
    replace: `    if (a === b) return true;
    meter.countdown -= a.tsslen() >> 6;
    if (a.hash !== null && b.hash !== null) return a.hash === b.hash;
    return luastring_eq(a.getstr(), b.getstr());`,
    why: "a string made from text has no bytes; comparing megabytes is work to be counted",
  },
  {
    name: "strings hash to their bytes",
    file: "lstring.js",
    find: `    let len = str.length;
    let s = "|";
    for (let i=0; i<len; i++)
        s += str[i].toString(16);
    return s;`,
    replace: `    meter.countdown -= str.length >> 6;
    return latin1Slice.call(str, 0, str.length);`,
    why: "unpadded hex made distinct strings one table key and ordered them wrongly; latin1 text is one to one, in order, and fast",
  },
  {
    name: "strings hash to their bytes, helpers",
    file: "lstring.js",
    find: "class TString {",
    replace: `const { latin1Slice, latin1Write } = Buffer.prototype;

const bytesOfAscii = function(text) {
    const len = text.length;
    const bytes = new Uint8Array(len);
    if (len > 40) latin1Write.call(bytes, text, 0, len);
    else for (let i = 0; i < len; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
};

class TString {`,
    why: "second half of the edits above",
  },
  {
    name: "strings are charged",
    file: "lstring.js",
    find: `    lua_assert(str instanceof Uint8Array);
    return new TString(L, str);`,
    replace: `    const len = str.length;
    if (len > 64) {
        meter.countdown -= len >> 6;
        if ((meter.bytes -= len) < 0) meter.exhausted();
    }
    return new TString(L, str);`,
    why: "strings live outside the JavaScript heap, where no limit of the platform is felt",
  },
  {
    name: "strings are copied at once",
    file: "lstring.js",
    find: "    return luaS_bless(L, luastring_from(str));",
    replace: "    return luaS_bless(L, new Uint8Array(str));",
    why: "Uint8Array.from iterates, byte by byte",
  },
  {
    name: "concatenation is bounded",
    file: "lvm.js",
    find: "            let buff = new Uint8Array(tl);",
    replace: `            if (tl > meter.stringBytesMax)
                ldebug.luaG_runerror(L, to_luastring("string longer than %d bytes"), meter.stringBytesMax);
            let buff = new Uint8Array(tl);`,
    why: "no string beyond the cap is ever allocated",
  },
  {
    name: "buffers are bounded and charged",
    file: "lauxlib.js",
    find: `    let newend = B.n + sz;
    if (B.b.length < newend) {
        let newsize = Math.max(B.b.length * 2, newend);  /* double buffer size */`,
    replace: `    ${CHECK_STEPS}
    let newend = B.n + sz;
    if (B.b.length < newend) {
        if (newend > meter.stringBytesMax)
            luaL_error(B.L, to_luastring("string longer than %d bytes"), meter.stringBytesMax);
        let newsize = Math.max(B.b.length * 2, newend);  /* double buffer size */
        if ((meter.bytes -= newsize) < 0) meter.exhausted();`,
    why: "string.rep, table.concat, gsub, format and pack build gigabytes in one instruction",
  },
  {
    name: "string.rep counts its steps",
    file: "lstrlib.js",
    find: "        while (n-- > 1) {  /* first n-1 copies (followed by separator) */",
    replace: `        while (n-- > 1) {  /* first n-1 copies (followed by separator) */
            ${CHECK_STEPS}`,
    why: "two billion copies of nothing take seconds and no memory",
  },
];

const numbers: readonly SourceEdit[] = [
  {
    name: "sums beyond 32 bits are floats",
    file: "lobject.js",
    find: "    chgivalue(x) {",
    replace: `    /* an integer where it fits, a float where it does not; never -0 */
    setnumber(x) {
        const i = x | 0;
        if (i === x) {
            this.type = LUA_TNUMINT;
            this.value = i;
        } else {
            this.type = LUA_TNUMFLT;
            this.value = x;
        }
    }

    chgivalue(x) {`,
    why: "integers are 32 bits wide: 2147483647 + 1 wrapped to a negative number",
  },
  ...(
    [
      ["addition", "setivalue((op1.value + op2.value)|0)", "setnumber(op1.value + op2.value)"],
      ["subtraction", "setivalue((op1.value - op2.value)|0)", "setnumber(op1.value - op2.value)"],
      ["multiplication", "setivalue(luaV_imul(op1.value, op2.value))", "setnumber(op1.value * op2.value)"],
      [
        "floor division",
        "setivalue(luaV_div(L, op1.value, op2.value))",
        "setnumber(luaV_div(L, op1.value, op2.value))",
      ],
      ["negation", "setivalue((-op.value)|0)", "setnumber(-op.value)"],
      ["floor division, helper", "    return Math.floor(m / n)|0;", "    return Math.floor(m / n);"],
      ["loop step", "let idx = (L.stack[ra].value + step)|0;", "let idx = L.stack[ra].value + step;"],
      ["loop start", "init.value = (initv - pstep.value)|0;", "init.value = initv - pstep.value;"],
    ] as const
  ).map(([what, find, replace]) => ({
    name: `no wrap: ${what}`,
    file: "lvm.js",
    find,
    replace,
    why: "see above: results beyond 32 bits go on as floats",
  })),
  {
    name: "no wrap: loop limit",
    file: "lvm.js",
    find: `        if (0 < n) {
            ilimit = LUA_MAXINTEGER;
            if (step < 0) stopnow = true;
        } else {
            ilimit = LUA_MININTEGER;
            if (step >= 0) stopnow = true;
        }
    }`,
    replace: `        return false;  /* beyond integers: a loop over floats */
    }`,
    why: "a loop to 3e9 stopped at 2^31-1, or never",
  },
  ...(
    [
      ["addition", "return (v1 + v2)|0;", "return v1 + v2;"],
      ["subtraction", "return (v1 - v2)|0;", "return v1 - v2;"],
      ["multiplication", "return lvm.luaV_imul(v1, v2);", "return v1 * v2;"],
      ["negation", "return (0 - v1)|0;", "return -v1;"],
      [
        "result",
        "res.setivalue(intarith(L, op, p1.value, p2.value));",
        "res.setnumber(intarith(L, op, p1.value, p2.value));",
      ],
    ] as const
  ).map(([what, find, replace]) => ({
    name: `no wrap in constants: ${what}`,
    file: "lobject.js",
    find,
    replace,
    why: "the compiler folds constants with arithmetic of its own",
  })),
  {
    name: "no wrap: math.abs",
    file: "lmathlib.js",
    find: "        if (n < 0) n = (-n)|0;\n        lua_pushinteger(L, n);",
    replace:
      "        if (n < 0) n = -n;\n        if ((n|0) === n) lua_pushinteger(L, n);\n        else lua_pushnumber(L, n);",
    why: "see above",
  },
  {
    name: "no wrap: tonumber with a base",
    file: "lbaselib.js",
    find: "    return v|0;",
    replace: "    return v;",
    why: "see above",
  },
  {
    name: "no wrap: tonumber with a base, push",
    file: "lbaselib.js",
    find: "        if (n !== null) {\n            lua_pushinteger(L, n);",
    replace:
      "        if (n !== null) {\n            L.stack[L.top] = new TValue(0, null);\n            L.stack[L.top++].setnumber(n);",
    why: "second half of the edit above",
  },
  {
    name: "no wrap: tonumber with a base, import",
    file: "lbaselib.js",
    find: "const b_str2int = function(s, base) {",
    replace: "const { TValue } = require('./lobject.js');\nconst b_str2int = function(s, base) {",
    why: "third part of the edit above",
  },
  {
    name: "numerals are bounded",
    file: "lobject.js",
    find: "    let s2i = l_str2int(s);",
    replace: `    if (s.length > ${NUMERAL_BYTES_MAX}) return 0;
    let s2i = l_str2int(s);`,
    why: "a megabyte of digits, which any caller may send, was read for half a second in one instruction",
  },
  {
    name: "numerals with a base are bounded",
    file: "lbaselib.js",
    find: "    try {\n        s = to_jsstring(s);",
    replace: `    if (s.length > ${NUMERAL_BYTES_MAX}) return null;
    try {
        s = to_jsstring(s);`,
    why: "see above",
  },
  {
    name: "format prints as C does",
    file: "lstrlib.js",
    find: "const { sprintf } = require('sprintf-js');",
    replace: "const { sprintf } = require('./printf.js');",
    why: "%f, %e and %g printed as many digits as there were, 1e20 whole and infinity in words; '% d' and '%#x' were faults",
  },
  {
    name: "format %d takes whole floats",
    file: "lstrlib.js",
    find: `                case 'd': case 'i':
                case 'o': case 'u': case 'x': case 'X': {`,
    replace: `                case 'd': case 'i': {
                    let n = luaL_checknumber(L, arg);
                    luaL_argcheck(L, Number.isSafeInteger(n), arg, to_luastring("number has no integer representation"));
                    luaL_addstring(b, to_luastring(sprintf(String.fromCharCode(...form), n)));
                    break;
                }
                case 'o': case 'u': case 'x': case 'X': {`,
    why: "times in milliseconds and ids are beyond 32 bits, and whole",
  },
  {
    name: "string.char names its argument",
    file: "lstrlib.js",
    find: 'luaL_argcheck(L, c >= 0 && c <= 255, "value out of range");',
    replace: 'luaL_argcheck(L, c >= 0 && c <= 255, i, "value out of range");',
    why: "the argument's number was left out, which ended in a JavaScript error",
  },
  {
    name: "format %s pads bytes",
    file: "lstrlib.js",
    find: "luaL_addstring(b, to_luastring(sprintf(String.fromCharCode(...form), to_jsstring(s))));",
    replace:
      'luaL_addstring(b, new Uint8Array(Buffer.from(sprintf(String.fromCharCode(...form), Buffer.from(s.subarray(0, 99)).toString("latin1")), "latin1")));',
    why: "a string that is not UTF-8 threw a JavaScript error, and widths counted UTF-16 units; a precision takes 99 bytes at most",
  },
  {
    name: "floats print shortest",
    file: "luaconf.js",
    find: "    return String(Number(n.toPrecision(14))); /* should match behaviour of LUA_NUMBER_FMT */",
    replace: `    if (n === Infinity) return "inf";
    if (n === -Infinity) return "-inf";
    if (n !== n) return "nan";
    return String(n);`,
    why: "14 digits corrupt ids and times near 2^53; shortest text reads back as the same number",
  },
];

const tables: readonly SourceEdit[] = [
  {
    name: "tables are charged and can be frozen",
    file: "ltable.js",
    find: `        this.dead_strong = new Map();
        this.dead_weak = void 0; /* initialised when needed */`,
    replace: `        this.dead_strong = void 0; /* initialised when needed */
        this.dead_weak = void 0; /* initialised when needed */
        this.frozen = null;
        this.host = null;
        if ((meter.bytes -= 128) < 0) meter.exhausted();`,
    why: "shared libraries and classes must not carry state from call to call; a map per table for dead keys is rarely used",
  },
  {
    name: "entries are charged",
    file: "ltable.js",
    find: `    t.dead_strong.clear();
    t.dead_weak = void 0;`,
    replace: `    if (t.dead_strong !== void 0) {
        meter.bytes += t.dead_strong.size * 64;
        t.dead_strong = void 0;
    }
    if ((meter.bytes -= 64) < 0) meter.exhausted();
    if (t.dead_weak !== void 0) t.dead_weak = void 0;
    t.flags = 0;`,
    why: "the heap grew until time ran out; a queue that takes out what it puts in does not grow, but what was deleted is kept until the next insert; clearing a map at every insert made small tables slow; a table filled by the host may be a metatable",
  },
  {
    name: "deleted entries are kept in a map made on demand",
    file: "ltable.js",
    find: `            /* can't be used as key in weakmap */
            t.dead_strong.set(hash, e);`,
    replace: `            /* can't be used as key in weakmap */
            if (t.dead_strong === void 0) t.dead_strong = new Map();
            t.dead_strong.set(hash, e);`,
    why: "goes with the edit above",
  },
  {
    name: "next looks for dead keys where there are any",
    file: "ltable.js",
    find: "entry = (table.dead_weak && table.dead_weak.get(hash)) || table.dead_strong.get(hash);",
    replace:
      "entry = (table.dead_weak && table.dead_weak.get(hash)) || (table.dead_strong && table.dead_strong.get(hash));",
    why: "goes with the map made on demand",
  },
  {
    name: "frozen tables refuse integer keys",
    file: "ltable.js",
    find: "    let hash = key; /* table_hash known result */",
    replace: `    if (t.frozen !== null) t.frozen(null, new lobject.TValue(LUA_TNUMINT, key));
    let hash = key; /* table_hash known result */`,
    why: "every write to a table passes one of two functions; this is one",
  },
  {
    name: "frozen tables refuse any key",
    file: "ltable.js",
    find: `const luaH_setfrom = function(L, t, key, value) {
    lua_assert(key instanceof lobject.TValue);`,
    replace: `const luaH_setfrom = function(L, t, key, value) {
    lua_assert(key instanceof lobject.TValue);
    if (t.frozen !== null) t.frozen(L, key);`,
    why: "this is the other",
  },
  {
    name: "frozen tables keep their metatable",
    file: "lapi.js",
    find: `        case LUA_TUSERDATA:
        case LUA_TTABLE: {
            obj.value.metatable = mt;`,
    replace: `        case LUA_TUSERDATA:
        case LUA_TTABLE: {
            if (obj.value.frozen) obj.value.frozen(L, lobject.luaO_nilobject);
            obj.value.metatable = mt;`,
    why: "a metatable could make a frozen table look writable, or leak state through it",
  },
  {
    name: "length of a plain array is quick",
    file: "ltable.js",
    find: "    let i = 0;\n    let j = t.strong.size + 1;",
    replace: `    const size = t.strong.size;
    if (size === 0) return 0;
    if (t.strong.has(size) && !t.strong.has(size + 1)) return size;
    let i = 0;
    let j = t.strong.size + 1;`,
    why: "t[#t + 1] = x searched for the end among all entries",
  },
  {
    name: "constructors fill in order",
    file: "lvm.js",
    find: `                let last = ((c - 1) * LFIELDS_PER_FLUSH) + n;

                for (; n > 0; n--) {
                    ltable.luaH_setint(h, last--, L.stack[ra + n]);
                }`,
    replace: `                let before = (c - 1) * LFIELDS_PER_FLUSH;

                for (let j = 1; j <= n; j++) {
                    ltable.luaH_setint(h, before + j, L.stack[ra + j]);
                }`,
    why: "pairs walks in order of insertion: {1, 2, 3} came out backwards",
  },
  {
    name: "ltable exports add",
    file: "ltable.js",
    find: "module.exports.invalidateTMcache = invalidateTMcache;",
    replace: "module.exports.invalidateTMcache = invalidateTMcache;\nmodule.exports.add = add;",
    why: "values are built into fresh tables without looking keys up",
  },
];

const steps: readonly SourceEdit[] = [
  {
    name: "instructions count down one meter",
    file: "lvm.js",
    find: `        if (L.hookmask & (LUA_MASKLINE | LUA_MASKCOUNT)) {
            ldebug.luaG_traceexec(L);
        }`,
    replace: "        if (--meter.countdown <= 0) meter.tick(L);",
    why: "hooks count per coroutine: many short coroutines were never counted, and a caught error turned them off",
  },
  {
    name: "calls know their depth",
    file: "lstate.js",
    find: "        this.callstatus = NaN;",
    replace: "        this.callstatus = NaN;\n        this.extra = 0;\n        this.depth = 0;",
    why: "deep recursion is stopped by depth, before it costs hundreds of megabytes",
  },
  {
    name: "calls count their depth",
    file: "lstate.js",
    find: "    ci.previous = L.ci;\n    ci.next = null;",
    replace:
      "    ci.previous = L.ci;\n    ci.depth = L.ci.depth + 1;\n    if (ci.depth > meter.depthMax) meter.tooDeep();\n    ci.next = null;",
    why: "see above",
  },
  {
    name: "coroutines go on counting depth",
    file: "ldo.js",
    find: "    L.nny = 0;  /* allow yields */",
    replace: "    L.nny = 0;  /* allow yields */\n    L.base_ci.depth = from ? from.ci.depth : 0;",
    why: "a coroutine in a coroutine is as deep as both",
  },
  {
    name: "nested calls of the host are depth, too",
    file: "ldo.js",
    find: 'ldebug.luaG_runerror(L, to_luastring("JS stack overflow", true));',
    replace: "meter.tooDeep();",
    why: "metamethods and comparisons nest on JavaScript's own stack",
  },
  {
    name: "nested coroutines are depth, too",
    file: "ldo.js",
    find: 'return resume_error(L, "JS stack overflow", nargs);',
    replace: "meter.tooDeep();",
    why: "so do coroutines within coroutines",
  },
  {
    name: "stacks are charged",
    file: "ldo.js",
    find: "    L.stack.length = newsize;",
    replace:
      "    if (newsize > L.stack.length && (meter.bytes -= (newsize - L.stack.length) * 32) < 0) meter.exhausted();\n    L.stack.length = newsize;",
    why: "two hundred thousand slots in each of many coroutines are gigabytes",
  },
  {
    name: "coroutines are charged",
    file: "lstate.js",
    find: "    L1.hookmask = L.hookmask;",
    replace: "    if ((meter.bytes -= 1024) < 0) meter.exhausted();\n    L1.hookmask = L.hookmask;",
    why: "a million of them fit into a second",
  },
  {
    name: "closures are charged",
    file: "lobject.js",
    find: `        this.id = L.l_G.id_counter++;

        this.p = null;`,
    replace: `        this.id = L.l_G.id_counter++;
        if ((meter.bytes -= 96) < 0) meter.exhausted();

        this.p = null;`,
    why: "closures chained through their upvalues need no table",
  },
  {
    name: "reads by index count",
    file: "lapi.js",
    find: "const lua_geti = function(L, idx, n) {",
    replace: `const lua_geti = function(L, idx, n) {
    ${CHECK_STEPS}`,
    why: "table.move, insert, remove, concat, sort and unpack loop as long as __len says",
  },
  {
    name: "writes by index count",
    file: "lapi.js",
    find: "const lua_seti = function(L, idx, n) {",
    replace: `const lua_seti = function(L, idx, n) {
    ${CHECK_STEPS}`,
    why: "see above",
  },
  {
    name: "the matcher counts",
    file: "lstrlib.js",
    find: "const match = function(ms, s, p) {",
    replace: `const match = function(ms, s, p) {
    ${CHECK_STEPS}`,
    why: "patterns backtrack exponentially, without an instruction",
  },
  {
    name: "the matcher counts single characters",
    file: "lstrlib.js",
    find: "const singlematch = function(ms, s, p, ep) {",
    replace: `const singlematch = function(ms, s, p, ep) {
    ${CHECK_STEPS}`,
    why: "see above",
  },
  {
    name: "the matcher counts balanced pairs",
    file: "lstrlib.js",
    find: "        while (++s < ms.src_end) {",
    replace: `        while (++s < ms.src_end) {
            ${CHECK_STEPS}`,
    why: "see above",
  },
  {
    name: "the matcher counts the members of a set",
    file: "lstrlib.js",
    find: "    while (++p < ec) {",
    replace: `    while (++p < ec) {
        ${CHECK_STEPS}`,
    why: "a set of megabytes is walked for each character",
  },
  {
    name: "the matcher counts on its way to the end of a set",
    file: "lstrlib.js",
    find: "            do {  /* look for a ']' */",
    replace: `            do {  /* look for a ']' */
                ${CHECK_STEPS}`,
    why: "see above",
  },
  {
    name: "the look for special characters counts",
    file: "lstrlib.js",
    find: "        if (luastring_indexOf(SPECIALS, p[i]) !== -1)",
    replace: `        ${CHECK_STEPS}
        if (luastring_indexOf(SPECIALS, p[i]) !== -1)`,
    why: "a pattern of megabytes is walked before anything is searched",
  },
  {
    name: "plain find counts",
    file: "lstrlib.js",
    find: "        if (luastring_eq(arr.subarray(i, i+sl), subarr))\n            return i;",
    replace: `        let j = 0;
        while (j < sl && arr[i + j] === subarr[j]) j++;
        meter.countdown -= j >> 3;
        ${CHECK_STEPS}
        if (j === sl)
            return i;`,
    why: "a long needle that nearly matches everywhere is a quadratic search",
  },
  {
    name: "pack formats count",
    file: "lstrlib.js",
    find: "const getoption = function(h, fmt) {",
    replace: `const getoption = function(h, fmt) {
    ${CHECK_STEPS}`,
    why: "a format of megabytes is walked in one instruction",
  },
  {
    name: "utf8 counts",
    file: "lutf8lib.js",
    find: "const utf8_decode = function(s, pos) {",
    replace: `const utf8_decode = function(s, pos) {
    ${CHECK_STEPS}`,
    why: "utf8.len walks megabytes in one instruction",
  },
  {
    name: "utf8 counts the bytes it passes over",
    file: "lutf8lib.js",
    find: "const iscont = function(p) {",
    replace: `const iscont = function(p) {
    ${CHECK_STEPS}`,
    why: "utf8.offset does as well, and decodes nothing",
  },
  {
    name: "the order of strings counts",
    file: "lvm.js",
    find: "    let l = luaS_hashlongstr(ls);",
    replace: `    meter.countdown -= Math.min(ls.tsslen(), rs.tsslen()) >> 6;
    let l = luaS_hashlongstr(ls);`,
    why: "comparing megabytes is work to be counted",
  },
];

export const EDITS: readonly SourceEdit[] = [
  ...protectedCalls,
  ...handlers,
  ...yields,
  ...strings,
  ...numbers,
  ...tables,
  ...steps,
];
