//! Laws: modules and affine expressions are read back unchanged, bounds contain their sets, and no
//! text causes a panic.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod common;

use common::{halves, ints, module, noise};
use proptest::prelude::*;
use zellige_ktir::affine::{KtirAffineConstraint, KtirAffineExpr, KtirAffineMap, KtirAffineSet};
use zellige_ktir::text::{parse, parse_unverified, print_module};
use zellige_ktir::{
    KtirArray, KtirBuilder, KtirElem, KtirMemorySpace, KtirModule, KtirOpKind, KtirRun, KtirScalar,
    KtirSubscript, KtirType, KtirValue,
};

/// Draws choices from bytes; when they are used up, the first choice.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.0.next().map_or(0, |b| usize::from(*b) % n.max(1))
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn number(&mut self) -> i64 {
        let small = i64::try_from(self.below(200)).unwrap() - 100;
        if self.below(20) == 19 { self.pick(&[i64::MIN, i64::MAX, 1 << 40]) } else { small }
    }

    fn expr(&mut self, dims: usize, symbols: usize, depth: usize) -> KtirAffineExpr {
        let leaf = depth == 0 || self.below(3) == 0;
        if leaf {
            return match self.below(3) {
                0 if dims > 0 => KtirAffineExpr::dim(self.below(dims)),
                1 if symbols > 0 => KtirAffineExpr::symbol(self.below(symbols)),
                _ => KtirAffineExpr::constant(self.number()),
            };
        }
        let a = self.expr(dims, symbols, depth - 1);
        let k = i64::try_from(1 + self.below(9)).unwrap();
        match self.below(7) {
            0 => a + self.expr(dims, symbols, depth - 1),
            1 => a - self.expr(dims, symbols, depth - 1),
            2 => a * self.number(),
            3 => -a,
            4 => a.floor_div(k).unwrap(),
            5 => a.ceil_div(k).unwrap(),
            _ => a.modulo(k).unwrap(),
        }
    }

    fn set(&mut self, dims: usize, symbols: usize) -> KtirAffineSet {
        let n = self.below(5);
        let constraints = (0..n)
            .map(|_| KtirAffineConstraint {
                expr: self.expr(dims, symbols, 3),
                equal: self.below(3) == 0,
            })
            .collect();
        KtirAffineSet::new(dims, symbols, constraints).unwrap()
    }
}

/// Builds a function from the choices.
fn function(c: &mut Choices<'_>, name: &str) -> zellige_ktir::KtirFunction {
    let grids: [&[i64]; 4] = [&[], &[4], &[2, 3], &[1, 2, 2]];
    let mut b = KtirBuilder::new(name, c.pick(&grids));
    let x = b.add_argument("x", KtirType::INDEX);
    let eps = b.add_argument("eps", KtirType::Scalar(KtirElem::F32));
    let id = b.tile_id(1)[0];
    let view = b.memory_view(x, &[16, 8], &[8, 1], KtirElem::F32, KtirMemorySpace::Global);
    let local = b.memory_view(x, &[16], &[1], KtirElem::I32, KtirMemorySpace::Local(Some(0)));
    let zero = b.index_constant(0);
    let tile = b.access_tile(view, &[id, zero], &[2, 8]);
    let first = b.load_tile(tile);
    let mut tiles = vec![first];
    let mut scalars = vec![eps];
    steps(c, &mut b, &mut tiles, &mut scalars, (view, local, id, zero), 2);
    let last = tiles[tiles.len() - 1];
    b.store_tile(last, tile);
    b.finish_function().unwrap_or_else(|d| panic!("{d}"))
}

