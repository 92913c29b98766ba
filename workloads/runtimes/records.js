'use strict';

// Chains of records in a table, in Node: the same work as the other programs of this folder.
//
// records.js [ITERATIONS] [SLOTS] [RECORDS]

const fs = require('fs');

const MOST_DEPTH = 8;

class Record {
  constructor(key, depth, following) {
    this.key = key;
    this.values = [key, (key ^ 1) >>> 0, (key ^ 2) >>> 0, (key ^ 3) >>> 0];
    this.depth = depth;
    this.next = following;
    this.previous = null;
    if (following !== null) following.previous = this;
  }
}

// Makes records, each in front of the chain of a slot, and drops chains that are long.
function iterate(slots, records) {
  const table = new Array(slots).fill(null);
  let state = 1;
  let digest = 0;
  for (let number = 0; number < records; ++number) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const slot = (state >>> 8) % slots;
    const old = table[slot];
    const record = old !== null && old.depth < MOST_DEPTH
      ? new Record(state, old.depth + 1, old)
      : new Record(state, 0, null);
    table[slot] = record;
    for (let each = record.next; each !== null; each = each.next) {
      digest = (Math.imul(digest, 31) + each.values[each.depth & 3]) >>> 0;
    }
  }
  return digest;
}

const given = process.argv.slice(2).map(Number);
const [iterations, slots, records] = [...given, ...[12, 20000, 200000].slice(given.length)];
const lines = ['iteration,start_ns,end_ns,cpu_ns'];
let digest = 0;
for (let number = 0; number < iterations; ++number) {
  const before = process.cpuUsage();
  const start = process.hrtime.bigint();
  digest = iterate(slots, records);
  const end = process.hrtime.bigint();
  const used = process.cpuUsage(before);
  lines.push(`${number},${start},${end},${(used.user + used.system) * 1000}`);
}
if (process.env.TARE_ITERATIONS) {
  fs.writeFileSync(process.env.TARE_ITERATIONS, `${lines.join('\n')}\n`);
}
console.log(digest.toString(16).padStart(8, '0'));
