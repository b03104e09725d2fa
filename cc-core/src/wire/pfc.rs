//! Priority flow control frames (IEEE 802.1Qbb; IEEE 802.3 annex 31D).

use super::cursor::{Input, Output, two};
use super::{EmitError, Mac, Malformed, NotRoce, Parsed};
use crate::math::div_bitwise;
use crate::{Nanos, Rate};

/// The address that PFC frames go to; no bridge forwards it.
pub const DESTINATION: Mac = Mac::new([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);
/// EtherType of MAC control frames.
pub(super) const ETHERTYPE: u16 = 0x8808;
/// Bytes of an emitted frame: the least that Ethernet allows, without its check sequence.
pub const FRAME_LEN: usize = 60;

const OPCODE: u16 = 0x0101;

/// The contents of a PFC frame.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pfc {
    /// The class-enable vector: bit n set = the time of priority n is valid.
    pub enabled: u8,
    /// Pause time of each priority, as it is in the frame.
    quanta: [[u8; 2]; 8],
}

impl Pfc {
    /// The frame for the priorities whose bits are set in `enabled`, with these pause times in quanta of 512 bit times of the
    /// link; zero resumes.
    pub fn new(enabled: u8, quanta: [u16; 8]) -> Self {
        Self { enabled, quanta: quanta.map(u16::to_be_bytes) }
    }

    /// The pause time of this priority in quanta, if the class-enable vector has its bit; zero resumes.
    #[inline]
    pub fn time(&self, priority: u8) -> Option<u16> {
        let enabled = u32::from(self.enabled).checked_shr(u32::from(priority))? & 1 == 1;
        if enabled { self.quanta.get(usize::from(priority)).map(|&bytes| two(bytes)) } else { None }
    }

    /// Reads what follows the EtherType of MAC control frames, of which PFC is one kind.
    #[cold]
    #[inline(never)]
    pub(super) fn parse(mut input: Input<'_>) -> Result<Parsed<'_>, Malformed> {
        if two(*input.take(Malformed::PfcShort)?) != OPCODE {
            return Ok(Parsed::NotRoce(NotRoce { ethertype: ETHERTYPE, protocol: 0 }));
        }
        let &[_, enabled, ref quanta @ ..] = input.take::<18>(Malformed::PfcShort)?;
        let (quanta, _) = quanta.as_chunks();
        let quanta = *quanta.first_chunk().ok_or(Malformed::PfcShort)?;
        Ok(Parsed::Pfc(Self { enabled, quanta }))
    }

    /// Writes a whole frame, without a frame check sequence, and returns its length, [`FRAME_LEN`].
    pub fn emit(&self, source: Mac, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut output = Output::new(buffer.get_mut(..FRAME_LEN).ok_or(EmitError::BufferTooSmall)?);
        output.put(&DESTINATION.octets());
        output.put(&source.octets());
        output.put(&ETHERTYPE.to_be_bytes());
        output.put(&OPCODE.to_be_bytes());
        output.put(&[0, self.enabled]);
        output.put(self.quanta.as_flattened());
        output.zero_rest();
        Ok(FRAME_LEN)
    }
}

crate::zeroed! {
    /// How long a pause quantum lasts on one link: 512 bit times.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "defmt", derive(defmt::Format))]
    pub struct Quantum {
        /// Nanoseconds times 2^20.
        nanos: u32,
        /// Bytes per nanosecond times 2^24.
        rate: u32,
    }
}

impl Quantum {
    /// The quantum of a link of this speed. Below 126 Mb/s it saturates at 4 096 ns.
    ///
    /// For configuration, not for the event path.
    pub const fn at(rate: Rate) -> Self {
        // 64 B / rate: 2^6 * 2^24 / bits, times 2^20, rounded to the nearest.
        let bits = rate.to_bits();
        let nanos = div_bitwise((1u64 << 50).wrapping_add(bits as u64 >> 1), bits);
        #[expect(clippy::cast_possible_truncation, reason = "tested just before")]
        let nanos = if nanos == 0 || nanos > u32::MAX as u64 { u32::MAX } else { nanos as u32 };
        Self { nanos, rate: bits }
    }

    /// How long a pause of this many quanta lasts, rounded up to a nanosecond. Before rounding, the error is at most 0.04 ns.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a 48-bit product shifted by 20")]
    pub fn pause(self, quanta: u16) -> Nanos {
        let scaled = u64::from(self.nanos).wrapping_mul(u64::from(quanta));
        Nanos::new(scaled.wrapping_add((1 << 20) - 1).wrapping_shr(20) as u32)
    }

    /// The quanta of a pause at least this long, rounded up; at most 65 535, which may be shorter than `time`.
    #[inline]
    pub fn quanta(self, time: Nanos) -> u16 {
        // time * rate / 64 B.
        let scaled = u64::from(self.rate).wrapping_mul(u64::from(time.get()));
        u16::try_from(scaled.saturating_add((1 << 30) - 1) >> 30).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_shrinks_with_the_speed_of_the_link() {
        // 65 535 quanta of 512 bit times.
        for (gbps, micros) in [(10, 3355), (40, 839), (100, 336), (400, 84), (800, 42)] {
            let nanos = Quantum::at(Rate::from_gbps(gbps)).pause(u16::MAX).get();
            assert_eq!((nanos + 500) / 1000, micros, "{gbps} Gb/s");
        }
    }

    #[test]
    fn a_pause_is_right_to_the_nanosecond_and_never_rounded_down_by_more_than_its_slack() {
        for gbps in [1, 10, 25, 40, 50, 100, 200, 400, 800, 1600] {
            let quantum = Quantum::at(Rate::from_gbps(gbps));
            for quanta in 0..=u16::MAX {
                let exact = f64::from(quanta) * 512.0 / f64::from(gbps);
                let nanos = f64::from(quantum.pause(quanta).get());
                assert!(nanos >= exact - 0.04 && nanos < exact + 1.04, "{quanta} at {gbps}: {nanos} for {exact}");
            }
        }
    }

    #[test]
    fn quanta_cover_the_requested_time() {
        let quantum = Quantum::at(Rate::from_gbps(100));
        assert_eq!(quantum.quanta(Nanos::ZERO), 0);
        assert_eq!(quantum.quanta(Nanos::new(1)), 1);
        // 5.12 ns each.
        assert_eq!(quantum.quanta(Nanos::new(512)), 100);
        assert_eq!(quantum.quanta(Nanos::new(513)), 101);
        assert_eq!(quantum.quanta(Nanos::MAX), u16::MAX);
    }

    #[test]
    fn a_link_without_speed_saturates() {
        let quantum = Quantum::at(Rate::ZERO);
        assert_eq!(quantum.pause(1), Nanos::new(4096));
        assert_eq!(quantum.quanta(Nanos::new(1000)), 0);
    }

    #[test]
    fn only_enabled_priorities_have_a_time() {
        let pfc = Pfc::new(0b1000_0001, [7, 1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(pfc.time(0), Some(7));
        assert_eq!(pfc.time(7), Some(0));
        for absent in [1, 6, 8, 255] {
            assert_eq!(pfc.time(absent), None);
        }
    }
}