fn steps(
    c: &mut Choices<'_>,
    b: &mut KtirBuilder,
    tiles: &mut Vec<KtirValue>,
    scalars: &mut Vec<KtirValue>,
    given: (KtirValue, KtirValue, KtirValue, KtirValue),
    depth: usize,
) {
    let (view, local, id, zero) = given;
    let shape = [2, 8];
    for _ in 0..1 + c.below(6) {
        let t = tiles[c.below(tiles.len())];
        let u = tiles[c.below(tiles.len())];
        let s = scalars[c.below(scalars.len())];
        match c.below(17) {
            0 => tiles.push(b.unary_op(
                c.pick(&[KtirOpKind::Exp, KtirOpKind::NegF, KtirOpKind::Tanh, KtirOpKind::Floor]),
                t,
            )),
            1 => tiles.push(b.binary_op(
                c.pick(&[KtirOpKind::AddF, KtirOpKind::MaximumF, KtirOpKind::DivF]),
                t,
                u,
            )),
            2 => scalars.push(b.pointwise_op(KtirOpKind::Fma, &[s, s, s])),
            3 => {
                let value = f64::from(u8::try_from(c.below(200)).unwrap()) / 8.0 - 9.0;
                tiles.push(b.float_tile(
                    c.pick(&[value, f64::INFINITY, f64::NAN, 1e-30]),
                    &shape,
                    KtirElem::F32,
                ));
            }
            4 => tiles.push(b.splat_tile(s, &shape)),
            5 => {
                let mask = b.compare_values(KtirOpKind::CmpF, c.pick(&["olt", "une", "ord"]), t, u);
                tiles.push(b.select_values(mask, t, u));
            }
            6 => {
                let narrow = b.cast_elements(
                    KtirOpKind::TruncF,
                    t,
                    c.pick(&[KtirElem::F16, KtirElem::BF16, KtirElem::DF16]),
                );
                tiles.push(b.cast_elements(KtirOpKind::ExtF, narrow, KtirElem::F32));
            }
            7 => {
                let init = b.float_tile(0.0, &[2], KtirElem::F32);
                let sum = b.reduce_tile(KtirOpKind::AddF, t, init, &[1]);
                tiles.push(b.broadcast_tile(sum, &shape, &[1]));
            }
            8 => {
                let turned = b.transpose_tile(t, &[1, 0]);
                let square = b.float_tile(0.0, &[2, 2], KtirElem::F32);
                let product = b.matmul(t, turned, square);
                let zero = b.float_tile(0.0, &shape, KtirElem::F32);
                tiles.push(b.matmul(product, t, zero));
            }
            9 if depth > 0 => {
                let (to, step) = (b.index_constant(3), b.index_constant(1));
                let out = b.for_loop((zero, to, step), &[t], |b, i, carried| {
                    let (mut tiles, mut scalars) = (vec![carried[0]], scalars.clone());
                    steps(c, b, &mut tiles, &mut scalars, (view, local, i, zero), depth - 1);
                    vec![tiles[tiles.len() - 1]]
                });
                tiles.push(out[0]);
            }
            10 if depth > 0 => {
                let is = b.compare_values(KtirOpKind::CmpI, "eq", id, zero);
                let out = b.if_else(is, |_| vec![t], |b| vec![b.unary_op(KtirOpKind::AbsF, u)]);
                tiles.push(out[0]);
            }
            11 => {
                let identity = KtirAffineMap::identity(2);
                let row = KtirAffineMap::select_dims(2, &[1]).unwrap();
                let line = b.float_tile(0.5, &[8], KtirElem::F32);
                let maps = [identity.clone(), row, identity];
                let out =
                    b.generic_op(&maps, &["parallel", "parallel"], &[t, line], &[u], |b, x| {
                        let a = b.binary_op(KtirOpKind::MulF, x[0], x[1]);
                        let at = b.loop_index(1);
                        let at = b.cast_elements(KtirOpKind::IndexCast, at, KtirElem::I32);
                        let at = b.cast_elements(KtirOpKind::SIToFP, at, KtirElem::F32);
                        vec![b.pointwise_op(KtirOpKind::Fma, &[a, at, s])]
                    });
                tiles.push(out[0]);
            }
            12 => {
                let part = b.extract_slice(t, &[0, 2], &[2, 3]);
                tiles.push(b.insert_slice(part, u, &[0, 5]));
            }
            13 => {
                let flat = b.reassociate_tile(t, &[vec![0, 1]], &[16]);
                let back = b.reassociate_tile(flat, &[vec![0, 1]], &[2, 8]);
                tiles.push(back);
            }
            14 => {
                let at = [
                    KtirAffineExpr::dim(0).modulo(7).unwrap(),
                    KtirAffineExpr::dim(1) - KtirAffineExpr::dim(0) + KtirAffineExpr::dim(0),
                ];
                let order = KtirAffineMap::identity(2);
                let tile = b.access_tile_at(
                    view,
                    &[id, zero],
                    &at,
                    &shape,
                    KtirAffineSet::from_extents(&shape),
                    order,
                );
                tiles.push(b.load_tile(tile));
            }
            15 => {
                let subscripts = [
                    KtirSubscript::Through(
                        local,
                        vec![KtirAffineExpr::dim(0) + KtirAffineExpr::dim(2)],
                    ),
                    KtirSubscript::Direct(KtirAffineExpr::dim(1)),
                ];
                let (set, order) =
                    (KtirAffineSet::from_extents(&shape), KtirAffineMap::identity(2));
                let tile = b.indirect_tile(view, &subscripts, &[zero], &shape, set, order);
                tiles.push(b.load_tile(tile));
            }
            16 if depth == 2 => {
                let one = |e: KtirAffineExpr| {
                    KtirAffineSet::new(1, 1, vec![KtirAffineConstraint { expr: e, equal: false }])
                        .unwrap()
                };
                let tiles_of = one(KtirAffineExpr::dim(0) - KtirAffineExpr::symbol(0));
                let groups = KtirAffineSet::from_extents(&[1]);
                let future = b.inter_tile_produce(tiles_of.clone(), groups, |_, _| vec![t]);
                let none = b.float_tile(0.0, &shape, KtirElem::F32);
                let out = b.inter_tile_reduce(future, tiles_of, &[none], |b, l, r| {
                    vec![b.binary_op(KtirOpKind::AddF, l[0], r[0])]
                });
                tiles.push(out[0]);
            }
            _ => {}
        }
    }
}

