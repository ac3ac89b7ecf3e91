//! MMA atoms, by family.

use super::super::modes::CuteModes;
use super::{
    AtomLayouts, mode_with_units, mode_without_units, parse_leading_number, single_mode,
    thread_value_layout,
};

type FoundMmaAtom = (CuteModes, AtomLayouts);

/// The types that names spell, with the bits of an element. `GC64` and `C64` are complex numbers of two
/// 64-bit parts, each of which has the layout of one 64-bit number.
const TYPES: [(&str, i64); 18] = [
    ("GC64", 64),
    ("C64", 64),
    ("F64", 64),
    ("TF32", 32),
    ("BF16", 16),
    ("F32", 32),
    ("F16", 16),
    ("S32", 32),
    ("S8", 8),
    ("U8", 8),
    ("S4", 4),
    ("U4", 4),
    ("U1", 1),
    ("E4M3", 8),
    ("E5M2", 8),
    ("E3M2", 6),
    ("E2M3", 6),
    ("E2M1", 4),
];

/// Architecture, shapes, types of D, A, B and C (`|` separates choices of one type), and the rest of the name.
type WarpRow = (&'static str, &'static [&'static str], [&'static str; 4], &'static [&'static str]);

/// The instructions of one warp.
const WARP: &[WarpRow] = &[
    ("SM75", &["16x8x8"], ["F32", "F16", "F16", "F32"], &["_TN"]),
    ("SM75", &["8x8x16"], ["S32", "S8", "S8", "S32"], &["_TN"]),
    ("SM80", &["16x8x8", "16x8x16"], ["F16", "F16", "F16", "F16"], &["_TN"]),
    ("SM80", &["16x8x8", "16x8x16"], ["F32", "F16", "F16", "F32"], &["_TN"]),
    ("SM80", &["16x8x8", "16x8x16"], ["F32", "BF16", "BF16", "F32"], &["_TN"]),
    ("SM80", &["16x8x4", "16x8x8"], ["F32", "TF32", "TF32", "F32"], &["_TN"]),
    ("SM80", &["8x8x4"], ["F64", "F64", "F64", "F64"], &["_TN"]),
    ("SM80", &["8x8x4"], ["C64", "C64", "C64", "C64"], &["_TN"]),
    ("SM80", &["8x8x4"], ["GC64", "C64", "C64", "GC64"], &["_TN"]),
    (
        "SM80",
        &["8x8x16", "16x8x16", "16x8x32"],
        ["S32", "S8|U8", "S8|U8", "S32"],
        &["_TN", "_TN_SATURATE"],
    ),
    (
        "SM80",
        &["8x8x32", "16x8x32", "16x8x64"],
        ["S32", "S4|U4", "S4|U4", "S32"],
        &["_TN", "_TN_SATURATE"],
    ),
    (
        "SM80",
        &["8x8x128", "16x8x128", "16x8x256"],
        ["S32", "U1", "U1", "S32"],
        &["_TN_XORPOPC", "_TN_ANDPOPC"],
    ),
    ("SM89", &["16x8x32"], ["F32", "E4M3|E5M2", "E4M3|E5M2", "F32"], &["_TN"]),
    ("SM89", &["16x8x32"], ["F16", "E4M3|E5M2", "E4M3|E5M2", "F16"], &["_TN"]),
    ("SM90", &["16x8x4", "16x8x8", "16x8x16"], ["F64", "F64", "F64", "F64"], &["_TN"]),
    ("SM90", &["16x8x4", "16x8x8", "16x8x16"], ["C64", "C64", "C64", "C64"], &["_TN"]),
    ("SM90", &["16x8x4", "16x8x8", "16x8x16"], ["GC64", "C64", "C64", "GC64"], &["_TN"]),
];

