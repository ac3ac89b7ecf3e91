//! Reading the attributes of shared memory and of tensor memory.

use super::attribute::{
    Attribute, Bases, NvmmaShared, PaddedShared, PartitionedShared, SwizzledShared, TensorMemory,
};
use super::parse::{cga, is_power, order, powers, refuse, same_rank, unit_bases};
use super::value::{Aliases, Dict, Value, dict, shorten};
use crate::Diagnostic;
use crate::cursor::{Cursor, Spanned};
use std::ops::Range;
use zellige_layout::LinearLayout;

type Result<T> = std::result::Result<T, Diagnostic>;

pub(super) fn swizzled_shared(name: &str, f: &Dict) -> Result<SwizzledShared> {
    f.known(name, &["vec", "perPhase", "maxPhase", "order", "CGALayout"])?;
    // Of a rotating swizzle Triton does not look at the order.
    let order = if name == "amd_rotating_shared" { dims(f)? } else { order(f, "order")? };
    let cga = cga(f, order.len())?;
    Ok(SwizzledShared {
        vec: f.int("vec")?,
        per_phase: f.int("perPhase")?,
        max_phase: f.int("maxPhase")?,
        order,
        cga,
    })
}

/// A list of dimensions, maybe not each once.
fn dims(f: &Dict) -> Result<Vec<usize>> {
    let list = f.ints("order")?;
    if list.len() > 64 {
        let message = format!("`order` has {} entries", list.len());
        return refuse(f.place("order"), message, "a tensor has 64 dimensions or fewer");
    }
    Ok(list.iter().filter_map(|d| usize::try_from(*d).ok()).collect())
}

pub(super) fn nvmma_shared(f: &Dict) -> Result<Attribute> {
    f.known(
        "nvmma_shared",
        &["swizzlingByteWidth", "transposed", "elementBitWidth", "fp4Padded", "CGALayout", "rank"],
    )?;
    f.need("nvmma_shared", "swizzlingByteWidth")?;
    f.need("nvmma_shared", "elementBitWidth")?;
    let swizzling_byte_width = f.int("swizzlingByteWidth")?;
    if !matches!(swizzling_byte_width, 0 | 32 | 64 | 128) {
        let message = format!("no swizzle is {swizzling_byte_width} bytes wide");
        return refuse(f.place("swizzlingByteWidth"), message, "expected 0, 32, 64 or 128");
    }
    let element_bit_width = f.int("elementBitWidth")?;
    if element_bit_width == 0 {
        let message = "no element has 0 bits";
        return refuse(f.place("elementBitWidth"), message, "expected 8, 16, 32 or 64");
    }
    let bases = f.bases("CGALayout")?;
    let given = f.get("rank").map(|_| f.int("rank")).transpose()?;
    let given = given.and_then(|r| usize::try_from(r).ok());
    let rank = given.or(bases.first().map(Vec::len)).unwrap_or(2);
    if rank > 64 {
        let message = format!("a tensor has 64 dimensions or fewer, not {rank}");
        return refuse(f.place("rank"), message, "expected 64 or fewer");
    }
    Ok(Attribute::NvmmaShared(NvmmaShared {
        swizzling_byte_width,
        transposed: f.flag("transposed")?,
        element_bit_width,
        fp4_padded: f.flag("fp4Padded")?,
        cga: cga(f, rank)?,
        rank,
    }))
}

