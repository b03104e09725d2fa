//! What the RTL does with the pieces of [`phase`] and with some random programs, as a text that tests compare the model
//! with; `hil rtl --record` writes it anew.

use std::ops::ControlFlow;

use anyhow::Result;

use super::{Restart, phase, play, program};
use crate::core::Design;

/// The record of a design.
#[must_use]
pub const fn recorded(design: Design) -> &'static str {
    match design {
        Design::Ibex => include_str!("recorded/ibex.txt"),
        Design::IbexMaxperf => include_str!("recorded/ibex-maxperf.txt"),
    }
}

/// Seeds of the recorded programs.
const SEEDS: std::ops::Range<u64> = 0..100;
/// Wait states that are recorded.
const WAITS: std::ops::Range<u64> = 0..3;

/// Runs the program that belongs to `seed` from the beginning to its end.
///
/// # Errors
/// The core cannot be restarted.
pub fn run<C: Restart>(core: &mut C, timing: C::Timing, program: &program::Program, seed: u64) -> Result<play::Course> {
    core.restart(&[program::RAM], program::DEVICE, timing, program.entry())?;
    core.poke(program.base(), program.bytes());
    program.watched().iter().for_each(|&pc| core.watch(pc));
    Ok(play::play(core, seed))
}

/// Makes the lines of the record, one for each piece and each program and each number of wait states, until `each` says
/// that it is enough. `timing` is the core's for a number of wait states.
///
/// # Errors
/// The core cannot be restarted.
pub fn lines<C: Restart>(
    core: &mut C,
    timing: impl Fn(u64) -> C::Timing,
    mut each: impl FnMut(&str) -> ControlFlow<()>,
) -> Result<()> {
    for wait in WAITS {
        for piece in phase::PIECES {
            let course = piece.course(core, timing(wait))?;
            if each(&format!("wait {wait}, {}: {course}", piece.name)).is_break() {
                return Ok(());
            }
        }
        for seed in SEEDS {
            let course = run(core, timing(wait), &program::generate(seed), seed)?;
            let (cycles, instructions, print) = (course.cycles(), course.instructions(), course.print());
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
    use crate::core::{Ibex, Timing};

    const IBEXES: [(Design, Timing); 2] =
        [(Design::Ibex, Timing::IBEX_SMALL), (Design::IbexMaxperf, Timing::IBEX_MAXPERF)];

    /// The first line of the record that the model contradicts, and what it says instead.
    fn contradiction(design: Design, timing: impl Fn(u64) -> Timing) -> Option<(String, String)> {
        let mut model = Ibex::new(&[], 0..0, Timing::IBEX_SMALL, 0);
        let mut recorded = recorded(design).lines();
        let mut found = None;
        let done = lines(&mut model, timing, |line| {
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

    #[test]
    fn the_model_does_what_the_rtl_did() {
        for (design, timing) in IBEXES {
            assert_eq!(contradiction(design, |wait| timing.with_wait(wait)), None, "{}", design.name());
        }
    }

    /// Each rule takes part in what was recorded: a model without it, or with one cycle less, says something else.
    #[test]
    fn without_any_one_rule_the_model_differs() {
        macro_rules! rules {
            ($($rule:ident)*) => {{
                // A rule that is added to the model must be added below.
                let Timing { writeback: _, $($rule: _),* } = Timing::IBEX_SMALL;
                [$((stringify!($rule), (|timing| &mut timing.$rule) as fn(&mut Timing) -> &mut u64)),*]
            }};
        }
        let rules = rules! {
            alu load store crossing mul mulh div div_by_zero jump jump_empty branch_taken split_target mret trap csr_flush
            empty interrupt sleep wake load_use fetch_wait data_wait
        };
        for (design, timing) in IBEXES {
            for (rule, field) in rules {
                for removed in [|value: u64| value.saturating_sub(1), |_| 0] {
                    let changed = |wait| {
                        let mut timing = timing.with_wait(wait);
                        let value = field(&mut timing);
                        *value = removed(*value);
                        timing
                    };
                    // Two-stage cores have no use for some rules, and say so by a zero.
                    if changed(1) != timing.with_wait(1) {
                        let name = design.name();
                        assert!(
                            contradiction(design, changed).is_some(),
                            "nothing in {name}'s record needs the rule {rule}"
                        );
                    }
                }
            }
            let changed = |wait| Timing { writeback: !timing.writeback, ..timing.with_wait(wait) };
            assert!(contradiction(design, changed).is_some(), "nothing in the record needs the writeback stage");
        }
    }
}
