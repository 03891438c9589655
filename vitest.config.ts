import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/real-s3-setup.ts"],
    setupFiles: ["test/support/property-seed.ts"],
    pool: "forks",
    // By itself it leaves a core unused, which of two is half.
    maxWorkers: "100%",
    testTimeout: 120_000,
    hookTimeout: 60_000,
    // What has to come true in the end may take its time on a slow machine.
    expect: { poll: { timeout: 60_000 } },
    // Code of a crashed node that is still pending runs into its revoked world; that is the point of revoking it.
    onUnhandledError: (error) => error.name !== "WorldRevoked",
  },
});
