//! Reading attributes: what Triton 3.9 accepts, and what it refuses with the place.

use super::attribute::{AmdMfma, AmdWmma, Attribute, Bases, Blocked, NvidiaMma};
use super::parse_memory::{
    nvmma_shared, onto, padded_shared, parameters, partitioned_shared, shared_linear,
    swizzled_shared, tensor_memory, tensor_memory_scales,
};
use super::value::{Aliases, Dict, dict, shorten};
use crate::Diagnostic;
use crate::cursor::Cursor;
use std::ops::Range;

type Result<T> = std::result::Result<T, Diagnostic>;

/// No tensor has more dimensions.
const MOST_DIMS: usize = 64;

/// The attributes of 3.9, for messages.
const NAMES: &str = "ttg.blocked, ttg.slice, ttg.dot_op, ttg.nvidia_mma, ttg.amd_mfma, ttg.amd_wmma, ttg.linear, \
     ttg.generic_linear, ttg.partitioned_shared, ttg.swizzled_shared, ttg.amd_rotating_shared, ttg.nvmma_shared, ttg.padded_shared, ttg.shared_linear, ttng.tensor_memory_encoding, \
     ttng.tensor_memory_scales_encoding";

/// `#ttg.name<..>`, or `#alias`.
pub(super) fn attribute(
    c: &mut Cursor<'_>,
    aliases: &dyn Aliases,
    depth: usize,
) -> Result<Attribute> {
    let start = c.at();
    c.expect('#', "before an attribute")?;
    let Some(name) = c.dotted() else { return Err(c.expected("the name of an attribute")) };
    let span = start..name.span.end;
    let Some((dialect, kind)) = name.value.split_once('.') else {
        return aliases.find(name.value).ok_or_else(|| unknown_alias(name.value, span, aliases));
    };
    if !matches!(dialect, "ttg" | "ttng") {
        let message = format!("unknown dialect `{}`", shorten(dialect));
        let help = match dialect {
            "triton_gpu" => "Triton 3.2 and later write ttg, as in #ttg.blocked<{..}>".to_string(),
            "triton_nvidia_gpu" => "Triton 3.2 and later write ttng".to_string(),
            _ => format!("known attributes: {NAMES}"),
        };
        return Err(Diagnostic::syntax(span, message, "expected ttg or ttng").help(help));
    }
    let named = |c: &mut Cursor<'_>| -> Result<Dict> {
        c.expect('<', "after the name of the attribute")?;
        let fields = dict(c, aliases, depth)?;
        c.expect('>', "at the end of the attribute")?;
        Ok(fields)
    };
    match (dialect, kind) {
        ("ttg", "blocked") => blocked(&named(c)?),
        ("ttg", "slice") => slice(&named(c)?),
        ("ttg", "dot_op") => dot_op(&named(c)?),
        ("ttg", "nvidia_mma") => nvidia_mma(&named(c)?),
        ("ttg", "amd_mfma") => amd_mfma(&named(c)?),
        ("ttg", "amd_wmma") => amd_wmma(&named(c)?),
        ("ttg", "linear") => linear(&named(c)?),
        ("ttg", "generic_linear") => generic_linear(&named(c)?),
        ("ttg", "partitioned_shared") => partitioned_shared(&named(c)?),
        ("ttg", "swizzled_shared") => {
            swizzled_shared(kind, &named(c)?).map(Attribute::SwizzledShared)
        }
        ("ttg", "amd_rotating_shared") => {
            swizzled_shared(kind, &named(c)?).map(Attribute::AmdRotatingShared)
        }
        ("ttg", "nvmma_shared") => nvmma_shared(&named(c)?),
        ("ttg", "padded_shared") => padded_shared(c, aliases, depth),
        ("ttg", "shared_linear") => shared_linear(c, aliases, depth),
        ("ttng", "tensor_memory_encoding") => tensor_memory(&parameters(c)?),
        ("ttng", "tensor_memory_scales_encoding") => tensor_memory_scales(&parameters(c)?),
        _ => {
            let message = format!("unknown attribute `{}`", shorten(name.value));
            let help = match kind {
                "shared" => {
                    "Triton 3.3 and later write #ttg.swizzled_shared<{..}>, or #ttg.nvmma_shared<{..}> where it had hasLeadingOffset"
                        .to_string()
                }
                _ => format!("known attributes: {NAMES}"),
            };
            Err(Diagnostic::syntax(span, message, "not an attribute of Triton 3.9").help(help))
        }
    }
}

