//! Copy atoms, by family. Layouts are in bits.

use super::super::modes::CuteModes;
use super::super::nest::NestedTuple;
use super::{
    AtomLayouts, mode_with_units, mode_without_units, parse_leading_number, single_mode,
    thread_value_layout,
};

type FoundCopyAtom = (CuteModes, AtomLayouts);

pub(super) fn find_copy_atom(name: &str) -> Option<FoundCopyAtom> {
    find_matrix_copy(name)
        .or_else(|| find_tensor_memory_copy(name))
        .or_else(|| find_thread_copy(name))
}

pub(super) fn list_copy_atoms() -> Vec<String> {
    let mut names = vec!["SM75_U32x1_MOVM_T".to_string()];
    for (arch, word) in [("SM75", "LDSM"), ("SM90", "STSM")] {
        names.extend([1, 2, 4].map(|n| format!("{arch}_U32x{n}_{word}_N")));
        names.extend([2, 4, 8].map(|n| format!("{arch}_U16x{n}_{word}_T")));
    }
    names.extend([8, 16].map(|n| format!("SM100_U8x{n}_LDSM_T")));
    names.extend([4, 8, 16].map(|n| format!("SM100_U8x{n}_STSM_T")));
    for source in ["SU4", "SU6"] {
        names.extend([1, 2, 4].map(|n| format!("SM100_{source}_DU8x16_x{n}_LDSM_N")));
    }
    for word in ["LOAD", "STORE"] {
        for (access, most) in ACCESSES {
            let mut times = 1;
            while times <= most {
                names.push(format!("SM100_TMEM_{word}_{access}{times}x"));
                times *= 2;
            }
        }
    }
    names.extend(["LOAD", "STORE"].map(|w| format!("SM100_{w}_256bit_CACHE_NOALLOCATION")));
    names.extend([32, 64, 128].map(|bits| format!("SM80_CP_ASYNC_CACHEALWAYS<uint{bits}_t>")));
    names.extend([8, 16, 32, 64, 128].map(|bits| format!("UniversalCopy<uint{bits}_t>")));
    names
}