/// The instructions of four warps: the types of D, A and B, their K, and whether both operands may be
/// transposed (then template arguments state the major dimension of each).
const WARPGROUP: &[(&[&str], i64, bool)] = &[
    (&["F16", "F16", "F16"], 16, true),
    (&["F32", "F16", "F16"], 16, true),
    (&["F32", "BF16", "BF16"], 16, true),
    (&["F32", "TF32", "TF32"], 8, false),
    (&["S32", "S8|U8", "S8|U8"], 32, false),
    (&["F16", "E4M3|E5M2", "E4M3|E5M2"], 32, false),
    (&["F32", "E4M3|E5M2", "E4M3|E5M2"], 32, false),
];

/// The sizes N that CuTe lists. Every multiple of 8 up to 256 is an instruction (PTX ISA,
/// `wgmma.mma_async`), and any of them is found by name.
const LISTED_N: [i64; 8] = [8, 16, 32, 64, 96, 128, 192, 256];

/// The instructions of a CTA or a pair of them: the kind in the name, and its K.
const CTA: &[(&str, i64)] = &[
    ("TF32", 8),
    ("F16BF16", 16),
    ("S8", 32),
    ("F8F6F4", 32),
    ("MXF8F6F4", 32),
    ("MXF4NVF4", 64),
    ("MXF4", 64),
];

pub(super) fn find_mma_atom(name: &str) -> Option<FoundMmaAtom> {
    find_thread_mma(name)
        .or_else(|| find_quad_pair_mma(name))
        .or_else(|| find_warp_mma(name))
        .or_else(|| find_warpgroup_mma(name))
        .or_else(|| find_cta_mma(name))
}

pub(super) fn list_mma_atoms() -> Vec<String> {
    let mut names: Vec<String> = ["SM61_DP2A", "SM61_DP4A"].map(String::from).to_vec();
    for types in ["F16F16F16F16", "F32F16F16F32"] {
        names.extend(["TN", "NT", "NN", "TT"].iter().map(|t| format!("SM70_8x8x4_{types}_{t}")));
    }
    for (arch, shapes, types, ends) in WARP {
        for shape in *shapes {
            for types in spell_types(types) {
                names.extend(ends.iter().map(|end| format!("{arch}_{shape}_{types}{end}")));
            }
        }
    }
    for (types, k, majors) in WARPGROUP {
        for types in spell_types(types) {
            for from in ["SS", "RS"] {
                let end = if *majors { "" } else { "_TN" };
                let name = |n: &i64| format!("SM90_64x{n}x{k}_{types}_{from}{end}");
                names.extend(LISTED_N.iter().map(name));
            }
        }
    }
    names.push("SM120_16x8x32_TN".into());
    names.push("SM120::BLOCKSCALED::SM120_16x8x32_TN_VS".into());
    names.push("SM120::BLOCKSCALED::SM120_16x8x64_TN_VS".into());
    for (kind, _) in CTA {
        names.push(format!("SM100_MMA_{kind}_SS<128,128>"));
        names.push(format!("SM100_MMA_{kind}_2x1SM_SS<256,128>"));
    }
    names
}

/// Every way to spell a list of types with choices.
fn spell_types(types: &[&str]) -> Vec<String> {
    types.iter().fold(vec![String::new()], |all, choices| {
        let more = |before: &String| -> Vec<String> {
            choices.split('|').map(|t| format!("{before}{t}")).collect()
        };
        all.iter().flat_map(more).collect()
    })
}

/// Whether a name spells these types, and the bits of A.
fn match_spelled_types(name: &str, types: &[&str]) -> Option<i64> {
    if !spell_types(types).iter().any(|t| t == name) {
        return None;
    }
    let a = types.get(1)?.split('|').next()?;
    TYPES.iter().find(|(t, _)| *t == a).map(|(_, bits)| *bits)
}