/// `<[32:+4, ..] {order = .., shape = ..}>` or `<[..] {offset = .., block = ..}>`.
pub(super) fn padded_shared(
    c: &mut Cursor<'_>,
    aliases: &dyn Aliases,
    depth: usize,
) -> Result<Attribute> {
    c.expect('<', "after the name of the attribute")?;
    let start = c.at();
    c.expect('[', "before the padding")?;
    let mut padding: Vec<(i64, i64)> = Vec::new();
    while !c.eat(']') {
        if !padding.is_empty() {
            c.expect(',', "between pairs, or `]`")?;
        }
        let at = c.at();
        let interval = c.int("an interval")?;
        c.expect(':', "after the interval")?;
        c.expect('+', "before the padding")?;
        let pad = c.int("a padding")?;
        for part in [&interval, &pad] {
            if !is_power(part.value) || part.value >= 1 << 31 {
                let message = format!("{} is not a power of two", part.value);
                return refuse(part.span.clone(), message, "expected a power of two");
            }
        }
        if padding.iter().any(|(i, _)| *i == interval.value) {
            let message = format!("the interval {} is given twice", interval.value);
            return refuse(at..c.here(), message, "already given");
        }
        padding.push((interval.value, pad.value));
    }
    if padding.is_empty() {
        let message = "no padding";
        return refuse(start..c.here(), message, "expected [interval:+padding], as in [32:+4]");
    }
    let f = dict(c, aliases, depth)?;
    c.expect('>', "at the end of the attribute")?;
    let padded = if f.get("offset").is_none() && f.get("block").is_none() {
        f.known("padded_shared", &["order", "shape"])?;
        let (order, shape) = (order(&f, "order")?, f.ints("shape")?);
        same_rank(&f, &[("order", order.len()), ("shape", shape.len())])?;
        powers(&f, "shape", &shape)?;
        if shape.is_empty() {
            let message = "padded memory has a dimension or more";
            return refuse(f.span.clone(), message, "expected `order = [..], shape = [..]`");
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
            f.need("padded_shared", key)?;
        }
        let (offset, block) = (f.bases("offset")?, f.bases("block")?);
        let rank = rank_of(&f, &offset, &block)?;
        let groups = [(&offset, f.place("offset")), (&block, f.place("block"))];
        unit_bases(&groups, rank, "padded_shared")?;
        if offset.iter().any(|b| b.iter().all(|v| *v == 0)) {
            let message = "an offset in padded memory holds an element of its own";
            return refuse(f.place("offset"), message, "expected no basis of zeros");
        }
        PaddedShared { padding, offset, block, rank }
    };
    Ok(Attribute::PaddedShared(padded))
}

/// `<{offset = .., block = ..}, alignment = 16>`.
pub(super) fn shared_linear(
    c: &mut Cursor<'_>,
    aliases: &dyn Aliases,
    depth: usize,
) -> Result<Attribute> {
    c.expect('<', "after the name of the attribute")?;
    let f = dict(c, aliases, depth)?;
    f.known("shared_linear", &["offset", "block"])?;
    f.need("shared_linear", "offset")?;
    c.expect(',', "before `alignment`")?;
    if !c.eat_word("alignment") {
        return Err(c.expected("`alignment = n`"));
    }
    c.expect('=', "after `alignment`")?;
    let alignment = c.int("an alignment in bytes")?;
    if !is_power(alignment.value) || alignment.value >= 1 << 31 {
        let message = format!("the alignment {} is not a power of two", alignment.value);
        return refuse(alignment.span, message, "expected a power of two");
    }
    c.expect('>', "at the end of the attribute")?;
    let (offset, block) = (f.bases("offset")?, f.bases("block")?);
    let rank = rank_of(&f, &offset, &block)?;
    let groups = [(&offset, f.place("offset")), (&block, f.place("block"))];
    onto_once(&groups, rank, "shared_linear")?;
    Ok(Attribute::SharedLinear { offset, block, alignment: alignment.value, rank })
}

/// How many dimensions bases are along.
fn rank_of(f: &Dict, offset: &Bases, block: &Bases) -> Result<usize> {
    match offset.iter().chain(block).next() {
        Some(basis) => Ok(basis.len()),
        None => {
            let message = "without a basis nothing says how many dimensions there are";
            refuse(f.span.clone(), message, "expected a basis")
        }
    }
}