fn unknown_alias(name: &str, span: Range<usize>, aliases: &dyn Aliases) -> Diagnostic {
    let message = format!("no attribute is defined as `#{}`", shorten(name));
    let mut known = aliases.names();
    known.truncate(20);
    let help = if known.is_empty() {
        format!(
            "paste the line that defines it with the layout, as in #{} = #ttg.blocked<{{..}}>",
            shorten(name)
        )
    } else {
        format!("defined: #{}", known.join(", #"))
    };
    Diagnostic::syntax(span, message, "unknown alias").help(help)
}

pub(super) fn refuse<T>(span: Range<usize>, message: impl Into<String>, label: &str) -> Result<T> {
    Err(Diagnostic::syntax(span, message, label))
}

pub(super) fn is_power(v: i64) -> bool {
    v > 0 && v.cast_unsigned().is_power_of_two()
}

pub(super) fn powers(fields: &Dict, key: &str, list: &[i64]) -> Result<()> {
    match list.iter().find(|v| !is_power(**v)) {
        None => Ok(()),
        Some(v) => {
            let message = format!("`{key}` has {v}, which is not a power of two");
            refuse(fields.place(key), message, "expected powers of two")
        }
    }
}

/// The dimensions, fastest first: each once.
pub(super) fn order(fields: &Dict, key: &str) -> Result<Vec<usize>> {
    let list = fields.ints(key)?;
    if list.len() > MOST_DIMS {
        let message = format!("`{key}` has {} entries", list.len());
        return refuse(fields.place(key), message, "a tensor has 64 dimensions or fewer");
    }
    let order: Vec<usize> = list.iter().filter_map(|d| usize::try_from(*d).ok()).collect();
    if (0..order.len()).all(|d| order.contains(&d)) {
        return Ok(order);
    }
    let last = order.len().saturating_sub(1);
    let message = format!("`{key}` is not a permutation of 0 to {last}");
    refuse(fields.place(key), message, "expected every dimension once")
}

/// Bases of a known length whose nonzero ones are the unit vectors of a shape, each once: what a permutation of bits
/// with broadcasts is.
pub(super) fn unit_bases(groups: &[(&Bases, Range<usize>)], rank: usize, what: &str) -> Result<()> {
    let mut seen: Vec<Vec<i64>> = vec![Vec::new(); rank];
    for (bases, place) in groups {
        for (k, basis) in bases.iter().enumerate() {
            if basis.len() != rank {
                let message = format!(
                    "basis {k} of {what} has {} entries, and the tensor has {rank} dimensions",
                    basis.len()
                );
                return refuse(place.clone(), message, "expected one entry per dimension");
            }
            let mut nonzero = basis.iter().enumerate().filter(|(_, v)| **v != 0);
            let Some((dim, value)) = nonzero.next() else { continue };
            if nonzero.next().is_some() || !is_power(*value) {
                let message = format!("basis {basis:?} of {what} is not a single bit");
                let label = "expected one power of two, or zeros";
                return refuse(place.clone(), message, label);
            }
            if seen[dim].contains(value) {
                let message = format!("basis {basis:?} of {what} is given twice");
                return refuse(place.clone(), message, "expected every bit once");
            }
            seen[dim].push(*value);
        }
    }
    for (dim, values) in seen.iter().enumerate() {
        let missing = (0..values.len()).map(|k| 1i64 << k.min(62)).find(|v| !values.contains(v));
        if let Some(missing) = missing {
            let place = groups.first().map_or(0..0, |(_, p)| p.start..p.end);
            let last = groups.last().map_or(place.end, |(_, p)| p.end);
            let message = format!(
                "no basis of {what} is {missing} along dimension {dim}, though a larger one is"
            );
            return refuse(place.start..last, message, "expected every bit below the largest");
        }
    }
    Ok(())
}

