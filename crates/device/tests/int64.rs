//! int64 that the card keeps: every operation of integers against wrapping arithmetic on 64 bits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use zellige_device::RunOp;
use zellige_device::{Card, DeviceError, KeptDtypes, Tensor};
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_op::TensorOp;
use zellige_stick::{DataFormat, StickLayout};

/// Extents with a last stick that is padded: 16 elements fill one.
const SIZE: [i64; 2] = [7, 37];

fn card() -> Card {
    Card::builder().keep_dtypes(KeptDtypes::ALL).core_count(5).build().unwrap()
}

fn random(seed: u64, n: usize) -> Vec<i64> {
    let mut state = seed;
    let ends = [0, 1, -1, i64::MIN, i64::MAX, 1 << 32, (1 << 53) + 1, i64::from(i32::MIN) - 1];
    (0..n)
        .map(|i| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            match ends.get(i % 24) {
                Some(end) => *end,
                // Few bits and many.
                None => state.cast_signed() >> (state >> 58),
            }
        })
        .collect()
}

fn up(card: &Card, x: &[i64], size: &[i64]) -> Tensor {
    let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    let host = StridedLayout::new_contiguous(size).unwrap();
    Tensor::upload(card, &bytes, &host, Dtype::Int64, None).unwrap().0
}

