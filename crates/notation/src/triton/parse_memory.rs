//! Reading the attributes of shared memory and of tensor memory.

use super::attribute::{
    DimBases, NvmmaShared, PaddedShared, PartitionedShared, SwizzledShared, TensorMemory,
    TritonAttribute,
};
use super::parse::{
    check_powers_of_two, check_same_rank, check_unit_bases, is_power_of_two, read_cga_bases,
    read_dim_order, refuse_at_span,
};
use super::value::{AliasLookup, AttributeDict, DictValue, read_dict, shorten_name};
use crate::Diagnostic;
use crate::cursor::{Spanned, TextCursor};
use std::ops::Range;
use zellige_layout::LinearLayout;

type Result<T> = std::result::Result<T, Diagnostic>;

pub(super) fn read_swizzled_shared(name: &str, f: &AttributeDict) -> Result<SwizzledShared> {
    f.check_known_keys(name, &["vec", "perPhase", "maxPhase", "order", "CGALayout"])?;
    // Triton's verifier does not check the order of a rotating swizzle.
    let order =
        if name == "amd_rotating_shared" { read_dim_list(f)? } else { read_dim_order(f, "order")? };
    let cga = read_cga_bases(f, order.len())?;
    Ok(SwizzledShared {
        vec: f.integer_field("vec")?,
        per_phase: f.integer_field("perPhase")?,
        max_phase: f.integer_field("maxPhase")?,
        order,
        cga,
    })
}

/// A list of dimensions that may have repetitions.
fn read_dim_list(f: &AttributeDict) -> Result<Vec<usize>> {
    let list = f.integer_list_field("order")?;
    if list.len() > 64 {
        let message = format!("`order` has {} entries", list.len());
        return refuse_at_span(
            f.span_of_field("order"),
            message,
            "a tensor has 64 dimensions or fewer",
        );
    }
    Ok(list.iter().filter_map(|d| usize::try_from(*d).ok()).collect())
}

pub(super) fn read_nvmma_shared(f: &AttributeDict) -> Result<TritonAttribute> {
    f.check_known_keys(
        "nvmma_shared",
        &["swizzlingByteWidth", "transposed", "elementBitWidth", "fp4Padded", "CGALayout", "rank"],
    )?;
    f.required_field("nvmma_shared", "swizzlingByteWidth")?;
    f.required_field("nvmma_shared", "elementBitWidth")?;
    let swizzling_byte_width = f.integer_field("swizzlingByteWidth")?;
    // The swizzle modes of the hardware's shared memory descriptors.
    if !matches!(swizzling_byte_width, 0 | 32 | 64 | 128) {
        let message = format!("no swizzle is {swizzling_byte_width} bytes wide");
        return refuse_at_span(
            f.span_of_field("swizzlingByteWidth"),
            message,
            "expected 0, 32, 64 or 128",
        );
    }
    let element_bit_width = f.integer_field("elementBitWidth")?;
    if element_bit_width == 0 {
        let message = "no element has 0 bits";
        return refuse_at_span(
            f.span_of_field("elementBitWidth"),
            message,
            "expected 8, 16, 32 or 64",
        );
    }
    let bases = f.bases_field("CGALayout")?;
    let given = f.get("rank").map(|_| f.integer_field("rank")).transpose()?;
    // The rank is a field, else the length of the bases of CTAs, else 2, which is Triton's default.
    let given = given.and_then(|r| usize::try_from(r).ok());
    let rank = given.or(bases.first().map(Vec::len)).unwrap_or(2);
    if rank > 64 {
        let message = format!("a tensor has 64 dimensions or fewer, not {rank}");
        return refuse_at_span(f.span_of_field("rank"), message, "expected 64 or fewer");
    }
    Ok(TritonAttribute::NvmmaShared(NvmmaShared {
        swizzling_byte_width,
        transposed: f.boolean_field("transposed")?,
        element_bit_width,
        fp4_padded: f.boolean_field("fp4Padded")?,
        cga: read_cga_bases(f, rank)?,
        rank,
    }))
}