/// The CTAs of a cluster.
pub(super) fn cga(fields: &Dict, rank: usize) -> Result<Bases> {
    let bases = fields.bases("CGALayout")?;
    unit_bases(&[(&bases, fields.place("CGALayout"))], rank, "CGALayout")?;
    Ok(bases)
}

pub(super) fn same_rank(fields: &Dict, lists: &[(&str, usize)]) -> Result<()> {
    let rank = lists.first().map_or(0, |(_, n)| *n);
    match lists.iter().find(|(_, n)| *n != rank) {
        None => Ok(()),
        Some((key, found)) => {
            let first = lists.first().map_or("", |(k, _)| *k);
            let message = format!("`{key}` has {found} entries, and `{first}` has {rank}");
            refuse(fields.place(key), message, "expected one entry per dimension")
        }
    }
}

fn blocked(f: &Dict) -> Result<Attribute> {
    let keys = ["sizePerThread", "threadsPerWarp", "warpsPerCTA", "order", "CGALayout"];
    f.known("blocked", &keys)?;
    let [size_per_thread, threads_per_warp, warps_per_cta] =
        [f.ints(keys[0])?, f.ints(keys[1])?, f.ints(keys[2])?];
    let ranks = [
        size_per_thread.len(),
        threads_per_warp.len(),
        warps_per_cta.len(),
        f.ints("order")?.len(),
    ];
    same_rank(f, &keys.into_iter().zip(ranks).collect::<Vec<_>>())?;
    let order = order(f, "order")?;
    for (key, list) in keys.into_iter().zip([&size_per_thread, &threads_per_warp, &warps_per_cta]) {
        powers(f, key, list)?;
    }
    let cga = cga(f, order.len())?;
    Ok(Attribute::Blocked(Blocked { size_per_thread, threads_per_warp, warps_per_cta, order, cga }))
}

fn slice(f: &Dict) -> Result<Attribute> {
    f.need("slice", "dim")?;
    let dim = f.int("dim")?;
    let parent = f.attribute("slice", "parent")?;
    if !parent.is_distributed() {
        let message = "the parent of a slice is a layout of registers";
        return refuse(f.place("parent"), message, "this one is in memory");
    }
    let rank = parent.rank();
    if rank < 2 {
        let message = format!("a slice of a layout with {rank} dimension has none left");
        return refuse(f.place("parent"), message, "expected 2 dimensions or more");
    }
    match usize::try_from(dim) {
        Ok(dim) if dim < rank => Ok(Attribute::Slice { dim, parent: Box::new(parent.clone()) }),
        _ => {
            let message = format!("the parent has no dimension {dim}");
            refuse(f.place("dim"), message, &format!("expected 0 to {}", rank - 1))
        }
    }
}

fn dot_op(f: &Dict) -> Result<Attribute> {
    f.need("dot_op", "opIdx")?;
    let op_idx = match f.int("opIdx")? {
        0 => 0,
        1 => 1,
        other => {
            let message = format!("a matrix product has no operand {other}");
            return refuse(f.place("opIdx"), message, "expected 0 or 1");
        }
    };
    f.known("dot_op", &["opIdx", "parent", "kWidth"])?;
    let parent = f.attribute("dot_op", "parent")?;
    let k_width = f.int("kWidth")?;
    let missing = |of: &str| -> Result<()> {
        let message = format!("an operand of {of} needs `kWidth`");
        refuse(f.place("kWidth"), message, "expected kWidth, 1 or more")
    };
    match parent {
        Attribute::Blocked(_) if k_width != 0 => {
            let message = "`kWidth` means nothing where the parent is blocked";
            return refuse(f.place("kWidth"), message, "expected no kWidth");
        }
        Attribute::Blocked(_) => {}
        Attribute::NvidiaMma(_) if k_width == 0 => missing("nvidia_mma")?,
        Attribute::NvidiaMma(m) if m.version_major == 3 && op_idx == 1 => {
            let message = "version 3 takes its right operand from shared memory";
            return refuse(f.place("opIdx"), message, "expected 0");
        }
        Attribute::NvidiaMma(_) => {}
        Attribute::AmdMfma(_) if k_width == 0 => missing("amd_mfma")?,
        Attribute::AmdMfma(_) => {}
        Attribute::AmdWmma(m) => {
            let accepted: &[i64] = match m.version {
                1 => &[8, 16],
                2 => &[4, 8, 16],
                _ => &[],
            };
            if k_width == 0 {
                missing("amd_wmma")?;
            } else if m.version < 3 && !accepted.contains(&k_width) {
                let message =
                    format!("an operand of amd_wmma version {} has no kWidth {k_width}", m.version);
                let label = format!("expected one of {accepted:?}");
                return refuse(f.place("kWidth"), message, &label);
            }
        }
        _ => {
            let message = "the parent of an operand is blocked, nvidia_mma, amd_mfma or amd_wmma";
            return refuse(f.place("parent"), message, "not the layout of a matrix product");
        }
    }
    Ok(Attribute::DotOp { op_idx, parent: Box::new(parent.clone()), k_width })
}