/// The type of A, B or C (0, 1 or 2), by its PyTorch name: `F32F16F16F32` are those of D, A, B and C, and
/// without the last C has that of D.
pub(super) fn operand_dtype(name: &str, operand: usize) -> Option<&'static str> {
    let words = name.split(['<', '_']);
    let types = words.filter_map(split_types_of_word).find(|types| types.len() >= 3)?;
    let wanted = if operand == 2 { types.get(3).or(types.first()) } else { types.get(operand + 1) };
    Some(match *wanted? {
        "F64" => "float64",
        // TF32 elements are stored in 32 bits.
        "F32" | "TF32" => "float32",
        "F16" => "float16",
        "BF16" => "bfloat16",
        "S32" => "int32",
        "S8" => "int8",
        "U8" => "uint8",
        "S4" => "int4",
        "U4" => "uint4",
        "E4M3" => "float8_e4m3fn",
        "E5M2" => "float8_e5m2",
        "E2M1" => "float4_e2m1fn",
        "C64" | "GC64" => "complex128",
        _ => return None,
    })
}

/// The types that a word of a name spells, where it spells nothing else.
fn split_types_of_word(mut word: &str) -> Option<Vec<&'static str>> {
    let mut found = Vec::new();
    while !word.is_empty() {
        let (name, _) = TYPES.iter().find(|(name, _)| word.starts_with(name))?;
        found.push(*name);
        word = &word[name.len()..];
    }
    Some(found)
}

/// Splits a name from its template arguments. `MMA_Traits` has the name and its arguments in one list.
fn split_template_arguments(name: &str) -> Option<(&str, Vec<&str>)> {
    let Some((name, rest)) = name.split_once('<') else { return Some((name, Vec::new())) };
    let inside = rest.trim_end().strip_suffix('>')?;
    let mut list = inside.split(',').map(str::trim).filter(|t| !t.is_empty());
    let name = if name == "MMA_Traits" { list.next()? } else { name };
    Some((name, list.collect()))
}

/// A size among template arguments: `128`, `C<128>` or `Int<128>`.
fn parse_size_argument(text: &str) -> Option<i64> {
    let text = text.strip_prefix("cute::").unwrap_or(text);
    let inside = text.strip_prefix("C<").or_else(|| text.strip_prefix("Int<"));
    match inside {
        Some(inside) => inside.strip_suffix('>')?.parse().ok(),
        None => text.parse().ok(),
    }
}

/// `16x8x8_`, and what follows.
fn parse_mma_shape(text: &str) -> Option<([i64; 3], &str)> {
    let (m, rest) = parse_leading_number(text)?;
    let (n, rest) = parse_leading_number(rest.strip_prefix('x')?)?;
    let (k, rest) = parse_leading_number(rest.strip_prefix('x')?)?;
    Some(([m, n, k], rest.strip_prefix('_')?))
}

/// The instructions of one thread.
fn find_thread_mma(name: &str) -> Option<FoundMmaAtom> {
    let k = match split_template_arguments(name)?.0 {
        "SM61_DP4A" => 4,
        "SM61_DP2A" => 2,
        "UniversalFMA" => 1,
        _ => return None,
    };
    let values = |n: i64| {
        thread_value_layout(
            single_mode(1, 0),
            if n == 1 { single_mode(1, 0) } else { single_mode(n, 1) },
        )
    };
    let layouts = AtomLayouts::Mma { shape: [1, 1, k], a: values(k), b: values(k), c: values(1) };
    Some((single_mode(1, 0), layouts))
}

/// The instructions of a quad pair: lanes 0 to 3 and 16 to 19.
fn find_quad_pair_mma(name: &str) -> Option<FoundMmaAtom> {
    let (types, order) = name.strip_prefix("SM70_8x8x4_")?.split_once('_')?;
    // An operand is given along k to each thread, or along m (or n) to each four threads.
    let along_k = || thread_value_layout(single_mode(8, 1), single_mode(4, 8));
    let across = || thread_value_layout(mode_with_units(&[(4, 8), (2, 4)]), single_mode(4, 1));
    let (a, b) = match order {
        "TN" => (along_k(), along_k()),
        "NN" => (across(), along_k()),
        "NT" => (across(), across()),
        "TT" => (along_k(), across()),
        _ => return None,
    };
    let c = match types {
        "F16F16F16F16" => thread_value_layout(single_mode(8, 1), single_mode(8, 8)),
        "F32F16F16F32" => thread_value_layout(
            mode_with_units(&[(2, 1), (2, 16), (2, 4)]),
            mode_with_units(&[(2, 8), (2, 2), (2, 32)]),
        ),
        _ => return None,
    };
    Some((mode_with_units(&[(4, 1), (2, 16)]), AtomLayouts::Mma { shape: [8, 8, 4], a, b, c }))
}

