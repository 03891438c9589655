/** Many answers in order, while the next ones are on their way: how the segments of a history are read. */

/** Requests under way at once while a history is read. */
const READ_AHEAD = 8;

export async function* readAhead<T, R>(
  items: readonly T[],
  read: (item: T) => Promise<R>,
): AsyncGenerator<{ readonly of: T; readonly value: R }> {
  const underWay: { readonly of: T; readonly answer: Promise<R> }[] = [];
  let next = 0;
  for (;;) {
    while (underWay.length < READ_AHEAD && next < items.length) {
      const of = items[next++] as T;
      const answer = read(of);
      // A failure is met where its turn comes, unless an earlier one has ended the reading.
      answer.catch(() => {});
      underWay.push({ of, answer });
    }
    const first = underWay.shift();
    if (first === undefined) return;
    yield { of: first.of, value: await first.answer };
  }
}
