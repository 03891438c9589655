/** The element that the page is made to have. @throws Error when index.html and this script do not fit together */
export function part<Kind extends Element>(root: ParentNode, selector: string, kind: new () => Kind): Kind {
  const found = root.querySelector(selector);
  if (found instanceof kind) return found;
  throw new Error(`index.html has no ${kind.name} at ${selector}`);
}
