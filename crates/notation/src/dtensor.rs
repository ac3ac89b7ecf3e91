//! PyTorch `DTensor` placements (`torch.distributed.tensor`): `(Shard(dim=0), Replicate()) mesh=[2, 4]`.
//!
//! ```text
//! text  := placements [ mesh ] [ names ] [ shape ]        the fields in any order
//! placements := [ "placements" "=" ] ( "[" | "(" ) placement { "," placement } ( "]" | ")" )
//! placement  := "Shard" "(" dim ")" | "Replicate" "(" ")" | "_StridedShard" "(" dim "," ("split_factor" | "sf") "=" int ")"
//!             | "S" "(" dim ")" | "R" | "_S" "(" dim "," int ")"                             as `str` of a placement prints it
//! mesh  := "mesh" "=" list | [ ( "mesh" | "device_mesh" ) "=" ] "DeviceMesh" "(" .. ")"      as PyTorch prints it
//! names := "mesh_dim_names" "=" "(" string { "," string } ")"
//! shape := "shape" "=" list
//! ```
//!
//! One placement for every dimension of the mesh, which divide the tensor from left to right: two that
//! shard one dimension cut shards of shards. A `_StridedShard` divides each of the `split_factor` shards
//! that later mesh dimensions make, as the comment of that class in PyTorch explains. Mesh dimensions
//! without names are the device axes `mesh0`, `mesh1`, .. A shard that is shorter than the others is padded
//! to their length in the algebra, so that all have one layout; PyTorch keeps it short. `Partial` is a
//! pending sum, whose elements have no place. Placements alone are read; they have no layout before their
//! mesh is given.
//!
//! **Law**: `parse(print(x)) == x`.

use crate::convert::{ConversionRefusal, not_expressible};
use crate::cursor::{Spanned, TextCursor};
use crate::notation::NotationRow;
use crate::sharding::prove_sharding;
use crate::sharding::{
    IndexPiece, MeshAxes, MeshFactor, MeshSharding, ShardingText, device_axis_of,
    layout_of_sharding_text, print_shape_field, python, read_shape_field,
};
use crate::{Diagnostic, Notation, ParsedText, WrittenLayout};
use std::ops::Range;
use zellige_layout::int::{checked_product, div_ceil};
use zellige_layout::{Axis, Layout, check_nonnegative_sizes};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "dtensor",
    doc: "PyTorch `DTensor` placements",
    example: "(Shard(dim=0), Replicate()) mesh=[2, 4] shape=[8, 16]",
    recognises: recognises_dtensor,
    parse: |text, _| parse(text).map(|x| ParsedText::from_written(Notation::DTENSOR, x)),
    print: ParsedText::written_notation_text,
    express: |layout, shape, _| express_as_dtensor(layout, shape),
    needs_dtype: false,
};

/// The effect of one dimension of the mesh on a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Every device has the whole tensor.
    Replicate,
    /// Divides a dimension, counted from the end where negative.
    Shard {
        /// The dimension.
        dim: i64,
        /// How many shards of later mesh dimensions it cuts each; 1 for an ordinary shard.
        split_factor: i64,
    },
}

/// Placements on a mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DTensorPlacements {
    mesh: MeshAxes,
    named: bool,
    /// Of placements alone, every dimension of the mesh has one device.
    mesh_given: bool,
    placements: Vec<Placement>,
    shape: Option<Vec<i64>>,
}

const PLACEMENTS: [&str; 4] = ["Shard", "Replicate", "_StridedShard", "Partial"];

fn recognises_dtensor(text: &str) -> bool {
    let mut c = TextCursor::new(text);
    let first = c.clone().read_word().map(|w| w.value);
    if matches!(first, Some("mesh" | "placements" | "device_mesh" | "DeviceMesh")) {
        return true;
    }
    // On a mesh without dimensions there are no placements.
    let mut none = c.clone();
    if (none.eat_char('(') && none.eat_char(')')) || (none.eat_char('[') && none.eat_char(']')) {
        let mesh = |w: &str| matches!(w, "mesh" | "device_mesh" | "DeviceMesh");
        return none.read_word().is_some_and(|w| mesh(w.value));
    }
    if !(c.eat_char('[') || c.eat_char('(')) {
        return false;
    }
    let first = c.read_word().map(|w| w.value);
    // A single letter is a placement only with what follows it there, as other notations have names of one letter.
    first.is_some_and(|w| {
        PLACEMENTS.contains(&w)
            || (matches!(w, "S" | "_S" | "P") && c.peek_char() == Some('('))
            || (matches!(w, "R" | "P") && matches!(c.peek_char(), Some(',' | ')' | ']')))
    })
}

