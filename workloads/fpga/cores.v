// Logic for a small FPGA: multipliers, counters and shift registers that feed one another.
module top (input clk, input [7:0] data, output reg [7:0] out);
  parameter CORES = 12;
  reg [15:0] state [0:CORES - 1];
  integer i;
  always @(posedge clk) begin
    state[0] <= state[CORES - 1] ^ {data, data} + state[0] * 16'd5;
    for (i = 1; i < CORES; i = i + 1)
      state[i] <= {state[i - 1][14:0], ^state[i]} + (state[i] ^ (state[i - 1] >> i)) * (2 * i + 1);
    out <= state[CORES - 1][15:8] ^ state[CORES / 2][7:0];
  end
endmodule
