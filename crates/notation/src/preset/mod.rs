//! Layouts with names: fragments of matrix instructions, tensor memory, shared memory, meshes, scratchpads
//! and device tensors; and a few of every system, in its own notation. Scale factors in tensor memory are
//! built from their counts. Fragments follow the figures of the PTX ISA ("Matrix Fragments for mma",
//! "Register fragments" of `wgmma`, and the shapes of `tcgen05.ld`).

mod owners;
mod scale_factors;
mod systems;

use crate::cute::{CuteModes, IntegerStyle, atoms};
pub use owners::OwnerMap;
pub use scale_factors::{ScaleFactorLayout, ScaleFactors, build_scale_factor_layout};
use systems::{ATOMS, SYSTEMS};

/// A named layout with the shape it is meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutPreset {
    /// Its name, for command lines and requests.
    pub name: String,
    /// What it is.
    pub title: String,
    /// Its group in a list with headings: `Shared memory`, `Triton`.
    pub group: &'static str,
    /// The logical shape.
    pub shape: Vec<i64>,
    /// The dtype it is usually used with.
    pub dtype: &'static str,
    /// The layout, in a notation that [`crate::parse()`] reads.
    pub text: String,
    /// For a thread-value layout of CuTe, the owner of each element.
    pub owners: Option<OwnerMap>,
}

/// A family of presets: `{N}` in its name stands for a size.
struct PresetFamily {
    name: &'static str,
    title: &'static str,
    dtype: &'static str,
    /// The size in listings, and the number of which sizes must be a multiple.
    size: i64,
    multiple: i64,
    build: fn(i64) -> (Vec<i64>, String),
}

// Macros instead of functions, because a constant table can hold closures without captures only,
// and each row needs its own format string.
macro_rules! fixed {
    ($name:literal, $title:literal, $dtype:literal, [$($dim:literal),*], $text:literal) => {
        PresetFamily { name: $name, title: $title, dtype: $dtype, size: 0, multiple: 1, build: |_| (vec![$($dim),*], $text.into()) }
    };
}

use fixed;

macro_rules! sized {
    ($name:literal, $title:literal, $dtype:literal, $size:literal / $multiple:literal, |$n:ident| [$($dim:expr),*], $text:literal $(, $arg:expr)*) => {
        PresetFamily { name: $name, title: $title, dtype: $dtype, size: $size, multiple: $multiple, build: |$n| (vec![$($dim),*], format!($text $(, $arg)*)) }
    };
}