/// Triton reads sizes of any instruction; those that there are none of have no layout.
fn nvidia_mma(f: &Dict) -> Result<Attribute> {
    let (version_major, version_minor) = (f.int("versionMajor")?, f.int("versionMinor")?);
    if !matches!(version_major, 2 | 3) {
        let message = format!("nvidia_mma has no version {version_major}");
        return refuse(f.place("versionMajor"), message, "expected 2 or 3");
    }
    let warps_per_cta = warps(f)?;
    let cga = cga(f, warps_per_cta.len())?;
    Ok(Attribute::NvidiaMma(NvidiaMma {
        version_major,
        version_minor,
        warps_per_cta,
        cga,
        instr_shape: f.ints("instrShape")?,
    }))
}

/// The warps along each dimension, which say the rank.
fn warps(f: &Dict) -> Result<Vec<i64>> {
    let warps = f.ints("warpsPerCTA")?;
    if warps.len() > MOST_DIMS {
        let message = format!("`warpsPerCTA` has {} entries", warps.len());
        let label = "a tensor has 64 dimensions or fewer";
        return refuse(f.place("warpsPerCTA"), message, label);
    }
    Ok(warps)
}

fn amd_mfma(f: &Dict) -> Result<Attribute> {
    let version = f.int("version")?;
    if version > 4 {
        let message = format!("amd_mfma has no version {version}");
        return refuse(f.place("version"), message, "expected 0 to 4");
    }
    let warps_per_cta = warps(f)?;
    let rank = warps_per_cta.len();
    let instr_shape = f.ints("instrShape")?;
    let tile = instr_shape.get(..2);
    let known = [[32, 32], [16, 16], [64, 4], [4, 64]];
    if !known.iter().any(|k| tile == Some(k.as_slice())) {
        let message = format!("no instruction has the shape {instr_shape:?}");
        let label = "expected [M, N, K] with M and N 32 and 32, 16 and 16, 64 and 4, or 4 and 64";
        return refuse(f.place("instrShape"), message, label);
    }
    let mut tiles_per_warp = f.ints("tilesPerWarp")?;
    if tiles_per_warp.iter().all(|t| *t == 1) {
        tiles_per_warp = vec![1; rank];
    }
    let element_bit_width =
        if f.get("elementBitWidth").is_some() { f.int("elementBitWidth")? } else { 32 };
    if !matches!(element_bit_width, 32 | 64) {
        let message = format!("results have 32 or 64 bits, not {element_bit_width}");
        return refuse(f.place("elementBitWidth"), message, "expected 32 or 64");
    }
    Ok(Attribute::AmdMfma(AmdMfma {
        version,
        warps_per_cta,
        instr_shape,
        is_transposed: f.flag("isTransposed")?,
        cga: cga(f, rank)?,
        tiles_per_warp,
        element_bit_width,
    }))
}