/// Reads placements and their mesh.
pub fn parse(text: &str) -> Result<DTensorPlacements> {
    let (found, span) = read_placements(text)?;
    if let Some(shape) = found.shape.as_ref().filter(|_| found.mesh_given) {
        let layout = found.sharding_over_shape(shape).and_then(|s| Ok(s.layout_over_shape(shape)?));
        layout.map_err(|d| Diagnostic { span, ..d })?;
    }
    Ok(found)
}

/// The same without the check that there is a layout over the shape of the text. Returns the span of that
/// shape as well.
fn read_placements(text: &str) -> Result<(DTensorPlacements, Range<usize>)> {
    let mut c = TextCursor::new(text);
    let mut placements: Option<Spanned<Vec<Placement>>> = None;
    let (mut mesh, mut names, mut shape) = (None, None, None);
    loop {
        let at = c.next_token_start();
        let twice = |given: bool| match given {
            true => Err(Diagnostic::syntax_error(
                at..at + 1,
                "a second one of the same field",
                "already given",
            )),
            false => Ok(()),
        };
        match c.peek_char() {
            None => break,
            Some('[' | '(') => {
                twice(placements.is_some())?;
                placements = Some(read_placement_list(&mut c)?);
            }
            Some(_) => match c.clone().read_word().map(|w| w.value) {
                Some("placements") => {
                    let _ = c.read_word();
                    c.expect_char('=', "after `placements`")?;
                    twice(placements.is_some())?;
                    placements = Some(read_placement_list(&mut c)?);
                }
                Some("mesh" | "device_mesh" | "DeviceMesh") => {
                    twice(mesh.is_some())?;
                    if !c.clone().word_follows("DeviceMesh", '(') {
                        let _ = c.read_word();
                        c.expect_char('=', "after `mesh`")?;
                    }
                    if c.eat_word("DeviceMesh") {
                        let (sizes, own) = read_device_mesh(&mut c, text)?;
                        twice(names.is_some() && own.is_some())?;
                        mesh = Some(sizes);
                        names = own.or(names);
                    } else {
                        mesh = Some(c.read_int_list("sizes of the mesh")?);
                    }
                }
                Some("mesh_dim_names") => {
                    let _ = c.read_word();
                    c.expect_char('=', "after `mesh_dim_names`")?;
                    twice(names.is_some())?;
                    names = Some(read_name_list(&mut c, text)?);
                }
                Some("shape") => {
                    twice(shape.is_some())?;
                    shape = read_shape_field(&mut c)?.map(|s| (s, at..c.last_token_end()));
                }
                _ => {
                    return Err(c.refuse_next_token(
                        "placements, mesh=[..], mesh_dim_names=(..) or shape=[..]",
                    ));
                }
            },
        }
        let _ = c.eat_char(',');
    }
    let Some(placements) = placements else {
        return Err(c.refuse_next_token("placements such as (Shard(dim=0), Replicate())"));
    };
    let mesh_given = mesh.is_some();
    // Placements alone are a legal text, so they get a mesh of the right rank whose sizes do not
    // matter.
    let alone = Spanned { value: vec![1; placements.value.len()], span: placements.span.clone() };
    let sizes = mesh.unwrap_or(alone);
    if placements.value.len() != sizes.value.len() {
        let message = format!(
            "{} placements on a mesh of {} dimensions",
            placements.value.len(),
            sizes.value.len()
        );
        return Err(Diagnostic::syntax_error(
            placements.span,
            message,
            "one for every mesh dimension",
        )
        .with_id("Z004"));
    }
    let named = names.is_some();
    let names: Vec<String> = match names {
        Some(names) => names,
        None => (0..sizes.value.len()).map(|k| format!("mesh{k}")).collect(),
    };
    if names.len() != sizes.value.len() {
        let message = format!("{} names of {} mesh dimensions", names.len(), sizes.value.len());
        return Err(
            Diagnostic::syntax_error(sizes.span, message, "one name for each").with_id("Z004")
        );
    }
    let mesh = MeshAxes::new(names.into_iter().zip(sizes.value).collect())
        .map_err(|e| Diagnostic::syntax_error(sizes.span, e, "here"))?;
    let found = DTensorPlacements {
        mesh,
        named,
        mesh_given,
        placements: placements.value,
        shape: shape.as_ref().map(|(s, _)| s.clone()),
    };
    Ok((found, shape.map_or(0..0, |(_, span)| span)))
}

