//! Ethernet II with any stack of VLAN tags (IEEE 802.3 clause 3, IEEE 802.1Q clause 9).

use super::Malformed;
use super::cursor::{Input, Output, two};
use bitfield::bitfield;
use core::fmt;

bitfield! {
    struct Tci(u16);
    u8, priority, set_priority: 15, 13;
    drop_eligible, set_drop_eligible: 12;
    u16, vid, set_vid: 11, 0;
}

/// An Ethernet address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Mac([u8; 6]);

impl Mac {
    /// The address with these octets, in the order of transmission.
    #[inline]
    pub const fn new(octets: [u8; 6]) -> Self {
        Self(octets)
    }

    /// The octets, in the order of transmission.
    #[inline]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which kind of VLAN tag: the EtherType that announces it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TagProtocol {
    /// 0x8100: a customer tag (IEEE 802.1Q).
    #[default]
    Customer,
    /// 0x88a8: a service tag (IEEE 802.1ad).
    Service,
    /// 0x9100: a service tag as switches wrote it before 802.1ad.
    OldService,
}

impl TagProtocol {
    /// The kind of tag that this EtherType announces, if any.
    #[inline]
    pub const fn from_ethertype(ethertype: u16) -> Option<Self> {
        match ethertype {
            0x8100 => Some(Self::Customer),
            0x88a8 => Some(Self::Service),
            0x9100 => Some(Self::OldService),
            _ => None,
        }
    }

    /// The EtherType.
    #[inline]
    pub const fn ethertype(self) -> u16 {
        match self {
            Self::Customer => 0x8100,
            Self::Service => 0x88a8,
            Self::OldService => 0x9100,
        }
    }
}

/// One VLAN tag.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Tag {
    /// Which kind of tag.
    pub protocol: TagProtocol,
    /// Priority code point, 0 to 7; higher bits are not sent.
    pub priority: u8,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// VLAN identifier, 0 (priority tag) to 4095; higher bits are not sent.
    pub vid: u16,
}

impl Tag {
    /// The tag in these four bytes; `None` if they do not begin with a VLAN's EtherType.
    #[inline]
    pub fn from_bytes(bytes: [u8; 4]) -> Option<Self> {
        let [p0, p1, t0, t1] = bytes;
        let protocol = TagProtocol::from_ethertype(u16::from_be_bytes([p0, p1]))?;
        let tci = Tci(u16::from_be_bytes([t0, t1]));
        Some(Self { protocol, priority: tci.priority(), drop_eligible: tci.drop_eligible(), vid: tci.vid() })
    }

    /// The four bytes on the wire.
    #[inline]
    pub fn to_bytes(self) -> [u8; 4] {
        let mut tci = Tci(0);
        tci.set_priority(self.priority);
        tci.set_drop_eligible(self.drop_eligible);
        tci.set_vid(self.vid);
        let ([p0, p1], [t0, t1]) = (self.protocol.ethertype().to_be_bytes(), tci.0.to_be_bytes());
        [p0, p1, t0, t1]
    }
}

/// A stack of VLAN tags, outermost first, borrowed from a frame or another buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Tags<'a> {
    words: &'a [[u8; 4]],
    /// Mask of the bits that are kept in the byte of each tag that holds its priority.
    kept: u8,
    /// The bits in place of the others.
    priority: u8,
}

impl Default for Tags<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<'a> Tags<'a> {
    /// No tag.
    pub const NONE: Self = Self { words: &[], kept: 0xff, priority: 0 };

    /// The stack made of these tags as they are on the wire (see [`Tag::to_bytes`]); `None` if one of them is
    /// no VLAN tag.
    pub fn new(words: &'a [[u8; 4]]) -> Option<Self> {
        words.iter().all(|&word| Tag::from_bytes(word).is_some()).then_some(Self { words, ..Self::NONE })
    }

    /// The stack made of these words, each of which is known to be a tag.
    #[inline]
    pub(super) const fn of_words(words: &'a [[u8; 4]]) -> Self {
        Self { words, ..Self::NONE }
    }

    /// The same stack with every tag's priority replaced.
    #[inline]
    pub fn with_priority(self, priority: u8) -> Self {
        Self { words: self.words, kept: 0x1f, priority: priority << 5 }
    }

    /// The tags, outermost first.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Tag> + use<'a> {
        self.words.iter().filter_map(move |&word| Tag::from_bytes(self.to_bytes(word)))
    }

    /// The tags as they are in the frame that they are borrowed from, outermost first.
    #[inline]
    pub const fn words(self) -> &'a [[u8; 4]] {
        self.words
    }

    /// How many tags.
    #[inline]
    pub fn depth(self) -> usize {
        self.words.len()
    }

    /// Bytes on the wire.
    #[inline]
    pub(super) fn len(self) -> usize {
        self.words.as_flattened().len()
    }

    /// Writes them.
    #[inline]
    pub(super) fn emit(self, output: &mut Output<'_>) {
        for &word in self.words {
            output.put(&self.to_bytes(word));
        }
    }

    /// A tag as it is to be sent.
    #[inline]
    const fn to_bytes(self, [p0, p1, t0, t1]: [u8; 4]) -> [u8; 4] {
        [p0, p1, t0 & self.kept | self.priority, t1]
    }
}

/// The addresses and tags in front of the EtherType.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(super) struct Ethernet<'a> {
    /// Destination and source.
    pub(super) macs: &'a [u8; 12],
    pub(super) tags: Tags<'a>,
}

impl<'a> Ethernet<'a> {
    /// Value before a frame is read.
    pub(super) const NONE: Self = Self { macs: &[0; 12], tags: Tags::NONE };

    /// Reads addresses and tags, and the EtherType after them, which it returns.
    #[inline]
    pub(super) fn parse(&mut self, input: &mut Input<'a>) -> Result<u16, Malformed> {
        self.macs = input.take(Malformed::EthernetShort)?;
        let (stack, _) = input.bytes().as_chunks::<4>();
        let mut depth = 0usize;
        loop {
            let ethertype = two(*input.take(Malformed::EthernetShort)?);
            if TagProtocol::from_ethertype(ethertype).is_none() {
                self.tags.words = stack.get(..depth).ok_or(Malformed::EthernetShort)?;
                return Ok(ethertype);
            }
            input.take::<2>(Malformed::EthernetShort)?;
            depth = depth.wrapping_add(1);
        }
    }

    /// Bytes of addresses, tags and EtherType.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.tags.len().wrapping_add(14)
    }
}
