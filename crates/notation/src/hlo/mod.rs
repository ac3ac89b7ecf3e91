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
//! `[2,4]` are the numbers of parts of each dimension; with `last_tile_dim_replicate` the last number
//! counts copies. The parts in row-major order are assigned to the devices of the list, or to those of an
//! iota: `<=[4,2]T(1,0)` numbers `[4,2]` row-major and transposes it. Devices are numbers on the axis
//! `pid`. `{replicated}` is the whole tensor on every device; the text does not state their number, so the
//! layout names no device. Manual, unknown and unreduced shardings determine the place of no element, and
//! have no layout. Metadata is skipped and not printed, as in XLA. The text is of a rank, and not of a
//! shape; `shape=[..]` is a field of ours.
//!
//! **Law**: `parse(print(x)) == x`.

mod devices;

use crate::blocked::BlockedDigits;
use crate::convert::{ConversionRefusal, not_expressible};
use crate::cursor::TextCursor;
use crate::notation::NotationRow;
use crate::sharding::prove_sharding;
use crate::sharding::{
    MeshAxes, MeshFactor, MeshSharding, ShardingText, layout_of_sharding_text, print_shape_field,
    read_shape_field,
};
use crate::{Diagnostic, Notation, ParsedText, WrittenLayout};
use devices::{DeviceOrder, canonical_iota, factors_as_iota, find_repeated_device};
use std::fmt::Write;
use zellige_layout::int::checked_product;
use zellige_layout::{Layout, TileLayout};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "hlo",
    doc: "HLO shardings",
    example: "{devices=[2,4]<=[4,2]T(1,0)} shape=[8, 16]",
    recognises: recognises_hlo,
    parse: |text, _| parse(text).map(|x| ParsedText::from_written(Notation::HLO, x)),
    print: ParsedText::written_notation_text,
    express: |layout, shape, _| express_as_hlo(layout, shape),
    needs_dtype: false,
};

/// The most devices of a list or an iota.
// Larger than any machine; a text of a few bytes could otherwise ask for a list of any length.
const MAX_DEVICES: i64 = 1 << 20;