/// The sizes of a mesh, and the names of its dimensions where they have some.
type NamedMesh = (Spanned<Vec<i64>>, Option<Vec<String>>);

/// The inside of a `DeviceMesh(..)`: sizes with names, sizes, or lists of devices; then what kind of
/// device, and strides or names.
fn read_device_mesh(c: &mut TextCursor<'_>, text: &str) -> Result<NamedMesh> {
    c.expect_char('(', "after `DeviceMesh`")?;
    let start = c.next_token_start();
    if matches!(c.peek_char(), Some('\'' | '"')) {
        python::read_python_string(c, text, "a kind of device")?;
        c.expect_char(',', "after the kind of device")?;
    }
    let mut names = None;
    let (sizes, row_major);
    if c.peek_char() == Some('[') {
        let lists = python::read_nested_lists(c, "the number of a device")?;
        let (extents, flat) = lists.value;
        row_major = (0..).zip(&flat).all(|(k, device): (i64, &i64)| k == *device);
        sizes = extents;
    } else {
        c.expect_char('(', "before the sizes of the mesh")?;
        let (mut found, mut own) = (Vec::new(), Vec::new());
        while !c.eat_char(')') {
            if c.peek_char().is_some_and(|ch| ch.is_alphabetic() || ch == '_') {
                own.extend(c.read_word().map(|w| w.value.to_string()));
                c.expect_char('=', "after the name of a dimension")?;
            }
            found.push(c.read_integer("the size of a dimension")?.value);
            if c.peek_char() != Some(')') {
                c.expect_char(',', "between dimensions")?;
            }
        }
        if !own.is_empty() && own.len() != found.len() {
            let message = format!("{} names of {} dimensions", own.len(), found.len());
            return Err(Diagnostic::syntax_error(
                start..c.last_token_end(),
                message,
                "one for each",
            )
            .with_id("Z004"));
        }
        names = (!own.is_empty()).then_some(own);
        sizes = found;
        row_major = true;
    }
    let span = start..c.last_token_end();
    // A layout gives coordinates on the mesh and not numbers of devices, so another numbering would
    // be lost silently.
    let mut in_order = row_major;
    while c.eat_char(',') {
        if c.eat_word("device") || c.eat_word("device_type") {
            let _ = c.eat_char(':') || c.eat_char('=');
        }
        if matches!(c.peek_char(), Some('\'' | '"')) {
            python::read_python_string(c, text, "a kind of device")?;
        } else if c.eat_word("stride") {
            let _ = c.eat_char(':') || c.eat_char('=');
            let strides = c.read_int_list("strides")?.value;
            in_order &= zellige_layout::int::row_major_strides(&sizes).is_ok_and(|s| s == strides);
        } else if c.eat_word("mesh_dim_names") {
            c.expect_char('=', "after `mesh_dim_names`")?;
            names = Some(read_name_list(c, text)?);
        } else if c.eat_word("Mesh") {
            c.expect_char(':', "after `Mesh`")?;
            let (_, flat) = python::read_nested_lists(c, "the number of a device")?.value;
            in_order &= (0..).zip(&flat).all(|(k, device): (i64, &i64)| k == *device);
        } else {
            return Err(c.refuse_next_token("a kind of device, `stride` or `mesh_dim_names`"));
        }
    }
    c.expect_char(')', "at the end of the mesh")?;
    if !in_order {
        let message = "a mesh whose devices are not numbered in order, the last dimension fastest";
        return Err(Diagnostic::syntax_error(span, message, "not row-major").with_help(
            "a layout is on the dimensions of the mesh: write mesh=[..] with their sizes",
        ));
    }
    Ok((Spanned { value: sizes, span }, names))
}

fn read_name_list(c: &mut TextCursor<'_>, text: &str) -> Result<Vec<String>> {
    let close = match c.eat_char('(') {
        true => ')',
        false => {
            c.expect_char('[', "before names")?;
            ']'
        }
    };
    let mut names = Vec::new();
    while !c.eat_char(close) {
        names.push(python::read_python_string(c, text, "a name in quotes")?.value);
        if c.peek_char() != Some(close) {
            c.expect_char(',', "between names")?;
        }
    }
    Ok(names)
}

