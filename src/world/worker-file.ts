/** Where a worker thread's compiled code lies, also when the module that starts it runs from its TypeScript source. */

/**
 * @param moduleUrl `import.meta.url` of the module that starts the worker
 * @param name the worker's compiled file beside that module, `x-worker.js`
 */
export function workerFile(moduleUrl: string, name: string): URL {
  const beside = new URL(name, moduleUrl);
  // A test runner runs src/ as it is, but a thread gets no such help: it takes the build's output.
  if (moduleUrl.endsWith(".ts")) beside.pathname = beside.pathname.replace(/\/src\/(?!.*\/src\/)/, "/dist/src/");
  return beside;
}