/// An HLO sharding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HloSharding {
    kind: HloShardingKind,
    /// `shard_as` or `shard_like`, and the number of the group.
    group: Option<(&'static str, i64)>,
    shape: Option<Vec<i64>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HloShardingKind {
    Replicated,
    Maximal(i64),
    /// `manual`, `unknown` or `unreduced`.
    Nowhere(&'static str),
    Tiled {
        /// Parts of every dimension; the last numbers are those of `last`.
        parts: Vec<i64>,
        devices: DeviceOrder,
        /// The kinds of the last numbers of parts; one entry if all of them are copies.
        last: Vec<&'static str>,
    },
}

/// Shardings that determine the place of no element, with the reason.
const NOWHERE: [(&str, &str); 3] = [
    (
        "manual",
        "a manual sharding does not determine where elements are: the program itself divides the tensor",
    ),
    ("unknown", "an unknown sharding does not determine where elements are: it is not decided yet"),
    ("unreduced", "an unreduced sharding holds sums that are still to be added, not elements"),
];

fn recognises_hlo(text: &str) -> bool {
    let mut c = TextCursor::new(text);
    if !c.eat_char('{') {
        return false;
    }
    // XLA layouts begin with a brace too, so the first word decides.
    let words = ["devices", "replicated", "maximal", "manual", "unknown", "unreduced"];
    match c.read_word() {
        Some(w) => words.contains(&w.value),
        // A tuple of shardings.
        None => c.eat_char('{') && c.read_word().is_some_and(|w| words.contains(&w.value)),
    }
}

/// Reads a sharding.
pub fn parse(text: &str) -> Result<HloSharding> {
    let mut c = TextCursor::new(text);
    c.expect_char('{', "at the beginning of a sharding")?;
    let Some(word) = c.read_word() else {
        if c.peek_char() == Some('{') {
            let (span, _) = c.next_token();
            let message = "a tuple of shardings is one for every element of a tuple";
            return Err(Diagnostic::syntax_error(span, message, "one sharding of one tensor"));
        }
        return Err(c.refuse_next_token("devices=[..], replicated or maximal"));
    };
    let kind = match word.value {
        "replicated" => HloShardingKind::Replicated,
        "maximal" => {
            if !c.eat_word("device") {
                return Err(c.refuse_next_token("`device=` after `maximal`"));
            }
            c.expect_char('=', "after `device`")?;
            let device = c.read_integer("the number of a device")?;
            if device.value < 0 {
                return Err(Diagnostic::syntax_error(
                    device.span,
                    "a negative device",
                    "0 or more",
                ));
            }
            HloShardingKind::Maximal(device.value)
        }
        "devices" => read_tiled_sharding(&mut c)?,
        other => {
            if let Some((name, _)) = NOWHERE.iter().find(|(name, _)| *name == other) {
                return finish_sharding(&mut c, text, HloShardingKind::Nowhere(name));
            }
            let shown: String = other.chars().take(40).collect();
            let message = format!("unknown sharding `{shown}`");
            return Err(Diagnostic::syntax_error(word.span, message, "unknown").with_help(
                "known: devices=[..], replicated, maximal device=.., manual, unknown, unreduced",
            ));
        }
    };
    finish_sharding(&mut c, text, kind)
}

/// What follows the kind of a sharding.
fn finish_sharding(
    c: &mut TextCursor<'_>,
    text: &str,
    kind: HloShardingKind,
) -> Result<HloSharding> {
    let mut group = None;
    for word in ["shard_as", "shard_like"] {
        if group.is_none() && c.eat_word(word) {
            group = Some((word, c.read_integer("the number of a group")?.value));
        }
    }
    read_metadata(c, text)?;
    c.expect_char('}', "at the end of the sharding")?;
    let at = c.next_token_start();
    let shape = read_shape_field(c)?;
    c.expect_end("the sharding")?;
    let found = HloSharding { kind, group, shape };
    let placed = !matches!(found.kind, HloShardingKind::Nowhere(_));
    if let Some(shape) = found.shape.as_ref().filter(|_| placed) {
        let layout = found.sharding_over_shape(shape).and_then(|s| Ok(s.layout_over_shape(shape)?));
        layout.map_err(|d| Diagnostic { span: at..c.last_token_end(), ..d })?;
    }
    Ok(found)
}

/// `metadata={op_name="a"}`: where the sharding comes from.
fn read_metadata(c: &mut TextCursor<'_>, text: &str) -> Result<()> {
    if !c.eat_word("metadata") {
        return Ok(());
    }
    c.expect_char('=', "after `metadata`")?;
    let start = c.next_token_start();
    c.expect_char('{', "before the metadata")?;
    // Names of operations in the metadata may hold braces, but only in quotes.
    let (mut depth, mut quoted) = (1, false);
    for (k, byte) in text.bytes().enumerate().skip(c.last_token_end()) {
        match byte {
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            c.skip_to_place(k + 1);
            return Ok(());
        }
    }
    Err(Diagnostic::syntax_error(start..text.len(), "metadata without an end", "expected `}`"))
}

fn read_tiled_sharding(c: &mut TextCursor<'_>) -> Result<HloShardingKind> {
    c.expect_char('=', "after `devices`")?;
    let parts = c.read_int_list("numbers of parts")?;
    if parts.value.is_empty() || parts.value.iter().any(|p| *p < 1) {
        let message = "each dimension is divided into 1 part or more";
        return Err(Diagnostic::syntax_error(parts.span, message, "not into so many"));
    }
    let count = checked_product(parts.value.iter().copied(), "the number of parts")
        .map_err(|e| Diagnostic::meaning_error(parts.span.clone(), e))?;
    if count > MAX_DEVICES {
        let message = format!("{count} parts, and at most {MAX_DEVICES} are read");
        return Err(Diagnostic::syntax_error(parts.span, message, "too many"));
    }
    let start = c.next_token_start();
    let devices = if c.eat_char('<') {
        c.expect_char('=', "in `<=`")?;
        let dims = c.read_int_list("extents")?;
        let found = checked_product(dims.value.iter().copied(), "the number of devices");
        if dims.value.iter().any(|d| *d < 1) || found != Ok(count) {
            let message = format!("{count} parts on the devices of {:?}", dims.value);
            return Err(Diagnostic::syntax_error(dims.span, message, "as many devices as parts"));
        }
        let rank = dims.value.len();
        let mut perm: Vec<usize> = (0..rank).collect();
        // XLA's own parser requires the transposition for an iota of several dimensions.
        if rank > 1 && !c.clone().eat_word("T") {
            return Err(c.refuse_next_token("`T(..)`, the order of the dimensions of devices"));
        }
        if rank > 1 && c.eat_word("T") {
            let order = c.read_int_list("dimensions")?;
            perm = order.value.iter().filter_map(|d| usize::try_from(*d).ok()).collect();
            let mut sorted = perm.clone();
            sorted.sort_unstable();
            if order.value.len() != rank || sorted.iter().copied().ne(0..rank) {
                let message = format!("T{:?} is not an order of {rank} dimensions", order.value);
                return Err(Diagnostic::syntax_error(order.span, message, "each dimension once"));
            }
        }
        canonical_iota(&dims.value, &perm)
    } else {
        let mut list: Vec<i64> = vec![c.read_integer("`<=[..]` or the number of a device")?.value];
        while c.eat_char(',') {
            list.push(c.read_integer("the number of a device")?.value);
        }
        let span = start..c.last_token_end();
        if i64::try_from(list.len()) != Ok(count) {
            let message = format!("{count} parts on {} devices", list.len());
            return Err(
                Diagnostic::syntax_error(span, message, "as many devices as parts").with_id("Z004")
            );
        }
        let negative = list.iter().copied().find(|d| *d < 0);
        if let Some(device) = find_repeated_device(&list).or(negative) {
            let message = format!("device {device} is listed twice, or negative");
            return Err(Diagnostic::syntax_error(span, message, "each device once"));
        }
        DeviceOrder::List(list)
    };
    // XLA writes a tensor on a single device as `maximal`, and its parser refuses the other form.
    if let (DeviceOrder::List(list), 1) = (&devices, count) {
        let message = "one part on one device is not divided";
        return Err(Diagnostic::syntax_error(
            start..c.last_token_end(),
            message,
            "expected several devices",
        )
        .with_help(format!("write {{maximal device={}}}, or {{devices=[1]<=[1]}}", list[0])));
    }
    let mut parts = parts.value;
    let mut last = Vec::new();
    if let Some(word) = c.clone().read_word() {
        match word.value {
            "last_tile_dim_replicate" => {
                let _ = c.read_word();
                last.push("replicated");
            }
            "last_tile_dims" => {
                let _ = c.read_word();
                last = read_last_tile_dims(c)?;
            }
            "shard_as" | "shard_like" | "metadata" => {}
            other => {
                let shown: String = other.chars().take(40).collect();
                let message = format!("`{shown}` of a sharding is not supported");
                return Err(Diagnostic::syntax_error(word.span, message, "unknown")
                    .with_help("known: last_tile_dim_replicate, last_tile_dims={replicated}, shard_as, shard_like, metadata"));
            }
        }
        if last.len() > parts.len() {
            let message = format!("{} kinds of {} numbers of parts", last.len(), parts.len());
            return Err(Diagnostic::syntax_error(word.span, message, "more than there are"));
        }
    }
    if last.iter().all(|kind| *kind == "replicated") {
        // Several dimensions of copies are multiplied into one, and a single copy is left out, as in XLA's
        // canonical form.
        let copies: i64 = parts.split_off(parts.len() - last.len()).into_iter().product();
        last.clear();
        if copies > 1 {
            parts.push(copies);
            last.push("replicated");
        }
    }
    Ok(HloShardingKind::Tiled { parts, devices, last })
}

/// `={replicated, manual}`.
fn read_last_tile_dims(c: &mut TextCursor<'_>) -> Result<Vec<&'static str>> {
    c.expect_char('=', "after `last_tile_dims`")?;
    c.expect_char('{', "before the kinds of the last dimensions")?;
    let mut kinds = Vec::new();
    while !c.eat_char('}') {
        let Some(kind) = c.read_word() else { return Err(c.refuse_next_token("`replicated`")) };
        let known = ["replicated", "manual", "unreduced"];
        let Some(found) = known.into_iter().find(|k| *k == kind.value) else {
            let shown: String = kind.value.chars().take(40).collect();
            let message = format!("`{shown}` is not a kind of devices");
            let label = "expected replicated, manual or unreduced";
            return Err(Diagnostic::syntax_error(kind.span, message, label));
        };
        kinds.push(found);
        if c.peek_char() != Some('}') {
            c.expect_char(',', "between kinds")?;
        }
    }
    Ok(kinds)
}

impl HloSharding {
    fn from_kind(kind: HloShardingKind) -> HloSharding {
        HloSharding { kind, group: None, shape: None }
    }
}

impl ShardingText for HloSharding {
    fn sharding_over_shape(&self, shape: &[i64]) -> Result<MeshSharding> {
        let mesh = |size: i64| {
            MeshAxes::new(vec![("pid".into(), size)])
                .map_err(|e| Diagnostic::syntax_error(0..0, e, "here"))
        };
        let (parts, devices, last) = match &self.kind {
            HloShardingKind::Nowhere(word) => {
                let why = NOWHERE.iter().find(|(name, _)| name == word).map_or("", |(_, why)| *why);
                return Err(Diagnostic::syntax_error(0..0, why, "no place for every element")
                    .with_id("Z008"));
            }
            HloShardingKind::Replicated => {
                return MeshSharding::from_even_factors(MeshAxes::default(), &[], shape);
            }
            HloShardingKind::Maximal(device) => {
                let mut found =
                    MeshSharding::from_even_factors(mesh(device.saturating_add(1))?, &[], shape)?;
                found.first = vec![*device];
                found.copies = false;
                return Ok(found);
            }
            HloShardingKind::Tiled { parts, devices, last } => (parts, devices, last),
        };
        if let Some(kind) = last.iter().find(|kind| **kind != "replicated") {
            let message = format!("`{kind}` devices have no place for every element");
            return Err(Diagnostic::syntax_error(0..0, message, "not only copies").with_id("Z008"));
        }
        let rank = parts.len() - last.len();
        if rank != shape.len() {
            let message = format!(
                "the sharding is of {rank} dimensions, and the shape {shape:?} has {}",
                shape.len()
            );
            return Err(Diagnostic::syntax_error(0..0, message, "of another rank").with_id("Z005"));
        }
        let list = devices.list_devices()?;
        // A layout has strides, and a list may name devices in any order.
        let Some(digits) = BlockedDigits::from_positions(parts, &list) else {
            let message = "no layout of the algebra: the devices follow no strides";
            return Err(Diagnostic::syntax_error(
                0..0,
                message,
                "each dimension would need its own list",
            )
            .with_id("Z008"));
        };
        let last = list.iter().max().copied().unwrap_or(0);
        let factor = |d: &crate::blocked::BlockedDigit| MeshFactor {
            axis: 0,
            size: d.extent,
            stride: d.stride,
        };
        let factors: Vec<Vec<MeshFactor>> =
            digits.dims.iter().map(|own| own.iter().map(factor).collect()).collect();
        let mut found = MeshSharding::from_even_factors(
            mesh(last.saturating_add(1))?,
            &factors[..rank],
            shape,
        )?;
        found.first = vec![digits.base];
        let copies: Vec<MeshFactor> = factors[rank..].concat();
        found.replicas = Some(copies);
        Ok(found)
    }

    fn own_shape(&self) -> Option<&[i64]> {
        self.shape.as_deref()
    }
}

impl WrittenLayout for HloSharding {
    fn notation_text(&self) -> String {
        let mut out = String::from("{");
        match &self.kind {
            HloShardingKind::Replicated => out += "replicated",
            HloShardingKind::Maximal(device) => {
                let _ = write!(out, "maximal device={device}");
            }
            HloShardingKind::Nowhere(word) => out += word,
            HloShardingKind::Tiled { parts, devices, last } => {
                let _ = write!(out, "devices=[{}]", join_with_commas(parts));
                match devices {
                    DeviceOrder::List(list) => out += &join_with_commas(list),
                    DeviceOrder::Iota(dims, perm) => {
                        let _ = write!(out, "<=[{}]", join_with_commas(dims));
                        if !perm.is_sorted() {
                            let _ = write!(out, "T({})", join_with_commas(perm));
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
        out + &print_shape_field(self.shape.as_ref())
    }

    fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout> {
        layout_of_sharding_text(self, shape)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.shape.clone()
    }
}

fn join_with_commas<T: ToString>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The text of a sharding over the numbered devices of its mesh.
pub(crate) fn write_hlo_sharding(sharding: &MeshSharding) -> Result<String, ConversionRefusal> {
    let devices = sharding.on_devices()?;
    let whole = devices.leading_factors()?.iter().flatten().all(|f| f.size == 1);
    let found = match (whole, devices.copies) {
        (true, false) => HloSharding::from_kind(HloShardingKind::Maximal(devices.first[0])),
        (true, true) => HloSharding::from_kind(HloShardingKind::Replicated),
        (false, _) => hlo_of_divided_tensor(&devices)?,
    };
    Ok(found.notation_text())
}

/// A tensor in parts, on numbered devices.
fn hlo_of_divided_tensor(devices: &MeshSharding) -> Result<HloSharding, ConversionRefusal> {
    let factors = devices.leading_factors()?;
    let first = devices.first.first().copied().unwrap_or(0);
    let mut parts: Vec<i64> =
        factors.iter().map(|own| own.iter().map(|f| f.size).product()).collect();
    // Every factor in the order of the parts, then those that hold copies.
    let mut order: Vec<(i64, i64)> = factors.iter().flatten().map(|f| (f.size, f.stride)).collect();
    let free: Vec<(i64, i64)> = match &devices.replicas {
        Some(all) => all.iter().map(|f| (f.size, f.stride)).collect(),
        None => devices.unused_factors(0),
    };
    let copies: i64 = free.iter().map(|(size, _)| size).product();
    order.extend(free);
    if copies > 1 {
        parts.push(copies);
    }
    // An iota is short whatever it numbers, but its text is read back before it is shown, and that lists the devices.
    let count = order.iter().try_fold(1_i64, |count, (size, _)| count.checked_mul(*size));
    if count.is_none_or(|count| count > MAX_DEVICES) {
        return not_expressible(format!("more than {MAX_DEVICES} devices"), None);
    }
    let devices = match factors_as_iota(&order) {
        Some((dims, perm)) if first == 0 => DeviceOrder::Iota(dims, perm),
        _ => {
            let (sizes, strides): (Vec<i64>, Vec<i64>) = order.into_iter().unzip();
            let list = Layout::from(TileLayout::from_strides(&sizes, &strides, first)?);
            let list = list.offset_table(zellige_layout::Axis::M)?;
            if let Some(device) = find_repeated_device(&list) {
                let reason = format!(
                    "device {device} holds several parts of the tensor, and a list names each device once"
                );
                return not_expressible(reason, None);
            }
            DeviceOrder::List(list)
        }
    };
    let last = if copies > 1 { vec!["replicated"] } else { Vec::new() };
    Ok(HloSharding::from_kind(HloShardingKind::Tiled { parts, devices, last }))
}

/// The text of a layout, or why there is none.
pub fn express_as_hlo(layout: &Layout, shape: &[i64]) -> Result<String, ConversionRefusal> {
    let mut sharding = MeshSharding::from_layout(layout, shape)?;
    let mesh = sharding.mesh.named_sizes();
    if let [(name, _), ..] = mesh
        && (mesh.len() > 1 || name != "pid")
    {
        let reason = format!(
            "HLO numbers devices, as on the axis `pid`; the layout is on the mesh axis `{name}`, and does not say how its devices are numbered"
        );
        return not_expressible(reason, None);
    }
    let named = !mesh.is_empty();
    // The replicas of the layout are the devices with copies; devices outside of them hold nothing.
    let copies = layout
        .tile()
        .replica()
        .iter()
        .filter(|it| it.extent > 1 && it.axis.kind() == zellige_layout::AxisKind::Device);
    let copies: Vec<MeshFactor> =
        copies.map(|it| MeshFactor { axis: 0, size: it.extent, stride: it.stride }).collect();
    let whole = sharding.leading_factors()?.iter().flatten().all(|f| f.size == 1);
    let found = if whole && copies.is_empty() {
        let first = sharding.first.first().copied().unwrap_or(0);
        HloSharding::from_kind(if named {
            HloShardingKind::Maximal(first)
        } else {
            HloShardingKind::Replicated
        })
    } else {
        sharding.replicas = Some(copies);
        hlo_of_divided_tensor(&sharding)?
    };
    match found.layout_over_shape(Some(shape)) {
        Ok(lowered) => prove_sharding(&lowered, layout, &found.notation_text())?,
        Err(reason) => return not_expressible(reason.message, None),
    }
    Ok(found.notation_text())
}
