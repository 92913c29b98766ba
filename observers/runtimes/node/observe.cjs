'use strict';

// Loaded into each Node process by --require: writes what V8 was told and what heap it has into the
// folder of the run, at the start and again at an orderly end.

const { isMainThread } = require('worker_threads');

const folder = process.env.TARE_NODE;
if (folder && isMainThread) {
  const fs = require('fs');
  const v8 = require('v8');
  const note = (ended) => {
    const seen = {
      pid: process.pid,
      version: process.versions.node,
      v8: process.versions.v8,
      arguments: process.execArgv,
      heap_limit_bytes: v8.getHeapStatistics().heap_size_limit,
      ended,
    };
    fs.writeFileSync(`${folder}/${process.pid}.process`, JSON.stringify(seen));
  };
  note(false);
  process.on('exit', () => note(true));
  // A service is ended by a signal. V8's events are written at an orderly end alone, so that is what
  // a signal comes to where the program has not said otherwise.
  const { signals } = require('os').constants;
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.on(signal, () => {
      if (process.listenerCount(signal) === 1) process.exit(128 + signals[signal]);
    });
  }
}