const FAMILIES: &[PresetFamily] = &[
    fixed!(
        "two-warps",
        "(8,16) on two warps with a replica, five warps in",
        "float16",
        [8, 16],
        "S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid"
    ),
    fixed!(
        // Rows are `groupID = lane >> 2` and `+ 8`, columns `threadID_in_group * 2` and `+ 1`, as
        // the PTX ISA gives them for C and D.
        "mma-m16n8-cd",
        "mma m16n8 accumulator C/D",
        "float32",
        [16, 8],
        "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]"
    ),
    fixed!(
        "mma-m16n8k8-a",
        "mma m16n8k8 operand A [M,K]",
        "float16",
        [16, 8],
        "S[(2,8,4,2):(2,4@laneid,1@laneid,1)]"
    ),
    fixed!(
        "mma-m16n8k8-b",
        "mma m16n8k8 operand B [K,N]",
        "float16",
        [8, 8],
        "S[(4,2,8):(1@laneid,1,4@laneid)]"
    ),
    fixed!(
        "mma-m16n8k16-a",
        "mma m16n8k16 operand A [M,K]",
        "float16",
        [16, 16],
        "S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]"
    ),
    fixed!(
        "mma-m16n8k16-b",
        "mma m16n8k16 operand B [K,N]",
        "float16",
        [16, 8],
        "S[(2,4,2,8):(2,1@laneid,1,4@laneid)]"
    ),
    sized!(
        // Each warp of the warpgroup has 16 rows; the pattern of `mma` repeats every 8 columns.
        "wgmma-64x{N}",
        "wgmma accumulator 64xN, N a multiple of 8",
        "float32",
        64 / 8,
        |n| [64, n],
        "S[(4,2,8,{},4,2):(1@wid_in_wg,2,4@laneid,4,1@laneid,1)]",
        n / 8
    ),
    sized!(
        // Lanes and columns as the figures of `tcgen05.ld` in the PTX ISA show them for the shape
        // 16x64b.
        "tcgen05-16x64b-{N}",
        "tcgen05.ld 16x64b, N repetitions",
        "float32",
        8 / 1,
        |n| [64, 2 * n],
        "S[(4,2,8,{},2):(1@wid_in_wg,1@laneid,4@laneid,1,2@laneid)]",
        n
    ),
    sized!(
        "tcgen05-16x128b-{N}",
        "tcgen05.ld 16x128b, N repetitions",
        "float32",
        8 / 1,
        |n| [64, 4 * n],
        "S[(4,2,8,{},4):(1@wid_in_wg,1,4@laneid,2,1@laneid)]",
        n
    ),
    sized!(
        "tcgen05-32x32b-{N}",
        "tcgen05.ld 32x32b, N columns",
        "float32",
        32 / 1,
        |n| [128, n],
        "S[(128,{}):(1@tid_in_wg,1)]",
        n
    ),
    sized!(
        "tmem-128x{N}",
        "tensor memory, one row a lane",
        "float32",
        64 / 1,
        |n| [128, n],
        "S[(128,{}):(1@TLane,1@TCol)]",
        n
    ),
    sized!(
        // With M = 64, tensor memory has two layouts (PTX ISA, `tcgen05.mma`): this one uses all
        // lanes, the next one 16 of every 32.
        "tmem-64x{N}-halves",
        "tensor memory, 64 rows, column halves side by side in lanes",
        "float32",
        64 / 2,
        |n| [64, n],
        "S[(64,2,{}):(1@TLane,64@TLane,1@TCol)]",
        n / 2
    ),
    sized!(
        "tmem-64x{N}-slabs",
        "tensor memory, 64 rows as 16 lanes in each of 4 slabs",
        "float32",
        64 / 1,
        |n| [64, n],
        "S[(4,16,{}):(32@TLane,1@TLane,1@TCol)]",
        n
    ),
    sized!(
        "tmem-32x{N}-quarters",
        "tensor memory, 32 rows, column quarters side by side in lanes",
        "float32",
        64 / 4,
        |n| [32, n],
        "S[(32,4,{}):(1@TLane,32@TLane,1@TCol)]",
        n / 4
    ),
    fixed!(
        "tmem-224-columns",
        "two accumulators in 224 columns, not a power of two",
        "float32",
        [2, 128, 112],
        "S[(2,128,112):(112@TCol,1@TLane,1@TCol)]"
    ),
    fixed!(
        "sf-tmem-nvfp4",
        "nvfp4 scale factors in tensor memory, 128x16",
        "float8_e4m3fn",
        [128, 16],
        "S[(4,32,4,4):(4@TCol,1@TLane,16@TCol,1@TCol)] + R[4:32@TLane]"
    ),
    sized!(
        "sf-tmem-32x{N}",
        "scale factors, one copy for each quarter of the lanes",
        "float8_e4m3fn",
        4 / 1,
        |n| [32, n],
        "S[(32,{}):(1@TLane,1@TCol)] + R[4:32@TLane]",
        n
    ),
    fixed!(
        "smem-f16-128b",
        "shared memory (64,256), 128-byte swizzle",
        "float16",
        [64, 256],
        "Swizzle(3,3,3) o S[(64,4,64):(64,4096,1)]"
    ),
    fixed!(
        "smem-8x64",
        "shared memory (8,64) without a swizzle",
        "float16",
        [8, 64],
        "S[(8,64):(64,1)]"
    ),
    fixed!(
        "smem-8x64-128b",
        "shared memory (8,64), 128-byte swizzle",
        "float16",
        [8, 64],
        "Swizzle(3,3,3) o S[(8,64):(64,1)]"
    ),
    fixed!(
        // PSUM of a NeuronCore has 128 partitions of 16 KiB in 8 banks of 2 KiB; four banks hold
        // 2,048 float32.
        "trainium-psum",
        "Trainium PSUM (128,2048): partitions, banks, free dimension",
        "float32",
        [128, 2048],
        "S[(128,4,512):(1@P,1@Bank,1@F)]"
    ),
    fixed!(
        "mesh-2x2",
        "(4,4) sharded over a 2x2 mesh",
        "float32",
        [4, 4],
        "S[(2,2,2,2):(1@pid,2,2@pid,1)]"
    ),
    fixed!(
        "mesh-2x2-replica",
        "rows sharded, each shard on two devices",
        "float32",
        [4, 4],
        "S[(2,2,4):(1@pid,4,1)] + R[2:2@pid]"
    ),
    fixed!(
        // Kept as a wrong layout on purpose, so that the lint and the drawings have something to
        // show.
        "mesh-aliasing",
        "the same with stride 2: aliasing, on purpose, to show the lint",
        "float32",
        [4, 4],
        "S[(2,2,4):(1@pid,2,1)] + R[2:2@pid]"
    ),
    fixed!("demo-lanes", "(4,8) over 32 lanes", "float32", [4, 8], "S[(4,8):(8@laneid,1@laneid)]"),
    fixed!(
        "demo-lanes-registers",
        "(4,8) over lanes and two registers",
        "float32",
        [4, 8],
        "S[(4,2,4):(8@laneid,1@m,1@laneid)]"
    ),
    fixed!(
        "demo-replica",
        "(4,8) over 32 lanes, in two warps",
        "float32",
        [4, 8],
        "S[(4,8):(8@laneid,1@laneid)] + R[2:1@warpid]"
    ),
    fixed!(
        "demo-scratchpad",
        "(4,8) in partitions and free dimension",
        "float32",
        [4, 8],
        "S[(2,4,4):(4@F,1@P,1@F)]"
    ),
    fixed!(
        "demo-tmem",
        "(4,8) in tensor memory",
        "float32",
        [4, 8],
        "S[(2,4,4):(4@TCol,1@TLane,1@TCol)]"
    ),
    fixed!("demo-1d", "eight elements on every fourth lane", "float32", [8], "S[8:4@laneid]"),
    fixed!("demo-row-major", "(8,4) in memory", "float32", [8, 4], "S[(8,4)]"),
    fixed!(
        "spyre-2d",
        "a (5,100) float16 tensor in sticks, padded",
        "float16",
        [5, 100],
        "SpyreTensorLayout(device_size=[2, 5, 64], stride_map =[64, 100, 1], device_dtype=DataFormats.SEN169_FP16, host_size=[5, 100])"
    ),
    fixed!(
        "spyre-3d",
        "a (5,100,150) float16 tensor in sticks",
        "float16",
        [5, 100, 150],
        "SpyreTensorLayout(device_size=[100, 3, 5, 64], stride_map =[150, 64, 15000, 1], device_dtype=DataFormats.SEN169_FP16, host_size=[5, 100, 150])"
    ),
    fixed!(
        "spyre-sparse",
        "a (4,6) float16 tensor, one element per stick",
        "float16",
        [4, 6],
        "SpyreTensorLayout(device_size=[6, 1, 4, 64], stride_map =[1, -1, 6, -1], device_dtype=DataFormats.SEN169_FP16, host_size=[4, 6])"
    ),
];