fn find_warp_mma(name: &str) -> Option<FoundMmaAtom> {
    if let Some(found) = find_sm120_mma(name) {
        return Some(found);
    }
    let (arch, rest) = name.split_once('_')?;
    let ([m, n, k], rest) = parse_mma_shape(rest)?;
    let (types, _) = rest.split_once('_')?;
    // Only combinations in the table are accepted, because a name of valid parts may be of no
    // instruction.
    let bits = WARP.iter().find_map(|(a, shapes, list, ends)| {
        let known = *a == arch
            && shapes.contains(&format!("{m}x{n}x{k}").as_str())
            && ends.contains(&&rest[types.len()..]);
        known.then(|| match_spelled_types(types, list))?
    })?;
    Some(warp_fragments([m, n, k], bits))
}

/// The instructions on narrow floats, which take every type in a container of one width.
fn find_sm120_mma(name: &str) -> Option<FoundMmaAtom> {
    let (name, arguments) = split_template_arguments(name)?;
    let (shape, bits, known) = match name {
        "SM120_16x8x32_TN" => ([16, 8, 32], 8, 3),
        "SM120::BLOCKSCALED::SM120_16x8x32_TN_VS" => ([16, 8, 32], 8, 5),
        "SM120::BLOCKSCALED::SM120_16x8x64_TN_VS" => ([16, 8, 64], 4, 5),
        _ => return None,
    };
    (arguments.is_empty() || arguments.len() == known).then(|| warp_fragments(shape, bits))
}

/// Fragments of one warp, by the rule behind the figures of the PTX ISA ("Matrix Fragments for mma"). Eight
/// groups of four threads own eight rows of A, eight columns of B and eight rows of C. Of A and B, each
/// thread of a group has as many neighbours along k as fill 32 bits; of C, two neighbours along n. That
/// repeats over the rest of the rows, then over the rest of k.
fn warp_fragments([m, n, k]: [i64; 3], bits: i64) -> FoundMmaAtom {
    let packed = (32 / bits).max(1);
    let operand = |rows: i64| {
        let values = [(packed, rows), (rows / 8, 8), (k / (4 * packed), 4 * packed * rows)];
        let mut value = mode_without_units(&values);
        // CuTe writes the single value mode of its 4-bit atoms as a tuple of one.
        if bits == 4 && value.top_modes().len() == 1 {
            value = mode_with_units(&[(packed, rows)]);
        }
        thread_value_layout(mode_with_units(&[(4, packed * rows), (8, 1)]), value)
    };
    // The accumulator is the same for all element widths: two neighbours along n for each thread,
    // rows 8 apart.
    let c = thread_value_layout(
        mode_with_units(&[(4, 2 * m), (8, 1)]),
        mode_without_units(&[(2, m), (m / 8, 8)]),
    );
    let layouts = AtomLayouts::Mma { shape: [m, n, k], a: operand(m), b: operand(n), c };
    (single_mode(32, 1), layouts)
}

