// Ibex in its "small" or "maxperf" configuration, with the two buses, the timer line and the probes that the harness needs.

module bench import ibex_pkg::*; #(
  parameter bit MaxPerf = 1'b0
) (
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic [31:0] boot_addr_i,

  output logic        instr_req_o,
  output logic [31:0] instr_addr_o,
  input  logic        instr_rvalid_i,
  input  logic [31:0] instr_rdata_i,
  input  logic        instr_err_i,

  output logic        data_req_o,
  output logic        data_we_o,
  output logic [3:0]  data_be_o,
  output logic [31:0] data_addr_o,
  output logic [31:0] data_wdata_o,
  // The instruction's access crosses a word and takes two requests.
  output logic        data_crosses_o,
  input  logic        data_rvalid_i,
  input  logic [31:0] data_rdata_i,

  input  logic        irq_timer_i,
  input  logic        irq_external_i,

  // An instruction is in the execute stage, waits for no answer to an earlier one, and this is the first such cycle.
  output logic        begins_o,
  output logic [31:0] pc_o,
  // The instruction in the execute stage could not be fetched, or raises an exception.
  output logic        fetch_fault_o,
  output logic        traps_o,
  // The program has said where exceptions go.
  output logic        vector_set_o,
  // An instruction that `minstret` counts completes in this cycle.
  output logic        retires_o,
  // `wfi` holds the core, and nothing wakes it.
  output logic        asleep_o,
  input  logic [4:0]  register_i,
  output logic [31:0] register_o
);
  logic sleeping, waits, unused_gated;

  ibex_top #(
    .RV32M          (MaxPerf ? RV32MSingleCycle : RV32MFast),
    .RV32B          (RV32BNone),
    .RegFile        (RegFileFF),
    .BranchTargetALU(MaxPerf),
    .WritebackStage (MaxPerf),
    .ICache         (1'b0),
    .BranchPredictor(1'b0),
    .PMPEnable      (1'b0),
    .SecureIbex     (1'b0)
  ) top (
    .clk_i,
    .rst_ni,
    .test_en_i             (1'b0),
    .ram_cfg_i             ('0),
    .hart_id_i             (32'd0),
    .boot_addr_i,
    .instr_req_o,
    .instr_gnt_i           (1'b1),
    .instr_rvalid_i,
    .instr_addr_o,
    .instr_rdata_i,
    .instr_rdata_intg_i    ('0),
    .instr_err_i,
    .data_req_o,
    .data_gnt_i            (1'b1),
    .data_rvalid_i,
    .data_we_o,
    .data_be_o,
    .data_addr_o,
    .data_wdata_o,
    .data_wdata_intg_o     (),
    .data_rdata_i,
    .data_rdata_intg_i     ('0),
    .data_err_i            (1'b0),
    .irq_software_i        (1'b0),
    .irq_timer_i,
    .irq_external_i,
    .irq_fast_i            ('0),
    .irq_nm_i              (1'b0),
    .scramble_key_valid_i  (1'b0),
    .scramble_key_i        ('0),
    .scramble_nonce_i      ('0),
    .scramble_req_o        (),
    .debug_req_i           (1'b0),
    .crash_dump_o          (),
    .double_fault_seen_o   (),
    .fetch_enable_i        (IbexMuBiOn),
    .alert_minor_o         (),
    .alert_major_internal_o(),
    .alert_major_bus_o     (),
    .core_sleep_o          (unused_gated),
    .scan_rst_ni           (1'b1)
  );

  assign data_crosses_o = top.u_ibex_core.load_store_unit_i.split_misaligned_access;
  assign begins_o      = top.u_ibex_core.id_stage_i.instr_first_cycle &
                         top.u_ibex_core.id_stage_i.controller_run & ~waits;
  assign pc_o          = top.u_ibex_core.pc_id;
  assign fetch_fault_o = begins_o & top.u_ibex_core.instr_fetch_err;
  assign traps_o       = begins_o & top.u_ibex_core.id_stage_i.controller_i.exc_req_d;
  assign vector_set_o  = top.u_ibex_core.csr_mtvec[31:8] != boot_addr_i[31:8];
  assign retires_o     = top.u_ibex_core.instr_id_done & top.u_ibex_core.instr_perf_count_id;
  assign sleeping      = top.u_ibex_core.id_stage_i.controller_i.ctrl_fsm_cs == SLEEP;
  assign asleep_o      = sleeping & ~top.u_ibex_core.irq_pending_o;

  if (MaxPerf) begin : gen_writeback
    assign waits = top.u_ibex_core.id_stage_i.gen_stall_mem.outstanding_memory_access |
                   top.u_ibex_core.id_stage_i.stall_ld_hz;
    // What the writeback stage is about to write counts as written.
    assign register_o = top.u_ibex_core.rf_we_wb && top.u_ibex_core.rf_waddr_wb == register_i && register_i != 0 ?
                        top.u_ibex_core.rf_wdata_wb : top.gen_regfile_ff.register_file_i.rf_reg[register_i];
  end else begin : gen_two_stages
    assign waits = 1'b0;
    assign register_o = top.gen_regfile_ff.register_file_i.rf_reg[register_i];
  end
endmodule
