//! The execution of instructions: the main loop, and the privileged and control-register instructions.

use super::Stop;
use super::arithmetic::by_kind;
use super::assemble::csr::{MIE, MSTATUS};
use super::decode::{Kind, NOWHERE, Op};
use super::ibex::{Access, Ibex};
use super::memory::{Code, Stored};
use super::watch::Met;

impl Ibex {
    /// Executes instructions that enter decode before `limit`, up to the first that changes more than registers and memory.
    pub(super) fn execute(&mut self, limit: u64) -> Option<Stop> {
        let pc = self.pc;
        let Some(mut code) = self.memory.lend(pc) else {
            return Some(Stop::Fault { pc, address: pc, reason: "fetch outside RAM" });
        };
        let stop = if self.timing.writeback {
            self.execute_in::<true>(&mut code, limit)
        } else {
            self.execute_in::<false>(&mut code, limit)
        };
        self.memory.give_back(code);
        self.watches.forget(&mut self.memory);
        stop
    }

    fn execute_in<const WRITEBACK: bool>(&mut self, code: &mut Code, mut limit: u64) -> Option<Stop> {
        let timing = self.timing;
        // With a writeback stage, an access waits there for its response. Only an access that crosses a word also waits in
        // decode, for the response to its first half.
        let wait = if WRITEBACK { 0 } else { timing.data_wait };
        let (load, store) = (timing.load + wait, timing.store + wait);
        let crossing = timing.crossing + timing.data_wait - wait;
        let begun = self.start;
        let mut access = self.access;
        let mut pc = self.pc;
        let mut start = self.start;
        let mut retired = self.retired;
        // The last redirect: the cycle from which on decode was empty, and the cycle in which the target entered it.
        let (mut emptied, mut resumed) = (self.free, self.start);
        let (mut target, mut arrived) = (self.target, self.arrived);

        // Takes a branch or jump in the loop below.
        macro_rules! go {
            ($target:expr, $cost:expr, $empty:expr) => {{
                pc = $target;
                let ahead = if WRITEBACK { access.ahead(start) } else { 0 };
                if self.prefetch.is_some() {
                    self.start = start - ahead;
                    self.redirected($cost);
                }
                emptied = start + $cost - $empty;
                start = start + $cost - ahead;
                if pc & 2 != 0 && self.memory.is_split(pc) {
                    start += timing.split_target;
                }
                if WRITEBACK {
                    start = start.max(emptied);
                }
                resumed = start;
                (target, arrived) = (pc, start);
                retired += 1;
                continue;
            }};
        }
        macro_rules! branch {
            ($taken:expr, $op:ident, $next:ident) => {{
                if $taken {
                    go!($op.immediate, timing.branch_taken, timing.empty);
                }
                pc = $next;
                start += timing.alu;
                retired += 1;
                continue;
            }};
        }
        // A load or store leaves decode; `$rd` is the register that it loads.
        macro_rules! accessed {
            ($next:ident, $cost:expr, $rd:expr, $crosses:expr) => {{
                pc = $next;
                start += $cost;
                if WRITEBACK {
                    let response_cycle = start + if $crosses { 0 } else { timing.data_wait };
                    let used = self.memory.reads(code, pc, $rd);
                    let ready = response_cycle + if used { timing.load_use } else { 0 };
                    access = Access { next: start, response_cycle, ready };
                    start = ready;
                }
            }};
        }
        macro_rules! load {
            ($type:ty, $width:literal, $base:ident, $op:ident, $next:ident) => {{
                let address = $base.wrapping_add($op.immediate);
                let Some(bytes) = self.memory.load::<$width>(address) else {
                    let stop = self.device_load(pc, start, *$op, address, $width);
                    if self.unretired {
                        accessed!($next, load, $op.rd, false);
                    }
                    break Some(stop);
                };
                self.registers[usize::from($op.rd & 63)] = <$type>::from_le_bytes(bytes) as u32;
                let crosses = crosses(address, $width);
                accessed!($next, if crosses { load + crossing } else { load }, $op.rd, crosses);
                retired += 1;
                continue;
            }};
        }
        macro_rules! store {
            ($type:ty, $width:literal, $base:ident, $value:ident, $op:ident, $next:ident) => {{
                let address = $base.wrapping_add($op.immediate);
                match self.memory.store::<$width>(address, ($value as $type).to_le_bytes()) {
                    Some(Stored::Data) => {}
                    Some(Stored::Code) => self.memory.forget(code, address, $width),
                    None => {
                        let stop = self.device_store(pc, start, address, $width, u32::from($value as $type));
                        if self.unretired {
                            accessed!($next, store, NOWHERE, false);
                        }
                        break Some(stop);
                    }
                }
                let crosses = crosses(address, $width);
                accessed!($next, if crosses { store + crossing } else { store }, NOWHERE, crosses);
                retired += 1;
                continue;
            }};
        }

        let stop = loop {
            if start >= limit {
                break None;
            }
            let Some(op) = code.ops.get(pc.wrapping_sub(code.base) as usize / 2) else { break None };
            let next = pc.wrapping_add(u32::from(op.size));
            let a = self.registers[usize::from(op.rs1 & 63)];
            let b = self.registers[usize::from(op.rs2 & 63)];
            let (value, cost) = by_kind!(
                op, next, a, b,
                arithmetic: timing.alu, shift by _amount: timing.alu, mul: timing.mul, mulh: timing.mulh,
                div: if b == 0 { timing.div_by_zero } else { timing.div },
                Kind::Jal => {
                    self.registers[usize::from(op.rd & 63)] = next;
                    go!(op.immediate, timing.jump, timing.jump_empty)
                },
                Kind::Jalr => {
                    self.registers[usize::from(op.rd & 63)] = next;
                    go!(a.wrapping_add(op.immediate) & !1, timing.jump, timing.jump_empty)
                },
                Kind::FenceI => go!(next, timing.jump, timing.jump_empty),
                Kind::Fence => {
                    pc = next;
                    start += timing.alu;
                    retired += 1;
                    continue;
                },
                Kind::Unknown => match self.watches.meet(&mut self.memory, code, pc, start) {
                    Ok(Met::Ordinary) => continue,
                    Ok(Met::Watched) => {
                        limit = start + 1;
                        continue;
                    }
                    Err(stop) => {
                        self.now = start;
                        break Some(stop);
                    }
                },
                Kind::Illegal
                | Kind::Ecall
                | Kind::Ebreak
                | Kind::Mret
                | Kind::Wfi
                | Kind::Csrrw
                | Kind::Csrrs
                | Kind::Csrrc
                | Kind::Csrrwi
                | Kind::Csrrsi
                | Kind::Csrrci
                | Kind::Getq
                | Kind::Setq
                | Kind::Retirq
                | Kind::Maskirq
                | Kind::Waitirq
                | Kind::Timer => {
                    (self.pc, self.start, self.retired) = (pc, start, retired);
                    (self.target, self.arrived) = (target, arrived);
                    self.free = if start == resumed { emptied } else { start };
                    if WRITEBACK {
                        self.access = access;
                        self.free = if start == access.ready { access.response_cycle } else { self.free };
                    }
                    return self.machine(*op, a);
                }
            );
            self.registers[usize::from(op.rd & 63)] = value;
            pc = next;
            start += cost;
            retired += 1;
        };
        (self.pc, self.start, self.retired) = (pc, start, retired);
        (self.target, self.arrived) = (target, arrived);
        self.free = if start == resumed { emptied } else { start };
        if WRITEBACK {
            self.access = access;
            // The next instruction enters decode while the last one waits for its response.
            if start == access.ready && start != begun {
                (self.start, self.free) = (access.next, access.response_cycle);
            }
        }
        stop
    }