fn read_placement_list(c: &mut TextCursor<'_>) -> Result<Spanned<Vec<Placement>>> {
    let start = c.next_token_start();
    let close = if c.eat_char('[') { ']' } else { ')' };
    if close == ')' {
        c.expect_char('(', "before placements")?;
    }
    let mut list = Vec::new();
    while !c.eat_char(close) {
        list.push(read_placement(c)?);
        if c.peek_char() != Some(close) {
            c.expect_char(',', "between placements")?;
        }
    }
    Ok(Spanned { value: list, span: start..c.last_token_end() })
}

fn read_placement(c: &mut TextCursor<'_>) -> Result<Placement> {
    let Some(word) = c.read_word() else {
        return Err(c.refuse_next_token("Shard(..), Replicate() or _StridedShard(..)"));
    };
    match word.value {
        "Replicate" => {
            c.expect_char('(', "after `Replicate`")?;
            c.expect_char(')', "after `Replicate(`")?;
            Ok(Placement::Replicate)
        }
        // The short forms are those of `str(placement)`.
        "R" => Ok(Placement::Replicate),
        "Partial" | "P" => {
            let message = "`Partial` holds sums that are still to be added, not elements";
            Err(Diagnostic::syntax_error(word.span, message, "a pending sum has no place")
                .with_help("reduce it first: Shard(..) or Replicate()"))
        }
        "Shard" | "_StridedShard" | "S" | "_S" => {
            let strided = word.value.starts_with('_');
            c.expect_char('(', "after the name of a placement")?;
            if c.eat_word("dim") {
                c.expect_char('=', "after `dim`")?;
            }
            let dim = c.read_integer("the dimension that is divided")?.value;
            let mut split_factor = 1;
            if strided {
                c.expect_char(',', "after the dimension")?;
                if c.eat_word("split_factor") || c.eat_word("sf") {
                    c.expect_char('=', "after the name of a field")?;
                }
                let factor = c.read_integer("the split factor")?;
                if factor.value < 1 {
                    let message = format!("a split factor of {}", factor.value);
                    return Err(Diagnostic::syntax_error(factor.span, message, "1 or more"));
                }
                split_factor = factor.value;
            }
            c.expect_char(')', "at the end of the placement")?;
            Ok(Placement::Shard { dim, split_factor })
        }
        other => {
            let shown: String = other.chars().take(40).collect();
            let message = format!("unknown placement `{shown}`");
            Err(Diagnostic::syntax_error(word.span, message, "unknown")
                .with_help("known: Shard(dim), Replicate(), _StridedShard(dim, split_factor=..), or S(dim), R, _S(dim, factor)"))
        }
    }
}

/// A substitute for placements without a layout in the algebra, because shards of different lengths are
/// divided again: the same placements of a longer tensor, all of whose shards have the length of the
/// longest one.
#[derive(Debug, Clone)]
pub struct EvenedPlacements {
    /// The shape of the tensor.
    pub shape: Vec<i64>,
    /// The shape of the longer one.
    pub even: Vec<i64>,
    /// Its layout.
    pub layout: Layout,
    /// The mesh.
    pub axes: Vec<(Axis, i64)>,
}

/// The substitute for a text that divides a dimension of a shape, or of its own, unevenly and then again.
/// `None` for all other texts, which have a layout or are refused for another reason.
pub fn even_out_placements(text: &str, shape: Option<&[i64]>) -> Option<EvenedPlacements> {
    let (mut read, _) = read_placements(text).ok().filter(|(x, _)| x.mesh_given)?;
    let shape = shape.map(<[i64]>::to_vec).or_else(|| read.shape.clone())?;
    read.shape = None;
    let (mut even, mut parts) = (shape.clone(), vec![1i64; shape.len()]);
    let (mut uneven, mut again) = (vec![false; shape.len()], false);
    for (placement, (_, n)) in read.placements.iter().zip(read.mesh.named_sizes()) {
        let Placement::Shard { dim, split_factor } = *placement else { continue };
        let rank = i64::try_from(shape.len()).ok()?;
        let d = usize::try_from(if dim < 0 { dim.checked_add(rank)? } else { dim }).ok()?;
        let local = even.get_mut(d).filter(|_| split_factor == 1)?;
        again |= uneven[d] && *n > 1;
        uneven[d] |= *local % n != 0;
        (*local, parts[d]) = (div_ceil(*local, *n).max(1), parts[d].checked_mul(*n)?);
    }
    for (local, parts) in even.iter_mut().zip(&parts) {
        *local = (*local).max(1).checked_mul(*parts)?;
    }
    let layout = again.then(|| read.layout_over_shape(Some(&even)).ok())??;
    let axis = |(name, n): &(String, i64)| Some((device_axis_of(name).ok()?, *n));
    let axes = read.mesh.named_sizes().iter().map(axis).collect::<Option<_>>()?;
    Some(EvenedPlacements { shape, even, layout, axes })
}