/// Bases that reach every element of the least shape that holds them.
pub(super) fn onto(
    groups: &[(&Bases, Range<usize>)],
    rank: usize,
    what: &str,
) -> Result<LinearLayout> {
    for (bases, place) in groups {
        if let Some(basis) = bases.iter().find(|b| b.len() != rank) {
            let message =
                format!("basis {basis:?} of {what} has {} entries, others {rank}", basis.len());
            return refuse(place.clone(), message, "expected one entry per dimension");
        }
    }
    let names: Vec<String> = (0..rank).map(|d| format!("dim{d}")).collect();
    let ins: Vec<(String, Bases)> =
        groups.iter().enumerate().map(|(i, (b, _))| (i.to_string(), (*b).clone())).collect();
    let place = groups.first().map_or(0..0, |(_, p)| p.clone());
    let built = LinearLayout::with_inferred_sizes(&ins, &names)
        .map_err(|e| Diagnostic::meaning(place.clone(), e))?;
    match built.uncovered_witness() {
        None => Ok(built),
        Some(missing) => {
            let message = format!("the bases of {what} never reach the element {missing:?}");
            refuse(place, message, "expected bases that reach every element")
        }
    }
}

/// The same, and every element in one way but for zeros.
fn onto_once(groups: &[(&Bases, Range<usize>)], rank: usize, what: &str) -> Result<()> {
    let built = onto(groups, rank, what)?;
    let names: Vec<String> = built.out_dims().map(String::from).collect();
    let held = |(name, bases): (String, Bases)| {
        (name, bases.into_iter().filter(|b| b.iter().any(|v| *v != 0)).collect())
    };
    let nonzero: Vec<(String, Bases)> = built.all_bases().into_iter().map(held).collect();
    let place = groups.first().map_or(0..0, |(_, p)| p.clone());
    let held = LinearLayout::with_inferred_sizes(&nonzero, &names)
        .map_err(|e| Diagnostic::meaning(place.clone(), e))?;
    match held.kernel_witness() {
        None => Ok(()),
        Some(_) => {
            let message = format!("the bases of {what} reach an element in several ways");
            refuse(place, message, "expected independent bases, and zeros")
        }
    }
}

/// Pieces of a layout of shared memory, dealt out to several parts of it.
pub(super) fn partitioned_shared(f: &Dict) -> Result<Attribute> {
    let name = "partitioned_shared";
    let keys = ["numPartitions", "numGroups", "partitionDim", "partitionLayout"];
    f.known(name, &keys)?;
    for key in keys {
        f.need(name, key)?;
    }
    let (num_partitions, num_groups) = (f.int(keys[0])?, f.int(keys[1])?);
    powers(f, keys[0], &[num_partitions])?;
    powers(f, keys[1], &[num_groups])?;
    if num_partitions < 2 {
        let message = "one part of shared memory is not partitioned";
        return refuse(f.place(keys[0]), message, "expected 2 or more");
    }
    let layout = f.attribute(name, keys[3])?;
    let shared = matches!(
        layout,
        Attribute::SwizzledShared(_)
            | Attribute::AmdRotatingShared(_)
            | Attribute::NvmmaShared(_)
            | Attribute::PaddedShared(_)
            | Attribute::SharedLinear { .. }
            | Attribute::PartitionedShared(_)
    );
    if !shared {
        let message = "the pieces are in shared memory";
        return refuse(f.place(keys[3]), message, "expected a layout of shared memory");
    }
    let dim = f.int(keys[2])?;
    match usize::try_from(dim).ok().filter(|d| *d < layout.rank()) {
        Some(partition_dim) => Ok(Attribute::PartitionedShared(PartitionedShared {
            num_partitions,
            num_groups,
            partition_dim,
            partition_layout: Box::new(layout.clone()),
        })),
        None => {
            let message = format!("the layout of the pieces has no dimension {dim}");
            refuse(f.place(keys[2]), message, &format!("expected a number below {}", layout.rank()))
        }
    }
}

