//! Settings of machines, with the names, units and ranges that operators type.
//!
//! A machine's *settings* are unsigned integers in the user's units, described by [`Field`]s. A machine's *parameters* are what
//! it computes with. Only the machine's `check` makes them, from settings, so that `on` need not validate and never divides by
//! zero.

use core::fmt;

/// The unit in which a user types a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
    /// Megabits per second.
    Mbps,
    /// Bytes.
    Bytes,
    /// Blocks of 64 bytes.
    Blocks64,
    /// 1/1024.
    Per1024,
    /// Parts per million.
    Ppm,
    /// Per cent.
    Percent,
    /// Exponent of two.
    Log2,
    /// A plain number.
    Count,
    /// One of these words; the value is the index.
    Choice(&'static [&'static str]),
}

impl Unit {
    /// How the unit is written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Micros => "us",
            Self::Nanos => "ns",
            Self::Mbps => "Mb/s",
            Self::Bytes => "B",
            Self::Blocks64 => "blocks of 64 B",
            Self::Per1024 => "1/1024",
            Self::Ppm => "ppm",
            Self::Percent => "%",
            Self::Log2 => "log2",
            Self::Count | Self::Choice(_) => "",
        }
    }
}

/// One setting: what `hil list` prints, and what a write is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name, the vendor's where there is one.
    pub name: &'static str,
    /// The user's unit.
    pub unit: Unit,
    /// Smallest value accepted.
    pub min: u32,
    /// Largest value accepted.
    pub max: u32,
    /// Other names that users know it by.
    pub aliases: &'static [&'static str],
    /// What it does, in one sentence.
    pub doc: &'static str,
}

/// A named set of values and where they come from.
#[derive(Clone, Copy, Debug)]
pub struct Preset<S> {
    /// Its name on the command line.
    pub name: &'static str,
    /// The source of the values: a paper, a vendor's manual or a product.
    pub source: &'static str,
    /// The values.
    pub values: S,
}

/// A machine's settings in user units. Made by [`settings!`](crate::settings).
pub trait Settings: Copy + PartialEq + fmt::Debug + 'static {
    /// The description of every setting, in the order of the indices below.
    const FIELDS: &'static [Field];

    /// The smallest and the largest value of every setting: [`ranges`] of the fields. Stored apart from the fields, so that a
    /// firmware image that checks settings does not contain their names.
    const RANGES: &'static [[u32; 2]];

    /// The value of setting `index`; 0 if `index` is beyond the last.
    fn get(&self, index: usize) -> u32;

    /// Stores a value that is known to be in range. Does nothing if `index` is beyond the last.
    fn put(&mut self, index: usize, value: u32);

    /// Writes one setting by index, or changes nothing and returns why.
    fn set(&mut self, index: usize, value: u32) -> Result<(), ParamError> {
        let field = Self::FIELDS.get(index).ok_or(ParamError::Unknown)?;
        if value < field.min || value > field.max {
            return Err(ParamError::OutOfRange(field));
        }
        self.put(index, value);
        Ok(())
    }

    /// Checks that every setting is in its range: for values that [`Settings::set`] has not checked.
    #[inline(always)]
    fn in_range(&self) -> Result<(), ParamError> {
        for (index, (&[min, max], field)) in Self::RANGES.iter().zip(Self::FIELDS).enumerate() {
            let value = self.get(index);
            if value < min || value > max {
                return Err(ParamError::OutOfRange(field));
            }
        }
        Ok(())
    }

    /// The index of a setting by its name or an alias, in any case.
    fn index_of(name: &str) -> Option<usize> {
        Self::FIELDS.iter().position(|field| {
            field.name.eq_ignore_ascii_case(name) || field.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
        })
    }
}

/// No settings.
impl Settings for () {
    const FIELDS: &'static [Field] = &[];
    const RANGES: &'static [[u32; 2]] = &[];

    fn get(&self, _index: usize) -> u32 {
        0
    }

    fn put(&mut self, _index: usize, _value: u32) {}
}

/// The settings of two machines, those of the first before those of the second. A name may occur in both; an index identifies
/// one setting.
impl<A: Settings, B: Settings> Settings for (A, B) {
    const FIELDS: &'static [Field] = both(const { &joined(A::FIELDS, B::FIELDS, NO_FIELD) }, A::FIELDS, B::FIELDS);
    const RANGES: &'static [[u32; 2]] = both(const { &joined(A::RANGES, B::RANGES, [0; 2]) }, A::RANGES, B::RANGES);