/// `<[32:+4, ..] {order = .., shape = ..}>` or `<[..] {offset = .., block = ..}>`.
pub(super) fn read_padded_shared(
    c: &mut TextCursor<'_>,
    aliases: &dyn AliasLookup,
    depth: usize,
) -> Result<TritonAttribute> {
    c.expect_char('<', "after the name of the attribute")?;
    let start = c.next_token_start();
    c.expect_char('[', "before the padding")?;
    let mut padding: Vec<(i64, i64)> = Vec::new();
    while !c.eat_char(']') {
        if !padding.is_empty() {
            c.expect_char(',', "between pairs, or `]`")?;
        }
        let at = c.next_token_start();
        let interval = c.read_integer("an interval")?;
        c.expect_char(':', "after the interval")?;
        c.expect_char('+', "before the padding")?;
        let pad = c.read_integer("a padding")?;
        for part in [&interval, &pad] {
            // Triton stores these as unsigned 32-bit integers and requires powers of two, so that
            // padding is the same for every row of a block.
            if !is_power_of_two(part.value) || part.value >= 1 << 31 {
                let message = format!("{} is not a power of two", part.value);
                return refuse_at_span(part.span.clone(), message, "expected a power of two");
            }
        }
        if padding.iter().any(|(i, _)| *i == interval.value) {
            let message = format!("the interval {} is given twice", interval.value);
            return refuse_at_span(at..c.last_token_end(), message, "already given");
        }
        padding.push((interval.value, pad.value));
    }
    if padding.is_empty() {
        let message = "no padding";
        return refuse_at_span(
            start..c.last_token_end(),
            message,
            "expected [interval:+padding], as in [32:+4]",
        );
    }
    let f = read_dict(c, aliases, depth)?;
    c.expect_char('>', "at the end of the attribute")?;
    // The short form names an order and a shape; the long form gives the bases themselves.
    let padded = if f.get("offset").is_none() && f.get("block").is_none() {
        f.check_known_keys("padded_shared", &["order", "shape"])?;
        let (order, shape) = (read_dim_order(&f, "order")?, f.integer_list_field("shape")?);
        check_same_rank(&f, &[("order", order.len()), ("shape", shape.len())])?;
        check_powers_of_two(&f, "shape", &shape)?;
        if shape.is_empty() {
            let message = "padded memory has a dimension or more";
            return refuse_at_span(
                f.span.clone(),
                message,
                "expected `order = [..], shape = [..]`",
            );
        }
        let bases = order.iter().flat_map(|d| {
            let rank = shape.len();
            let unit =
                move |k: u32| (0..rank).map(|e| if e == *d { 1i64 << k } else { 0 }).collect();
            (0..shape[*d].trailing_zeros()).map(unit)
        });
        PaddedShared { padding, offset: bases.collect(), block: Vec::new(), rank: shape.len() }
    } else {
        for key in ["offset", "block"] {
            f.required_field("padded_shared", key)?;
        }
        let (offset, block) = (f.bases_field("offset")?, f.bases_field("block")?);
        let rank = rank_of_bases(&f, &offset, &block)?;
        let groups = [(&offset, f.span_of_field("offset")), (&block, f.span_of_field("block"))];
        check_unit_bases(&groups, rank, "padded_shared")?;
        // A zero basis would store one element at two padded addresses, which Triton refuses.
        if offset.iter().any(|b| b.iter().all(|v| *v == 0)) {
            let message = "an offset in padded memory holds an element of its own";
            return refuse_at_span(
                f.span_of_field("offset"),
                message,
                "expected no basis of zeros",
            );
        }
        PaddedShared { padding, offset, block, rank }
    };
    Ok(TritonAttribute::PaddedShared(padded))
}

