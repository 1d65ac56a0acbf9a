// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fixed values of the stream. A change that needs one of them changed would change every trace.

use std::ops::Bound;

use super::*;

/// The stream's place: its next number, taken after what a test has drawn.
fn next(mut random: Random) -> u64 {
    random.u64(..)
}

fn one() -> Random {
    Random::with_seed(1)
}

#[test]
fn each_seed_has_its_stream() {
    for (seed, numbers) in [
        (0, [0x9a45_cd88_8d59_f0d6, 0x0144_5b6a_1896_63f5, 0x1842_218b_97e7_a496]),
        (1, [0xa833_bdcd_b6d1_beb1, 0x88dc_97e5_aab5_fe3d, 0x3d58_bb03_f31a_4686]),
        (u64::MAX, [0x10ba_1525_e333_549e, 0x205f_b8bd_5917_10a9, 0x9fda_ea1b_39c1_49ae]),
    ] {
        let mut random = Random::with_seed(seed);
        assert_eq!(numbers.map(|_| random.u64(..)), numbers, "seed {seed}");
    }
}

#[test]
fn whole_types_are_the_numbers_lowest_bits() {
    let numbers: [u64; 4] = [(); 4].map({
        let mut random = one();
        move |()| random.u64(..)
    });
    let mut random = [(); 4].map(|()| one());
    for number in numbers {
        assert_eq!(random[0].u8(..), number as u8);
        assert_eq!(random[1].u16(..), number as u16);
        assert_eq!(random[2].u32(..), number as u32);
        assert_eq!(random[3].usize(..), number as usize);
    }
    assert!(random.into_iter().all(|random| next(random) == 0x027a_617d_2237_a6c9));
}

#[test]
fn narrow_ranges_draw_fixed_numbers() {
    let mut random = one();
    assert_eq!([(); 8].map(|()| random.u8(3..=9)), [7, 7, 9, 5, 3, 5, 9, 5]);
    assert_eq!(next(random), 0x9a05_08b2_cd06_f831);
    let mut random = one();
    assert_eq!([(); 4].map(|()| random.u8(250..)), [254, 254, 255, 251]);
    let mut random = one();
    assert_eq!([(); 4].map(|()| random.u16(..1000)), [714, 666, 949, 302]);
    let mut random = one();
    assert_eq!([(); 4].map(|()| random.u64(100..20_000)), [13_175, 10_738, 4868, 15_599]);
    let mut random = one();
    assert_eq!([(); 8].map(|()| random.usize(1..4)), [2, 2, 1, 3, 1, 3, 3, 3]);
    assert_eq!(next(random), 0x9a05_08b2_cd06_f831);
}

/// Of a bound just above half of what there is, half the numbers would favour some results.
#[test]
fn unfair_numbers_are_drawn_again() {
    let mut random = one();
    let drawn = [(); 6].map(|()| random.u32(7..=0x8000_0007));
    let fixed =
        [2_039_292_746, 287_036_267, 668_140_108, 1_876_021_330, 748_669_722, 1_817_372_841];
    assert_eq!(drawn, fixed);
    assert_eq!(next(random), 0x9f3c_5fb7_77bc_2769);
    let mut random = one();
    let drawn = [(); 4].map(|()| random.u64(5..=(1 << 63) + 5));
    let fixed = [
        7_183_785_917_964_349_661, 89_281_162_653_717_353, 7_204_196_869_563_128_514,
        7_825_417_434_741_854_618,
    ];
    assert_eq!(drawn, fixed);
    assert_eq!(next(random), 0x9a05_08b2_cd06_f831);
}

#[test]
fn every_kind_of_range_ends_where_it_says() {
    let mut random = one();
    for _ in 0..1000 {
        assert!(random.u16(..3) < 3);
        assert!(random.u32(..=3) <= 3);
        assert!(random.usize(usize::MAX - 2..) >= usize::MAX - 2);
        assert!((5..8).contains(&random.u64((Bound::Excluded(4), Bound::Excluded(8)))));
        assert_eq!(random.u64(u64::MAX..=u64::MAX), u64::MAX);
        assert!(random.u8(1..=255) > 0);
    }
}

#[test]
#[should_panic(expected = "no number in the range Included(3), Excluded(3)")]
fn an_empty_range_is_refused() {
    one().u64(3..3);
}

#[test]
#[should_panic(expected = "no number in the range Unbounded, Excluded(0)")]
fn nothing_below_zero_is_refused() {
    one().u8(..0);
}

#[test]
fn bool_draws_fixed_values() {
    let mut random = one();
    let fixed = [false, false, true, true, false, true, false, true];
    assert_eq!(fixed.map(|_| random.bool()), fixed);
    assert_eq!(next(random), 0x9a05_08b2_cd06_f831);
}

#[test]
fn f64_draws_fixed_values_below_one() {
    let mut random = one();
    let fixed = [0.657_039_511_416_605_2, 0.534_615_987_368_589_2, 0.239_635_170_425_665_48];
    // As bits: they are the same on every machine, not nearly so.
    assert_eq!(fixed.map(|_| random.f64().to_bits()), fixed.map(f64::to_bits));
    assert!((0..100_000).all(|_| (0.0..1.0).contains(&random.f64())));
}

#[test]
fn geometric_counts_what_fails_before_a_success() {
    let mut random = one();
    assert_eq!([0.5, 0.1, 1e-3].map(|rate| random.geometric(rate)), [1, 7, 273]);
    let draws = 100_000;
    let mean = (0..draws).map(|_| random.geometric(0.2)).sum::<u64>() as f64 / f64::from(draws);
    assert!((3.95..4.05).contains(&mean), "(1 - 0.2) / 0.2 is 4, and the mean is {mean}");
    assert_eq!([0.0, 1.0].map(|rate| random.geometric(rate)), [u64::MAX, 0]);
}

#[test]
fn fill_writes_numbers_lowest_byte_first() {
    let (mut random, mut bytes) = (one(), [0; 19]);
    random.fill(&mut bytes);
    assert_eq!(bytes[..8], 0xa833_bdcd_b6d1_beb1_u64.to_le_bytes());
    assert_eq!(bytes[8..16], 0x88dc_97e5_aab5_fe3d_u64.to_le_bytes());
    assert_eq!(bytes[16..], [0x86, 0x46, 0x1a]);
    assert_eq!(next(random), 0xc763_de76_4d6f_e1b0);
    let mut random = one();
    random.fill(&mut []);
    assert_eq!(next(random), 0xa833_bdcd_b6d1_beb1, "nothing is drawn for nothing");
}

#[test]
fn shuffle_gives_a_fixed_order() {
    let (mut random, mut items) = (one(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    random.shuffle(&mut items);
    assert_eq!(items, [5, 2, 1, 4, 0, 6, 9, 8, 3, 7]);
    assert_eq!(next(random), 0x2a77_9912_7b9e_31c8);
}

#[test]
fn a_fork_is_seeded_by_the_next_number() {
    let mut random = one();
    assert_eq!(random.fork(), Random::with_seed(0xa833_bdcd_b6d1_beb1));
    assert_eq!(next(random.fork()), next(Random::with_seed(0x88dc_97e5_aab5_fe3d)));
    assert_eq!(next(random), 0x3d58_bb03_f31a_4686);
}