/// The group of the families above, by how their names begin.
const GROUPS: &[(&str, &[&str])] = &[
    ("Shared memory", &["smem"]),
    ("Tensor cores", &["mma", "wgmma", "two-warps"]),
    ("Tensor memory", &["tcgen05", "tmem", "sf-"]),
    ("Spyre sticks", &["spyre"]),
    ("Device meshes", &["mesh"]),
    ("Trainium", &["trainium"]),
    ("First steps", &["demo"]),
];

/// Every preset, those of a group together; families of sizes with the size that is usual.
pub fn all_presets() -> Vec<LayoutPreset> {
    let mut list: Vec<LayoutPreset> = Vec::new();
    for (group, begins) in GROUPS {
        // Groups follow from names, so that a new family cannot be without one.
        let of_group = FAMILIES.iter().filter(|f| begins.iter().any(|b| f.name.starts_with(b)));
        list.extend(of_group.map(|f| f.preset_of_size(f.size, group)));
    }
    for (group, families) in SYSTEMS {
        list.extend(families.iter().map(|f| f.preset_of_size(f.size, group)));
        if *group == "CuTe" {
            list.extend(ATOMS.iter().filter_map(preset_of_named_atom));
        }
    }
    list
}

impl PresetFamily {
    fn preset_of_size(&self, size: i64, group: &'static str) -> LayoutPreset {
        let (shape, text) = (self.build)(size);
        LayoutPreset {
            name: self.name.replace("{N}", &size.to_string()),
            title: self.title.into(),
            group,
            shape,
            dtype: self.dtype,
            text,
            owners: None,
        }
    }
}

/// The preset of that name; where a name holds a size, any size that fits (`wgmma-64x128`). One layout of
/// an MMA or copy atom of CuTe is named after a dot: `SM80_16x8x8_F32F16F16F32_TN.A`,
/// `SM75_U32x4_LDSM_N.dst`.
pub fn find_preset(name: &str) -> Option<LayoutPreset> {
    let named = || ATOMS.iter().find(|a| a.name == name).and_then(preset_of_named_atom);
    find_family_preset(name).or_else(named).or_else(|| {
        let (atom, part) = name.rsplit_once('.')?;
        presets_of_atom(&atoms::find_atom(atom)?)
            .into_iter()
            .find(|p| p.name.ends_with(&format!(".{part}")))
    })
}

