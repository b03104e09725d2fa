//! The core's RAM, with the decoded form of the code in it.

use std::ops::Range;

use super::Ram;
use super::decode::{Kind, NOWHERE, Next, Op, decode, is_compressed};

/// RAM of several regions. Bytes and decoded operations always agree: a write discards the operations that it may change.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    regions: Vec<Region>,
}

#[derive(Clone, Debug)]
struct Region {
    base: u32,
    bytes: Vec<u8>,
    /// One per halfword, as far as code has been fetched: the operation that begins there.
    ops: Vec<Op>,
    /// The range of offsets in which code has been decoded: writes elsewhere cannot change an operation.
    decoded: Range<usize>,
}

/// The operations of one region, moved out of [`Memory`] while they execute.
#[derive(Debug)]
pub(super) struct Code {
    region: usize,
    pub(super) base: u32,
    pub(super) ops: Vec<Op>,
}

/// By how many operations the decoded form grows: those of 4 KB. An operation takes six times the bytes of its code, and most of
/// the RAM of a NIC is data.
const GROWTH: usize = 2_048;

impl Memory {
    /// Zeroed RAM.
    pub(super) fn new(ram: &[Ram]) -> Self {
        let region = |&Ram { base, size }: &Ram| Region {
            base,
            bytes: vec![0; size as usize],
            ops: Vec::new(),
            decoded: size as usize..0,
        };
        Self { regions: ram.iter().map(region).collect() }
    }

    /// The `N` bytes at `address`, if they all lie in one region.
    #[inline]
    pub(super) fn load<const N: usize>(&self, address: u32) -> Option<[u8; N]> {
        self.regions
            .iter()
            .find_map(|region| region.bytes.get(address.wrapping_sub(region.base) as usize..)?.first_chunk().copied())
    }

    /// Stores the bytes if they all lie in one region. Returns whether decoded code may have changed, or `None` if they do not.
    #[inline]
    pub(super) fn store<const N: usize>(&mut self, address: u32, value: [u8; N]) -> Option<Stored> {
        self.regions.iter_mut().find_map(|region| {
            let offset = address.wrapping_sub(region.base) as usize;
            *region.bytes.get_mut(offset..)?.first_chunk_mut()? = value;
            let touches_code = offset < region.decoded.end && offset + N > region.decoded.start;
            Some(if touches_code { Stored::Code } else { Stored::Data })
        })
    }

    /// The `length` bytes at `address`, if one region has them all.
    pub(super) fn get(&self, address: u32, length: usize) -> Option<&[u8]> {
        self.regions.iter().find_map(|region| {
            let offset = address.wrapping_sub(region.base) as usize;
            region.bytes.get(offset..offset.checked_add(length)?)
        })
    }

    /// Writes bytes for the harness. Returns whether they all lie in one region.
    pub(super) fn put(&mut self, address: u32, bytes: &[u8]) -> bool {
        let found = self.regions.iter_mut().find_map(|region| {
            let offset = address.wrapping_sub(region.base) as usize;
            let place = region.bytes.get_mut(offset..offset.checked_add(bytes.len())?)?;
            place.copy_from_slice(bytes);
            forget(&mut region.ops, offset, bytes.len());
            Some(())
        });
        found.is_some()
    }

    /// Moves the operations of the region that holds `pc` out, at least as many as reach beyond `pc`; [`Self::give_back`] moves
    /// them back.
    pub(super) fn lend(&mut self, pc: u32) -> Option<Code> {
        let holds = |region: &Region| (pc.wrapping_sub(region.base) as usize) < region.bytes.len();
        let index = self.regions.iter().position(holds)?;
        let region = self.regions.get_mut(index)?;
        let place = pc.wrapping_sub(region.base) as usize / 2;
        if place >= region.ops.len() {
            region.ops.resize((place + 1).next_multiple_of(GROWTH).min(region.bytes.len() / 2), Op::UNKNOWN);
        }
        Some(Code { region: index, base: region.base, ops: std::mem::take(&mut region.ops) })
    }

    /// Moves the operations back that [`Self::lend`] moved out.
    pub(super) fn give_back(&mut self, code: Code) {
        if let Some(region) = self.regions.get_mut(code.region) {
            region.ops = code.ops;
        }
    }

    /// The instruction bits at `pc`: 16 of them when it is compressed; `None` when they leave the region.
    pub(super) fn instruction(&self, pc: u32) -> Option<u32> {
        let parcel = u32::from(u16::from_le_bytes(self.load(pc)?));
        if is_compressed(parcel) { Some(parcel) } else { self.load(pc).map(u32::from_le_bytes) }
    }

    /// Whether a 32-bit instruction that straddles a word begins at `pc`.
    #[inline]
    pub(super) fn is_split(&self, pc: u32) -> bool {
        pc & 2 != 0 && self.load(pc).is_some_and(|parcel| !is_compressed(u32::from(u16::from_le_bytes(parcel))))
    }

    /// Whether the instruction at `pc` reads a register, which may be the one that discards writes.
    #[inline]
    pub(super) fn reads(&self, code: &Code, pc: u32, register: u8) -> bool {
        if register == NOWHERE {
            return false;
        }
        let known = code.ops.get(pc.wrapping_sub(code.base) as usize / 2).filter(|op| op.kind != Kind::Unknown);
        let sources = match known {
            Some(op) => op.sources,
            None => self.instruction(pc).map_or([0; 2], |word| decode(pc, word).sources),
        };
        sources.contains(&register)
    }

    /// Decodes the instruction at `pc` and keeps the result in `code`; `None` when it leaves the region.
    pub(super) fn decode(&mut self, code: &mut Code, pc: u32) -> Option<()> {
        let op = decode(pc, self.instruction(pc)?);
        let next = pc.wrapping_add(u32::from(op.size));
        let next = match next & 2 {
            0 => Next::Word,
            _ if self.is_split(next) => Next::Split,
            _ => Next::Half,
        };
        let op = Op { next, ..op };
        let offset = pc.wrapping_sub(code.base) as usize;
        *code.ops.get_mut(offset / 2)? = op;
        let decoded = &mut self.regions.get_mut(code.region)?.decoded;
        // The 16 bits after it have been read, too.
        *decoded = decoded.start.min(offset)..decoded.end.max(offset + usize::from(op.size) + 2);
        Some(())
    }

    /// Discards the decoded operation at `pc`.
    pub(super) fn forget_at(&mut self, pc: u32) {
        for region in &mut self.regions {
            forget(&mut region.ops, pc.wrapping_sub(region.base) as usize, 2);
        }
    }

    /// Discards the operations that a write of `length` bytes at `address` may have changed, including those lent out.
    pub(super) fn forget(&mut self, code: &mut Code, address: u32, length: usize) {
        for region in &mut self.regions {
            forget(&mut region.ops, address.wrapping_sub(region.base) as usize, length);
        }
        forget(&mut code.ops, address.wrapping_sub(code.base) as usize, length);
    }
}

/// Whether a store may have changed decoded code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stored {
    /// No decoded operation lies there.
    Data,
    /// Decoded operations near it must be discarded.
    Code,
}

/// Discards the operations that a write may change, from four bytes before it on: an instruction there may reach into the
/// written bytes, and an operation depends on the instruction that follows it.
fn forget(ops: &mut [Op], offset: usize, length: usize) {
    let first = (offset / 2).saturating_sub(2);
    let last = offset.saturating_add(length).div_ceil(2).min(ops.len());
    if let Some(touched) = ops.get_mut(first..last) {
        touched.fill(Op::UNKNOWN);
    }
}
