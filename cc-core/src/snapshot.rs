//! Snapshots: the state of a machine as named quantities with units, to be read and written by harnesses that inject faults,
//! resume a run, or plot the causes of a decision. No firmware image contains any of it.
//!
//! State is packed to save SRAM; a snapshot is not. It has one public field for each quantity, in its unit, and one `bool` for
//! each flag. Every snapshot is a valid state: a value beyond the range of a field is limited as documented at the field, and
//! no state causes a panic. A snapshot that no run reaches can lead to decisions beyond the machine's limits.
//!
//! A snapshot can be written as 32-bit words, to a log or to memory. Every sequence of words is a valid snapshot.

use crate::{Bytes, Frac, Instant, Mark, Nanos, Psn, Qpn, Rate, Stamp};
use core::array;
use core::fmt::Debug;
use core::ops::BitOr;
use fixed::{FixedI32, FixedU8, FixedU16, FixedU32, FixedU64};

/// A state that can be read as a snapshot and restored from one.
///
/// A snapshot restores exactly the state that it was read from: `from_snapshot(state.snapshot()) == state`, for every state
/// that a run or `from_snapshot` makes.
pub trait State: Sized {
    /// Its quantities by name.
    type Snapshot: Words + Copy + PartialEq + Debug;

    /// Returns the state as a snapshot.
    fn snapshot(&self) -> Self::Snapshot;

    /// Makes the state from a snapshot.
    fn from_snapshot(snapshot: Self::Snapshot) -> Self;

    /// Writes the words of the snapshot to `words`, as many as fit, and returns how many there are.
    fn to_words(&self, words: &mut [u32]) -> usize {
        let mut room = words.iter_mut();
        self.snapshot().write(&mut |word| {
            if let Some(place) = room.next() {
                *place = word;
            }
        });
        Self::Snapshot::COUNT
    }

    /// Makes the state from the words of a snapshot; missing words are zero.
    fn from_words(words: &[u32]) -> Self {
        let mut words = words.iter().copied();
        Self::from_snapshot(Words::read(&mut || words.next().unwrap_or(0)))
    }
}

/// No state.
impl State for () {
    type Snapshot = ();

    fn snapshot(&self) {}

    fn from_snapshot((): ()) {}
}

/// A value that can be written as 32-bit words. Every sequence of words is a value: unused bits are ignored.
pub trait Words: Sized {
    /// How many words it takes.
    const COUNT: usize;

    /// Passes the words to `write`, in order.
    fn write(&self, write: &mut dyn FnMut(u32));

    /// Makes the value from the words that `read` returns, in order.
    fn read(read: &mut dyn FnMut() -> u32) -> Self;
}

macro_rules! word {
    ($($type:ty: |$value:ident| $to:expr, |$word:ident| $from:expr;)+) => { $(
        impl Words for $type {
            const COUNT: usize = 1;

            fn write(&self, write: &mut dyn FnMut(u32)) {
                let $value = *self;
                write($to);
            }

            #[allow(clippy::cast_possible_truncation, reason = "the low bits are the value")]
            fn read(read: &mut dyn FnMut() -> u32) -> Self {
                let $word = read();
                $from
            }
        }
    )+ };
}

word! {
    bool: |value| value.into(), |word| word & 1 != 0;
    u8: |value| value.into(), |word| word as u8;
    u16: |value| value.into(), |word| word as u16;
    u32: |value| value, |word| word;
    i32: |value| value.cast_unsigned(), |word| word.cast_signed();
    Rate: |value| value.to_bits(), |word| Self::from_bits(word);
    Frac: |value| value.to_bits(), |word| Self::from_bits(word);
    Bytes: |value| value.get(), |word| Self::new(word);
    Nanos: |value| value.get(), |word| Self::new(word);
    Stamp: |value| value.to_bits(), |word| Self::from_bits(word);
    Psn: |value| value.get(), |word| Self::new(word);
    Qpn: |value| value.get(), |word| Self::new(word);
    Mark: |value| value as u32, |word| match word & 3 {
        0 => Self::None,
        1 => Self::Undetermined,
        _ => Self::Congested,
    };
}

impl Words for () {
    const COUNT: usize = 0;

    fn write(&self, _: &mut dyn FnMut(u32)) {}

