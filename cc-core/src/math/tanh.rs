//! `1 - tanh x`, from a table with linear interpolation.

use fixed::types::{I4F28, U1F31};

/// 1 - tanh (i / 32) in units of 2^-32, for i from 0 to 128, to nearest; the first is cut to 32 bits.
#[rustfmt::skip]
const KNOTS: [u32; 129] = [
    0xffff_ffff, 0xf800_aa9a, 0xf005_5334, 0xe811_efdc, 0xe02a_66d4, 0xd852_870a,
    0xd08e_00e0, 0xc8e0_5f7d, 0xc14d_02b3, 0xb9d7_1986, 0xb281_9d7c, 0xab4f_4ea8,
    0xa442_b086, 0x9d5e_07ad, 0x96a3_5847, 0x9014_6552, 0x89b2_b0a3, 0x837f_7b97,
    0x7d7b_c868, 0x77a8_5c10, 0x7205_c0aa, 0x6c94_4846, 0x6754_100b, 0x6245_03a2,
    0x5d66_e0d5, 0x58b9_3b52, 0x543b_8078, 0x4fec_fb2b, 0x4bcc_d7a4, 0x47da_2724,
    0x4413_e38e, 0x4078_f2da, 0x3d08_2a57, 0x39c0_51ca, 0x36a0_2648, 0x33a6_5ce3,
    0x30d1_a523, 0x2e20_ab3d, 0x2b92_1a1e, 0x2924_9d39, 0x26d6_e225, 0x24a7_9a09,
    0x2295_7adb, 0x209f_4071, 0x1ec3_ad6b, 0x1d01_8bf4, 0x1b57_ae66, 0x19c4_efca,
    0x1848_343d, 0x16e0_6939, 0x158c_85ce, 0x144b_8abb, 0x131c_8281, 0x11fe_815c,
    0x10f0_a536, 0x0ff2_158b, 0x0f02_0341, 0x0e1f_a87a, 0x0d4a_4861, 0x0c81_2eea,
    0x0bc3_b099, 0x0b11_2a37, 0x0a69_0091, 0x09ca_a031, 0x0935_7d0f, 0x08a9_124f,
    0x0824_e1f0, 0x07a8_748c, 0x0733_5904, 0x06c5_2446, 0x065d_70fc, 0x05fb_df4e,
    0x05a0_149f, 0x0549_bb4b, 0x04f8_826a, 0x04ac_1d94, 0x0464_44a7, 0x0420_b38c,
    0x03e1_2a07, 0x03a5_6b7f, 0x036d_3ed0, 0x0338_6e18, 0x0306_c68f, 0x02d8_1858,
    0x02ac_365a, 0x0282_f61a, 0x025c_2f94, 0x0237_bd17, 0x0215_7b29, 0x01f5_4860,
    0x01d7_054b, 0x01ba_9450, 0x019f_d992, 0x0186_badc, 0x016f_1f83, 0x0158_f053,
    0x0144_1777, 0x0130_8066, 0x011e_17cf, 0x010c_cb89, 0x00fc_8a7d, 0x00ed_449a,
    0x00de_eac6, 0x00d1_6ecc, 0x00c4_c351, 0x00b8_dbc7, 0x00ad_ac60, 0x00a3_2a03,
    0x0099_4a41, 0x0090_034c, 0x0087_4bed, 0x007f_1b7a, 0x0077_69ce, 0x0070_2f42,
    0x0069_64a6, 0x0063_0335, 0x005d_0496, 0x0057_62d1, 0x0052_1849, 0x004d_1fb9,
    0x0048_742c, 0x0044_10fb, 0x003f_f1c5, 0x003c_126e, 0x0038_6f19, 0x0035_0426,
    0x0031_ce2a, 0x002e_c9f2, 0x002b_f47c,
];

/// `1 - tanh x`, between 0 and 2. x is clipped to -4 to 4.
///
/// Linear interpolation in 128 segments, and odd symmetry. Error: less than 5e-4 of the value, and less than 1.3e-4. Cost: one
/// multiply.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a share of the distance of two knots")]
pub fn one_minus_tanh(x: I4F28) -> U1F31 {
    /// Fraction bits within a segment: there are 2^5 knots for each unit.
    const WITHIN: u32 = I4F28::FRAC_NBITS - 5;
    /// The last knot, x = 4.
    const LAST: u32 = I4F28::const_from_int(4).unsigned_abs().to_bits();
    let size = x.unsigned_abs().to_bits().min(LAST);
    let segment = (size >> WITHIN) as usize;
    let share = size & ((1 << WITHIN) - 1);
    let (from, to) = match (KNOTS.get(segment), KNOTS.get(segment.wrapping_add(1))) {
        (Some(&from), Some(&to)) => (from, to),
        (from, _) => (from.copied().unwrap_or(0), 0),
    };
    let fall =
        if share == 0 { 0 } else { (u64::from(from.wrapping_sub(to)).wrapping_mul(u64::from(share)) >> WITHIN) as u32 };
    let left = from.wrapping_sub(fall) >> 1;
    // 1 - tanh -x = 2 - (1 - tanh x).
    U1F31::from_bits(if x < I4F28::ZERO { left.wrapping_neg() } else { left.wrapping_add(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_arithmetic, reason = "the reference")]
    fn knots_are_those_of_the_function() {
        for (knot, &value) in KNOTS.iter().enumerate() {
            let exact = (1.0 - (knot as f64 / 32.0).tanh()) * 4_294_967_296.0;
            assert!((f64::from(value) - exact).abs() <= 1.0, "{knot}");
        }
    }

    #[test]
    #[allow(clippy::float_arithmetic, reason = "the reference")]
    fn one_minus_tanh_is_right_to_a_two_thousandth() {
        let (mut most, mut absolute) = (0.0_f64, 0.0_f64);
        for step in -1_200_000..=1_200_000 {
            let x: i32 = step * 1_000 + step % 997;
            let argument = (f64::from(x) / f64::from(1 << 28)).clamp(-4.0, 4.0);
            let exact = 1.0 - argument.tanh();
            let found = f64::from(one_minus_tanh(I4F28::from_bits(x)));
            most = most.max((found - exact).abs() / exact);
            absolute = absolute.max((found - exact).abs());
        }
        assert!(most < 5e-4 && absolute < 1.3e-4, "{most} {absolute}");
        let four = I4F28::from_num(4);
        assert_eq!(one_minus_tanh(I4F28::ZERO), U1F31::ONE);
        assert_eq!(
            (one_minus_tanh(I4F28::MAX), one_minus_tanh(I4F28::MIN)),
            (one_minus_tanh(four), one_minus_tanh(-four))
        );
    }
}