fn down(t: &Tensor) -> Vec<i64> {
    let bytes = t.download(Dtype::Int64).unwrap();
    bytes.chunks(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn run(card: &Card, op: &str, attributes: &Value, operands: &[Tensor]) -> Vec<Tensor> {
    TensorOp::new(op, attributes).unwrap().run_op(card, operands).unwrap().outputs
}

#[test]
fn functions_of_two_integers() {
    let floor = |a: i64, b: i64| {
        let q = a.wrapping_div(b);
        if q.wrapping_mul(b) != a && (a < 0) != (b < 0) { q - 1 } else { q }
    };
    type Law = fn(i64, i64) -> i64;
    let laws: &[(&str, Value, Law)] = &[
        ("add", json!({}), i64::wrapping_add),
        ("sub", json!({}), i64::wrapping_sub),
        ("mul", json!({}), i64::wrapping_mul),
        ("add", json!({"alpha": (1i64 << 60) + 1}), |a, b| {
            a.wrapping_add(b.wrapping_mul((1 << 60) + 1))
        }),
        ("sub", json!({"alpha": 3}), |a, b| a.wrapping_sub(b.wrapping_mul(3))),
        ("maximum", json!({}), i64::max),
        ("minimum", json!({}), i64::min),
        ("bitwise_and", json!({}), |a, b| a & b),
        ("bitwise_or", json!({}), |a, b| a | b),
        ("bitwise_xor", json!({}), |a, b| a ^ b),
        ("eq", json!({}), |a, b| i64::from(a == b)),
        ("ne", json!({}), |a, b| i64::from(a != b)),
        ("lt", json!({}), |a, b| i64::from(a < b)),
        ("le", json!({}), |a, b| i64::from(a <= b)),
        ("gt", json!({}), |a, b| i64::from(a > b)),
        ("ge", json!({}), |a, b| i64::from(a >= b)),
        ("logical_and", json!({}), |a, b| i64::from(a != 0 && b != 0)),
        ("logical_xor", json!({}), |a, b| i64::from((a != 0) != (b != 0))),
    ];
    let n = usize::try_from(SIZE[0] * SIZE[1]).unwrap();
    let (card, a, b) = (card(), random(1, n), random(2, n));
    let tensors = [up(&card, &a, &SIZE), up(&card, &b, &SIZE)];
    for (op, attributes, law) in laws {
        let made = run(&card, op, attributes, &tensors);
        let want: Vec<i64> = a.iter().zip(&b).map(|(a, b)| law(*a, *b)).collect();
        assert_eq!(down(&made[0]), want, "{op} {attributes}");
        if made[0].dtype() == Dtype::Int64 {
            assert_eq!(made[0].stick_layout().device_dtype(), DataFormat::IEEE_INT64);
        }
    }
    // What divides is not 0.
    let c: Vec<i64> = b.iter().map(|b| if *b == 0 { 5 } else { *b }).collect();
    let tensors = [up(&card, &a, &SIZE), up(&card, &c, &SIZE)];
    let pairs = || a.iter().zip(&c);
    let quotient = down(&run(&card, "floor_divide", &json!({}), &tensors)[0]);
    assert_eq!(quotient, pairs().map(|(a, b)| floor(*a, *b)).collect::<Vec<_>>());
    let rest = down(&run(&card, "remainder", &json!({}), &tensors)[0]);
    let law = |a: i64, b: i64| a.wrapping_sub(floor(a, b).wrapping_mul(b));
    assert_eq!(rest, pairs().map(|(a, b)| law(*a, *b)).collect::<Vec<_>>());
    let rest = down(&run(&card, "fmod", &json!({}), &tensors)[0]);
    assert_eq!(rest, pairs().map(|(a, b)| a.wrapping_rem(*b)).collect::<Vec<_>>());
    // Shifts and powers by few.
    let few: Vec<i64> = b.iter().map(|b| b.rem_euclid(70)).collect();
    let tensors = [up(&card, &a, &SIZE), up(&card, &few, &SIZE)];
    let pairs = || a.iter().zip(&few).map(|(a, b)| (*a, u32::try_from(*b).unwrap()));
    let left = down(&run(&card, "bitwise_left_shift", &json!({}), &tensors)[0]);
    assert_eq!(left, pairs().map(|(a, b)| a.checked_shl(b).unwrap_or(0)).collect::<Vec<_>>());
    let right = down(&run(&card, "bitwise_right_shift", &json!({}), &tensors)[0]);
    assert_eq!(right, pairs().map(|(a, b)| a >> b.min(63)).collect::<Vec<_>>());
    let power = down(&run(&card, "pow", &json!({}), &tensors)[0]);
    assert_eq!(power, pairs().map(|(a, b)| a.wrapping_pow(b)).collect::<Vec<_>>());
}

#[test]
fn functions_of_one_integer_and_attributes() {
    let n = usize::try_from(SIZE[0] * SIZE[1]).unwrap();
    let (card, a) = (card(), random(3, n));
    let x = [up(&card, &a, &SIZE)];
    type Law = fn(i64) -> i64;
    let big = (1i64 << 53) + 1;
    let laws: &[(&str, Value, Law)] = &[
        ("abs", json!({}), i64::wrapping_abs),
        ("neg", json!({}), i64::wrapping_neg),
        ("sign", json!({}), i64::signum),
        ("square", json!({}), |x| x.wrapping_mul(x)),
        ("relu", json!({}), |x| x.max(0)),
        ("bitwise_not", json!({}), |x| !x),
        ("floor", json!({}), |x| x),
        ("clone", json!({}), |x| x),
        ("isinf", json!({}), |_| 0),
        ("clamp", json!({"min": -big, "max": big}), |x| x.clamp(-(1 << 53) - 1, (1 << 53) + 1)),
        ("threshold", json!({"threshold": big, "value": big}), |x| x.max((1 << 53) + 1)),
    ];
    for (op, attributes, law) in laws {
        let want: Vec<i64> = a.iter().map(|x| law(*x)).collect();
        assert_eq!(down(&run(&card, op, attributes, &x)[0]), want, "{op}");
    }
}

#[test]
fn reductions_scans_and_sorts() {
    let n = usize::try_from(SIZE[0] * SIZE[1]).unwrap();
    let (card, a) = (card(), random(4, n));
    let columns = usize::try_from(SIZE[1]).unwrap();
    let rows: Vec<&[i64]> = a.chunks(columns).collect();
    let x = [up(&card, &a, &SIZE)];
    let of = |op: &str, attributes: &Value| down(&run(&card, op, attributes, &x)[0]);
    let sum = |list: &[i64]| list.iter().fold(0i64, |s, x| s.wrapping_add(*x));
    assert_eq!(of("sum", &json!({})), [sum(&a)]);
    assert_eq!(of("sum", &json!({"dim": 1})), rows.iter().map(|r| sum(r)).collect::<Vec<_>>());
    let column = |d: usize| rows.iter().map(|r| r[d]).collect::<Vec<i64>>();
    let down_rows: Vec<i64> = (0..columns).map(|d| sum(&column(d))).collect();
    assert_eq!(of("sum", &json!({"dim": 0})), down_rows);
    let product = rows.iter().map(|r| r.iter().fold(1i64, |p, x| p.wrapping_mul(*x)));
    assert_eq!(of("prod", &json!({"dim": 1})), product.collect::<Vec<_>>());
    let most: Vec<i64> = rows.iter().map(|r| *r.iter().max().unwrap()).collect();
    assert_eq!(of("amax", &json!({"dim": 1})), most);
    assert_eq!(of("max", &json!({"dim": 1})), most);
    let at = rows.iter().zip(&most).map(|(r, m)| r.iter().position(|x| x == m).unwrap() as i64);
    assert_eq!(of("argmax", &json!({"dim": 1})), at.collect::<Vec<_>>());
    let count = a.iter().filter(|x| **x != 0).count() as i64;
    assert_eq!(of("count_nonzero", &json!({})), [count]);
    let scanned = rows.iter().flat_map(|r| {
        r.iter().scan(0i64, |s, x| {
            *s = s.wrapping_add(*x);
            Some(*s)
        })
    });
    assert_eq!(of("cumsum", &json!({"dim": 1})), scanned.collect::<Vec<_>>());
    let sorted = |descending: bool| {
        let line = |r: &&[i64]| {
            let mut r = r.to_vec();
            r.sort_unstable_by(|a, b| if descending { b.cmp(a) } else { a.cmp(b) });
            r
        };
        rows.iter().flat_map(line).collect::<Vec<i64>>()
    };
    assert_eq!(of("sort", &json!({"dim": 1})), sorted(false));
    assert_eq!(of("sort", &json!({"dim": 1, "descending": true})), sorted(true));
}

#[test]
fn products_of_matrices() {
    let card = card();
    let (a, b) = (random(5, 9 * 40), random(6, 40 * 35));
    let made = run(&card, "mm", &json!({}), &[up(&card, &a, &[9, 40]), up(&card, &b, &[40, 35])]);
    let cell = |r: usize, c: usize| {
        (0..40).fold(0i64, |s, k| s.wrapping_add(a[r * 40 + k].wrapping_mul(b[k * 35 + c])))
    };
    let want: Vec<i64> =
        (0..9).flat_map(|r| (0..35).map(move |c| (r, c))).map(|(r, c)| cell(r, c)).collect();
    assert_eq!(down(&made[0]), want);
}

#[test]
fn factories_and_fills() {
    let card = card();
    let big = (1i64 << 60) + 1;
    let of = |op: &str, attributes: Value| down(&run(&card, op, &attributes, &[])[0]);
    assert_eq!(
        of("full", json!({"size": [3], "value": big, "dtype": "int64", "wide": true})),
        [big; 3]
    );
    let sequence = json!({"start": big, "end": big + 6, "step": 2, "wide": true});
    assert_eq!(of("arange", sequence), [big, big + 2, big + 4]);
    let x = Tensor::empty(&card, &[5], Dtype::Int64).unwrap();
    x.fill(i64::MIN).unwrap();
    assert_eq!(down(&x), [i64::MIN; 5]);
    let b = Tensor::empty(&card, &[5], Dtype::Bool).unwrap();
    b.fill(2.0).unwrap();
    assert_eq!(down(&b), [1; 5]);
    let drawn = of("randint", json!({"size": [200], "low": -big, "high": big, "wide": true}));
    assert!(
        drawn.iter().all(|x| (-big..big).contains(x)) && drawn.iter().any(|x| x.abs() > 1 << 58)
    );
}

#[test]
fn indices_are_not_cut_and_sums_of_int32_are_wide() {
    let card = card();
    let table = up(&card, &random(7, 8 * 20), &[8, 20]);
    let index = up(&card, &[1 << 32], &[1]);
    let op = TensorOp::new("index_select", &json!({"dim": 0})).unwrap();
    let refused = op.run_op(&card, &[table, index]).unwrap_err();
    assert!(refused.to_string().contains("index 4294967296"), "{refused}");
    let bytes: Vec<u8> = [i32::MAX; 40].iter().flat_map(|v| v.to_le_bytes()).collect();
    let host = StridedLayout::new_contiguous(&[40]).unwrap();
    let x = Tensor::upload(&card, &bytes, &host, Dtype::Int32, None).unwrap().0;
    let sum = run(&card, "sum", &json!({}), std::slice::from_ref(&x));
    assert_eq!(down(&sum[0]), [40 * i64::from(i32::MAX)]);
}

#[test]
fn casts_round_once_and_narrow_layouts_refuse() {
    let card = card();
    let a = random(8, 64);
    let x = up(&card, &a, &[64]);
    let made =
        run(&card, "cast", &json!({"dtype": "float32", "wide": true}), std::slice::from_ref(&x));
    let bytes = made[0].download(Dtype::Float32).unwrap();
    let found: Vec<f32> =
        bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    #[allow(clippy::cast_precision_loss, reason = "the rounding is the law")]
    let want: Vec<f32> = a.iter().map(|x| *x as f32).collect();
    assert_eq!(found, want);
    let narrow = StickLayout::default_in_format(&[64], None, DataFormat::IEEE_INT32).unwrap();
    assert!(matches!(x.to_layout(&narrow).unwrap_err(), DeviceError::Wide { .. }));
}

#[test]
fn sixteen_elements_fill_a_stick_and_twice_the_bytes_move() {
    let wide = card();
    let narrow = Card::builder().keep_dtypes(KeptDtypes::NONE).core_count(5).build().unwrap();
    let a: Vec<i64> = (0..640).collect();
    let moved = |card: &Card| {
        let x = up(card, &a, &[10, 64]);
        let ran = TensorOp::new("add", &json!({}))
            .unwrap()
            .run_op(card, &[x.clone(), x.clone()])
            .unwrap();
        (
            x.stick_layout().elems_per_stick(),
            ran.step_costs().iter().map(|c| c.totals.bytes_out).sum::<u64>(),
        )
    };
    assert_eq!(moved(&narrow), (32, 2560));
    assert_eq!(moved(&wide), (16, 5120));
}