/// `<{offset = .., block = ..}, alignment = 16>`.
pub(super) fn read_shared_linear(
    c: &mut TextCursor<'_>,
    aliases: &dyn AliasLookup,
    depth: usize,
) -> Result<TritonAttribute> {
    c.expect_char('<', "after the name of the attribute")?;
    let f = read_dict(c, aliases, depth)?;
    f.check_known_keys("shared_linear", &["offset", "block"])?;
    f.required_field("shared_linear", "offset")?;
    c.expect_char(',', "before `alignment`")?;
    if !c.eat_word("alignment") {
        return Err(c.refuse_next_token("`alignment = n`"));
    }
    c.expect_char('=', "after `alignment`")?;
    let alignment = c.read_integer("an alignment in bytes")?;
    if !is_power_of_two(alignment.value) || alignment.value >= 1 << 31 {
        let message = format!("the alignment {} is not a power of two", alignment.value);
        return refuse_at_span(alignment.span, message, "expected a power of two");
    }
    c.expect_char('>', "at the end of the attribute")?;
    let (offset, block) = (f.bases_field("offset")?, f.bases_field("block")?);
    let rank = rank_of_bases(&f, &offset, &block)?;
    let groups = [(&offset, f.span_of_field("offset")), (&block, f.span_of_field("block"))];
    check_bases_reach_once(&groups, rank, "shared_linear")?;
    Ok(TritonAttribute::SharedLinear { offset, block, alignment: alignment.value, rank })
}

/// The length of the bases, which is the number of dimensions.
fn rank_of_bases(f: &AttributeDict, offset: &DimBases, block: &DimBases) -> Result<usize> {
    match offset.iter().chain(block).next() {
        Some(basis) => Ok(basis.len()),
        None => {
            let message = "without a basis nothing says how many dimensions there are";
            refuse_at_span(f.span.clone(), message, "expected a basis")
        }
    }
}

/// Checks that the bases together reach every element of the smallest shape that holds them.
pub(super) fn check_bases_reach_all(
    groups: &[(&DimBases, Range<usize>)],
    rank: usize,
    what: &str,
) -> Result<LinearLayout> {
    for (bases, place) in groups {
        if let Some(basis) = bases.iter().find(|b| b.len() != rank) {
            let message =
                format!("basis {basis:?} of {what} has {} entries, others {rank}", basis.len());
            return refuse_at_span(place.clone(), message, "expected one entry per dimension");
        }
    }
    let names: Vec<String> = (0..rank).map(|d| format!("dim{d}")).collect();
    let ins: Vec<(String, DimBases)> =
        groups.iter().enumerate().map(|(i, (b, _))| (i.to_string(), (*b).clone())).collect();
    let place = groups.first().map_or(0..0, |(_, p)| p.clone());
    let built = LinearLayout::with_inferred_sizes(&ins, &names)
        .map_err(|e| Diagnostic::meaning_error(place.clone(), e))?;
    // Surjectivity over GF(2) is a rank computation, so this takes no enumeration of elements.
    match built.uncovered_witness() {
        None => Ok(built),
        Some(missing) => {
            let message = format!("the bases of {what} never reach the element {missing:?}");
            refuse_at_span(place, message, "expected bases that reach every element")
        }
    }
}

/// The same, and that every element is reached once, apart from zero bases.
fn check_bases_reach_once(
    groups: &[(&DimBases, Range<usize>)],
    rank: usize,
    what: &str,
) -> Result<()> {
    let built = check_bases_reach_all(groups, rank, what)?;
    let names: Vec<String> = built.out_dims().map(String::from).collect();
    let held = |(name, bases): (String, DimBases)| {
        (name, bases.into_iter().filter(|b| b.iter().any(|v| *v != 0)).collect())
    };
    let nonzero: Vec<(String, DimBases)> =
        built.bases_of_all_dims().into_iter().map(held).collect();
    let place = groups.first().map_or(0..0, |(_, p)| p.clone());
    let held = LinearLayout::with_inferred_sizes(&nonzero, &names)
        .map_err(|e| Diagnostic::meaning_error(place.clone(), e))?;
    match held.kernel_witness() {
        None => Ok(()),
        Some(_) => {
            let message = format!("the bases of {what} reach an element in several ways");
            refuse_at_span(place, message, "expected independent bases, and zeros")
        }
    }
}

