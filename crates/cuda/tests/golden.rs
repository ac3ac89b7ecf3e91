//! Texts of kernels, kept for readers and for reviews: `ZELLIGE_BLESS=1` writes them anew.

use std::path::Path;
use zellige_cuda::{CudaProgram, Gpu, LaunchAlignment};
use zellige_float::{Dtype, Format};
use zellige_layout::{Layout, StridedLayout, Swizzle, TileLayout};
use zellige_movement::{MoveDtypes, MovePlan, PaddingFill};
use zellige_stick::StickLayout;

/// The strides of a dense tensor whose dimensions are in this order, slowest first.
fn permuted(shape: &[i64], order: &[usize]) -> Layout {
    let mut stride = vec![0; shape.len()];
    let mut weight = 1;
    for d in order.iter().rev() {
        stride[*d] = weight;
        weight *= shape[*d];
    }
    StridedLayout::new(shape, &stride, 0).and_then(|s| s.to_layout()).expect("a tensor")
}

fn rows(shape: &[i64]) -> Layout {
    StridedLayout::new_contiguous(shape).and_then(|s| s.to_layout()).expect("a tensor")
}

fn sticks(shape: &[i64]) -> Layout {
    StickLayout::default_for_dtype(shape, Dtype::Float16)
        .and_then(|s| s.lower_to_layout())
        .expect("sticks")
}

struct Case {
    name: &'static str,
    from: Layout,
    to: Layout,
    shape: Vec<i64>,
    dtypes: MoveDtypes,
    fill: Option<Vec<u8>>,
    align: LaunchAlignment,
}

fn cases() -> Vec<Case> {
    let two = MoveDtypes::Bytes(2);
    let permute = |name, shape: &[i64], order: &[usize], dtypes| Case {
        name,
        from: rows(shape),
        to: permuted(shape, order),
        shape: shape.to_vec(),
        dtypes,
        fill: None,
        align: LaunchAlignment::FULL,
    };
    let big = [16384, 16384];
    let sticks_2d = sticks(&big);
    let swizzled = TileLayout::from_strides(&[64, 64], &[64, 1], 0).expect("small");
    let swizzled =
        Layout::from_swizzled_tile(Swizzle::shared_memory_mode(128, 16).expect("a mode"), swizzled)
            .expect("fits");
    let of = |name, from: Layout, to: Layout, shape: &[i64]| Case {
        name,
        from,
        to,
        shape: shape.to_vec(),
        dtypes: two,
        fill: None,
        align: LaunchAlignment::FULL,
    };
    let restick = StickLayout::default_for_dtype(&big, Dtype::Float16).expect("sticks");
    let restick = restick.restickify_along(0).and_then(|s| s.lower_to_layout()).expect("sticks");
    vec![
        of("stickify_2d_f16", rows(&big), sticks_2d.clone(), &big),
        of(
            "stickify_3d_f16",
            rows(&[128, 4096, 1024]),
            sticks(&[128, 4096, 1024]),
            &[128, 4096, 1024],
        ),
        of("restickify_f16", sticks_2d, restick, &big),
        permute("transpose_f16", &big, &[1, 0], two),
        permute("transpose_f32", &big, &[1, 0], MoveDtypes::Bytes(4)),
        permute("transpose_i8", &[32768, 32768], &[1, 0], MoveDtypes::Bytes(1)),
        permute("transpose_f64", &[16384, 8192], &[1, 0], MoveDtypes::Bytes(8)),
        permute("permute_210_f16", &[1024, 512, 512], &[2, 1, 0], two),
        permute("permute_021_f16", &[512, 1024, 1024], &[0, 2, 1], two),
        permute("permute_0213_f16", &[32, 2048, 64, 128], &[0, 2, 1, 3], two),
        permute("nchw_to_nhwc_f16", &[64, 256, 128, 128], &[0, 2, 3, 1], two),
        permute("nhwc_to_nchw_f16", &[64, 128, 128, 256], &[0, 3, 1, 2], two),
        permute("permute_42031_f16", &[16, 32, 64, 32, 256], &[4, 2, 0, 3, 1], two),
        permute("odd_transpose_f16", &[16383, 16381], &[1, 0], two),
        Case {
            fill: Some(vec![0, 0xfc]),
            ..of("padded_stickify_f16", rows(&[4000, 4001]), sticks(&[4000, 4001]), &[4000, 4001])
        },
        of("swizzled_f16", rows(&[64, 64]), swizzled, &[64, 64]),
        permute(
            "f32_to_dl16",
            &[4096, 4096],
            &[0, 1],
            MoveDtypes::Formats { from: Format::F32, to: Format::DL16 },
        ),
        permute(
            "transpose_f32_to_f8",
            &[4096, 4096],
            &[1, 0],
            MoveDtypes::Formats { from: Format::F32, to: Format::F8E4M3FN },
        ),
        Case {
            align: LaunchAlignment::new(4, 2).expect("powers of two"),
            ..permute("unaligned_copy_f16", &[4096, 4095], &[0, 1], two)
        },
    ]
}