/// The instructions of a warpgroup: A from registers (`RS`) or shared memory (`SS`), B from shared
/// memory; C in registers, each warp with 16 rows. Sparse ones have twice the K.
fn find_warpgroup_mma(name: &str) -> Option<FoundMmaAtom> {
    let (name, arguments) = split_template_arguments(name)?;
    let (rest, dense) = match name.strip_prefix("SM90::GMMA::SPARSE::GMMA_") {
        Some(rest) => (rest, 2),
        None => (name.strip_prefix("SM90_").or_else(|| name.strip_prefix("SM90::GMMA::MMA_"))?, 1),
    };
    let ([m, n, k], rest) = parse_mma_shape(rest)?;
    let mut words = rest.split('_');
    let (types, from, end) = (words.next()?, words.next()?, words.collect::<Vec<_>>());
    let integers = types.starts_with("S32");
    let (_, _, majors) = WARPGROUP.iter().find(|(list, width, _)| {
        width * dense == k && match_spelled_types(types, list).is_some()
    })?;
    let fits = match end.as_slice() {
        [] => *majors,
        ["TN"] => !majors,
        ["TN", "SATURATE"] => integers,
        _ => false,
    };
    let major = |t: &&&str| t.ends_with("Major::K") || t.ends_with("Major::MN");
    let said = arguments.iter().filter(major).count();
    // CUTLASS gives the major modes of both operands as template arguments where both may be
    // transposed, and none otherwise.
    let listed = if *majors { said == 2 || arguments.is_empty() } else { said == 0 };
    if m != 64 || !(8..=256).contains(&n) || n % 8 != 0 || !fits || !listed {
        return None;
    }
    let shared = |rows: i64| {
        thread_value_layout(single_mode(128, 0), mode_with_units(&[(rows, 1), (k, rows)]))
    };
    let packed = k / 8;
    let a = match from {
        "SS" => shared(64),
        "RS" => thread_value_layout(
            mode_with_units(&[(4, 64 * packed), (8, 1), (4, 16)]),
            mode_without_units(&[(packed, 64), (2, 8), (2, 256 * packed)]),
        ),
        _ => return None,
    };
    let c = thread_value_layout(
        mode_with_units(&[(4, 128), (8, 1), (4, 16)]),
        mode_with_units(&[(2, 64), (2, 8), (n / 8, 512)]),
    );
    Some((single_mode(128, 1), AtomLayouts::Mma { shape: [m, n, k], a, b: shared(n), c }))
}

/// The instructions that one thread issues for its CTA, or for a pair of CTAs that share the work: A
/// and C by rows, B by columns.
fn find_cta_mma(name: &str) -> Option<FoundMmaAtom> {
    let (name, arguments) = split_template_arguments(name)?;
    let mut words: Vec<&str> = name.strip_prefix("SM100_MMA_")?.split('_').collect();
    let kind = words.remove(0);
    let mut k = CTA.iter().find(|(name, _)| *name == kind).map(|(_, k)| *k)?;
    let pair = words.first() == Some(&"2x1SM");
    if pair {
        words.remove(0);
    }
    match words.as_slice() {
        ["SS"] | ["TS"] | ["SS", "SCALED"] | ["TS", "SCALED"] => {}
        ["SS", "SPARSE"] => k *= 2,
        _ => return None,
    }
    let sizes: Vec<i64> = arguments.iter().filter_map(|a| parse_size_argument(a)).collect();
    let (m, n) = (*sizes.first()?, *sizes.get(1)?);
    // `tcgen05.mma` with `cta_group::2` divides M and N between two CTAs, so each CTA has the rows
    // of a single one.
    let ctas = if pair { 2 } else { 1 };
    if ![64, 128].contains(&(m / ctas)) || m % ctas != 0 || n % 8 != 0 || !(8..=256).contains(&n) {
        return None;
    }
    if n % (8 * ctas) != 0 {
        return None;
    }
    let part = |rows: i64, columns: i64, whole_rows: i64| {
        let thread = if pair { single_mode(2, rows) } else { single_mode(1, 0) };
        thread_value_layout(thread, mode_with_units(&[(rows, 1), (columns, whole_rows)]))
    };
    let layouts = AtomLayouts::Mma {
        shape: [m, n, k],
        a: part(m / ctas, k, m),
        b: part(n / ctas, k, n),
        c: part(m / ctas, n, m),
    };
    Some((if pair { single_mode(2, 1) } else { single_mode(1, 0) }, layouts))
}
