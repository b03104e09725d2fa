// VexRiscv with compressed instructions, multiplier, divider, 4 KiB of instruction cache and as much of data cache, with its
// two Wishbone buses, the two interrupt lines and the probes that the harness needs.

module bench (
  input  logic        clk_i,
  input  logic        reset_i,
  input  logic [31:0] entry_i,

  output logic        instr_stb_o,
  input  logic        instr_ack_i,
  output logic [29:0] instr_adr_o,
  input  logic [31:0] instr_rdata_i,

  output logic        data_stb_o,
  input  logic        data_ack_i,
  output logic        data_we_o,
  output logic [29:0] data_adr_o,
  output logic [3:0]  data_sel_o,
  output logic [31:0] data_wdata_o,
  input  logic [31:0] data_rdata_i,
  // The address of an access past the cache as the instruction gave it, and the logarithm of its width.
  output logic [31:0] access_address_o,
  output logic [2:0]  access_size_o,

  input  logic        irq_timer_i,
  input  logic        irq_external_i,

  // There is an instruction in the execute stage.
  output logic        executes_o,
  // An instruction leaves the last stage in this cycle: all before it have written their registers, none behind it has.
  output logic        retires_o,
  // The instruction in the last stage.
  output logic [31:0] pc_o,
  // It has raised an exception.
  output logic        traps_o,
  // The program has said where exceptions go.
  output logic        vector_set_o,
  // `wfi` holds the core, nothing is on its way to wake it, and every store before it has reached the bus.
  output logic        asleep_o,
  input  logic [4:0]  register_i,
  output logic [31:0] register_o
);
  logic [31:0] lines;
  logic        wakes;
  assign lines = {31'b0, irq_external_i};

  VexRiscv top (
    .clk                   (clk_i),
    .reset                 (reset_i),
    .externalResetVector   (entry_i),
    .timerInterrupt        (irq_timer_i),
    .softwareInterrupt     (1'b0),
    .externalInterruptArray(lines),
    .iBusWishbone_CYC      (),
    .iBusWishbone_STB      (instr_stb_o),
    .iBusWishbone_ACK      (instr_ack_i),
    .iBusWishbone_WE       (),
    .iBusWishbone_ADR      (instr_adr_o),
    .iBusWishbone_DAT_MISO (instr_rdata_i),
    .iBusWishbone_DAT_MOSI (),
    .iBusWishbone_SEL      (),
    .iBusWishbone_ERR      (1'b0),
    .iBusWishbone_CTI      (),
    .iBusWishbone_BTE      (),
    .dBusWishbone_CYC      (),
    .dBusWishbone_STB      (data_stb_o),
    .dBusWishbone_ACK      (data_ack_i),
    .dBusWishbone_WE       (data_we_o),
    .dBusWishbone_ADR      (data_adr_o),
    .dBusWishbone_DAT_MISO (data_rdata_i),
    .dBusWishbone_DAT_MOSI (data_wdata_o),
    .dBusWishbone_SEL      (data_sel_o),
    .dBusWishbone_ERR      (1'b0),
    .dBusWishbone_CTI      (),
    .dBusWishbone_BTE      ()
  );

  assign access_address_o = top.dBus_cmd_payload_address;
  assign access_size_o    = top.dBus_cmd_payload_size;
  assign executes_o       = top.execute_arbitration_isValid;
  assign retires_o        = top.lastStageIsFiring;
  assign pc_o             = top.lastStagePc;
  assign traps_o          = top.CsrPlugin_hadException;
  assign vector_set_o     = top.CsrPlugin_mtvec_base != '0;
  // The lines take two registers to the comparison with `mie`, and one more to the stage that waits.
  assign wakes            = top.execute_CsrPlugin_wfiWake ||
                            top.CsrPlugin_mie_MTIE && (irq_timer_i || top.CsrPlugin_mip_MTIP) ||
                            top.CsrPlugin_mie_MEIE && (top.CsrPlugin_mip_MEIP || top.externalInterrupt ||
                              (lines & top._zz_CsrPlugin_csrMapping_readDataInit) != '0);
  assign asleep_o         = top.when_CsrPlugin_l1108 && !wakes && !top.memory_arbitration_isValid &&
                            !top.writeBack_arbitration_isValid && !data_stb_o;
  assign register_o       = register_i == '0 ? '0 : top.RegFilePlugin_regFile[register_i];
endmodule
