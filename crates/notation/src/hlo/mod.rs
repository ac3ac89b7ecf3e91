//! HLO shardings: `{devices=[2,4]<=[8]}`, `{devices=[2,1]0,1}`, `{replicated}`, `{maximal device=0}`.
//!
//! ```text
//! text := "{" body [ "metadata" "=" "{" .. "}" ] "}" [ "shape" "=" list ]
//! body := "replicated" | "maximal" "device" "=" int | "manual" | "unknown" | "unreduced"
//!       | "devices" "=" "[" ints "]" ( "<=" "[" ints "]" [ "T" "(" ints ")" ] | int { "," int } ) [ last ] [ group ]
//! last := "last_tile_dim_replicate" | "last_tile_dims" "=" "{" kind { "," kind } "}"
//! kind := "replicated" | "manual" | "unreduced"
//! group := ( "shard_as" | "shard_like" ) int
//! ```
//!
//! `[2,4]` is into how many parts each dimension is divided; with `last_tile_dim_replicate` its last number counts copies. The parts in row-major
//! order lie on the devices of the list, or on those of an iota: `<=[4,2]T(1,0)` numbers `[4,2]` row-major and transposes it.
//! Devices are numbers on the axis `pid`. `{replicated}` is the whole tensor on every device, whose number the text does not
//! say: its layout names no device. What is manual, unknown or unreduced says of no element where it is, and has no layout.
//! Metadata is read over, and not printed, as XLA does it. The text is of a rank, and not of a shape; `shape=[..]` is a field of ours.
//!
//! **Law**: `parse(print(x)) == x`.

mod devices;

use crate::blocked::Digits;
use crate::convert::{Refusal, no};
use crate::cursor::Cursor;
use crate::notation::NotationRow;
use crate::sharding::prove_sharding;
use crate::sharding::{Factor, Mesh, Sharding, ShardingText, layout_of, shape_field, shape_text};
use crate::{Diagnostic, Notation, Parsed, WrittenLayout};
use devices::{Devices, canonical, iota, listed_twice};
use std::fmt::Write;
use zellige_layout::int::product;
use zellige_layout::{Layout, TileLayout};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "hlo",
    doc: "HLO shardings",
    example: "{devices=[2,4]<=[4,2]T(1,0)} shape=[8, 16]",
    recognises,
    parse: |text, _| parse(text).map(|x| Parsed::of_written(Notation::HLO, x)),
    print: Parsed::written_text,
    express: |layout, shape, _| express(layout, shape),
    needs_dtype: false,
};

/// The most devices of a list or an iota.
const MAX_DEVICES: i64 = 1 << 20;

