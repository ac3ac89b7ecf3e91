//! The same bits on every instruction set and at every position of a slice.

use super::super::{
    Binary, IntBinary, IntUnary, Unary, dot, exp_sub_sum, map1, map1_i32, map2, map2_i32, max,
    max_i32, min, min_i32, normalize_affine, product, product_i32, scale_row, scale_shift,
    select_by_condition, select_i32, sum, sum_i32, sum_of_squares, sum_of_squares_about,
    update_binary, update_unary,
};
use super::numbers;
use zellige_isa::Isa;

/// Bits of a result.
type Bits = Vec<u32>;

fn bits(x: &[f32]) -> Bits {
    x.iter().map(|x| x.to_bits()).collect()
}

fn bits_i32(x: &[i32]) -> Bits {
    x.iter().map(|x| x.cast_unsigned()).collect()
}

/// Every function of the module, by name.
fn everything(a: &[f32], b: &[f32]) -> Vec<(String, Bits)> {
    let mut all = Vec::new();
    let mut out = vec![0.0; a.len()];
    for &f in Unary::ALL {
        map1(f, a, &mut out);
        all.push((format!("{f:?}"), bits(&out)));
    }
    for &f in Binary::ALL {
        map2(f, a, b, &mut out);
        all.push((format!("{f:?}"), bits(&out)));
    }
    normalize_affine(a, 0.3, 1.7, Some(b), Some(a), &mut out);
    all.push(("affine".into(), bits(&out)));
    normalize_affine(a, 0.3, 1.7, Some(b), None, &mut out);
    all.push(("affine, weight".into(), bits(&out)));
    normalize_affine(a, 0.3, 1.7, None, Some(b), &mut out);
    all.push(("affine, bias".into(), bits(&out)));
    normalize_affine(a, 0.3, 1.7, None, None, &mut out);
    all.push(("affine, plain".into(), bits(&out)));
    select_by_condition(a, b, a, &mut out);
    all.push(("select".into(), bits(&out)));
    let finite: Vec<f32> = a.iter().map(|x| if x.abs() < 1e3 { *x } else { 1.0 }).collect();
    for (name, x) in [("any", a), ("finite", &finite)] {
        let results = [
            sum(x),
            product(x),
            sum_of_squares(x),
            sum_of_squares_about(x, 0.5),
            dot(x, b),
            dot(x, x),
            max(x),
            min(x),
        ];
        all.push((format!("reductions, {name}"), bits(&results)));
        let mut row = x.to_vec();
        let total = exp_sub_sum(&mut row, 3.0);
        row.push(total);
        all.push((format!("exp_sub_sum, {name}"), bits(&row)));
        scale_row(&mut row, 1.1);
        scale_shift(&mut row, 0.7, 0.1);
        all.push((format!("scale, {name}"), bits(&row)));
    }
    let (p, q): (Vec<i32>, Vec<i32>) =
        a.iter().zip(b).map(|(a, b)| (a.to_bits().cast_signed(), *b as i32)).unzip();
    let mut out = vec![0; a.len()];
    for &f in IntUnary::ALL {
        map1_i32(f, &p, &mut out);
        all.push((format!("int {f:?}"), bits_i32(&out)));
    }
    for &f in IntBinary::ALL {
        map2_i32(f, &p, &q, &mut out);
        all.push((format!("int {f:?}"), bits_i32(&out)));
    }
    select_i32(&q, &p, &q, &mut out);
    all.push(("int select".into(), bits_i32(&out)));
    let results = [sum_i32(&p), product_i32(&p), max_i32(&p), min_i32(&p)];
    all.push(("int reductions".into(), bits_i32(&results)));
    all
}

#[test]
fn instruction_sets_agree() {
    for n in [0, 1, 7, 31, 32, 33, 100, 1000] {
        let (a, b) = (numbers(n, 1), numbers(n, 2));
        let expected = Isa::BASELINE.while_lowered(|| everything(&a, &b));
        for isa in Isa::all_available() {
            for (found, due) in isa.while_lowered(|| everything(&a, &b)).iter().zip(&expected) {
                assert_eq!(found, due, "{isa:?}, {n} elements");
            }
        }
    }
}

#[test]
fn elements_do_not_know_their_neighbours() {
    let (a, b) = (numbers(1000, 3), numbers(1000, 4));
    let (mut row, mut one) = (vec![0.0; a.len()], [0.0]);
    for &f in Unary::ALL {
        map1(f, &a, &mut row);
        for (x, y) in a.iter().zip(&row) {
            map1(f, &[*x], &mut one);
            assert_eq!(one[0].to_bits(), y.to_bits(), "{f:?} of {x:e}: {:e} and {y:e}", one[0]);
        }
        let mut same = a.clone();
        update_unary(f, &mut same);
        assert_eq!(bits(&same), bits(&row), "{f:?} in place");
    }
    for &f in Binary::ALL {
        map2(f, &a, &b, &mut row);
        for ((x, z), y) in a.iter().zip(&b).zip(&row) {
            map2(f, &[*x], &[*z], &mut one);
            assert_eq!(one[0].to_bits(), y.to_bits(), "{f:?} of {x:e}, {z:e}");
        }
        let mut same = a.clone();
        update_binary(f, &mut same, &b);
        assert_eq!(bits(&same), bits(&row), "{f:?} in place");
    }
}

/// A NaN has one form, whatever went in.
#[test]
fn nan_is_canonical() {
    let strange = [0xffc0_0000, 0x7f80_0001, 0xffff_ffff, 0x7fc0_1234].map(f32::from_bits);
    let mut x: Vec<f32> = strange.into_iter().cycle().take(64).collect();
    x.extend([f32::INFINITY, f32::NEG_INFINITY, -1.0, 0.0, -0.0]);
    let turned: Vec<f32> = x.iter().rev().copied().collect();
    for (name, result) in everything(&x, &turned) {
        if name.starts_with("int") || name == "select" {
            continue;
        }
        for y in result {
            assert!(!f32::from_bits(y).is_nan() || y == 0x7fc0_0000, "{name}: {y:x}");
        }
    }
}