impl ShardingText for DTensorPlacements {
    fn sharding_over_shape(&self, shape: &[i64]) -> Result<MeshSharding> {
        if !self.mesh_given {
            let message = "placements are on a mesh, one for each of its dimensions";
            return Err(Diagnostic::syntax_error(0..0, message, "which mesh?")
                .with_id("Z005")
                .with_help("write the sizes of the mesh: mesh=[2, 4]"));
        }
        check_nonnegative_sizes(shape)?;
        checked_product(shape.iter().copied(), "the number of elements")?;
        let refuse = |message: String, label: &str| {
            Err(Diagnostic::syntax_error(0..0, message, label).with_id("Z005"))
        };
        let mut dims: Vec<Vec<IndexPiece>> =
            shape.iter().map(|n| vec![IndexPiece::Local(*n)]).collect();
        let mut uneven = vec![false; shape.len()];
        let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
        for (axis, placement) in self.placements.iter().enumerate() {
            let Placement::Shard { dim, split_factor } = *placement else { continue };
            let n = self.mesh.named_sizes()[axis].1;
            let at = if dim < 0 { dim.saturating_add(rank) } else { dim };
            let Some(d) = usize::try_from(at).ok().filter(|d| *d < shape.len()) else {
                let message =
                    format!("Shard(dim={dim}) of the shape {shape:?}, which has {rank} dimensions");
                return refuse(message, "there is none of this number");
            };
            // `Shard` divides with `torch.chunk`: shards of different lengths would then be cut at
            // different places, while a layout has one stride for all of them.
            if uneven[d] && n > 1 {
                let message = format!(
                    "no layout of the algebra: dimension {d} of {} elements is divided unevenly, and then again",
                    shape[d]
                );
                return Err(Diagnostic::syntax_error(
                    0..0,
                    message,
                    "shards of different lengths are cut differently",
                )
                .with_id("Z008"));
            }
            let device = IndexPiece::Device(MeshFactor { axis, size: n, stride: 1 });
            let pieces = &mut dims[d];
            let Some(first) = pieces.iter().position(|p| matches!(p, IndexPiece::Local(_))) else {
                continue;
            };
            let IndexPiece::Local(extent) = pieces[first] else { continue };
            let only = pieces.iter().filter(|p| matches!(p, IndexPiece::Local(_))).count() == 1;
            if split_factor > 1 {
                let step = split_factor.checked_mul(n).unwrap_or(i64::MAX);
                if !only || extent % step != 0 {
                    let message = format!(
                        "no layout of the algebra: _StridedShard cuts the {extent} elements of dimension {d} into {split_factor} x {n} parts"
                    );
                    return Err(Diagnostic::syntax_error(
                        0..0,
                        message,
                        "unevenly, or a second time",
                    )
                    .with_id("Z008"));
                }
                pieces.splice(
                    first..=first,
                    [IndexPiece::Local(split_factor), device, IndexPiece::Local(extent / step)],
                );
            } else if extent % n == 0 || only {
                let local = IndexPiece::Local(div_ceil(extent, n));
                if extent % n == 0 {
                    pieces.splice(first..=first, [device, local]);
                } else {
                    // This division is repeated in every shard of the mesh dimensions before, so each of
                    // them is padded, and not only the tensor as a whole.
                    uneven[d] = true;
                    let before = |p: &IndexPiece| matches!(p, IndexPiece::Device(f) if f.size > 1);
                    let nested = pieces[..first].iter().any(before);
                    let valid = nested.then_some(IndexPiece::Valid(extent));
                    pieces.splice(first..=first, valid.into_iter().chain([device, local]));
                }
            } else {
                let message = format!(
                    "no layout of the algebra: {n} devices divide the {extent} parts that a _StridedShard has left of dimension {d}"
                );
                return Err(Diagnostic::syntax_error(0..0, message, "unevenly").with_id("Z008"));
            }
        }
        let first = vec![0; self.mesh.named_sizes().len()];
        Ok(MeshSharding { mesh: self.mesh.clone(), first, dims, copies: true, replicas: None })
    }