    /// A load outside RAM: the access is made in the instruction's first cycle, and the instruction retires later.
    #[cold]
    fn device_load(&mut self, pc: u32, start: u64, op: Op, address: u32, width: u8) -> Stop {
        self.now = start;
        if let Err(reason) = self.reach(address, width) {
            return Stop::Fault { pc, address, reason };
        }
        self.unretired = true;
        self.awaited = Some(op);
        Stop::Load { address, width }
    }

    /// A store outside RAM.
    #[cold]
    fn device_store(&mut self, pc: u32, start: u64, address: u32, width: u8, value: u32) -> Stop {
        self.now = start;
        if let Err(reason) = self.reach(address, width) {
            return Stop::Fault { pc, address, reason };
        }
        self.unretired = true;
        Stop::Store { address, width, value }
    }

    /// Checks that all bytes of an access are in the device region.
    fn reach(&self, address: u32, width: u8) -> Result<(), &'static str> {
        if !self.devices.contains(&address) {
            Err("access outside RAM and devices")
        } else if !address.is_multiple_of(u32::from(width)) {
            Err("misaligned access to a device")
        } else {
            Ok(())
        }
    }

    /// Executes a privileged or control-register instruction: traps, `wfi`, CSR accesses. `a` is its source.
    fn machine(&mut self, op: Op, a: u32) -> Option<Stop> {
        match op.kind {
            Kind::Ecall => self.exception(self.csr.environment_call(), 0, "ecall without a trap vector"),
            Kind::Ebreak => self.exception(3, 0, "ebreak without a trap vector"),
            Kind::Mret => {
                let Some(target) = self.csr.leave() else { return self.illegal() };
                self.retired += 1;
                self.redirect(target, self.timing.mret);
                self.interrupts_changed(self.free);
                None
            }
            Kind::Wfi if !self.csr.may_not_wait() => {
                self.retired += 1;
                self.pc = self.pc.wrapping_add(u32::from(op.size));
                self.start += self.timing.sleep;
                self.asleep = Some(self.start);
                None
            }
            Kind::Csrrw | Kind::Csrrs | Kind::Csrrc => self.access(op, a),
            Kind::Csrrwi | Kind::Csrrsi | Kind::Csrrci => self.access(op, u32::from(op.rs1)),
            _ => self.illegal(),
        }
    }

    /// Reads a control register, and then writes `source` to it, or sets or clears the bits of `source` in it.
    fn access(&mut self, op: Op, source: u32) -> Option<Stop> {
        let (number, moment) = (op.immediate, self.moment());
        let Some(old) = self.csr.read(number, moment) else { return self.illegal() };
        let (value, writes) = match op.kind {
            Kind::Csrrw | Kind::Csrrwi => (source, true),
            Kind::Csrrs | Kind::Csrrsi => (old | source, op.rs1 != 0),
            _ => (old & !source, op.rs1 != 0),
        };
        if writes && !self.csr.write(number, value, moment) {
            return self.illegal();
        }
        self.registers[usize::from(op.rd & 63)] = old;
        self.retired += 1;
        self.pc = self.pc.wrapping_add(u32::from(op.size));
        self.interrupts_changed(self.start + 1);
        let clears = matches!(op.kind, Kind::Csrrc | Kind::Csrrci);
        if writes && !clears && matches!(number, MSTATUS | MIE) {
            self.start += self.timing.csr_flush;
            self.free = self.start - self.timing.empty;
        } else {
            self.start += self.timing.alu;
            self.free = self.start;
        }
        None
    }

    fn illegal(&mut self) -> Option<Stop> {
        let bits = self.memory.instruction(self.pc).unwrap_or(0);
        self.exception(2, bits, "illegal instruction without a trap vector")
    }

    /// Takes an exception, or stops with a fault if the program has not set the trap vector.
    fn exception(&mut self, cause: u32, value: u32, reason: &'static str) -> Option<Stop> {
        let pc = self.pc;
        if !self.csr.vector_set() {
            self.now = self.start;
            return Some(Stop::Fault { pc, address: pc, reason });
        }
        let handler = self.csr.exception(pc, cause, value);
        self.redirect(handler, self.timing.trap);
        self.interrupts_changed(self.free);
        None
    }
}

/// Whether an access takes two requests. (A halfword in the middle of a word takes one.)
#[inline]
fn crosses(address: u32, width: u32) -> bool {
    (address & 3) + width > 4
}