/// More moves whose kernels are measured: odd sizes, short dimensions, padding.
fn measured() -> Vec<Case> {
    let permute = |name, shape: &[i64], order: &[usize], width| Case {
        name,
        from: rows(shape),
        to: permuted(shape, order),
        shape: shape.to_vec(),
        dtypes: MoveDtypes::Bytes(width),
        fill: None,
        align: LaunchAlignment::FULL,
    };
    let into_sticks = |name, shape: &[i64], order: &[usize]| Case {
        name,
        from: permuted(shape, order),
        to: sticks(shape),
        shape: shape.to_vec(),
        dtypes: MoveDtypes::Bytes(2),
        fill: Some(vec![0, 0]),
        align: LaunchAlignment::FULL,
    };
    let converted = |name, from: Format, to: Format| {
        let shape = [16384, 16384];
        let dtype = if to == Format::F32 { Dtype::Float32 } else { Dtype::Float16 };
        let lanes = StickLayout::default_for_dtype(&shape, dtype)
            .and_then(|s| s.lower_to_layout())
            .expect("sticks");
        let dtypes = MoveDtypes::Formats { from, to };
        Case { to: lanes, dtypes, ..permute(name, &shape, &[0, 1], 2) }
    };
    vec![
        permute("copy_f16", &[16384, 16382], &[0, 1], 2),
        Case {
            align: LaunchAlignment::new(2, 16).expect("powers of two"),
            ..permute("copy_from_unaligned_f16", &[16384, 16382], &[0, 1], 2)
        },
        Case {
            from: StridedLayout::new(&[16384, 16380], &[16384, 1], 0)
                .and_then(|s| s.to_layout())
                .expect("a tensor"),
            to: rows(&[16384, 16380]),
            shape: vec![16384, 16380],
            ..permute("crop_f16", &[2, 2], &[0, 1], 2)
        },
        permute("odd_transpose_f32", &[16383, 16381], &[1, 0], 4),
        permute("odd_transpose_i8", &[32767, 32765], &[1, 0], 1),
        permute("odd_021_f16", &[129, 1023, 1021], &[0, 2, 1], 2),
        permute("odd_nchw_to_nhwc_f16", &[63, 255, 127, 127], &[0, 2, 3, 1], 2),
        permute("odd_0213_f16", &[31, 2047, 63, 127], &[0, 2, 1, 3], 2),
        permute("short_24103_f16", &[24, 20, 36, 28, 100], &[2, 4, 1, 0, 3], 2),
        permute("short_31402_i8", &[64, 48, 17, 33, 50], &[3, 1, 4, 0, 2], 1),
        permute("rgb_to_planes_i8", &[256, 1024, 1024, 3], &[0, 3, 1, 2], 1),
        permute("reversed_f32", &[32, 16, 64, 32, 128], &[4, 3, 2, 1, 0], 4),
        converted("stickify_f32_to_f16", Format::F32, Format::F16),
        converted("stickify_f16_to_f32", Format::F16, Format::F32),
        into_sticks("padded_stickify_3d_f16", &[128, 4095, 1000], &[0, 1, 2]),
        into_sticks("padded_stickify_large_f16", &[16384, 16356], &[0, 1]),
        Case {
            from: sticks(&[16384, 16356]),
            to: rows(&[16384, 16356]),
            shape: vec![16384, 16356],
            ..permute("unstickify_f16", &[2, 2], &[0, 1], 2)
        },
    ]
}

#[test]
fn texts_are_those_that_were_reviewed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("ZELLIGE_BLESS").is_some();
    for c in cases() {
        let fill = if c.fill.is_some() { PaddingFill::Padding } else { PaddingFill::Leave };
        let plan = MovePlan::between(&c.from, &c.to, &c.shape, fill).expect("a plan");
        let program = CudaProgram::new(&plan, c.dtypes, c.fill.as_deref(), c.align, &Gpu::H200);
        let text = program.expect("a kernel").source_text().to_string();
        let file = folder.join(format!("{}.cu", c.name));
        if bless {
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(&file, &text).expect("written");
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(kept == text, "{} differs; ZELLIGE_BLESS=1 writes it anew", file.display());
    }
}

/// Every kernel that could move each case, into the folder that `ZELLIGE_CANDIDATES` names: what `bench/gpu_kernels.py`
/// measures to fit the constants of the cost model.
#[test]
#[ignore = "writes files for a measurement"]
fn every_candidate() {
    let folder = std::env::var_os("ZELLIGE_CANDIDATES").expect("a folder");
    std::fs::create_dir_all(&folder).expect("a folder");
    for c in cases().into_iter().chain(measured()) {
        let fill = if c.fill.is_some() { PaddingFill::Padding } else { PaddingFill::Leave };
        let plan = MovePlan::between(&c.from, &c.to, &c.shape, fill).expect("a plan");
        let chosen = CudaProgram::new(&plan, c.dtypes, c.fill.as_deref(), c.align, &Gpu::H200);
        let chosen = chosen.expect("a kernel");
        let write = |program: &CudaProgram, pick: &str, mark: &str| {
            let seconds: f64 = program.pieces().iter().map(|p| p.seconds).sum();
            let head = format!("// estimate {seconds:e} {mark}\n");
            let file = Path::new(&folder).join(format!("{}.{pick}.cu", c.name));
            std::fs::write(file, head + program.source_text()).expect("written");
        };
        write(&chosen, "chosen", "chosen");
        let mut seen = vec![chosen.source_text().to_string()];
        // Also tiles of more shared memory than the choice takes.
        let large = Gpu { shared: 96 << 10, skewed_shared: 96 << 10, ..Gpu::H200 };
        for pick in 0..200 {
            let program = CudaProgram::with_candidate(
                &plan,
                c.dtypes,
                c.fill.as_deref(),
                c.align,
                &large,
                pick,
            )
            .expect("a kernel");
            if seen.contains(&program.source_text().to_string()) {
                continue;
            }
            seen.push(program.source_text().to_string());
            write(&program, &format!("{pick:03}"), "other");
        }
    }
}