fn amd_wmma(f: &Dict) -> Result<Attribute> {
    let version = f.int("version")?;
    let valid: &[[i64; 3]] = match version {
        1 => &[[16, 16, 16]],
        2 => &[[16, 16, 16], [16, 16, 32]],
        3 => &[[16, 16, 4], [16, 16, 32], [16, 16, 64], [16, 16, 128], [32, 16, 128]],
        _ => {
            let message = format!("amd_wmma has no version {version}");
            return refuse(f.place("version"), message, "expected 1, 2 or 3");
        }
    };
    let instr_shape =
        if f.get("instrShape").is_some() { f.ints("instrShape")? } else { vec![16, 16, 16] };
    if !valid.iter().any(|v| *v == instr_shape[..]) {
        let message = format!("version {version} has no instruction of the shape {instr_shape:?}");
        let label = format!("expected one of {valid:?}");
        return refuse(f.place("instrShape"), message, &label);
    }
    let cta = match &f.need("amd_wmma", "ctaLayout")?.value {
        super::value::Value::Dict(d) => d.clone(),
        _ => {
            let message = "`ctaLayout` holds the bases of `register` and `warp`";
            let label = "expected {register = [[..]], warp = [[..]]}";
            return refuse(f.place("ctaLayout"), message, label);
        }
    };
    let (cta_register, cta_warp) = (cta.bases("register")?, cta.bases("warp")?);
    let bases = f.bases("CGALayout")?;
    let first = cta_register.iter().chain(&cta_warp).chain(&bases).next().map(Vec::len);
    let given = f.get("rank").map(|_| f.int("rank")).transpose()?;
    let rank = match (given.and_then(|r| usize::try_from(r).ok()), first) {
        (Some(rank), _) | (None, Some(rank)) => rank,
        (None, None) => 2,
    };
    if !(1..=MOST_DIMS).contains(&rank) {
        let message = format!("a tensor has 1 to {MOST_DIMS} dimensions, not {rank}");
        return refuse(f.place("ctaLayout"), message, "expected bases of 2 or 3 entries");
    }
    let groups = [(&cta_register, cta.place("register")), (&cta_warp, cta.place("warp"))];
    onto(&groups, rank, "ctaLayout")?;
    Ok(Attribute::AmdWmma(AmdWmma {
        version,
        is_transpose: f.flag("isTranspose")?,
        cta_register,
        cta_warp,
        cga: cga(f, rank)?,
        instr_shape,
        rank,
    }))
}

/// The bases of registers, lanes, warps and blocks, all required. Other fields are not looked at.
fn four_bases(name: &str, f: &Dict) -> Result<([Bases; 4], usize)> {
    for key in KEYS {
        f.need(name, key)?;
    }
    let bases = [f.bases(KEYS[0])?, f.bases(KEYS[1])?, f.bases(KEYS[2])?, f.bases(KEYS[3])?];
    match bases.iter().flatten().next().map(Vec::len) {
        Some(rank) => Ok((bases, rank)),
        None => {
            let message = "without a basis nothing says how many dimensions there are";
            refuse(f.span.clone(), message, "expected a basis in one of the fields")
        }
    }
}

/// The in dimensions of what threads hold.
const KEYS: [&str; 4] = ["register", "lane", "warp", "block"];

fn linear(f: &Dict) -> Result<Attribute> {
    let (bases, rank) = four_bases("linear", f)?;
    let groups: Vec<_> = bases.iter().zip(KEYS).map(|(b, key)| (b, f.place(key))).collect();
    unit_bases(&groups, rank, "linear")?;
    Ok(Attribute::Linear { bases, rank })
}

/// As `linear`, but bases of warps may go along several dimensions, and elements may be reached in several ways.
fn generic_linear(f: &Dict) -> Result<Attribute> {
    let (bases, rank) = four_bases("generic_linear", f)?;
    for (own, key) in bases.iter().zip(KEYS).filter(|(_, key)| *key != "warp") {
        let along = |b: &&Vec<i64>| b.iter().filter(|v| **v != 0).count() > 1;
        if let Some(basis) = own.iter().find(along) {
            let message = format!("basis {basis:?} of {key} goes along several dimensions");
            return refuse(f.place(key), message, "only bases of warps do that");
        }
    }
    let groups: Vec<_> = bases.iter().zip(KEYS).map(|(b, key)| (b, f.place(key))).collect();
    onto(&groups, rank, "generic_linear")?;
    Ok(Attribute::GenericLinear { bases, rank })
}