/// Loads and stores of 8x8 matrices of 16-bit elements (or of other elements with as many bits) by a warp,
/// as the PTX ISA describes `ldmatrix` and `stmatrix`: one thread gives the address of each row of 128
/// bits, and every thread holds 32 bits of each matrix.
fn find_matrix_copy(name: &str) -> Option<FoundCopyAtom> {
    if name == "SM75_U32x1_MOVM_T" {
        let same = thread_value_layout(single_mode(32, 32), single_mode(32, 1));
        let reference = same.clone();
        return Some((
            single_mode(32, 1),
            AtomLayouts::Copy { src: same.clone(), dst: same, reference },
        ));
    }
    let (arch, rest) = name.split_once('_')?;
    let (unpacked, rest) = match rest.strip_prefix("SU4_D").or_else(|| rest.strip_prefix("SU6_D")) {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (width, rest) = parse_leading_number(rest.strip_prefix('U')?)?;
    let (count, rest) = parse_leading_number(rest.strip_prefix('x')?)?;
    let (count, rest) = match rest.strip_prefix("_x") {
        // Names with two numbers state the values of one matrix before the number of matrices.
        Some(rest) if unpacked && (width, count) == (8, 16) => parse_leading_number(rest)?,
        None if !unpacked => (count * width / 32, rest),
        _ => return None,
    };
    let load = match (unpacked, arch, width, rest) {
        (false, "SM75", 32, "_LDSM_N") | (false, "SM75", 16, "_LDSM_T") => true,
        (false, "SM100", 8, "_LDSM_T") | (true, "SM100", 8, "_LDSM_N") => true,
        (false, "SM90", 32, "_STSM_N") | (false, "SM90", 16, "_STSM_T") => false,
        (false, "SM100", 8, "_STSM_T") => false,
        _ => return None,
    };
    // Transposed bytes are loaded in matrices of 16x16, twice as large.
    let large = width == 8 && rest == "_LDSM_T";
    if ![1, 2, 4].contains(&count) || (large && count == 1) {
        return None;
    }
    // Threads past the number of rows give addresses that are not used, hence modes of stride 0.
    let rows = match (large, count) {
        (true, 2) => mode_with_units(&[(2, 128), (2, 1024), (4, 256), (2, 0)]),
        (true, _) => mode_with_units(&[(2, 128), (2, 1024), (4, 256), (2, 2048)]),
        (_, 4) => single_mode(32, 128),
        _ => mode_with_units(&[(8 * count, 128), (4 / count, 0)]),
    };
    let memory = thread_value_layout(rows, single_mode(128, 1));
    let registers = match (width, rest.ends_with('T')) {
        (_, false) => {
            thread_value_layout(single_mode(32, 32), mode_without_units(&[(32, 1), (count, 1024)]))
        }
        (16, true) => thread_value_layout(
            mode_with_units(&[(4, 256), (8, 16)]),
            mode_without_units(&[(16, 1), (2, 128), (count, 1024)]),
        ),
        _ => thread_value_layout(
            mode_with_units(&[(4, 256), (8, 8)]),
            mode_without_units(&[(8, 1), (2, 128), (2, 64), (count, 1024)]),
        ),
    };
    let reference = registers.clone();
    let (src, dst) = if load { (memory, registers) } else { (registers, memory) };
    Some((single_mode(32, 1), AtomLayouts::Copy { src, dst, reference }))
}

/// The lanes and bits of a tensor memory access, and its largest number of repetitions. These are the
/// shapes and `.num` values of `tcgen05.ld` in the PTX ISA.
const ACCESSES: [(&str, i64); 5] =
    [("16dp256b", 32), ("16dp128b", 64), ("16dp64b", 128), ("16dp32b", 128), ("32dp32b", 128)];

/// Loads and stores of tensor memory by a warp: every thread addresses the whole region, lane after lane;
/// the registers hold its pieces. Repetitions are side by side in each lane. Elements of 16 bits that the
/// copy packs (`_16b`) are counted as they are in registers.
fn find_tensor_memory_copy(name: &str) -> Option<FoundCopyAtom> {
    let (load, rest) = match name.strip_prefix("SM100_TMEM_LOAD_") {
        Some(rest) => (true, rest),
        None => (false, name.strip_prefix("SM100_TMEM_STORE_")?),
    };
    let rest = rest.strip_suffix("_16b").unwrap_or(rest);
    let (access, most) = ACCESSES.into_iter().find(|(access, _)| rest.starts_with(access))?;
    let (n, end) = parse_leading_number(&rest[access.len()..])?;
    if end != "x" || n > most || n.count_ones() != 1 {
        return None;
    }
    // The bits of one lane, and how the threads share them.
    let (lane, lanes, registers) = match access {
        "16dp256b" => {
            let value = mode_without_units(&[(64, 1), (2, 2048 * n), (n, 256)]);
            (256 * n, 16, thread_value_layout(mode_with_units(&[(4, 64), (8, 256 * n)]), value))
        }
        "16dp128b" => {
            let value = mode_without_units(&[(32, 1), (2, 1024 * n), (n, 128)]);
            (128 * n, 16, thread_value_layout(mode_with_units(&[(4, 32), (8, 128 * n)]), value))
        }
        "16dp64b" => {
            let value = mode_without_units(&[(32, 1), (n, 64)]);
            (
                64 * n,
                16,
                thread_value_layout(mode_with_units(&[(2, 512 * n), (2, 32), (8, 64 * n)]), value),
            )
        }
        "16dp32b" => (
            64 * n,
            16,
            thread_value_layout(
                mode_with_units(&[(16, 64 * n), (2, 32 * n)]),
                single_mode(32 * n, 1),
            ),
        ),
        _ => (32 * n, 32, thread_value_layout(single_mode(32, 32 * n), single_mode(32 * n, 1))),
    };
    let memory = thread_value_layout(single_mode(32, 0), single_mode(lane * lanes, 1));
    let reference = memory.clone();
    let (src, dst) = if load { (memory, registers) } else { (registers, memory) };
    Some((single_mode(32, 1), AtomLayouts::Copy { src, dst, reference }))
}

/// Copies of one thread.
fn find_thread_copy(name: &str) -> Option<FoundCopyAtom> {
    let bits = match name {
        "SM100_LOAD_256bit_CACHE_NOALLOCATION" | "SM100_STORE_256bit_CACHE_NOALLOCATION" => 256,
        _ => {
            let (op, types) = name.strip_suffix('>')?.split_once('<')?;
            let smallest = match op {
                "UniversalCopy" => 8,
                "SM80_CP_ASYNC_CACHEALWAYS" | "SM80_CP_ASYNC_CACHEALWAYS_ZFILL" => 32,
                "SM80_CP_ASYNC_CACHEGLOBAL" | "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL" => 128,
                _ => return None,
            };
            let mut types = types.split(',').map(str::trim);
            let first = types.next()?;
            if types.any(|t| t != first) {
                return None;
            }
            let (bits, end) = parse_leading_number(first.strip_prefix("uint")?)?;
            if end != "_t" || !(smallest..=128).contains(&bits) || bits.count_ones() != 1 {
                return None;
            }
            bits
        }
    };
    let all = NestedTuple::Tuple(vec![single_mode(1, 0), single_mode(bits, 1)]);
    let reference = all.clone();
    Some((single_mode(1, 0), AtomLayouts::Copy { src: all.clone(), dst: all, reference }))
}
