//! What the RTL does with the pieces of [`phase`] and with some random programs, as a text that tests compare the model
//! with; `hil rtl --record` writes it anew.

use std::ops::ControlFlow;

use anyhow::Result;

use super::{Restart, phase, play, program};
use crate::core::Timing;

/// The record that belongs to this version.
pub const RECORDED: &str = include_str!("recorded.txt");

/// Seeds of the recorded programs.
const SEEDS: std::ops::Range<u64> = 0..100;
/// Wait states that are recorded.
const WAITS: std::ops::Range<u64> = 0..3;

/// Runs the program that belongs to `seed` from the beginning to its end.
///
/// # Errors
/// The core cannot be restarted.
pub fn run(core: &mut impl Restart, timing: Timing, program: &program::Program, seed: u64) -> Result<play::Course> {
    core.restart(&[program::RAM], program::DEVICE, timing, program.entry())?;
    core.poke(program.base(), program.bytes());
    Ok(play::play(core, seed))
}

/// Makes the lines of the record, one for each piece and each program and each number of wait states, until `each` says
/// that it is enough. `timing` is the core's for a number of wait states; of the RTL's only those count.
///
/// # Errors
/// The core cannot be restarted.
pub fn lines(
    core: &mut impl Restart,
    timing: impl Fn(u64) -> Timing,
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
    use crate::core::Ibex;

    /// The first line of the record that the model contradicts, and what it says instead.
    fn contradiction(timing: impl Fn(u64) -> Timing) -> Option<(String, String)> {
        let mut model = Ibex::new(&[], 0..0, Timing::IBEX_SMALL, 0);
        let mut recorded = RECORDED.lines();
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
        assert_eq!(contradiction(|wait| Timing::IBEX_SMALL.with_wait(wait)), None);
    }

    /// A rule of the model, by name.
    type Rule = (&'static str, fn(&mut Timing) -> &mut u64);

    const RULES: &[Rule] = &[
        ("alu", |t| &mut t.alu),
        ("load", |t| &mut t.load),
        ("store", |t| &mut t.store),
        ("crossing", |t| &mut t.crossing),
        ("mul", |t| &mut t.mul),
        ("mulh", |t| &mut t.mulh),
        ("div", |t| &mut t.div),
        ("div_by_zero", |t| &mut t.div_by_zero),
        ("jump", |t| &mut t.jump),
        ("branch_taken", |t| &mut t.branch_taken),
        ("split_target", |t| &mut t.split_target),
        ("mret", |t| &mut t.mret),
        ("trap", |t| &mut t.trap),
        ("csr_flush", |t| &mut t.csr_flush),
        ("empty", |t| &mut t.empty),
        ("interrupt", |t| &mut t.interrupt),
        ("sleep", |t| &mut t.sleep),
        ("wake", |t| &mut t.wake),
        ("fetch_wait", |t| &mut t.fetch_wait),
        ("data_wait", |t| &mut t.data_wait),
    ];

    /// Every number of the timing is a rule above: each can be told from the others by its place.
    #[test]
    fn no_rule_is_forgotten() {
        let mut timing = Timing::IBEX_SMALL;
        for (_, rule) in RULES {
            *rule(&mut timing) = 99;
        }
        let Timing {
            alu: 99,
            load: 99,
            store: 99,
            crossing: 99,
            mul: 99,
            mulh: 99,
            div: 99,
            div_by_zero: 99,
            jump: 99,
            branch_taken: 99,
            split_target: 99,
            mret: 99,
            trap: 99,
            csr_flush: 99,
            empty: 99,
            interrupt: 99,
            sleep: 99,
            wake: 99,
            fetch_wait: 99,
            data_wait: 99,
        } = timing
        else {
            panic!("a rule is missing: {timing:?}");
        };
    }

    /// Each rule takes part in what was recorded: a model without it, or with one cycle less, says something else.
    #[test]
    fn without_any_one_rule_the_model_differs() {
        for (name, rule) in RULES {
            for removed in [|value: u64| value.saturating_sub(1), |_| 0] {
                let timing = |wait| {
                    let mut timing = Timing::IBEX_SMALL.with_wait(wait);
                    let value = rule(&mut timing);
                    *value = removed(*value);
                    timing
                };
                assert!(contradiction(timing).is_some(), "nothing in the record needs the rule {name}");
            }
        }
    }
}
