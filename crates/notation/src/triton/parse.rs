//! Parsing attributes: the parser accepts what Triton 3.9 accepts, and underlines what it refuses.

use super::attribute::{AmdMfma, AmdWmma, BlockedEncoding, DimBases, NvidiaMma, TritonAttribute};
use super::parse_memory::{
    check_bases_reach_all, read_nvmma_shared, read_padded_shared, read_parameters,
    read_partitioned_shared, read_shared_linear, read_swizzled_shared, read_tensor_memory,
    read_tensor_memory_scales,
};
use super::value::{AliasLookup, AttributeDict, read_dict, shorten_name};
use crate::Diagnostic;
use crate::cursor::TextCursor;
use std::ops::Range;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The most dimensions of a tensor that are accepted.
// Far beyond the ranks of Triton's tensors. Without a bound, a short text could ask for layouts of
// thousands of dimensions.
const MOST_DIMS: usize = 64;

/// The attributes of 3.9, for messages.
const NAMES: &str = "ttg.blocked, ttg.slice, ttg.dot_op, ttg.nvidia_mma, ttg.amd_mfma, ttg.amd_wmma, ttg.linear, \
     ttg.generic_linear, ttg.partitioned_shared, ttg.swizzled_shared, ttg.amd_rotating_shared, ttg.nvmma_shared, ttg.padded_shared, ttg.shared_linear, ttng.tensor_memory_encoding, \
     ttng.tensor_memory_scales_encoding";

/// `#ttg.name<..>`, or `#alias`.
pub(super) fn read_attribute(
    c: &mut TextCursor<'_>,
    aliases: &dyn AliasLookup,
    depth: usize,
) -> Result<TritonAttribute> {
    let start = c.next_token_start();
    c.expect_char('#', "before an attribute")?;
    let Some(name) = c.read_dotted_word() else {
        return Err(c.refuse_next_token("the name of an attribute"));
    };
    let span = start..name.span.end;
    // Attributes of a dialect have a dot in their names; a name without one is an alias of the
    // module.
    let Some((dialect, kind)) = name.value.split_once('.') else {
        return aliases
            .find_alias(name.value)
            .ok_or_else(|| unknown_alias_error(name.value, span, aliases));
    };
    if !matches!(dialect, "ttg" | "ttng") {
        let message = format!("unknown dialect `{}`", shorten_name(dialect));
        let help = match dialect {
            // Texts of older versions are common in bug reports, so their dialect names get a hint
            // of their own.
            "triton_gpu" => "Triton 3.2 and later write ttg, as in #ttg.blocked<{..}>".to_string(),
            "triton_nvidia_gpu" => "Triton 3.2 and later write ttng".to_string(),
            _ => format!("known attributes: {NAMES}"),
        };
        return Err(Diagnostic::syntax_error(span, message, "expected ttg or ttng").with_help(help));
    }
    let named = |c: &mut TextCursor<'_>| -> Result<AttributeDict> {
        c.expect_char('<', "after the name of the attribute")?;
        let fields = read_dict(c, aliases, depth)?;
        c.expect_char('>', "at the end of the attribute")?;
        Ok(fields)
    };
    match (dialect, kind) {
        ("ttg", "blocked") => read_blocked(&named(c)?),
        ("ttg", "slice") => read_slice(&named(c)?),
        ("ttg", "dot_op") => read_dot_operand(&named(c)?),
        ("ttg", "nvidia_mma") => read_nvidia_mma(&named(c)?),
        ("ttg", "amd_mfma") => read_amd_mfma(&named(c)?),
        ("ttg", "amd_wmma") => read_amd_wmma(&named(c)?),
        ("ttg", "linear") => read_linear(&named(c)?),
        ("ttg", "generic_linear") => read_generic_linear(&named(c)?),
        ("ttg", "partitioned_shared") => read_partitioned_shared(&named(c)?),
        ("ttg", "swizzled_shared") => {
            read_swizzled_shared(kind, &named(c)?).map(TritonAttribute::SwizzledShared)
        }
        ("ttg", "amd_rotating_shared") => {
            read_swizzled_shared(kind, &named(c)?).map(TritonAttribute::AmdRotatingShared)
        }
        ("ttg", "nvmma_shared") => read_nvmma_shared(&named(c)?),
        // This one and the next two have a syntax of their own instead of one dictionary.
        ("ttg", "padded_shared") => read_padded_shared(c, aliases, depth),
        ("ttg", "shared_linear") => read_shared_linear(c, aliases, depth),
        ("ttng", "tensor_memory_encoding") => read_tensor_memory(&read_parameters(c)?),
        ("ttng", "tensor_memory_scales_encoding") => {
            read_tensor_memory_scales(&read_parameters(c)?)
        }
        _ => {
            let message = format!("unknown attribute `{}`", shorten_name(name.value));
            let help = match kind {
                "shared" => {
                    "Triton 3.3 and later write #ttg.swizzled_shared<{..}>, or #ttg.nvmma_shared<{..}> where it had hasLeadingOffset"
                        .to_string()
                }
                _ => format!("known attributes: {NAMES}"),
            };
            Err(Diagnostic::syntax_error(span, message, "not an attribute of Triton 3.9")
                .with_help(help))
        }
    }
}