/// Pieces of a layout of shared memory, distributed over several partitions.
pub(super) fn read_partitioned_shared(f: &AttributeDict) -> Result<TritonAttribute> {
    let name = "partitioned_shared";
    let keys = ["numPartitions", "numGroups", "partitionDim", "partitionLayout"];
    f.check_known_keys(name, &keys)?;
    for key in keys {
        f.required_field(name, key)?;
    }
    let (num_partitions, num_groups) = (f.integer_field(keys[0])?, f.integer_field(keys[1])?);
    check_powers_of_two(f, keys[0], &[num_partitions])?;
    check_powers_of_two(f, keys[1], &[num_groups])?;
    // A single partition is written as the plain layout.
    if num_partitions < 2 {
        let message = "one part of shared memory is not partitioned";
        return refuse_at_span(f.span_of_field(keys[0]), message, "expected 2 or more");
    }
    let layout = f.attribute_field(name, keys[3])?;
    let shared = matches!(
        layout,
        TritonAttribute::SwizzledShared(_)
            | TritonAttribute::AmdRotatingShared(_)
            | TritonAttribute::NvmmaShared(_)
            | TritonAttribute::PaddedShared(_)
            | TritonAttribute::SharedLinear { .. }
            | TritonAttribute::PartitionedShared(_)
    );
    if !shared {
        let message = "the pieces are in shared memory";
        return refuse_at_span(
            f.span_of_field(keys[3]),
            message,
            "expected a layout of shared memory",
        );
    }
    let dim = f.integer_field(keys[2])?;
    match usize::try_from(dim).ok().filter(|d| *d < layout.rank()) {
        Some(partition_dim) => Ok(TritonAttribute::PartitionedShared(PartitionedShared {
            num_partitions,
            num_groups,
            partition_dim,
            partition_layout: Box::new(layout.clone()),
        })),
        None => {
            let message = format!("the layout of the pieces has no dimension {dim}");
            refuse_at_span(
                f.span_of_field(keys[2]),
                message,
                &format!("expected a number below {}", layout.rank()),
            )
        }
    }
}

/// `<blockM = 128, blockN = 64>`: fields without braces.
pub(super) fn read_parameters(c: &mut TextCursor<'_>) -> Result<AttributeDict> {
    c.expect_char('<', "after the name of the attribute")?;
    let start = c.next_token_start();
    let mut entries = Vec::new();
    while !c.eat_char('>') {
        if !entries.is_empty() {
            c.expect_char(',', "between fields, or `>`")?;
        }
        let Some(key) = c.read_word() else {
            return Err(c.refuse_next_token("the name of a field"));
        };
        if entries.iter().any(|(k, _): &(Spanned<String>, _)| k.value == key.value)
            || entries.len() > 16
        {
            let message = format!("`{}` is given twice", shorten_name(key.value));
            return refuse_at_span(key.span, message, "already given");
        }
        c.expect_char('=', "after the name of a field")?;
        let value = read_parameter_value(c, matches!(key.value, "twoCTAs" | "fp4Padded"))?;
        let key = Spanned { value: key.value.to_string(), span: key.span };
        entries.push((key, value));
    }
    Ok(AttributeDict { entries, span: start..c.last_token_end() })
}

