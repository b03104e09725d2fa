//! What another simulator does otherwise than NICs and switches do, one switch for each effect.

/// The effects of the ns-3 simulator of HPCC's authors and of its forks, and those that a scenario can choose; all off by default.
/// Reading a configuration of theirs sets those that it has, and the summary of a run lists them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Effects {
    /// Serialisation times and pacing gaps are whole nanoseconds, rounded down.
    pub whole_nanoseconds: bool,
    /// Links carry no preamble, check sequence and gap.
    pub no_framing: bool,
    /// Bytes of headers of a data packet and of an acknowledgement on the line, in place of those of RoCEv2.
    pub line_headers: Option<LineHeaders>,
    /// Windows count the bytes of payload, not those of frames.
    pub payload_windows: bool,
    /// An acknowledgement carries the mark of its packet, and each marked one counts as a CNP at the sender; receivers send no
    /// CNPs.
    pub echo: bool,
    /// A new rate moves the time of the packet that waits by the difference between the gaps at the new and the old rate, so that
    /// the gap before each packet is that at the rate with which it leaves, and a late packet delays the next. Otherwise the
    /// library's pacer sets the gap as the packet before it leaves, and a new rate holds from the next packet on.
    pub retiming: bool,
    /// Delays are measured once a round trip: by the first acknowledgement of what was sent after the last measurement.
    pub delay_once_a_round_trip: bool,
    /// Acknowledgements wait in the queue of data at switches.
    pub acks_with_data: bool,
    /// Marking compares the queue without the packet that leaves.
    pub marks_behind: bool,
    /// When a packet leaves, stages see the length of the queue as it was when the packet joined it, the packet included; otherwise
    /// the length as it is then.
    pub marks_arrivals: bool,
    /// Equal paths are numbered from the neighbour with the highest number, and the hash is of the tuples of that simulator.
    pub descending_paths: bool,
    /// A pause lasts until it is resumed, whatever its time, and is not renewed.
    pub pauses_until_resumed: bool,
    /// The buffer of ns3-datacenter: the threshold is compared when the packet is counted already, reaching it does not pause, and
    /// while headroom is in use all packets of the class are charged to it.
    pub headroom_until_empty: bool,
}

impl Effects {
    /// The names of those that are on.
    pub fn names(&self) -> Vec<&'static str> {
        let all = [
            ("whole_nanoseconds", self.whole_nanoseconds),
            ("no_framing", self.no_framing),
            ("line_headers", self.line_headers.is_some()),
            ("payload_windows", self.payload_windows),
            ("echo", self.echo),
            ("retiming", self.retiming),
            ("delay_once_a_round_trip", self.delay_once_a_round_trip),
            ("acks_with_data", self.acks_with_data),
            ("marks_behind", self.marks_behind),
            ("marks_arrivals", self.marks_arrivals),
            ("descending_paths", self.descending_paths),
            ("pauses_until_resumed", self.pauses_until_resumed),
            ("headroom_until_empty", self.headroom_until_empty),
        ];
        all.into_iter().filter(|&(_, on)| on).map(|(name, _)| name).collect()
    }
}

/// Bytes of headers on the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineHeaders {
    /// Headers of a data packet, in addition to its payload.
    pub data: u16,
    /// A whole acknowledgement.
    pub ack: u16,
}
