//! Shardings against their own definitions. `crates/conformance` has the recorded answers of JAX.

use proptest::prelude::*;
use zellige_layout::{Axis, AxisKind, AxisTable, Layout, unflatten_index};
use zellige_notation::convert::{ConversionRefusal, translate_notation};
use zellige_notation::{Notation, ParsedText, jax, parse, parse_as};

fn read(text: &str) -> ParsedText {
    parse(text, &AxisTable::new()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Which devices hold each element, and where in their shard: by the layout, devices numbered by the axes in the order given.
fn owners(layout: &Layout, axes: &[(String, i64)]) -> Vec<Vec<(i64, i64)>> {
    let axis = |name: &str| Axis::new(name, AxisKind::Device).expect("a name");
    (0..layout.size())
        .map(|i| {
            let places = layout.physical_coordinates(i).expect("inside").sorted_coordinates();
            let mut all: Vec<(i64, i64)> = places
                .iter()
                .map(|p| {
                    let device = axes.iter().fold(0, |d, (n, size)| d * size + p.get(axis(n)));
                    (device, p.get(Axis::M))
                })
                .collect();
            all.sort_unstable();
            all
        })
        .collect()
}

/// **Laws**: a text is read again as it is printed; its layout is written as a text with the same layout.
fn check_again(parsed: &ParsedText, shape: &[i64]) {
    let (axes, text) = (AxisTable::new(), parsed.notation_text());
    assert_eq!(parse_as(&text, parsed.notation(), &axes), Ok(parsed.clone()), "{text}");
    let layout = parsed.layout_over_shape(Some(shape)).expect(&text);
    let written =
        zellige_notation::convert::convert_layout(&layout, shape, None, parsed.notation());
    let written = written.unwrap_or_else(|e| panic!("{text}: {e:?}"));
    let again = parse_as(&written, parsed.notation(), &axes).expect(&written);
    let again = again.layout_over_shape(Some(shape)).expect(&written);
    assert_eq!(again.find_difference(&layout), Ok(None), "{text} as {written}");
}

/// Cases of each law; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok());
    let cases = asked.unwrap_or(500);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A mesh, a spec on it, and a shape that JAX divides evenly over it.
fn jax_text() -> impl Strategy<Value = (String, Vec<i64>)> {
    let sizes = prop::collection::vec(1i64..5, 1..4);
    let shape = prop::collection::vec(prop_oneof![9 => 1i64..5, 1 => Just(0i64)], 1..4);
    (sizes, shape, prop::collection::vec(0usize..5, 4)).prop_map(|(sizes, shape, uses)| {
        let names = ["x", "y", "m"];
        let axes: Vec<String> =
            sizes.iter().enumerate().map(|(k, s)| format!("'{}': {s}", names[k])).collect();
        let entry = |d: usize| {
            let own: Vec<String> = (0..sizes.len())
                .filter(|k| uses[*k] == d)
                .map(|k| format!("'{}'", names[k]))
                .collect();
            match own.len() {
                0 => "None".to_string(),
                1 => own[0].clone(),
                _ => format!("({})", own.join(", ")),
            }
        };
        let spec: Vec<String> = (0..shape.len()).map(entry).collect();
        let parts = |d: usize| -> i64 {
            (0..sizes.len()).filter(|k| uses[*k] == d).map(|k| sizes[k]).product()
        };
        let even = shape.iter().enumerate().map(|(d, n)| n * parts(d));
        let shape: Vec<i64> = even.collect();
        (format!("Mesh({}) PartitionSpec({})", axes.join(", "), spec.join(", ")), shape)
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn jax_specs_survive_and_are_their_slices((text, shape) in jax_text()) {
        let parsed = read(&text);
        prop_assert_eq!(parsed.notation_text(), text.as_str());
        if shape.iter().all(|n| *n > 0) {
            check_again(&parsed, &shape);
        }
        let sharding = jax::parse(&text).expect("as before");
        let layout = parsed.layout_over_shape(Some(&shape)).expect("a layout");
        let mesh: Vec<(String, i64)> = sharding.mesh().named_sizes().iter()
            .map(|(n, s)| (if n == "m" { "mesh_m".into() } else { n.clone() }, *s)).collect();
        let holders = owners(&layout, &mesh);
        let shard = sharding.shard_shape(&shape).expect("a shard");
        for (place, (_, own)) in (0i64..).zip(sharding.device_slices(&shape).expect("slices")) {
            for (i, held) in (0i64..).zip(&holders) {
                let c = unflatten_index(&shape, i);
                let inside = c.iter().zip(&own).all(|(c, (b, e))| (*b..*e).contains(c));
                let m = c.iter().zip(&own).zip(&shard).fold(0, |m, ((c, (b, _)), n)| m * n + c - b);
                let held: Vec<i64> = held.iter().filter(|(d, _)| *d == place).map(|(_, m)| *m).collect();
                prop_assert_eq!(held, if inside { vec![m] } else { vec![] });
            }
        }
        // Through every other notation and back: the same devices.
        for to in [Notation::SHARDY, Notation::DTENSOR] {
            let text = match translate_notation(&parsed, &shape, None, to) {
                Ok(text) => text,
                // Shards of shards are cut in another way where they are not even.
                Err(_) if to == Notation::DTENSOR && layout.window().is_some() => continue,
                Err(e) => panic!("{text} in {to:?}: {e:?}"),
            };
            let other = parse_as(&text, to, &AxisTable::new()).expect(&text);
            prop_assert_eq!(other.notation_text(), text.as_str());
            let again = other.layout_over_shape(Some(&shape)).expect(&text);
            prop_assert_eq!(again.find_difference(&layout), Ok(None), "{}", text);
            if shape.iter().all(|n| *n > 0) {
                check_again(&other, &shape);
            }
        }
        let hlo = translate_notation(&parsed, &shape, None, Notation::HLO).expect("a mesh has numbers");
        let numbered = parse_as(&hlo, Notation::HLO, &AxisTable::new()).expect(&hlo);
        if hlo != "{replicated}" {
            let pid = [("pid".to_string(), mesh.iter().map(|(_, n)| n).product())];
            let numbered = numbered.layout_over_shape(Some(&shape)).expect(&hlo);
            prop_assert_eq!(owners(&numbered, &pid), holders);
        }
    }
}

/// JAX refuses what it does not divide evenly; HLO and Shardy pad it, and say so when they are converted.
#[test]
fn jax_divides_evenly() {
    let text = "Mesh('x': 2, 'y': 4) PartitionSpec('x', None)";
    let refused = read(text).layout_over_shape(Some(&[7, 4])).expect_err("7 over 2 devices");
    assert_eq!(refused.message, "dimension 0 of 7 elements is not divided evenly over 2 devices");
    let given = format!("{text} shape=[7, 4]");
    let refused = parse(&given, &AxisTable::new()).expect_err("7 over 2 devices");
    assert_eq!(&given[refused.span], "shape=[7, 4]");
    let padded = read("{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
    assert!(translate_notation(&padded, &[8, 4], None, Notation::JAX).is_ok());
    match translate_notation(&padded, &[7, 4], None, Notation::JAX) {
        Err(ConversionRefusal::NotExpressible(why)) => {
            assert_eq!(
                why.reason,
                "dimension 0 of 7 elements is not divided evenly over 2 devices"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(translate_notation(&padded, &[7, 4], None, Notation::SHARDY).is_ok());
}

/// Meshes as JAX 0.10 prints them, with `repr`, `str` and as abstract ones.
#[test]
fn jax_meshes_are_read_as_they_are_printed() {
    let printed = "Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto)) PartitionSpec('x', None)";
    for mesh in [
        "Mesh(axis_sizes=(2, 4), axis_names=('x', 'y'), axis_types=(Auto, Auto))",
        "Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto))",
        "AbstractMesh('x': 2, 'y': 4, axis_types=(Auto, Auto), device_kind=cpu, num_cores=None, platform=cpu)",
    ] {
        assert_eq!(read(&format!("{mesh} P('x', None)")).notation_text(), printed);
    }
    for (text, message) in [
        ("Mesh(axis_sizes=(2, 4), axis_names=('x',)) P('x')", "2 axes of 1 names"),
        (
            "Mesh(axis_sizes=(2,), axis_names=('x',), 'y': 2) P('x')",
            "an axis after the fields that follow the axes",
        ),
    ] {
        assert_eq!(parse(text, &AxisTable::new()).expect_err(text).message, message);
    }
}

/// Where `torch.chunk` puts an element: per mesh dimension the coordinate, and the index in the shard. Strided shards are cut inside the
/// shards of later mesh dimensions.
fn dtensor_by_hand(extent: i64, mesh: &[i64], index: i64) -> (Vec<i64>, i64) {
    let (mut length, mut at) = (extent, index);
    let mut device = Vec::new();
    for n in mesh {
        let chunk = (length + n - 1) / n;
        device.push(at / chunk);
        length = (length - at / chunk * chunk).min(chunk);
        at %= chunk;
    }
    (device, at)
}

#[test]
fn dtensor_cuts_from_left_to_right() {
    for extent in [1, 2, 5, 8, 12, 13] {
        for mesh in [vec![2], vec![3], vec![2, 2], vec![4, 3], vec![2, 1, 3]] {
            let shards = vec!["Shard(0)"; mesh.len()].join(", ");
            let text = format!("[{shards}] mesh={mesh:?}");
            let Ok(layout) = read(&text).layout_over_shape(Some(&[extent])) else {
                assert!(extent % mesh[0] != 0 && mesh.len() > 1, "{text} of {extent}");
                continue;
            };
            for i in 0..extent {
                let (device, at) = dtensor_by_hand(extent, &mesh, i);
                let place =
                    layout.physical_coordinates(i).expect("inside").sorted_coordinates().remove(0);
                assert_eq!(place.get(Axis::M), at, "{text} of {extent} at {i}");
                for (k, d) in device.iter().enumerate() {
                    let axis = Axis::new(&format!("mesh{k}"), AxisKind::Device).expect("a name");
                    assert_eq!(place.get(axis), *d, "{text} of {extent} at {i}");
                }
            }
        }
    }
    // Tensor parallelism first, then the data parallel dimension inside of each shard.
    let text = "(_StridedShard(dim=0, split_factor=2), Shard(dim=0)) mesh=[2, 2] mesh_dim_names=('dp', 'tp')";
    let layout = read(text).layout_over_shape(Some(&[8])).expect(text);
    assert_eq!(
        zellige_notation::tirx::print_tirx(&layout),
        "S[(2,1,2,2):(1@tp,2,1@dp,1)] axes[dp=device, tp=device]"
    );
    check_again(&read(text), &[8]);
}

#[test]
fn one_sharding_in_every_notation() {
    let shape = [8, 16];
    let texts = [
        "Mesh('x': 2, 'y': 4) PartitionSpec('y', 'x')",
        "{devices=[4,2]<=[2,4]T(1,0)}",
        r#"#sdy.mesh<["x"=2, "y"=4]> #sdy.sharding<@mesh, [{"y"}, {"x"}]>"#,
        "(Shard(dim=1), Shard(dim=0)) mesh=[2, 4] mesh_dim_names=('x', 'y')",
    ];
    for from in texts {
        for to in texts {
            let notation = read(to).notation();
            let found = translate_notation(&read(from), &shape, None, notation).expect(from);
            // Numbered devices have no names of axes: each part is an axis, or a part of the one axis.
            let named = match (from.starts_with('{'), notation == Notation::SHARDY) {
                (true, true) => {
                    r#"#sdy.mesh<["pid"=8]> #sdy.sharding<@mesh, [{"pid":(2)4}, {"pid":(1)2}]>"#
                        .into()
                }
                (true, false) => to.replace("'x'", "'d0'").replace("'y'", "'d1'"),
                (false, _) => to.to_string(),
            };
            assert_eq!(found, named, "{from}");
        }
    }
}