/// An HLO sharding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HloSharding {
    kind: Kind,
    /// `shard_as` or `shard_like`, and the number of the group.
    group: Option<(&'static str, i64)>,
    shape: Option<Vec<i64>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Replicated,
    Maximal(i64),
    /// `manual`, `unknown` or `unreduced`.
    Nowhere(&'static str),
    Tiled {
        /// Parts of every dimension; the last numbers are those of `last`.
        parts: Vec<i64>,
        devices: Devices,
        /// What the devices along the last numbers hold; one where all hold copies.
        last: Vec<&'static str>,
    },
}

/// Shardings that say of no element where it is, and why.
const NOWHERE: [(&str, &str); 3] = [
    (
        "manual",
        "a manual sharding says nothing of where elements are: the program itself divides it",
    ),
    ("unknown", "an unknown sharding says nothing of where elements are: it is not decided yet"),
    ("unreduced", "an unreduced sharding holds sums that are still to be added, not elements"),
];

fn recognises(text: &str) -> bool {
    let mut c = Cursor::new(text);
    if !c.eat('{') {
        return false;
    }
    let words = ["devices", "replicated", "maximal", "manual", "unknown", "unreduced"];
    match c.word() {
        Some(w) => words.contains(&w.value),
        // A tuple of shardings.
        None => c.eat('{') && c.word().is_some_and(|w| words.contains(&w.value)),
    }
}

/// Reads a sharding.
pub fn parse(text: &str) -> Result<HloSharding> {
    let mut c = Cursor::new(text);
    c.expect('{', "at the beginning of a sharding")?;
    let Some(word) = c.word() else {
        if c.peek() == Some('{') {
            let (span, _) = c.next_token();
            let message = "a tuple of shardings is one for every element of a tuple";
            return Err(Diagnostic::syntax(span, message, "one sharding of one tensor"));
        }
        return Err(c.expected("devices=[..], replicated or maximal"));
    };
    let kind = match word.value {
        "replicated" => Kind::Replicated,
        "maximal" => {
            if !c.eat_word("device") {
                return Err(c.expected("`device=` after `maximal`"));
            }
            c.expect('=', "after `device`")?;
            let device = c.int("the number of a device")?;
            if device.value < 0 {
                return Err(Diagnostic::syntax(device.span, "a negative device", "0 or more"));
            }
            Kind::Maximal(device.value)
        }
        "devices" => tiled(&mut c)?,
        other => {
            if let Some((name, _)) = NOWHERE.iter().find(|(name, _)| *name == other) {
                return finish(&mut c, text, Kind::Nowhere(name));
            }
            let shown: String = other.chars().take(40).collect();
            let message = format!("unknown sharding `{shown}`");
            return Err(Diagnostic::syntax(word.span, message, "unknown").help(
                "known: devices=[..], replicated, maximal device=.., manual, unknown, unreduced",
            ));
        }
    };
    finish(&mut c, text, kind)
}

/// What follows the kind of a sharding.
fn finish(c: &mut Cursor<'_>, text: &str, kind: Kind) -> Result<HloSharding> {
    let mut group = None;
    for word in ["shard_as", "shard_like"] {
        if group.is_none() && c.eat_word(word) {
            group = Some((word, c.int("the number of a group")?.value));
        }
    }
    metadata(c, text)?;
    c.expect('}', "at the end of the sharding")?;
    let at = c.at();
    let shape = shape_field(c)?;
    c.finish("the sharding")?;
    let found = HloSharding { kind, group, shape };
    let placed = !matches!(found.kind, Kind::Nowhere(_));
    if let Some(shape) = found.shape.as_ref().filter(|_| placed) {
        let layout = found.sharding(shape).and_then(|s| Ok(s.layout(shape)?));
        layout.map_err(|d| Diagnostic { span: at..c.here(), ..d })?;
    }
    Ok(found)
}

/// `metadata={op_name="a"}`: where the sharding comes from.
fn metadata(c: &mut Cursor<'_>, text: &str) -> Result<()> {
    if !c.eat_word("metadata") {
        return Ok(());
    }
    c.expect('=', "after `metadata`")?;
    let start = c.at();
    c.expect('{', "before the metadata")?;
    let (mut depth, mut quoted) = (1, false);
    for (k, byte) in text.bytes().enumerate().skip(c.here()) {
        match byte {
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            c.skip_to(k + 1);
            return Ok(());
        }
    }
    Err(Diagnostic::syntax(start..text.len(), "metadata without an end", "expected `}`"))
}

fn tiled(c: &mut Cursor<'_>) -> Result<Kind> {
    c.expect('=', "after `devices`")?;
    let parts = c.int_list("numbers of parts")?;
    if parts.value.is_empty() || parts.value.iter().any(|p| *p < 1) {
        let message = "each dimension is divided into 1 part or more";
        return Err(Diagnostic::syntax(parts.span, message, "not into so many"));
    }
    let count = product(parts.value.iter().copied(), "the number of parts")
        .map_err(|e| Diagnostic::meaning(parts.span.clone(), e))?;
    if count > MAX_DEVICES {
        let message = format!("{count} parts, and at most {MAX_DEVICES} are read");
        return Err(Diagnostic::syntax(parts.span, message, "too many"));
    }
    let start = c.at();
    let devices = if c.eat('<') {
        c.expect('=', "in `<=`")?;
        let dims = c.int_list("extents")?;
        let found = product(dims.value.iter().copied(), "the number of devices");
        if dims.value.iter().any(|d| *d < 1) || found != Ok(count) {
            let message = format!("{count} parts on the devices of {:?}", dims.value);
            return Err(Diagnostic::syntax(dims.span, message, "as many devices as parts"));
        }
        let rank = dims.value.len();
        let mut perm: Vec<usize> = (0..rank).collect();
        if rank > 1 && !c.clone().eat_word("T") {
            return Err(c.expected("`T(..)`, the order of the dimensions of devices"));
        }
        if rank > 1 && c.eat_word("T") {
            let order = c.int_list("dimensions")?;
            perm = order.value.iter().filter_map(|d| usize::try_from(*d).ok()).collect();
            let mut sorted = perm.clone();
            sorted.sort_unstable();
            if order.value.len() != rank || sorted.iter().copied().ne(0..rank) {
                let message = format!("T{:?} is no order of {rank} dimensions", order.value);
                return Err(Diagnostic::syntax(order.span, message, "each dimension once"));
            }
        }
        canonical(&dims.value, &perm)
    } else {
        let mut list: Vec<i64> = vec![c.int("`<=[..]` or the number of a device")?.value];
        while c.eat(',') {
            list.push(c.int("the number of a device")?.value);
        }
        let span = start..c.here();
        if i64::try_from(list.len()) != Ok(count) {
            let message = format!("{count} parts on {} devices", list.len());
            return Err(Diagnostic::syntax(span, message, "as many devices as parts").id("Z004"));
        }
        let negative = list.iter().copied().find(|d| *d < 0);
        if let Some(device) = listed_twice(&list).or(negative) {
            let message = format!("device {device} is listed twice, or negative");
            return Err(Diagnostic::syntax(span, message, "each device once"));
        }
        Devices::List(list)
    };
    if let (Devices::List(list), 1) = (&devices, count) {
        let message = "one part on one device is not divided";
        return Err(Diagnostic::syntax(start..c.here(), message, "expected several devices")
            .help(format!("write {{maximal device={}}}, or {{devices=[1]<=[1]}}", list[0])));
    }
    let mut parts = parts.value;
    let mut last = Vec::new();
    if let Some(word) = c.clone().word() {
        match word.value {
            "last_tile_dim_replicate" => {
                let _ = c.word();
                last.push("replicated");
            }
            "last_tile_dims" => {
                let _ = c.word();
                last = last_dims(c)?;
            }
            "shard_as" | "shard_like" | "metadata" => {}
            other => {
                let shown: String = other.chars().take(40).collect();
                let message = format!("`{shown}` of a sharding is not supported");
                return Err(Diagnostic::syntax(word.span, message, "unknown")
                    .help("known: last_tile_dim_replicate, last_tile_dims={replicated}, shard_as, shard_like, metadata"));
            }
        }
        if last.len() > parts.len() {
            let message = format!("{} kinds of {} numbers of parts", last.len(), parts.len());
            return Err(Diagnostic::syntax(word.span, message, "more than there are"));
        }
    }
    if last.iter().all(|kind| *kind == "replicated") {
        // Several dimensions of copies are one, and one copy is none.
        let copies: i64 = parts.split_off(parts.len() - last.len()).into_iter().product();
        last.clear();
        if copies > 1 {
            parts.push(copies);
            last.push("replicated");
        }
    }
    Ok(Kind::Tiled { parts, devices, last })
}

/// `={replicated, manual}`.
fn last_dims(c: &mut Cursor<'_>) -> Result<Vec<&'static str>> {
    c.expect('=', "after `last_tile_dims`")?;
    c.expect('{', "before the kinds of the last dimensions")?;
    let mut kinds = Vec::new();
    while !c.eat('}') {
        let Some(kind) = c.word() else { return Err(c.expected("`replicated`")) };
        let known = ["replicated", "manual", "unreduced"];
        let Some(found) = known.into_iter().find(|k| *k == kind.value) else {
            let shown: String = kind.value.chars().take(40).collect();
            let message = format!("`{shown}` is no kind of devices");
            let label = "expected replicated, manual or unreduced";
            return Err(Diagnostic::syntax(kind.span, message, label));
        };
        kinds.push(found);
        if c.peek() != Some('}') {
            c.expect(',', "between kinds")?;
        }
    }
    Ok(kinds)
}

impl HloSharding {
    fn of(kind: Kind) -> HloSharding {
        HloSharding { kind, group: None, shape: None }
    }
}

impl ShardingText for HloSharding {
    fn sharding(&self, shape: &[i64]) -> Result<Sharding> {
        let mesh = |size: i64| {
            Mesh::new(vec![("pid".into(), size)]).map_err(|e| Diagnostic::syntax(0..0, e, "here"))
        };
        let (parts, devices, last) = match &self.kind {
            Kind::Nowhere(word) => {
                let why = NOWHERE.iter().find(|(name, _)| name == word).map_or("", |(_, why)| *why);
                return Err(Diagnostic::syntax(0..0, why, "no place for every element").id("Z008"));
            }
            Kind::Replicated => return Sharding::even(Mesh::default(), &[], shape),
            Kind::Maximal(device) => {
                let mut found = Sharding::even(mesh(device.saturating_add(1))?, &[], shape)?;
                found.first = vec![*device];
                found.copies = false;
                return Ok(found);
            }
            Kind::Tiled { parts, devices, last } => (parts, devices, last),
        };
        if let Some(kind) = last.iter().find(|kind| **kind != "replicated") {
            let message = format!("`{kind}` devices have no place for every element");
            return Err(Diagnostic::syntax(0..0, message, "not only copies").id("Z008"));
        }
        let rank = parts.len() - last.len();
        if rank != shape.len() {
            let message = format!(
                "the sharding is of {rank} dimensions, and the shape {shape:?} has {}",
                shape.len()
            );
            return Err(Diagnostic::syntax(0..0, message, "of another rank").id("Z005"));
        }
        let list = devices.list()?;
        let Some(digits) = Digits::of_order(parts, &list) else {
            let message = "no layout of the algebra: the devices follow no strides";
            return Err(Diagnostic::syntax(
                0..0,
                message,
                "each dimension would need its own list",
            )
            .id("Z008"));
        };
        let last = list.iter().max().copied().unwrap_or(0);
        let factor =
            |d: &crate::blocked::Digit| Factor { axis: 0, size: d.extent, stride: d.stride };
        let factors: Vec<Vec<Factor>> =
            digits.dims.iter().map(|own| own.iter().map(factor).collect()).collect();
        let mut found = Sharding::even(mesh(last.saturating_add(1))?, &factors[..rank], shape)?;
        found.first = vec![digits.base];
        let copies: Vec<Factor> = factors[rank..].concat();
        found.replicas = Some(copies);
        Ok(found)
    }

    fn own_shape(&self) -> Option<&[i64]> {
        self.shape.as_deref()
    }
}

impl WrittenLayout for HloSharding {
    fn text(&self) -> String {
        let mut out = String::from("{");
        match &self.kind {
            Kind::Replicated => out += "replicated",
            Kind::Maximal(device) => {
                let _ = write!(out, "maximal device={device}");
            }
            Kind::Nowhere(word) => out += word,
            Kind::Tiled { parts, devices, last } => {
                let _ = write!(out, "devices=[{}]", joined(parts));
                match devices {
                    Devices::List(list) => out += &joined(list),
                    Devices::Iota(dims, perm) => {
                        let _ = write!(out, "<=[{}]", joined(dims));
                        if !perm.is_sorted() {
                            let _ = write!(out, "T({})", joined(perm));
                        }
                    }
                }
                match last.as_slice() {
                    [] => {}
                    ["replicated"] => out += " last_tile_dim_replicate",
                    kinds => {
                        let _ = write!(out, " last_tile_dims={{{}}}", kinds.join(", "));
                    }
                }
            }
        }
        if let Some((word, group)) = self.group {
            let _ = write!(out, " {word} {group}");
        }
        out.push('}');
        out + &shape_text(self.shape.as_ref())
    }

    fn layout(&self, shape: Option<&[i64]>) -> Result<Layout> {
        layout_of(self, shape)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.shape.clone()
    }
}

fn joined<T: ToString>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The text of a sharding over the numbered devices of its mesh.
pub(crate) fn write(sharding: &Sharding) -> Result<String, Refusal> {
    let devices = sharding.on_devices()?;
    let whole = devices.leading_factors()?.iter().flatten().all(|f| f.size == 1);
    let found = match (whole, devices.copies) {
        (true, false) => HloSharding::of(Kind::Maximal(devices.first[0])),
        (true, true) => HloSharding::of(Kind::Replicated),
        (false, _) => divided(&devices)?,
    };
    Ok(found.text())
}

/// A tensor in parts, on numbered devices.
fn divided(devices: &Sharding) -> Result<HloSharding, Refusal> {
    let factors = devices.leading_factors()?;
    let first = devices.first.first().copied().unwrap_or(0);
    let mut parts: Vec<i64> =
        factors.iter().map(|own| own.iter().map(|f| f.size).product()).collect();
    // Every factor in the order of the parts, then those that hold copies.
    let mut order: Vec<(i64, i64)> = factors.iter().flatten().map(|f| (f.size, f.stride)).collect();
    let free: Vec<(i64, i64)> = match &devices.replicas {
        Some(all) => all.iter().map(|f| (f.size, f.stride)).collect(),
        None => devices.unused(0),
    };
    let copies: i64 = free.iter().map(|(size, _)| size).product();
    order.extend(free);
    if copies > 1 {
        parts.push(copies);
    }
    let devices = match iota(&order) {
        Some((dims, perm)) if first == 0 => Devices::Iota(dims, perm),
        _ => {
            let (sizes, strides): (Vec<i64>, Vec<i64>) = order.into_iter().unzip();
            if sizes.iter().product::<i64>() > MAX_DEVICES {
                return no(format!("a list of more than {MAX_DEVICES} devices"), None);
            }
            let list = Layout::from(TileLayout::strided(&sizes, &strides, first)?);
            let list = list.offsets(zellige_layout::Axis::M)?;
            if let Some(device) = listed_twice(&list) {
                let reason = format!(
                    "device {device} holds several parts of the tensor, and a list names each device once"
                );
                return no(reason, None);
            }
            Devices::List(list)
        }
    };
    let last = if copies > 1 { vec!["replicated"] } else { Vec::new() };
    Ok(HloSharding::of(Kind::Tiled { parts, devices, last }))
}

/// The text of a layout, or why there is none.
pub fn express(layout: &Layout, shape: &[i64]) -> Result<String, Refusal> {
    let mut sharding = Sharding::of(layout, shape)?;
    let mesh = sharding.mesh.axes();
    if let [(name, _), ..] = mesh
        && (mesh.len() > 1 || name != "pid")
    {
        let reason = format!(
            "HLO numbers devices, as on the axis `pid`; the layout is on the mesh axis `{name}`, and does not say how its devices are numbered"
        );
        return no(reason, None);
    }
    let named = !mesh.is_empty();
    // The layout says which devices have copies.
    let copies = layout
        .tile()
        .replica()
        .iter()
        .filter(|it| it.extent > 1 && it.axis.kind() == zellige_layout::AxisKind::Device);
    let copies: Vec<Factor> =
        copies.map(|it| Factor { axis: 0, size: it.extent, stride: it.stride }).collect();
    let whole = sharding.leading_factors()?.iter().flatten().all(|f| f.size == 1);
    let found = if whole && copies.is_empty() {
        let first = sharding.first.first().copied().unwrap_or(0);
        HloSharding::of(if named { Kind::Maximal(first) } else { Kind::Replicated })
    } else {
        sharding.replicas = Some(copies);
        divided(&sharding)?
    };
    match found.layout(Some(shape)) {
        Ok(lowered) => prove_sharding(&lowered, layout, &found.text())?,
        Err(reason) => return no(reason.message, None),
    }
    Ok(found.text())
}