    fn read(_: &mut dyn FnMut() -> u32) -> Self {}
}

impl<F> Words for FixedU8<F> {
    const COUNT: usize = 1;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        self.to_bits().write(write);
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        Self::from_bits(u8::read(read))
    }
}

impl<F> Words for FixedU16<F> {
    const COUNT: usize = 1;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        self.to_bits().write(write);
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        Self::from_bits(u16::read(read))
    }
}

impl<F> Words for FixedU32<F> {
    const COUNT: usize = 1;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        write(self.to_bits());
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        Self::from_bits(read())
    }
}

impl<F> Words for FixedI32<F> {
    const COUNT: usize = 1;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        self.to_bits().write(write);
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        Self::from_bits(i32::read(read))
    }
}

/// The low half first.
impl Words for u64 {
    const COUNT: usize = 2;

    #[expect(clippy::cast_possible_truncation, reason = "its halves")]
    fn write(&self, write: &mut dyn FnMut(u32)) {
        write(*self as u32);
        write((*self >> 32) as u32);
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        Self::from(read()) | Self::from(read()) << 32
    }
}

impl Words for i64 {
    const COUNT: usize = u64::COUNT;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        self.cast_unsigned().write(write);
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        u64::read(read).cast_signed()
    }
}

impl<F> Words for FixedU64<F> {
    const COUNT: usize = u64::COUNT;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        self.to_bits().write(write);
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        Self::from_bits(u64::read(read))
    }
}

impl Words for Instant {
    const COUNT: usize = u64::COUNT;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        self.nanos().write(write);
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        Self::from_nanos(u64::read(read))
    }
}

/// A word that is 1 if there is a value, then the value, or zeros.
impl<T: Words> Words for Option<T> {
    const COUNT: usize = 1 + T::COUNT;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        self.is_some().write(write);
        match self {
            Some(value) => value.write(write),
            None => (0..T::COUNT).for_each(|_| write(0)),
        }
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        let (is_some, value) = (bool::read(read), T::read(read));
        is_some.then_some(value)
    }
}

impl<A: Words, B: Words> Words for (A, B) {
    const COUNT: usize = A::COUNT + B::COUNT;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        self.0.write(write);
        self.1.write(write);
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        (A::read(read), B::read(read))
    }
}

impl<T: Words, const N: usize> Words for [T; N] {
    const COUNT: usize = N * T::COUNT;

    fn write(&self, write: &mut dyn FnMut(u32)) {
        self.iter().for_each(|value| value.write(write));
    }

    fn read(read: &mut dyn FnMut() -> u32) -> Self {
        array::from_fn(|_| T::read(read))
    }
}

/// Joins flags: the bits of those that are set.
pub fn flags<T: BitOr<Output = T> + Default, const N: usize>(flags: [(bool, T); N]) -> T {
    flags.into_iter().fold(T::default(), |bits, (is_set, bit)| if is_set { bits | bit } else { bits })
}

/// Declares a snapshot: a struct with public fields that can be written as [`Words`], field after field.
///
/// ```
/// use cc_core::snapshot::Words;
/// use cc_core::{Rate, Stamp};
/// cc_core::snapshot! {
///     /// A flow of an example.
///     pub struct ExampleSnapshot {
///         /// What it sends at.
///         pub rate: Rate,
///         /// When that was decided.
///         pub since: Stamp,
///     }
/// }
/// assert_eq!(ExampleSnapshot::COUNT, 2);
/// ```
#[macro_export]
macro_rules! snapshot {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(<$(const $count:ident: usize),+>)? {
            $( $(#[$field_meta:meta])* pub $field:ident: $type:ty ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $vis struct $name $(<$(const $count: usize),+>)? {
            $( $(#[$field_meta])* pub $field: $type, )+
        }

        impl $(<$(const $count: usize),+>)? $crate::snapshot::Words for $name $(<$($count),+>)? {
            const COUNT: usize = 0 $( + <$type as $crate::snapshot::Words>::COUNT )+;

            fn write(&self, write: &mut dyn FnMut(u32)) {
                $( $crate::snapshot::Words::write(&self.$field, write); )+
            }

            fn read(read: &mut dyn FnMut() -> u32) -> Self {
                Self { $( $field: $crate::snapshot::Words::read(read), )+ }
            }
        }
    };
}