fn unknown_alias_error(name: &str, span: Range<usize>, aliases: &dyn AliasLookup) -> Diagnostic {
    let message = format!("no attribute is defined as `#{}`", shorten_name(name));
    let mut known = aliases.alias_names();
    // A module may define hundreds of aliases, and a message lists only enough of them to help.
    known.truncate(20);
    let help = if known.is_empty() {
        format!(
            "paste the line that defines it with the layout, as in #{} = #ttg.blocked<{{..}}>",
            shorten_name(name)
        )
    } else {
        format!("defined: #{}", known.join(", #"))
    };
    Diagnostic::syntax_error(span, message, "unknown alias").with_help(help)
}

pub(super) fn refuse_at_span<T>(
    span: Range<usize>,
    message: impl Into<String>,
    label: &str,
) -> Result<T> {
    Err(Diagnostic::syntax_error(span, message, label))
}

pub(super) fn is_power_of_two(v: i64) -> bool {
    v > 0 && v.cast_unsigned().is_power_of_two()
}

pub(super) fn check_powers_of_two(fields: &AttributeDict, key: &str, list: &[i64]) -> Result<()> {
    match list.iter().find(|v| !is_power_of_two(**v)) {
        None => Ok(()),
        Some(v) => {
            let message = format!("`{key}` has {v}, which is not a power of two");
            refuse_at_span(fields.span_of_field(key), message, "expected powers of two")
        }
    }
}

/// The dimensions, fastest first: each once.
pub(super) fn read_dim_order(fields: &AttributeDict, key: &str) -> Result<Vec<usize>> {
    let list = fields.integer_list_field(key)?;
    if list.len() > MOST_DIMS {
        let message = format!("`{key}` has {} entries", list.len());
        return refuse_at_span(
            fields.span_of_field(key),
            message,
            "a tensor has 64 dimensions or fewer",
        );
    }
    // A negative entry is dropped here and makes the permutation incomplete, which the test below
    // reports.
    let order: Vec<usize> = list.iter().filter_map(|d| usize::try_from(*d).ok()).collect();
    if (0..order.len()).all(|d| order.contains(&d)) {
        return Ok(order);
    }
    let last = order.len().saturating_sub(1);
    let message = format!("`{key}` is not a permutation of 0 to {last}");
    refuse_at_span(fields.span_of_field(key), message, "expected every dimension once")
}

