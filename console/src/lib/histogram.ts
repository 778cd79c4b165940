/** How often each number occurs, in bins of equal width. */
export interface Bin {
  from: number;
  /** Inclusive. */
  to: number;
  n: number;
}

/** Bins of whole numbers, at most `binsMax` of them, from the least to the greatest. */
export function histogramOf(numbers: readonly number[], binsMax: number): Bin[] {
  if (numbers.length === 0) return [];
  const least = numbers.reduce((a, b) => Math.min(a, b));
  const greatest = numbers.reduce((a, b) => Math.max(a, b));
  const width = Math.ceil((greatest - least + 1) / binsMax);
  const bins: Bin[] = [];
  for (let from = least; from <= greatest; from += width) bins.push({ from, to: Math.min(from + width - 1, greatest), n: 0 });
  for (const number of numbers) {
    const bin = bins[Math.floor((number - least) / width)];
    if (bin !== undefined) bin.n += 1;
  }
  return bins;
}