/// Three hundred cases of each law; `PROPTEST_CASES` sets another number, of which costly laws run
/// a fraction.
fn config(share: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse::<u32>().ok());
    let cases = asked.map_or(300, |n| (n / share).max(300));
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(20))]

    #[test]
    fn modules_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut c = Choices(bytes.iter());
        let functions = vec![function(&mut c, "f"), function(&mut c, "g")];
        let built = KtirModule::new(functions);
        let text = print_module(&built);
        let read = parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text, false)));
        prop_assert!(read == built, "changed:\n{}", text);
        prop_assert_eq!(print_module(&read), text);
    }
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn random_kernels_run_the_same_when_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut c = Choices(bytes.iter());
        let built = KtirModule::new(vec![function(&mut c, "f")]);
        let read = parse(&print_module(&built)).unwrap();
        let run = |m: &KtirModule| {
            let x = KtirArray { elem: KtirElem::F32, shape: vec![128], bytes: vec![0; 512] };
            KtirRun::new(m, "f").with_array("x", x).with_scalar("eps", KtirScalar::Float(0.5)).with_max_steps(10_000).execute_kernel()
        };
        match (run(&built), run(&read)) {
            (Ok(a), Ok(b)) => prop_assert_eq!(a, b),
            (Err(a), Err(b)) => prop_assert_eq!(a.fault, b.fault),
            (a, b) => prop_assert!(false, "{:?} and {:?}", a.is_ok(), b.is_ok()),
        }
    }
}

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn affine_things_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let mut c = Choices(bytes.iter());
        let (map, set) = (KtirAffineMap::new(2, 1, vec![c.expr(2, 1, 4), c.expr(2, 1, 4)]).unwrap(), c.set(2, 1));
        let text = format!("#m = {map}\n#s = {set}\nfunc.func @f() {{\n return\n}}");
        let module = parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text, false)));
        prop_assert_eq!(&module.aliases[0].1, &zellige_ktir::KtirAlias::Map(map));
        prop_assert_eq!(&module.aliases[1].1, &zellige_ktir::KtirAlias::Set(set));
    }
}