    fn get(&self, index: usize) -> u32 {
        match index.checked_sub(A::FIELDS.len()) {
            None => self.0.get(index),
            Some(index) => self.1.get(index),
        }
    }

    fn put(&mut self, index: usize, value: u32) {
        match index.checked_sub(A::FIELDS.len()) {
            None => self.0.put(index, value),
            Some(index) => self.1.put(index, value),
        }
    }
}

/// The most settings that machines combined in this way have.
const MOST: usize = 64;

const NO_FIELD: Field = Field { name: "", unit: Unit::Count, min: 0, max: 0, aliases: &[], doc: "" };

/// The two lists, one behind the other, padded with `none`.
#[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "evaluated by the compiler only")]
const fn joined<T: Copy>(first: &[T], second: &[T], none: T) -> [T; MOST] {
    let mut all = [none; MOST];
    let mut index = 0;
    while index < first.len() + second.len() {
        all[index] = if index < first.len() { first[index] } else { second[index - first.len()] };
        index += 1;
    }
    all
}

/// The joined list without its padding.
#[expect(clippy::arithmetic_side_effects, reason = "evaluated by the compiler only")]
const fn both<T>(all: &'static [T; MOST], first: &[T], second: &[T]) -> &'static [T] {
    all.split_at(first.len() + second.len()).0
}

/// The smallest and the largest value of each of `N` fields.
#[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "evaluated by the compiler only")]
pub const fn ranges<const N: usize>(fields: &[Field]) -> [[u32; 2]; N] {
    let mut ranges = [[0; 2]; N];
    let mut index = 0;
    while index < N {
        ranges[index] = [fields[index].min, fields[index].max];
        index += 1;
    }
    ranges
}

/// Why a setting was refused.
#[derive(Clone, Copy, Debug)]
pub enum ParamError {
    /// No such setting.
    Unknown,
    /// Outside the range of this field.
    OutOfRange(&'static Field),
    /// In range, but wrong together with the port or another setting.
    Conflict {
        /// The field at fault.
        field: &'static str,
        /// What was expected.
        expected: &'static str,
    },
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no such parameter"),
            Self::OutOfRange(field) => {
                write!(f, "{} must be from {} to {} {}", field.name, field.min, field.max, field.unit.symbol())
            }
            Self::Conflict { field, expected } => write!(f, "{field}: {expected}"),
        }
    }
}

impl core::error::Error for ParamError {}

/// Declares a settings struct of `u32` fields in user units, with its table of [`Field`]s.
///
/// ```
/// cc_core::settings! {
///     /// Settings of an example.
///     pub struct Example {
///         /// Rate-increase timer.
///         rpg_time_reset: Micros, 1..=131_071, ["RPG_TIME_RESET", "rp_time_reset"];
///     }
/// }
/// use cc_core::params::Settings;
/// let mut example = Example { rpg_time_reset: 300 };
/// assert!(example.set(0, 0).is_err());
/// assert_eq!(Example::index_of("RP_TIME_RESET"), Some(0));
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(
                #[doc = $doc:literal]
                $field:ident : $unit:ident $(($words:expr))?, $min:literal ..= $max:literal, [$($alias:literal),*];
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name {
            $( #[doc = $doc] pub $field: u32, )+
        }

        impl $crate::params::Settings for $name {
            const FIELDS: &'static [$crate::params::Field] = &[
                $( $crate::params::Field {
                    name: stringify!($field),
                    unit: $crate::params::Unit::$unit $(($words))?,
                    min: $min,
                    max: $max,
                    aliases: &[$($alias),*],
                    doc: $doc,
                }, )+
            ];

            const RANGES: &'static [[u32; 2]] =
                &$crate::params::ranges::<{ <$name as $crate::params::Settings>::FIELDS.len() }>(Self::FIELDS);

            fn get(&self, index: usize) -> u32 {
                [$( self.$field ),+].get(index).copied().unwrap_or(0)
            }

            fn put(&mut self, index: usize, value: u32) {
                let fields = [$( &mut self.$field ),+];
                if let Some(field) = fields.into_iter().nth(index) {
                    *field = value;
                }
            }
        }
    };
}