    fn own_shape(&self) -> Option<&[i64]> {
        self.shape.as_deref()
    }
}

impl WrittenLayout for DTensorPlacements {
    fn notation_text(&self) -> String {
        let placement = |p: &Placement| match p {
            Placement::Replicate => "Replicate()".to_string(),
            Placement::Shard { dim, split_factor: 1 } => format!("Shard(dim={dim})"),
            Placement::Shard { dim, split_factor } => {
                format!("_StridedShard(dim={dim}, split_factor={split_factor})")
            }
        };
        let list: Vec<String> = self.placements.iter().map(placement).collect();
        let comma = if list.len() == 1 { "," } else { "" };
        let sizes: Vec<i64> = self.mesh.named_sizes().iter().map(|(_, n)| *n).collect();
        let mut out = format!("({}{comma})", list.join(", "));
        if self.mesh_given {
            out += &format!(" mesh={sizes:?}");
        }
        if self.named {
            let names: Vec<String> =
                self.mesh.named_sizes().iter().map(|(n, _)| format!("'{n}'")).collect();
            let comma = if names.len() == 1 { "," } else { "" };
            out += &format!(" mesh_dim_names=({}{comma})", names.join(", "));
        }
        out + &print_shape_field(self.shape.as_ref())
    }

    fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout> {
        layout_of_sharding_text(self, shape)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.shape.clone()
    }
}

/// The text of a sharding over whole dimensions of its mesh.
pub(crate) fn write_placements(sharding: &MeshSharding) -> Result<String, ConversionRefusal> {
    let whole = match sharding.uses_whole_axes() {
        true => sharding.clone(),
        false => sharding.on_whole_axes()?,
    };
    placements_of_sharding(&whole).map(|x| x.notation_text())
}

fn placements_of_sharding(sharding: &MeshSharding) -> Result<DTensorPlacements, ConversionRefusal> {
    if !sharding.copies || sharding.first.iter().any(|f| *f != 0) {
        return not_expressible("placements divide over all devices of a mesh", Some(0));
    }
    let axes = sharding.mesh.named_sizes();
    let mut placements = vec![Placement::Replicate; axes.len()];
    for (d, own) in sharding.leading_factors()?.iter().enumerate() {
        for (k, f) in own.iter().enumerate() {
            // A later mesh axis that is slower in this dimension has divided it already, so the placement
            // of this axis is inside its shards: a strided shard.
            let before = own[..k].iter().filter(|g| g.axis > f.axis);
            let split_factor = checked_product(before.map(|g| g.size), "a split factor")?;
            let dim = i64::try_from(d).unwrap_or(i64::MAX);
            placements[f.axis] = Placement::Shard { dim, split_factor };
        }
    }
    let plain = axes.iter().enumerate().all(|(k, (name, _))| *name == format!("mesh{k}"));
    let mesh = sharding.mesh.clone();
    Ok(DTensorPlacements { mesh, named: !plain, mesh_given: true, placements, shape: None })
}

/// The text of a layout, or why there is none.
pub fn express_as_dtensor(layout: &Layout, shape: &[i64]) -> Result<String, ConversionRefusal> {
    let sharding = MeshSharding::from_layout(layout, shape)?;
    if !sharding.uses_whole_axes() {
        return not_expressible(
            "placements divide over whole dimensions of a mesh, and the layout uses a part of one",
            None,
        );
    }
    // A layout does not fix the order of the mesh, so an order is preferred in which every placement is an
    // ordinary shard.
    let strided = |p: &Placement| matches!(p, Placement::Shard { split_factor: 2.., .. });
    let mut found = placements_of_sharding(&sharding)?;
    if found.placements.iter().any(strided) {
        found = placements_of_sharding(&sharding.in_order_of_use())?;
    }
    match found.layout_over_shape(Some(shape)) {
        Ok(lowered) => prove_sharding(&lowered, layout, &found.notation_text())?,
        Err(reason) => return not_expressible(reason.message, None),
    }
    Ok(found.notation_text())
}
