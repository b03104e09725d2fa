//! The recorded behaviour of the RTL on the pieces of [`phase`] and on some random programs: a text with which tests compare
//! the models. `hil rtl --record` rewrites it.

use std::ops::ControlFlow;

use anyhow::Result;

use super::{Reset, phase, play, program};
use crate::core::{Design, Dialect};

/// The record of a design.
#[must_use]
pub const fn recorded(design: Design) -> &'static str {
    match design {
        Design::Ibex => include_str!("recorded/ibex.txt"),
        Design::IbexMaxperf => include_str!("recorded/ibex-maxperf.txt"),
        Design::Picorv32 => include_str!("recorded/picorv32.txt"),
        Design::Picorv32Min => include_str!("recorded/picorv32-min.txt"),
    }
}

/// Seeds of the recorded programs.
const SEEDS: std::ops::Range<u64> = 0..100;
/// Wait states that are recorded.
const WAITS: std::ops::Range<u64> = 0..3;

/// Runs a program from the beginning to its end, with interrupts at random cycles drawn from `seed`.
///
/// # Errors
/// The core cannot be restarted.
pub fn run<C: Reset>(
    core: &mut C,
    timing: C::Timing,
    program: &program::Program,
    seed: u64,
) -> Result<play::ProgramRun> {
    core.reset(&[program::RAM], program::DEVICE, timing, program.entry())?;
    core.poke(program.base(), program.bytes());
    program.watched().iter().for_each(|&pc| core.watch(pc));
    Ok(play::play(core, seed))
}

/// Runs a program without interrupts, and returns only its result. Loads read random values drawn from `seed`.
///
/// # Errors
/// The core cannot be restarted.
pub fn outcome<C: Reset>(
    core: &mut C,
    timing: C::Timing,
    program: &program::Program,
    seed: u64,
) -> Result<play::Outcome> {
    core.reset(&[program::RAM], program::DEVICE, timing, program.entry())?;
    core.poke(program.base(), program.bytes());
    Ok(play::outcome(core, seed))
}

/// Makes the lines of the record, one for each piece and each program and each number of wait states, until `each` returns
/// `Break`. `timing` maps a number of wait states to the core's timing.
///
/// # Errors
/// The core cannot be restarted.
pub fn lines<C: Reset>(
    core: &mut C,
    dialect: Dialect,
    timing: impl Fn(u64) -> C::Timing,
    mut each: impl FnMut(&str) -> ControlFlow<()>,
) -> Result<()> {
    for wait in WAITS {
        for fragment in phase::fragments(dialect) {
            let program_run = fragment.program_run(core, timing(wait))?;
            if each(&format!("wait {wait}, {}: {program_run}", fragment.name)).is_break() {
                return Ok(());
            }
        }
        for seed in SEEDS {
            let program_run = run(core, timing(wait), &program::generate(dialect, seed), seed)?;
            let (cycles, instructions, print) = (program_run.cycles(), program_run.instructions(), program_run.print());
            let line = format!("wait {wait}, seed {seed}: {cycles} cycles, {instructions} instructions, {print:08x}");
            if each(&line).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Ibex, PicoTiming, Picorv32, Timing};

    const IBEXES: [(Design, Timing); 2] =
        [(Design::Ibex, Timing::IBEX_SMALL), (Design::IbexMaxperf, Timing::IBEX_MAXPERF)];

    const PICOS: [(Design, PicoTiming); 2] =
        [(Design::Picorv32, PicoTiming::FAST), (Design::Picorv32Min, PicoTiming::MIN)];

    /// The first line of a design's record that a model contradicts, and the model's line.
    fn contradiction<C: Reset>(
        mut model: C,
        design: Design,
        timing: impl Fn(u64) -> C::Timing,
    ) -> Option<(String, String)> {
        let mut recorded = recorded(design).lines();
        let mut found = None;
        let done = lines(&mut model, design.dialect(), timing, |line| {
            let expected = recorded.next().unwrap_or("the record ends here");
            if line == expected {
                return ControlFlow::Continue(());
            }
            found = Some((expected.to_owned(), line.to_owned()));
            ControlFlow::Break(())
        });
        assert!(done.is_ok(), "the model restarts");
        found
    }

    fn ibex() -> Ibex {
        Ibex::new(&[], 0..0, Timing::IBEX_SMALL, 0)
    }

    fn picorv32() -> Picorv32 {
        Picorv32::new(&[], 0..0, PicoTiming::FAST, 0)
    }

    #[test]
    fn the_models_do_what_the_rtl_did() {
        for (design, timing) in IBEXES {
            assert_eq!(contradiction(ibex(), design, |wait| timing.with_wait(wait)), None, "{}", design.name());
        }
        for (design, timing) in PICOS {
            assert_eq!(contradiction(picorv32(), design, |wait| timing.with_wait(wait)), None, "{}", design.name());
        }
    }

    /// Every rule affects the record: a model without the rule, or with one cycle less, differs from the record.
    macro_rules! without_any_rule {
        ($model:ident, $design:ident, $timing:ident: $type:ident { $($other:ident)* | $($rule:ident)* }) => {{
            // A rule that is added to the model must be added to the list.
            let $type { $($other: _,)* $($rule: _),* } = $timing;
            let rules = [$((stringify!($rule), (|timing| &mut timing.$rule) as fn(&mut $type) -> &mut u64)),*];
            for (rule, field) in rules {
                for removed in [|value: u64| value.saturating_sub(1), |_| 0] {
                    let changed = |wait| {
                        let mut timing = $timing.with_wait(wait);
                        let value = field(&mut timing);
                        *value = removed(*value);
                        timing
                    };
                    // A rule of 0 cycles does not apply to the design.
                    if changed(1) != $timing.with_wait(1) {
                        let name = $design.name();
                        let found = contradiction($model(), $design, changed);
                        assert!(found.is_some(), "nothing in {name}'s record needs the rule {rule}");
                    }
                }
            }
        }};
    }

    #[test]
    fn every_timing_rule_of_ibex_affects_its_record() {
        for (design, timing) in IBEXES {
            without_any_rule!(ibex, design, timing: Timing {
                writeback
                | alu load store crossing mul mulh div div_by_zero jump jump_empty branch_taken split_target mret trap
                csr_flush empty interrupt sleep wake load_use fetch_wait data_wait
            });
            let changed = |wait| Timing { writeback: !timing.writeback, ..timing.with_wait(wait) };
            assert!(
                contradiction(ibex(), design, changed).is_some(),
                "nothing in the record needs the writeback stage"
            );
        }
    }

    #[test]
    fn every_timing_rule_of_picorv32_affects_its_record() {
        for (design, timing) in PICOS {
            without_any_rule!(picorv32, design, timing: PicoTiming {
                stepwise
                | alu shift memory branch_taken jump jump_register special return_ wait interrupt illegal mul mulh div split
                fetch_wait data_wait
            });
            let changed = |wait| PicoTiming { stepwise: !timing.stepwise, ..timing.with_wait(wait) };
            assert!(contradiction(picorv32(), design, changed).is_some(), "nothing in the record needs the steps");
        }
    }
}