/// `<blockM = 128, blockN = 64>`: fields without braces.
pub(super) fn parameters(c: &mut Cursor<'_>) -> Result<Dict> {
    c.expect('<', "after the name of the attribute")?;
    let start = c.at();
    let mut entries = Vec::new();
    while !c.eat('>') {
        if !entries.is_empty() {
            c.expect(',', "between fields, or `>`")?;
        }
        let Some(key) = c.word() else { return Err(c.expected("the name of a field")) };
        if entries.iter().any(|(k, _): &(Spanned<String>, _)| k.value == key.value)
            || entries.len() > 16
        {
            let message = format!("`{}` is given twice", shorten(key.value));
            return refuse(key.span, message, "already given");
        }
        c.expect('=', "after the name of a field")?;
        let value = parameter(c, matches!(key.value, "twoCTAs" | "fp4Padded"))?;
        let key = Spanned { value: key.value.to_string(), span: key.span };
        entries.push((key, value));
    }
    Ok(Dict { entries, span: start..c.here() })
}

/// The value of such a field: a number without a type, a word, or a list.
fn parameter(c: &mut Cursor<'_>, flag: bool) -> Result<Spanned<Value>> {
    let start = c.at();
    let value = match c.peek() {
        Some(ch) if ch.is_ascii_digit() => {
            let number = c.int("a number")?.value;
            // A flag may be written as a number.
            match number {
                0 | 1 if flag => Value::Bool(number == 1),
                _ => Value::Int(number),
            }
        }
        Some(ch) if ch.is_alphabetic() => match c.word().map(|w| w.value) {
            Some("true") => Value::Bool(true),
            Some("false") => Value::Bool(false),
            word => Value::Word(word.unwrap_or_default().to_string()),
        },
        _ => return super::value::value(c, &super::NoAliases, 1),
    };
    Ok(Spanned { value, span: start..c.here() })
}

pub(super) fn tensor_memory(f: &Dict) -> Result<Attribute> {
    let keys = ["blockM", "blockN", "colStride", "CGALayout", "twoCTAs", "fp4Padded"];
    f.known("tensor_memory_encoding", &keys)?;
    for key in &keys[..3] {
        f.need("tensor_memory_encoding", key)?;
    }
    let (block_m, block_n, col_stride) = (f.int("blockM")?, f.int("blockN")?, f.int("colStride")?);
    if !matches!(block_m, 64 | 128) {
        let message = format!("a block of tensor memory has 64 or 128 rows, not {block_m}");
        return refuse(f.place("blockM"), message, "expected 64 or 128");
    }
    powers(f, "blockN", &[block_n])?;
    if block_n > 512 {
        let message = format!("a block of tensor memory has up to 512 columns, not {block_n}");
        return refuse(f.place("blockN"), message, "expected 512 or fewer");
    }
    if !matches!(col_stride, 1 | 2 | 4) {
        let message = format!("columns are 1, 2 or 4 apart, not {col_stride}");
        return refuse(f.place("colStride"), message, "expected 1, 2 or 4");
    }
    let (cga, two_ctas, fp4_padded) = (cga(f, 2)?, f.flag("twoCTAs")?, f.flag("fp4Padded")?);
    if two_ctas && cga.first().is_none_or(|b| *b != [1, 0]) {
        let message = "a pair of CTAs shares the rows of a tensor";
        return refuse(f.place("twoCTAs"), message, "expected CGALayout to begin with [1, 0]");
    }
    if fp4_padded && col_stride != 1 {
        let message = "columns of padded 4-bit elements are 1 apart";
        return refuse(f.place("colStride"), message, "expected colStride = 1");
    }
    Ok(Attribute::TensorMemory(TensorMemory {
        block_m,
        block_n,
        col_stride,
        cga,
        two_ctas,
        fp4_padded,
    }))
}

pub(super) fn tensor_memory_scales(f: &Dict) -> Result<Attribute> {
    f.known("tensor_memory_scales_encoding", &["CGALayout", "blockRepOrder"])?;
    let k_then_mn = match f.get("blockRepOrder").map(|v| &v.value) {
        None => false,
        Some(Value::Word(word)) if word == "mnThenK" => false,
        Some(Value::Word(word)) if word == "kThenMn" => true,
        Some(_) => {
            let message = "blocks repeat along one dimension before the other";
            return refuse(f.place("blockRepOrder"), message, "expected mnThenK or kThenMn");
        }
    };
    Ok(Attribute::TensorMemoryScales { cga: cga(f, 2)?, k_then_mn })
}