proptest! {
    #![proptest_config(config(20))]

    #[test]
    fn bounds_hold_every_point(bytes in proptest::collection::vec(any::<u8>(), 0..40), s in -5_i64..5) {
        let mut c = Choices(bytes.iter());
        let set = c.set(2, 1);
        if let Some(b) = set.bounding_box(&[s]) {
            for x in -12..12 {
                for y in -12..12 {
                    let inside = [x, y].iter().enumerate().all(|(d, v)| {
                        *v >= b.low[d] && *v - b.low[d] < b.extents[d]
                    });
                    let member = set.contains(&[x, y], &[s]);
                    prop_assert!(inside || !member, "{} at {:?} of {:?}", set, [x, y], b);
                    prop_assert!(!b.exact || member == inside, "{} at {:?} of {:?}", set, [x, y], b);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn no_text_makes_a_panic(text in "\\PC{0,80}") {
        if let Err(d) = parse(&text) {
            prop_assert!(d.span.start <= d.span.end && d.span.end <= text.len(), "{:?}", d);
            let _ = d.render(&text, false);
        }
    }
}

proptest! {
    #![proptest_config(config(50))]

    #[test]
    fn damaged_kernels_are_refused_or_run(
        which in 0_usize..6, at in 0_usize..6000, gone in 0_usize..12, put in "[-%#a-z0-9<>(){}\\[\\]:,= .*x]{0,6}",
    ) {
        let name = ["vector_add", "layernorm", "gather", "all_reduce", "softmax", "matmul"][which];
        let (text, _) = common::kernel(name);
        let from = at % text.len();
        let to = (from + gone).min(text.len());
        let damaged = format!("{}{put}{}", &text[..from], &text[to..]);
        match parse_unverified(&damaged).and_then(|m| zellige_ktir::verify_module(&m).map(|()| m)) {
            Err(d) => prop_assert!(d.span.end <= damaged.len(), "{:?}", d),
            Ok(m) => {
                let printed = print_module(&m);
                prop_assert!(parse(&printed).as_ref() == Ok(&m), "changed:\n{}", printed);
                if which < 4 {
                    let f = &m.functions[m.functions.len() - 1];
                    let mut run = KtirRun::new(&m, f.name()).with_max_steps(5000);
                    for v in f.args() {
                        let name = &f.value_def(*v).name;
                        run = match (name.as_str(), f.value_type(*v)) {
                            (_, KtirType::Scalar(KtirElem::F32)) => run.with_scalar(name, KtirScalar::Float(0.1)),
                            ("index", _) => run.with_array(name, ints(&[16], &[5; 16])),
                            _ => run.with_array(name, halves(&[8192], &noise(8192, 1))),
                        };
                    }
                    let _ = run.execute_kernel();
                }
            }
        }
    }
}

#[test]
fn depth_has_an_end() {
    for n in [90, 5000] {
        let open = "scf.if %c {\n".repeat(n);
        let close = "}\n".repeat(n);
        let text = format!("func.func @f(%c: i1) {{\n{open}{close}return\n}}");
        assert_eq!(parse(&text).is_ok(), n < 100, "{n} deep");
        let text = format!("#m = affine_map<(d) -> ({}d{})>", "(".repeat(n), ")".repeat(n));
        assert!(parse(&text).is_err());
    }
}

#[test]
fn both_spellings_of_memory_spaces_are_one() {
    let of = |space: &str| {
        module(&format!(
            "func.func @f(%x: index) {{\n %v = ktdp.construct_memory_view %x, sizes: [4], strides: [1] \
             {{memory_space = {space}}} : memref<4xf16>\n}}"
        ))
    };
    assert_eq!(of("#ktdp.memory_space<global>"), of("#ktdp.spyre_memory_space<HBM>"));
    assert_eq!(
        of("#ktdp.memory_space<ct_local, ct_id = 3>"),
        of("#ktdp.spyre_memory_space<LX, core=3>")
    );
}