/// The group of the layouts of atoms. They map to an index in a tile, or to a bit, and not to memory.
pub const CUTE_ATOMS: &str = "CuTe atoms";

/// One layout of an atom of CuTe under a shorter name.
struct AtomPreset {
    name: &'static str,
    /// What it is, before the name of the atom.
    title: &'static str,
    /// The preset of the atom: `SM80_16x8x8_F32F16F16F32_TN.A`.
    of: &'static str,
}

fn preset_of_named_atom(named: &AtomPreset) -> Option<LayoutPreset> {
    let (atom, part) = named.of.rsplit_once('.')?;
    let list = presets_of_atom(&atoms::find_atom(atom)?);
    let found = list.into_iter().find(|p| p.name.ends_with(&format!(".{part}")))?;
    let title = format!("{}: {}", named.title, found.title);
    Some(LayoutPreset { name: named.name.into(), title, ..found })
}

/// The layouts of an atom, each a preset from (thread, value).
pub fn presets_of_atom(atom: &atoms::CuteAtom) -> Vec<LayoutPreset> {
    let parts: &[(&str, &str)] = match atom.layouts {
        atoms::AtomLayouts::Mma { .. } => &[
            ("A", "(thread, value) to m + M k"),
            ("B", "(thread, value) to n + N k"),
            ("C", "(thread, value) to m + M n"),
        ],
        atoms::AtomLayouts::Copy { .. } => &[
            ("src", "(thread, value) to the bit that is read"),
            ("dst", "(thread, value) to the bit that is written"),
            ("ref", "(thread, value) to the bits that are counted"),
        ],
    };
    type NamedAtomPart<'a> = ((&'a (&'a str, &'a str), (&'a str, &'a CuteModes)), Option<OwnerMap>);
    let of = |(((part, title), (_, modes)), owners): NamedAtomPart<'_>| LayoutPreset {
        name: format!("{}.{part}", atom.name),
        title: format!("{} of {}: {title}", part, atom.name),
        group: CUTE_ATOMS,
        shape: modes.mode_sizes().unwrap_or_default(),
        dtype: "int32",
        text: modes.print_cute_text(IntegerStyle::Bare),
        owners,
    };
    parts.iter().zip(atom.layout_fields()).zip(owners::owner_maps_of_atom(atom)).map(of).collect()
}

fn find_family_preset(name: &str) -> Option<LayoutPreset> {
    let group = |f: &PresetFamily| {
        let of = GROUPS.iter().find(|(_, begins)| begins.iter().any(|b| f.name.starts_with(b)));
        of.map_or("", |(group, _)| group)
    };
    let own = FAMILIES.iter().map(|f| (f, group(f)));
    let others = SYSTEMS.iter().flat_map(|(group, list)| list.iter().map(|f| (f, *group)));
    own.chain(others).find_map(|(f, group)| {
        let Some((before, after)) = f.name.split_once("{N}") else {
            return (f.name == name).then(|| f.preset_of_size(0, group));
        };
        let size: i64 = name.strip_prefix(before)?.strip_suffix(after)?.parse().ok()?;
        // A preset is drawn and listed, so sizes that no machine has are refused here.
        (size > 0 && size <= 1 << 20 && size % f.multiple == 0)
            .then(|| f.preset_of_size(size, group))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use zellige_layout::AxisTable;

    /// A preset that is added is checked here without a line of test.
    #[test]
    fn every_preset_is_found_by_its_name_and_has_a_layout_of_its_shape() {
        let list = all_presets();
        let names: BTreeSet<&str> = list.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names.len(), list.len(), "two presets have one name");
        assert_eq!(list.len(), FAMILIES.len() + ATOMS.len() + 47, "a preset is in no group");
        for p in &list {
            assert!(!p.group.is_empty() && !p.title.is_empty(), "{}", p.name);
            assert_eq!(find_preset(&p.name).as_ref(), Some(p));
            let parsed = crate::parse(&p.text, &AxisTable::new()).expect(&p.text);
            if SYSTEMS.iter().any(|(group, _)| *group == p.group) {
                assert_eq!(
                    parsed.notation_text(),
                    p.text,
                    "{} is written as it is printed",
                    p.name
                );
            }
            let layout = parsed.layout_over_shape(Some(&p.shape)).expect(&p.text);
            layout.check_shape_size(&p.shape).expect(&p.name);
        }
        // Those of a group are together.
        let groups: Vec<&str> = list.iter().map(|p| p.group).collect();
        let changes = groups.windows(2).filter(|w| w[0] != w[1]).count();
        assert_eq!(changes + 1, groups.iter().collect::<BTreeSet<_>>().len(), "{groups:?}");
    }
}
