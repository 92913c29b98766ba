// A hypercube of 256 nodes that pass messages to one another along their dimensions; after
// lindsay, a simulator of hypercube networks.
module hypercube;
  parameter DIMENSIONS = 8;
  parameter NODES = 1 << DIMENSIONS;
  parameter DEPTH = 8;
  parameter CYCLES = 300;

  reg clock = 0;
  always #5 clock = ~clock;

  // Each node has one register to send, towards each dimension: valid bit, goal, hops.
  reg [DIMENSIONS + 8:0] link [0:NODES * DIMENSIONS - 1];
  reg [DIMENSIONS + 8:0] next [0:NODES * DIMENSIONS - 1];
  integer delivered = 0, dropped = 0, hops = 0, sent = 0, cycle = 0;
  reg [31:0] noise = 32'd12345;

  function [31:0] scramble(input [31:0] x);
    scramble = x * 32'd1664525 + 32'd1013904223;
  endfunction

  task route(input integer node, input [DIMENSIONS - 1:0] goal, input [7:0] count);
    integer d;
    reg placed;
    begin
      placed = 0;
      if (goal == node) begin
        delivered = delivered + 1;
        hops = hops + count;
        placed = 1;
      end
      for (d = 0; d < DIMENSIONS && !placed; d = d + 1) begin
        if (goal[d] != node[d] && !next[node * DIMENSIONS + d][DIMENSIONS + 8]) begin
          next[node * DIMENSIONS + d] = {1'b1, goal, count + 8'd1};
          placed = 1;
        end
      end
      if (!placed) dropped = dropped + 1;
    end
  endtask

  integer n, k, source;
  reg [DIMENSIONS + 8:0] message;
  initial for (n = 0; n < NODES * DIMENSIONS; n = n + 1) begin link[n] = 0; next[n] = 0; end

  always @(posedge clock) begin
    for (n = 0; n < NODES; n = n + 1) begin
      for (k = 0; k < DIMENSIONS; k = k + 1) begin
        source = n ^ (1 << k);
        message = link[source * DIMENSIONS + k];
        if (message[DIMENSIONS + 8]) route(n, message[DIMENSIONS + 7:8], message[7:0]);
      end
      noise = scramble(noise);
      if (noise[31:30] == 0) begin
        sent = sent + 1;
        route(n, noise[29 -: DIMENSIONS], 0);
      end
    end
    for (n = 0; n < NODES * DIMENSIONS; n = n + 1) begin link[n] = next[n]; next[n] = 0; end
    cycle = cycle + 1;
    if (cycle % 20 == 0)
      $display("%0d: sent %0d delivered %0d dropped %0d hops %0d", cycle, sent, delivered, dropped,
               hops);
    if (cycle == CYCLES) $finish;
  end
endmodule
