// Attention weights, unpacked from base64 once they are looked at.
import type { Attention } from "./document";

export const MEAN = -1;

const unpacked = new WeakMap<Attention, AttentionWeights>();

function bytesOf(base64: string): Uint8Array {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export class AttentionWeights {
  readonly steps: number;
  readonly heads: number;
  private readonly queries: number;
  private readonly kept: number;
  private readonly weights: Uint8Array;
  private readonly indices: Uint16Array | null;

  constructor(attention: Attention) {
    [this.steps, this.heads, this.queries, this.kept] = attention.shape;
    this.weights = bytesOf(attention.weights);
    const bytes = attention.indices === null ? null : bytesOf(attention.indices);
    this.indices = bytes && new Uint16Array(bytes.length / 2);
    if (this.indices && bytes) {
      for (let i = 0; i < this.indices.length; i++) {
        this.indices[i] = bytes[2 * i] | (bytes[2 * i + 1] << 8);
      }
    }
  }

  /** Weights [numKeys] of a query after a step (from 1); `head` may be MEAN. */
  row(step: number, head: number, query: number, numKeys: number): Float32Array {
    const sums = new Float32Array(numKeys);
    const heads = head === MEAN ? [...Array(this.heads).keys()] : [head];
    for (const h of heads) {
      const start = (((step - 1) * this.heads + h) * this.queries + query) * this.kept;
      for (let k = 0; k < this.kept; k++) {
        const key = this.indices ? this.indices[start + k] : k;
        if (key < numKeys) sums[key] += this.weights[start + k] / 255 / heads.length;
      }
    }
    return sums;
  }
}

export function unpack(attention: Attention): AttentionWeights {
  let weights = unpacked.get(attention);
  if (!weights) {
    weights = new AttentionWeights(attention);
    unpacked.set(attention, weights);
  }
  return weights;
}
