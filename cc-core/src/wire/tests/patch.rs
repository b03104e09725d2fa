//! Frames changed in place are compared with frames emitted with the changed values, and packets read by the layout of another
//! packet with packets that were parsed.

use super::shim::OwnedShims;
use super::*;
use crate::wire::shim as chain;
use crate::{Hop, IntStack};

/// The fields of a frame to be emitted.
#[derive(Clone, Debug)]
struct Owned {
    macs: [Mac; 2],
    tags: Vec<[u8; 4]>,
    addresses: Addresses,
    dscp: u8,
    ecn: Ecn,
    hop_limit: u8,
    udp_source: u16,
    shims: OwnedShims,
    bth: Bth,
    extensions: Extensions,
    payload: Vec<u8>,
}

impl Owned {
    fn frame(&self) -> Frame<'_> {
        let Self { macs: [destination, source], addresses, dscp, ecn, hop_limit, udp_source, bth, .. } = *self;
        let shims = match addresses {
            Addresses::Gid { .. } => Shims::NONE,
            Addresses::V4 { .. } | Addresses::V6 { .. } => self.shims.borrowed(),
        };
        let tags = Tags::new(&self.tags).unwrap();
        let (extensions, payload) = (self.extensions, &self.payload[..]);
        Frame {
            destination,
            source,
            tags,
            addresses,
            dscp,
            ecn,
            hop_limit,
            udp_source,
            shims,
            bth,
            extensions,
            payload,
        }
    }
}

prop_compose! {
    fn any_frame()(
        macs in [any_mac(), any_mac()],
        tags in any_tags(),
        addresses in any_addresses(),
        (dscp, ecn, hop_limit, udp_source) in (0u8..64, 0u8..4, any::<u8>(), any::<u16>()),
        shims in super::shim::any_shims(),
        bth in any_bth(),
        extensions in any_extensions(),
        payload in prop::collection::vec(any::<u8>(), 0..40),
    ) -> Owned {
        let ecn = Ecn::from_bits(ecn);
        Owned { macs, tags, addresses, dscp, ecn, hop_limit, udp_source, shims, bth, extensions, payload }
    }
}

/// Everything that can be read of a packet.
fn read(roce: &Roce<'_>) -> std::string::String {
    let places = (roce.int_at(), roce.mlcc_data_at(), roce.bth_at(), roce.payload_at(), roce.chain());
    std::format!("{roce:?} {:?} {:?} {places:?} {:?}", roce.shims(), roce.payload(), roce.icrc::<TableCrc>())
}

