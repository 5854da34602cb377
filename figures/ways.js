// SPDX-License-Identifier: Apache-2.0
// Ways to the same result, one below the other (ways.html): bars of bytes and of time.

/** Make a bar as wide as its share of the whole width. */
export function widen(bar, share) {
  bar.style.width = `${100 * share}%`;
}
