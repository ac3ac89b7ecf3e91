//! Copy atoms, by family. Layouts are in bits.

use super::super::modes::Modes;
use super::super::nest::Nest;
use super::{AtomLayouts, mode, number, one, thread_value, whole};

type Found = (Modes, AtomLayouts);

pub(super) fn find(name: &str) -> Option<Found> {
    matrices(name).or_else(|| tensor_memory(name)).or_else(|| thread(name))
}

pub(super) fn names() -> Vec<String> {
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

/// Loads and stores of 8x8 matrices of 16 bits (or what fills as many bits) by a warp: each row of 128
/// bits is named by one thread, and of each matrix a thread holds 32 bits.
fn matrices(name: &str) -> Option<Found> {
    if name == "SM75_U32x1_MOVM_T" {
        let same = thread_value(one(32, 32), one(32, 1));
        let reference = same.clone();
        return Some((one(32, 1), AtomLayouts::Copy { src: same.clone(), dst: same, reference }));
    }
    let (arch, rest) = name.split_once('_')?;
    let (unpacked, rest) = match rest.strip_prefix("SU4_D").or_else(|| rest.strip_prefix("SU6_D")) {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (width, rest) = number(rest.strip_prefix('U')?)?;
    let (count, rest) = number(rest.strip_prefix('x')?)?;
    let (count, rest) = match rest.strip_prefix("_x") {
        // The values of one matrix are said too.
        Some(rest) if unpacked && (width, count) == (8, 16) => number(rest)?,
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
    let rows = match (large, count) {
        (true, 2) => whole(&[(2, 128), (2, 1024), (4, 256), (2, 0)]),
        (true, _) => whole(&[(2, 128), (2, 1024), (4, 256), (2, 2048)]),
        (_, 4) => one(32, 128),
        _ => whole(&[(8 * count, 128), (4 / count, 0)]),
    };
    let memory = thread_value(rows, one(128, 1));
    let registers = match (width, rest.ends_with('T')) {
        (_, false) => thread_value(one(32, 32), mode(&[(32, 1), (count, 1024)])),
        (16, true) => {
            thread_value(whole(&[(4, 256), (8, 16)]), mode(&[(16, 1), (2, 128), (count, 1024)]))
        }
        _ => thread_value(
            whole(&[(4, 256), (8, 8)]),
            mode(&[(8, 1), (2, 128), (2, 64), (count, 1024)]),
        ),
    };
    let reference = registers.clone();
    let (src, dst) = if load { (memory, registers) } else { (registers, memory) };
    Some((one(32, 1), AtomLayouts::Copy { src, dst, reference }))
}

/// The lanes and bits of a tensor memory access, and how often it repeats at most.
const ACCESSES: [(&str, i64); 5] =
    [("16dp256b", 32), ("16dp128b", 64), ("16dp64b", 128), ("16dp32b", 128), ("32dp32b", 128)];

/// Loads and stores of tensor memory by a warp: every thread names the whole region, lane after lane;
/// the registers hold its pieces. Repetitions lie side by side in each lane. Elements of 16 bits that
/// are packed on the way (`_16b`) count as they are in registers.
fn tensor_memory(name: &str) -> Option<Found> {
    let (load, rest) = match name.strip_prefix("SM100_TMEM_LOAD_") {
        Some(rest) => (true, rest),
        None => (false, name.strip_prefix("SM100_TMEM_STORE_")?),
    };
    let rest = rest.strip_suffix("_16b").unwrap_or(rest);
    let (access, most) = ACCESSES.into_iter().find(|(access, _)| rest.starts_with(access))?;
    let (n, end) = number(&rest[access.len()..])?;
    if end != "x" || n > most || n.count_ones() != 1 {
        return None;
    }
    // The bits of one lane, and how the threads share them.
    let (lane, lanes, registers) = match access {
        "16dp256b" => {
            let value = mode(&[(64, 1), (2, 2048 * n), (n, 256)]);
            (256 * n, 16, thread_value(whole(&[(4, 64), (8, 256 * n)]), value))
        }
        "16dp128b" => {
            let value = mode(&[(32, 1), (2, 1024 * n), (n, 128)]);
            (128 * n, 16, thread_value(whole(&[(4, 32), (8, 128 * n)]), value))
        }
        "16dp64b" => {
            let value = mode(&[(32, 1), (n, 64)]);
            (64 * n, 16, thread_value(whole(&[(2, 512 * n), (2, 32), (8, 64 * n)]), value))
        }
        "16dp32b" => {
            (64 * n, 16, thread_value(whole(&[(16, 64 * n), (2, 32 * n)]), one(32 * n, 1)))
        }
        _ => (32 * n, 32, thread_value(one(32, 32 * n), one(32 * n, 1))),
    };
    let memory = thread_value(one(32, 0), one(lane * lanes, 1));
    let reference = memory.clone();
    let (src, dst) = if load { (memory, registers) } else { (registers, memory) };
    Some((one(32, 1), AtomLayouts::Copy { src, dst, reference }))
}

/// Copies of one thread.
fn thread(name: &str) -> Option<Found> {
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
            let (bits, end) = number(first.strip_prefix("uint")?)?;
            if end != "_t" || !(smallest..=128).contains(&bits) || bits.count_ones() != 1 {
                return None;
            }
            bits
        }
    };
    let all = Nest::Tuple(vec![one(1, 0), one(bits, 1)]);
    let reference = all.clone();
    Some((one(1, 0), AtomLayouts::Copy { src: all.clone(), dst: all, reference }))
}
