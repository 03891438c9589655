import { describe, expect, it } from "vitest";
import { checkSql } from "../../src/store/sql-guard.js";
import { withSteadyKernelLimits } from "../../src/store/steady-limit.js";

const steady = (sql: string): string | undefined => checkSql(sql, "method", 10_000).statements[0]?.sql;

describe("a bound LIMIT", () => {
  it.each([
    ["SELECT a FROM t LIMIT ?", "SELECT a FROM t LIMIT +?"],
    ["select a from t limit :most offset ?2", "select a from t limit +:most offset ?2"],
    [
      "SELECT a FROM (SELECT a FROM t LIMIT /* of */ ?1) LIMIT\n@n",
      "SELECT a FROM (SELECT a FROM t LIMIT /* of */ +?1) LIMIT\n+@n",
    ],
    ["  DELETE FROM t WHERE a IN (SELECT a FROM t LIMIT $n);", "DELETE FROM t WHERE a IN (SELECT a FROM t LIMIT +$n)"],
  ])("of %j is an expression", (sql, expected) => {
    expect(steady(sql)).toBe(expected);
  });

  it.each([
    "SELECT a FROM t LIMIT 5 OFFSET ?",
    "SELECT 'LIMIT ?', \"limit\" FROM t WHERE a = ? -- LIMIT ?",
    "SELECT a FROM t LIMIT (?)",
  ])("is nothing that %j has", (sql) => {
    expect(steady(sql)).toBe(sql.replace(/ -- LIMIT \?$/, ""));
  });

  it("of the kernel's own is one too", () => {
    expect(withSteadyKernelLimits("SELECT n FROM e WHERE n > ? ORDER BY n LIMIT ?")).toMatch(/LIMIT \+\?$/);
    expect(withSteadyKernelLimits("SELECT n FROM e ORDER BY n LIMIT 1")).toMatch(/LIMIT 1$/);
  });
});
