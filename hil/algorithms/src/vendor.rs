//! Names of DCQCN's settings in the tools of other vendors, if their unit or meaning differs from that of our fields.
//!
//! Names with the same meaning and unit are aliases of the fields instead.

/// The meaning of a vendor's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    /// It is this field; a value without a unit is in `unit`.
    Field {
        /// The field's name.
        name: &'static str,
        /// The unit of a number without one.
        unit: &'static str,
    },
    /// It cannot be converted. The text names the setting to use instead.
    Hint(&'static str),
}

/// Name, vendor's driver, and meaning.
const NAMES: [(&str, &str, Meaning); 27] = [
    // Linux, drivers/infiniband/hw/irdma: module parameters and devlink.
    ("dcqcn_B", "irdma", Meaning::Field { name: "rpg_byte_reset", unit: "B" }),
    ("dcqcn_F", "irdma", Meaning::Field { name: "rpg_threshold", unit: "" }),
    ("dcqcn_T", "irdma", Meaning::Field { name: "rpg_time_reset", unit: "us" }),
    ("dcqcn_rreduce_mperiod", "irdma", Meaning::Field { name: "rate_reduce_monitor_period", unit: "us" }),
    ("dcqcn_min_dec_factor", "irdma", Meaning::Field { name: "rpg_min_dec_fac", unit: "%" }),
    ("dcqcn_min_rate_MBps", "irdma", Meaning::Field { name: "rpg_min_rate", unit: "MB/s" }),
    ("dcqcn_min_rate", "irdma", Meaning::Field { name: "rpg_min_rate", unit: "MB/s" }),
    ("dcqcn_rai_factor", "irdma", Meaning::Hint("it counts packets, not a rate: give rpg_ai_rate in Mb/s")),
    ("dcqcn_hai_factor", "irdma", Meaning::Hint("it counts packets, not a rate: give rpg_hai_rate in Mb/s")),
    // AMD Pensando, nicctl update dcqcn.
    ("ai_rate", "ionic", Meaning::Field { name: "rpg_ai_rate", unit: "Mb/s" }),
    ("hai_rate", "ionic", Meaning::Field { name: "rpg_hai_rate", unit: "Mb/s" }),
    ("rate_increase_byte_count", "ionic", Meaning::Field { name: "rpg_byte_reset", unit: "B" }),
    ("rate_increase_threshold", "ionic", Meaning::Field { name: "rpg_threshold", unit: "" }),
    ("rate_increase_interval", "ionic", Meaning::Field { name: "rpg_time_reset", unit: "us" }),
    ("rate_increase_in_time", "ionic", Meaning::Field { name: "rpg_time_reset", unit: "us" }),
    ("alpha_update_interval", "ionic", Meaning::Field { name: "dce_tcp_rtt", unit: "us" }),
    (
        "alpha_update_g",
        "ionic",
        Meaning::Hint(
            "whether it is the weight of the old alpha or of the new is not published: give dce_tcp_g, the share of the old \
             alpha that is kept, in 1/1024",
        ),
    ),
    ("token_bucket_size", "ionic", Meaning::Hint("no reaction point here has a token bucket: leave it out")),
    // Linux, drivers/infiniband/hw/hns: sysfs cc_param/dcqcn, fields of 8 and 16 bits.
    ("ai", "hns", Meaning::Hint("its unit is not published: give rpg_ai_rate in Mb/s")),
    ("f", "hns", Meaning::Hint("its meaning is not published: give rpg_threshold, the rounds of fast recovery")),
    ("tkp", "hns", Meaning::Hint("its unit is not published: give dce_tcp_rtt, the period of alpha, in us")),
    ("tmp", "hns", Meaning::Hint("its unit is not published: give rpg_time_reset, the period of increases, in us")),
    ("alp", "hns", Meaning::Hint("its unit is not published: give initial_alpha_value in 1/1024")),
    ("ashift", "hns", Meaning::Hint("its unit is not published: give dce_tcp_g in 1/1024")),
    ("max_speed", "hns", Meaning::Hint("its unit is not published: give rpg_max_rate in Mb/s")),
    ("cnp_interval", "hns", Meaning::Hint("its unit is not published: give min_time_between_cnps in us")),
    (
        "g",
        "bnxt_re",
        Meaning::Hint(
            "its scale depends on the firmware: give dce_tcp_g, the share of the old alpha that is kept, in 1/1024",
        ),
    ),
];

/// The vendor and the meaning of a name of a vendor's tool, ignoring case and treating dashes as underscores.
pub(crate) fn meaning(name: &str) -> Option<(&'static str, Meaning)> {
    let name = name.replace('-', "_");
    let found = NAMES.iter().find(|(other, ..)| other.eq_ignore_ascii_case(&name))?;
    Some((found.1, found.2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cc_core::params::Settings;
    use cc_np::NotificationPoint;
    use cc_rp::ReactionPoint;

    #[test]
    fn every_vendor_name_maps_to_a_field_of_dcqcn_in_a_unit_of_that_field() {
        type Rp = <cc_rp::dcqcn::Dcqcn as ReactionPoint>::Settings;
        type Np = <cc_np::dcqcn::Dcqcn as NotificationPoint>::Settings;
        for (name, _, meaning) in NAMES {
            assert!(Rp::index_of(name).is_none() && Np::index_of(name).is_none(), "{name} is an alias");
            let Meaning::Field { name, unit } = meaning else { continue };
            let field = &Rp::FIELDS[Rp::index_of(name).unwrap_or_else(|| panic!("{name}"))];
            assert!(crate::quantity::parse(field, &format!("64{unit}")).is_ok(), "{name} in {unit}");
        }
        assert_eq!(meaning("Rate-Increase-Byte-Count").map(|(whose, _)| whose), Some("ionic"));
    }
}