/// Checks that the nonzero bases are the unit vectors of a shape, each once: a permutation of bits with
/// broadcasts, which Triton's verifier of `linear` demands.
pub(super) fn check_unit_bases(
    groups: &[(&DimBases, Range<usize>)],
    rank: usize,
    what: &str,
) -> Result<()> {
    // Distinct powers of two without a gap are exactly a permutation of the bits of a power-of-two
    // size.
    let mut seen: Vec<Vec<i64>> = vec![Vec::new(); rank];
    for (bases, place) in groups {
        for (k, basis) in bases.iter().enumerate() {
            if basis.len() != rank {
                let message = format!(
                    "basis {k} of {what} has {} entries, and the tensor has {rank} dimensions",
                    basis.len()
                );
                return refuse_at_span(place.clone(), message, "expected one entry per dimension");
            }
            let mut nonzero = basis.iter().enumerate().filter(|(_, v)| **v != 0);
            let Some((dim, value)) = nonzero.next() else { continue };
            if nonzero.next().is_some() || !is_power_of_two(*value) {
                let message = format!("basis {basis:?} of {what} is not a single bit");
                let label = "expected one power of two, or zeros";
                return refuse_at_span(place.clone(), message, label);
            }
            if seen[dim].contains(value) {
                let message = format!("basis {basis:?} of {what} is given twice");
                return refuse_at_span(place.clone(), message, "expected every bit once");
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
            return refuse_at_span(
                place.start..last,
                message,
                "expected every bit below the largest",
            );
        }
    }
    Ok(())
}

/// The CTAs of a cluster.
pub(super) fn read_cga_bases(fields: &AttributeDict, rank: usize) -> Result<DimBases> {
    let bases = fields.bases_field("CGALayout")?;
    check_unit_bases(&[(&bases, fields.span_of_field("CGALayout"))], rank, "CGALayout")?;
    Ok(bases)
}

pub(super) fn check_same_rank(fields: &AttributeDict, lists: &[(&str, usize)]) -> Result<()> {
    let rank = lists.first().map_or(0, |(_, n)| *n);
    match lists.iter().find(|(_, n)| *n != rank) {
        None => Ok(()),
        Some((key, found)) => {
            let first = lists.first().map_or("", |(k, _)| *k);
            let message = format!("`{key}` has {found} entries, and `{first}` has {rank}");
            refuse_at_span(fields.span_of_field(key), message, "expected one entry per dimension")
        }
    }
}

fn read_blocked(f: &AttributeDict) -> Result<TritonAttribute> {
    let keys = ["sizePerThread", "threadsPerWarp", "warpsPerCTA", "order", "CGALayout"];
    f.check_known_keys("blocked", &keys)?;
    let [size_per_thread, threads_per_warp, warps_per_cta] = [
        f.integer_list_field(keys[0])?,
        f.integer_list_field(keys[1])?,
        f.integer_list_field(keys[2])?,
    ];
    // The rank is that of the first list, and a list of another length is reported by its own name.
    let ranks = [
        size_per_thread.len(),
        threads_per_warp.len(),
        warps_per_cta.len(),
        f.integer_list_field("order")?.len(),
    ];
    check_same_rank(f, &keys.into_iter().zip(ranks).collect::<Vec<_>>())?;
    let order = read_dim_order(f, "order")?;
    for (key, list) in keys.into_iter().zip([&size_per_thread, &threads_per_warp, &warps_per_cta]) {
        check_powers_of_two(f, key, list)?;
    }
    let cga = read_cga_bases(f, order.len())?;
    Ok(TritonAttribute::Blocked(BlockedEncoding {
        size_per_thread,
        threads_per_warp,
        warps_per_cta,
        order,
        cga,
    }))
}

fn read_slice(f: &AttributeDict) -> Result<TritonAttribute> {
    f.required_field("slice", "dim")?;
    let dim = f.integer_field("dim")?;
    let parent = f.attribute_field("slice", "parent")?;
    if !parent.is_distributed() {
        let message = "the parent of a slice is a layout of registers";
        return refuse_at_span(f.span_of_field("parent"), message, "this one is in memory");
    }
    // A slice removes one dimension, and a tensor without dimensions has no layout in Triton.
    let rank = parent.rank();
    if rank < 2 {
        let message = format!("a slice of a layout with {rank} dimension has none left");
        return refuse_at_span(f.span_of_field("parent"), message, "expected 2 dimensions or more");
    }
    match usize::try_from(dim) {
        Ok(dim) if dim < rank => {
            Ok(TritonAttribute::Slice { dim, parent: Box::new(parent.clone()) })
        }
        _ => {
            let message = format!("the parent has no dimension {dim}");
            refuse_at_span(f.span_of_field("dim"), message, &format!("expected 0 to {}", rank - 1))
        }
    }
}

fn read_dot_operand(f: &AttributeDict) -> Result<TritonAttribute> {
    f.required_field("dot_op", "opIdx")?;
    let op_idx = match f.integer_field("opIdx")? {
        0 => 0,
        1 => 1,
        other => {
            let message = format!("a matrix product has no operand {other}");
            return refuse_at_span(f.span_of_field("opIdx"), message, "expected 0 or 1");
        }
    };
    f.check_known_keys("dot_op", &["opIdx", "parent", "kWidth"])?;
    let parent = f.attribute_field("dot_op", "parent")?;
    let k_width = f.integer_field("kWidth")?;
    let missing = |of: &str| -> Result<()> {
        let message = format!("an operand of {of} needs `kWidth`");
        refuse_at_span(f.span_of_field("kWidth"), message, "expected kWidth, 1 or more")
    };
    match parent {
        TritonAttribute::Blocked(_) if k_width != 0 => {
            let message = "`kWidth` means nothing where the parent is blocked";
            return refuse_at_span(f.span_of_field("kWidth"), message, "expected no kWidth");
        }
        TritonAttribute::Blocked(_) => {}
        TritonAttribute::NvidiaMma(_) if k_width == 0 => missing("nvidia_mma")?,
        // `wgmma` reads B through a shared memory descriptor only (PTX ISA, `wgmma.mma_async`).
        TritonAttribute::NvidiaMma(m) if m.version_major == 3 && op_idx == 1 => {
            let message = "version 3 takes its right operand from shared memory";
            return refuse_at_span(f.span_of_field("opIdx"), message, "expected 0");
        }
        TritonAttribute::NvidiaMma(_) => {}
        TritonAttribute::AmdMfma(_) if k_width == 0 => missing("amd_mfma")?,
        TritonAttribute::AmdMfma(_) => {}
        TritonAttribute::AmdWmma(m) => {
            let accepted: &[i64] = match m.version {
                // The widths that Triton's verifier accepts for each version.
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
                return refuse_at_span(f.span_of_field("kWidth"), message, &label);
            }
        }
        _ => {
            let message = "the parent of an operand is blocked, nvidia_mma, amd_mfma or amd_wmma";
            return refuse_at_span(
                f.span_of_field("parent"),
                message,
                "not the layout of a matrix product",
            );
        }
    }
    Ok(TritonAttribute::DotOp { op_idx, parent: Box::new(parent.clone()), k_width })
}

/// Triton parses instruction shapes without checking them; a shape without an instruction has no layout.
fn read_nvidia_mma(f: &AttributeDict) -> Result<TritonAttribute> {
    let (version_major, version_minor) =
        (f.integer_field("versionMajor")?, f.integer_field("versionMinor")?);
    if !matches!(version_major, 2 | 3) {
        let message = format!("nvidia_mma has no version {version_major}");
        return refuse_at_span(f.span_of_field("versionMajor"), message, "expected 2 or 3");
    }
    let warps_per_cta = read_warps_per_cta(f)?;
    let cga = read_cga_bases(f, warps_per_cta.len())?;
    Ok(TritonAttribute::NvidiaMma(NvidiaMma {
        version_major,
        version_minor,
        warps_per_cta,
        cga,
        instr_shape: f.integer_list_field("instrShape")?,
    }))
}

/// The warps along each dimension, which say the rank.
fn read_warps_per_cta(f: &AttributeDict) -> Result<Vec<i64>> {
    let warps = f.integer_list_field("warpsPerCTA")?;
    if warps.len() > MOST_DIMS {
        let message = format!("`warpsPerCTA` has {} entries", warps.len());
        let label = "a tensor has 64 dimensions or fewer";
        return refuse_at_span(f.span_of_field("warpsPerCTA"), message, label);
    }
    Ok(warps)
}

fn read_amd_mfma(f: &AttributeDict) -> Result<TritonAttribute> {
    let version = f.integer_field("version")?;
    if version > 4 {
        let message = format!("amd_mfma has no version {version}");
        return refuse_at_span(f.span_of_field("version"), message, "expected 0 to 4");
    }
    let warps_per_cta = read_warps_per_cta(f)?;
    let rank = warps_per_cta.len();
    let instr_shape = f.integer_list_field("instrShape")?;
    let tile = instr_shape.get(..2);
    // The M and N of the MFMA instructions that Triton's verifier accepts; K depends on the element
    // type.
    let known = [[32, 32], [16, 16], [64, 4], [4, 64]];
    if !known.iter().any(|k| tile == Some(k.as_slice())) {
        let message = format!("no instruction has the shape {instr_shape:?}");
        let label = "expected [M, N, K] with M and N 32 and 32, 16 and 16, 64 and 4, or 4 and 64";
        return refuse_at_span(f.span_of_field("instrShape"), message, label);
    }
    let mut tiles_per_warp = f.integer_list_field("tilesPerWarp")?;
    // The default is printed by leaving the field out, so both spellings must be equal.
    if tiles_per_warp.iter().all(|t| *t == 1) {
        tiles_per_warp = vec![1; rank];
    }
    let element_bit_width =
        if f.get("elementBitWidth").is_some() { f.integer_field("elementBitWidth")? } else { 32 };
    if !matches!(element_bit_width, 32 | 64) {
        let message = format!("results have 32 or 64 bits, not {element_bit_width}");
        return refuse_at_span(f.span_of_field("elementBitWidth"), message, "expected 32 or 64");
    }
    Ok(TritonAttribute::AmdMfma(AmdMfma {
        version,
        warps_per_cta,
        instr_shape,
        is_transposed: f.boolean_field("isTransposed")?,
        cga: read_cga_bases(f, rank)?,
        tiles_per_warp,
        element_bit_width,
    }))
}

fn read_amd_wmma(f: &AttributeDict) -> Result<TritonAttribute> {
    let version = f.integer_field("version")?;
    let valid: &[[i64; 3]] = match version {
        1 => &[[16, 16, 16]],
        2 => &[[16, 16, 16], [16, 16, 32]],
        3 => &[[16, 16, 4], [16, 16, 32], [16, 16, 64], [16, 16, 128], [32, 16, 128]],
        _ => {
            let message = format!("amd_wmma has no version {version}");
            return refuse_at_span(f.span_of_field("version"), message, "expected 1, 2 or 3");
        }
    };
    let instr_shape = if f.get("instrShape").is_some() {
        f.integer_list_field("instrShape")?
    } else {
        vec![16, 16, 16]
    };
    if !valid.iter().any(|v| *v == instr_shape[..]) {
        let message = format!("version {version} has no instruction of the shape {instr_shape:?}");
        let label = format!("expected one of {valid:?}");
        return refuse_at_span(f.span_of_field("instrShape"), message, &label);
    }
    let cta = match &f.required_field("amd_wmma", "ctaLayout")?.value {
        super::value::DictValue::Dict(d) => d.clone(),
        _ => {
            let message = "`ctaLayout` holds the bases of `register` and `warp`";
            let label = "expected {register = [[..]], warp = [[..]]}";
            return refuse_at_span(f.span_of_field("ctaLayout"), message, label);
        }
    };
    let (cta_register, cta_warp) = (cta.bases_field("register")?, cta.bases_field("warp")?);
    let bases = f.bases_field("CGALayout")?;
    // No field states the rank directly; every basis has one entry for each dimension.
    let first = cta_register.iter().chain(&cta_warp).chain(&bases).next().map(Vec::len);
    let given = f.get("rank").map(|_| f.integer_field("rank")).transpose()?;
    let rank = match (given.and_then(|r| usize::try_from(r).ok()), first) {
        (Some(rank), _) | (None, Some(rank)) => rank,
        (None, None) => 2,
    };
    if !(1..=MOST_DIMS).contains(&rank) {
        let message = format!("a tensor has 1 to {MOST_DIMS} dimensions, not {rank}");
        return refuse_at_span(
            f.span_of_field("ctaLayout"),
            message,
            "expected bases of 2 or 3 entries",
        );
    }
    let groups =
        [(&cta_register, cta.span_of_field("register")), (&cta_warp, cta.span_of_field("warp"))];
    check_bases_reach_all(&groups, rank, "ctaLayout")?;
    Ok(TritonAttribute::AmdWmma(AmdWmma {
        version,
        is_transpose: f.boolean_field("isTranspose")?,
        cta_register,
        cta_warp,
        cga: read_cga_bases(f, rank)?,
        instr_shape,
        rank,
    }))
}

/// The bases of registers, lanes, warps and blocks, all required. Other fields are not looked at.
fn read_four_bases(name: &str, f: &AttributeDict) -> Result<([DimBases; 4], usize)> {
    for key in KEYS {
        f.required_field(name, key)?;
    }
    let bases = [
        f.bases_field(KEYS[0])?,
        f.bases_field(KEYS[1])?,
        f.bases_field(KEYS[2])?,
        f.bases_field(KEYS[3])?,
    ];
    match bases.iter().flatten().next().map(Vec::len) {
        Some(rank) => Ok((bases, rank)),
        None => {
            let message = "without a basis nothing says how many dimensions there are";
            refuse_at_span(f.span.clone(), message, "expected a basis in one of the fields")
        }
    }
}

/// The in dimensions of what threads hold.
const KEYS: [&str; 4] = ["register", "lane", "warp", "block"];

fn read_linear(f: &AttributeDict) -> Result<TritonAttribute> {
    let (bases, rank) = read_four_bases("linear", f)?;
    let groups: Vec<_> = bases.iter().zip(KEYS).map(|(b, key)| (b, f.span_of_field(key))).collect();
    check_unit_bases(&groups, rank, "linear")?;
    Ok(TritonAttribute::Linear { bases, rank })
}

/// As `linear`, but bases of warps may go along several dimensions, and elements may be reached in several ways.
fn read_generic_linear(f: &AttributeDict) -> Result<TritonAttribute> {
    let (bases, rank) = read_four_bases("generic_linear", f)?;
    for (own, key) in bases.iter().zip(KEYS).filter(|(_, key)| *key != "warp") {
        let along = |b: &&Vec<i64>| b.iter().filter(|v| **v != 0).count() > 1;
        if let Some(basis) = own.iter().find(along) {
            let message = format!("basis {basis:?} of {key} goes along several dimensions");
            return refuse_at_span(f.span_of_field(key), message, "only bases of warps do that");
        }
    }
    let groups: Vec<_> = bases.iter().zip(KEYS).map(|(b, key)| (b, f.span_of_field(key))).collect();
    check_bases_reach_all(&groups, rank, "generic_linear")?;
    Ok(TritonAttribute::GenericLinear { bases, rank })
}
