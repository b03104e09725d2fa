// PicoRV32 with compressed instructions, interrupts, multiplier and divider, as small or as fast as that can be, with its
// bus, the two interrupt lines and the probes that the harness needs.

module bench #(
  parameter bit Fast = 1'b0
) (
  input  logic        clk_i,
  input  logic        resetn_i,

  output logic        mem_valid_o,
  output logic        mem_instr_o,
  input  logic        mem_ready_i,
  output logic [31:0] mem_addr_o,
  output logic [31:0] mem_wdata_o,
  output logic [3:0]  mem_wstrb_o,
  input  logic [31:0] mem_rdata_i,
  // The address of a load or store as the instruction gave it, and the logarithm of 4 over its width.
  output logic [31:0] access_address_o,
  output logic [1:0]  access_size_o,

  input  logic        irq_timer_i,
  input  logic        irq_external_i,

  // An instruction is launched in this cycle.
  output logic        begins_o,
  output logic [31:0] pc_o,
  // The core has given up.
  output logic        trapped_o,
  // `waitirq` holds the core, and nothing is about to end it.
  output logic        asleep_o,
  input  logic [4:0]  register_i,
  output logic [31:0] register_o
);
  logic [31:0] irq;
  assign irq = {20'b0, irq_external_i, 3'b0, irq_timer_i, 7'b0};

  picorv32 #(
    .COMPRESSED_ISA  (1'b1),
    .BARREL_SHIFTER  (Fast),
    .ENABLE_FAST_MUL (Fast),
    .ENABLE_MUL      (!Fast),
    .ENABLE_DIV      (1'b1),
    .ENABLE_IRQ      (1'b1),
    // The two lines are levels, the core's own interrupts are pulses.
    .LATCHED_IRQ     (32'h0000_0007),
    .PROGADDR_RESET  (32'h0010_0000),
    .PROGADDR_IRQ    (32'h0010_0010)
  ) top (
    .clk         (clk_i),
    .resetn      (resetn_i),
    .trap        (),
    .mem_valid   (mem_valid_o),
    .mem_instr   (mem_instr_o),
    .mem_ready   (mem_ready_i),
    .mem_addr    (mem_addr_o),
    .mem_wdata   (mem_wdata_o),
    .mem_wstrb   (mem_wstrb_o),
    .mem_rdata   (mem_rdata_i),
    .mem_la_read (),
    .mem_la_write(),
    .mem_la_addr (),
    .mem_la_wdata(),
    .mem_la_wstrb(),
    .pcpi_valid  (),
    .pcpi_insn   (),
    .pcpi_rs1    (),
    .pcpi_rs2    (),
    .pcpi_wr     (1'b0),
    .pcpi_rd     ('0),
    .pcpi_wait   (1'b0),
    .pcpi_ready  (1'b0),
    .irq         (irq),
    .eoi         (),
    .trace_valid (),
    .trace_data  ()
  );

  assign access_address_o = top.reg_op1;
  assign access_size_o    = top.mem_wordsize;
  assign begins_o         = top.launch_next_insn;
  assign pc_o             = top.next_pc;
  assign trapped_o        = top.cpu_state == top.cpu_state_trap;
  assign asleep_o         = top.do_waitirq && top.irq_pending == '0 && irq == '0 && top.timer == '0;
  // What is about to be written counts as written.
  assign register_o       = register_i == '0 ? '0 :
                            top.cpuregs_write && top.latched_rd == {1'b0, register_i} ? top.cpuregs_wrdata :
                            top.cpuregs[{1'b0, register_i}];
endmodule