/// The value of such a field: a number without a type, a word, or a list.
fn read_parameter_value(c: &mut TextCursor<'_>, flag: bool) -> Result<Spanned<DictValue>> {
    let start = c.next_token_start();
    let value = match c.peek_char() {
        // Parameters of an attribute are printed without a type, unlike the integers of a
        // dictionary.
        Some(ch) if ch.is_ascii_digit() => {
            let number = c.read_integer("a number")?.value;
            // A flag may be written as a number.
            match number {
                0 | 1 if flag => DictValue::Bool(number == 1),
                _ => DictValue::Int(number),
            }
        }
        Some(ch) if ch.is_alphabetic() => match c.read_word().map(|w| w.value) {
            Some("true") => DictValue::Bool(true),
            Some("false") => DictValue::Bool(false),
            word => DictValue::Word(word.unwrap_or_default().to_string()),
        },
        _ => return super::value::read_dict_value(c, &super::NoAliases, 1),
    };
    Ok(Spanned { value, span: start..c.last_token_end() })
}

pub(super) fn read_tensor_memory(f: &AttributeDict) -> Result<TritonAttribute> {
    let keys = ["blockM", "blockN", "colStride", "CGALayout", "twoCTAs", "fp4Padded"];
    f.check_known_keys("tensor_memory_encoding", &keys)?;
    for key in &keys[..3] {
        f.required_field("tensor_memory_encoding", key)?;
    }
    let (block_m, block_n, col_stride) =
        (f.integer_field("blockM")?, f.integer_field("blockN")?, f.integer_field("colStride")?);
    if !matches!(block_m, 64 | 128) {
        let message = format!("a block of tensor memory has 64 or 128 rows, not {block_m}");
        return refuse_at_span(f.span_of_field("blockM"), message, "expected 64 or 128");
    }
    check_powers_of_two(f, "blockN", &[block_n])?;
    // Tensor memory has 512 columns (PTX ISA, "Tensor Memory").
    if block_n > 512 {
        let message = format!("a block of tensor memory has up to 512 columns, not {block_n}");
        return refuse_at_span(f.span_of_field("blockN"), message, "expected 512 or fewer");
    }
    if !matches!(col_stride, 1 | 2 | 4) {
        let message = format!("columns are 1, 2 or 4 apart, not {col_stride}");
        return refuse_at_span(f.span_of_field("colStride"), message, "expected 1, 2 or 4");
    }
    let (cga, two_ctas, fp4_padded) =
        (read_cga_bases(f, 2)?, f.boolean_field("twoCTAs")?, f.boolean_field("fp4Padded")?);
    // The pair of CTAs of `tcgen05` with `cta_group::2` divides the rows, so the lowest bit of the
    // block must.
    if two_ctas && cga.first().is_none_or(|b| *b != [1, 0]) {
        let message = "a pair of CTAs shares the rows of a tensor";
        return refuse_at_span(
            f.span_of_field("twoCTAs"),
            message,
            "expected CGALayout to begin with [1, 0]",
        );
    }
    if fp4_padded && col_stride != 1 {
        let message = "columns of padded 4-bit elements are 1 apart";
        return refuse_at_span(f.span_of_field("colStride"), message, "expected colStride = 1");
    }
    Ok(TritonAttribute::TensorMemory(TensorMemory {
        block_m,
        block_n,
        col_stride,
        cga,
        two_ctas,
        fp4_padded,
    }))
}

pub(super) fn read_tensor_memory_scales(f: &AttributeDict) -> Result<TritonAttribute> {
    f.check_known_keys("tensor_memory_scales_encoding", &["CGALayout", "blockRepOrder"])?;
    let k_then_mn = match f.get("blockRepOrder").map(|v| &v.value) {
        None => false,
        Some(DictValue::Word(word)) if word == "mnThenK" => false,
        Some(DictValue::Word(word)) if word == "kThenMn" => true,
        Some(_) => {
            let message = "blocks repeat along one dimension before the other";
            return refuse_at_span(
                f.span_of_field("blockRepOrder"),
                message,
                "expected mnThenK or kThenMn",
            );
        }
    };
    Ok(TritonAttribute::TensorMemoryScales { cga: read_cga_bases(f, 2)?, k_then_mn })
}