proptest! {
    #[test]
    fn ecn_and_hop_limit_changed_in_place_are_those_of_the_frame_emitted_with_them(sent in any_frame(), ecn in 0u8..4) {
        let mut patched = emit(&sent.frame());
        let hop_limit = sent.hop_limit.saturating_sub(1);
        let expected = emit(&Frame { ecn: Ecn::from_bits(ecn), hop_limit, ..sent.frame() });
        prop_assert!(set_ecn(&mut patched, Ecn::from_bits(ecn)));
        prop_assert_eq!(decrement_hop_limit(&mut patched), Some(hop_limit));
        prop_assert_eq!(&patched, &expected);
        prop_assert_eq!(roce(&patched).icrc::<TableCrc>(), Icrc::Valid);
    }

    #[test]
    fn a_packet_read_by_the_layout_of_another_is_the_packet_parsed(
        first in any_frame(),
        second in any_frame(),
        [same_tags, same_network, same_shims, same_opcode] in any::<[bool; 4]>(),
        [cut_first, cut_second] in any::<[prop::sample::Index; 2]>(),
        is_cut: bool,
        trailer in prop::collection::vec(any::<u8>(), 0..3),
        damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let mut second = second;
        if same_tags {
            second.tags.clone_from(&first.tags);
        }
        if same_network {
            second.addresses = first.addresses;
        }
        if same_shims {
            second.shims = first.shims.clone();
        }
        if same_opcode {
            second.bth.opcode = first.bth.opcode;
            second.payload.resize(first.payload.len(), 0);
        }
        let (first, mut second) = (emit(&first.frame()), emit(&second.frame()));
        let wire_len = first.len().max(second.len()) + trailer.len();
        second.extend(trailer);
        if let Some((at, byte)) = damage {
            let at = at.index(second.len().min(80));
            second[at] = byte;
        }
        let cut = |frame: &[u8], at: prop::sample::Index| if is_cut { at.index(frame.len() + 1) } else { frame.len() };
        let (first, second) = (&first[..cut(&first, cut_first)], &second[..cut(&second, cut_second)]);
        let Ok(Parsed::Roce(template)) = parse(first, wire_len) else { return Ok(()) };
        if let Some(found) = template.like(second) {
            match parse(second, wire_len) {
                Ok(Parsed::Roce(parsed)) => prop_assert_eq!(read(&found), read(&parsed)),
                other => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert_eq!(template.like(first).map(|same| read(&same)), Some(read(&template)));
    }

    #[test]
    fn packets_of_one_layout_are_read_by_the_layout_of_each_other(
        first in any_frame(),
        second in any_frame(),
        captured in any::<prop::sample::Index>(),
    ) {
        // Every field that may differ is the second frame's; those that may not are the first one's.
        let Owned { tags, shims, payload, .. } = first.clone();
        let bth = Bth { opcode: first.bth.opcode, ..second.bth };
        let same_network = |addresses: Addresses| core::mem::discriminant(&addresses);
        let addresses = if same_network(first.addresses) == same_network(second.addresses) {
            second.addresses
        } else {
            first.addresses
        };
        let second = Owned { tags, shims, payload, bth, addresses, ..second };
        let (first, second) = (emit(&first.frame()), emit(&second.frame()));
        let headers = roce(&first).payload_at();
        // Whole, or cut anywhere behind the headers, as the slots of a simulator are.
        let captured = headers + captured.index(first.len() - headers + 1);
        let (first, second) = (&first[..captured], &second[..captured]);
        match (parse(first, 400), parse(second, 400)) {
            (Ok(Parsed::Roce(first)), Ok(Parsed::Roce(second_parsed))) => {
                prop_assert_eq!(first.like(second).map(|found| read(&found)), Some(read(&second_parsed)));
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn records_written_at_the_place_of_int_are_those_written_by_a_parser(
        sent in any_frame(),
        hop in any::<(u32, u8, [u32; 3])>().prop_map(|(mbps, flags, [clock, sent, queue])| {
            Hop { mbps: [100_000, mbps & 0x00ff_ffff][usize::from(flags & 1)], flags, clock, sent, queue }
        }),
    ) {
        let before = emit(&sent.frame());
        let (int_at, mlcc_at) = (roce(&before).int_at(), roce(&before).mlcc_data_at());
        let (mut pushed, mut cleared, mut written_mlcc) = (before.clone(), before.clone(), before.clone());
        let wire_len = before.len();
        let data = chain::MlccData { credit: 0xabcd, queue: Bytes::new(hop.queue) };
        let by_parser = chain::push_into(&mut pushed, wire_len, chain::PORT, &hop);
        prop_assert_eq!(by_parser.is_some(), int_at.is_some());
        prop_assert_eq!(chain::clear_int(&mut cleared, wire_len, chain::PORT), int_at.is_some());
        prop_assert_eq!(chain::write_mlcc(&mut written_mlcc, wire_len, chain::PORT, &data), mlcc_at.is_some());
        if let Some(at) = int_at {
            let mut placed = before.clone();
            prop_assert_eq!(chain::push_at(&mut placed, at, &hop), by_parser);
            prop_assert_eq!(&placed, &pushed);
            if let Some(hops) = by_parser.filter(|&hops| hops != IntStack::OVERFLOW) {
                let parsed = roce(&placed).int_shim().unwrap();
                prop_assert_eq!((parsed.hops(), parsed.stack().len()), (hops, hops));
            }
            let mut placed = before.clone();
            prop_assert!(chain::clear_int_at(&mut placed, at));
            prop_assert_eq!(placed, cleared);
        }
        if let Some(at) = mlcc_at {
            let mut placed = before.clone();
            prop_assert!(chain::write_mlcc_at(&mut placed, at, &data));
            prop_assert_eq!(&placed, &written_mlcc);
            prop_assert_eq!(roce(&placed).mlcc_data_shim(), Some(data));
        }
    }

    #[test]
    fn a_template_filled_in_place_is_the_frame_emitted(first in any_frame(), second in any_frame()) {
        // The second frame's BTH, AETH and time stamp are written into the first frame; the opcode stays, and with it which
        // extension headers there are.
        let mut shims = first.shims.borrowed();
        let bth = Bth { opcode: first.bth.opcode, ..second.bth };
        let sent = Stamp::from_bits(second.bth.psn.get());
        shims.time = shims.time.map(|time| chain::Time { sent, ..time });
        if matches!(first.addresses, Addresses::Gid { .. }) {
            shims = Shims::NONE;
        }
        let aeth = second.extensions.aeth;
        let extensions = Extensions { aeth, ..first.extensions };
        let expected = emit(&Frame { bth, shims, extensions, ..first.frame() });
        let mut frame = written(|buffer| first.frame().emit::<NoCrc>(buffer));
        let (bth_at, time_at) = (roce(&frame).bth_at(), roce(&frame).time_at());
        if opcode::info(bth.opcode).has(opcode::Header::Ack) {
            prop_assert!(set_aeth(&mut frame, bth_at, aeth));
            prop_assert_eq!(super::super::aeth(&frame, bth_at), Some(aeth));
        }
        prop_assert_eq!(time_at.is_some(), shims.time.is_some());
        prop_assert!(set_bth(&mut frame, bth_at, &bth));
        if let Some(at) = time_at {
            prop_assert!(chain::set_sent_at(&mut frame, at, sent));
        }
        prop_assert!(write_icrc::<TableCrc>(&mut frame));
        prop_assert_eq!(frame, expected);
    }

    #[test]
    fn changing_random_bytes_in_place_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), at in 0usize..100) {
        let mut frame = bytes;
        set_ecn(&mut frame, Ecn::Ce);
        decrement_hop_limit(&mut frame);
        chain::push_at(&mut frame, at, &Hop::default());
        chain::clear_int_at(&mut frame, at);
        chain::write_mlcc_at(&mut frame, at, &chain::MlccData::default());
        chain::set_sent_at(&mut frame, at, Stamp::from_bits(1));
        set_bth(&mut frame, at, &Bth::default());
        set_aeth(&mut frame, at, Aeth::default());
        super::super::aeth(&frame, at);
        write_icrc::<TableCrc>(&mut frame);
    }

    #[test]
    fn an_engine_that_computes_no_crc_leaves_the_frame_as_it_is_but_for_its_icrc(sent in any_frame()) {
        let whole = emit(&sent.frame());
        let bare = written(|buffer| sent.frame().emit::<NoCrc>(buffer));
        prop_assert_eq!(&bare[..bare.len() - 4], &whole[..whole.len() - 4]);
        prop_assert_eq!((bare.len(), &bare[bare.len() - 4..]), (whole.len(), &[0; 4][..]));
        prop_assert_eq!(roce(&bare).icrc::<NoCrc>(), Icrc::Unchecked);
    }
}

#[test]
fn a_hop_limit_of_zero_stays_and_frames_without_one_are_left_alone() {
    for addresses in [V4, V6, GID] {
        let mut dead = emit(&Frame { hop_limit: 1, ..frame(0x04, addresses, b"data") });
        assert_eq!(decrement_hop_limit(&mut dead), Some(0));
        let before = dead.clone();
        assert_eq!((decrement_hop_limit(&mut dead), &dead), (Some(0), &before));
    }
    let mut pause = [0; pfc::FRAME_LEN];
    Pfc::new(1, [7; 8]).emit(Mac::default(), &mut pause).unwrap();
    let before = pause;
    assert!(!set_ecn(&mut pause, Ecn::Ce) && decrement_hop_limit(&mut pause).is_none());
    assert_eq!(pause, before);
}
