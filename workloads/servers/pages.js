// A server of Node alone: each page is a table that it makes, as JSON. pages.js PORT
"use strict";

const http = require("node:http");

const ROWS = 300;

http
  .createServer((request, response) => {
    const rows = Array.from({ length: ROWS }, (_, n) => ({ number: n, name: `row ${n}`, square: n * n }));
    const page = JSON.stringify({ path: request.url, rows });
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(page) });
    response.end(page);
  })
  .listen(Number(process.argv[2]), "127.0.0.1");
