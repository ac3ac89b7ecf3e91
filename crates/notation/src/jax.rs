//! JAX shardings: `Mesh('x': 2, 'y': 4) PartitionSpec('x', None)`, or a `NamedSharding` as JAX prints it.
//!
//! ```text
//! text  := [ mesh ] spec [ shape ] | "NamedSharding" "(" "mesh" "=" mesh "," "spec" "=" spec { "," name "=" word } ")" [ shape ]
//! mesh  := ("Mesh" | "AbstractMesh") "(" axes [ "," types ] { "," name "=" word } ")"
//! axes  := axis { "," axis }       axis := string ":" int | name "=" int
//!        | ( "device_ids" "=" lists | "axis_sizes" "=" list ) "," "axis_names" "=" strings
//! types := "axis_types" "=" "(" word { "," word } ")"
//! spec  := ("PartitionSpec" | "P") "(" [ entry { "," entry } ] ")"
//! entry := "None" | string | "(" string { "," string } ")"
//! shape := "shape" "=" list
//! ```
//!
//! Entry `k` names the mesh axes over which dimension `k` is divided, the first one slowest; dimensions
//! without an entry are whole. Mesh axes become device axes of their names. JAX divides evenly: a dimension
//! that is no multiple of its devices is refused, as JAX does. The properties of devices in an abstract
//! mesh (`device_kind`, `num_cores`, `platform`) are parsed and not kept. A spec alone is read; it has no
//! layout before its mesh is given.
//!
//! **Law**: `parse(print(x)) == x`.

use crate::convert::{ConversionRefusal, not_expressible};
use crate::cursor::TextCursor;
use crate::notation::{NotationRow, first_word};
use crate::sharding::prove_sharding;
use crate::sharding::{
    MeshAxes, MeshFactor, MeshSharding, ShardingText, layout_of_sharding_text, print_shape_field,
    python, read_shape_field,
};
use crate::{Diagnostic, Notation, ParsedText, WrittenLayout};
use std::ops::Range;
use zellige_layout::int::checked_product;
use zellige_layout::{Layout, LayoutError, unflatten_index};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "jax",
    doc: "JAX `PartitionSpec` on a mesh",
    example: "Mesh('x': 2, 'y': 4) PartitionSpec('x', None) shape=[8, 16]",
    recognises: |text| {
        let words = ["Mesh", "AbstractMesh", "NamedSharding", "PartitionSpec", "P"];
        first_word(text).is_some_and(|w| words.contains(&w))
    },
    parse: |text, _| parse(text).map(|x| ParsedText::from_written(Notation::JAX, x)),
    print: ParsedText::written_notation_text,
    express: |layout, shape, _| express_as_jax(layout, shape),
    needs_dtype: false,
};

/// The most devices whose slices are listed.
const MAX_DEVICES: i64 = 1 << 20;

/// A `PartitionSpec` on a mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JaxSharding {
    /// Of a spec alone, the axes that it names, of one device each.
    mesh: MeshAxes,
    mesh_given: bool,
    /// The device at every coordinate of the mesh, row-major, if the text lists them.
    device_ids: Option<Vec<i64>>,
    axis_types: Option<Vec<String>>,
    /// Per dimension the axes that it is divided over, slowest first.
    spec: Vec<Vec<usize>>,
    /// Fields of a `NamedSharding` after the spec; `None` where the text has mesh and spec alone.
    named: Option<Vec<(String, String)>>,
    shape: Option<Vec<i64>>,
}

/// Reads a mesh and a spec.
pub fn parse(text: &str) -> Result<JaxSharding> {
    let mut c = TextCursor::new(text);
    // Two forms: the representation of a `NamedSharding`, and a mesh followed by a spec, or the
    // spec alone.
    let (mut named, mut mesh_given) = (None, true);
    let (mesh, spec);
    if c.eat_word("NamedSharding") {
        c.expect_char('(', "after `NamedSharding`")?;
        expect_field(&mut c, "mesh")?;
        mesh = read_mesh(&mut c, text)?;
        c.expect_char(',', "after the mesh")?;
        expect_field(&mut c, "spec")?;
        spec = read_partition_spec(&mut c, text, &mesh.0)?;
        let mut more = Vec::new();
        while c.eat_char(',') {
            let Some(key) = c.read_word() else { break };
            // Only a field that is known not to move elements may be skipped.
            if key.value != "memory_kind" {
                let shown: String = key.value.chars().take(40).collect();
                let message = format!("unknown field `{shown}`");
                let label = "expected mesh, spec and memory_kind";
                return Err(Diagnostic::syntax_error(key.span, message, label));
            }
            c.expect_char('=', "after `memory_kind`")?;
            let Some(kind) = c.read_word() else {
                return Err(c.refuse_next_token("a kind of memory"));
            };
            if more.iter().any(|(k, _)| k == key.value) {
                return Err(Diagnostic::syntax_error(
                    key.span,
                    "`memory_kind` is given twice",
                    "already given",
                ));
            }
            more.push((key.value.to_string(), kind.value.to_string()));
        }
        c.expect_char(')', "at the end of the sharding")?;
        named = Some(more);
    } else {
        mesh_given = !matches!(c.clone().read_word().map(|w| w.value), Some("PartitionSpec" | "P"));
        mesh = match mesh_given {
            // A spec alone is parsed over a mesh of one device for each axis that it names, so that
            // it can be printed; it has no layout.
            true => read_mesh(&mut c, text)?,
            false => (mesh_of_named_axes(text)?, None, None),
        };
        spec = read_partition_spec(&mut c, text, &mesh.0)?;
    }
    let at = c.next_token_start();
    let shape = read_shape_field(&mut c)?;
    c.expect_end("the sharding")?;
    let (mesh, device_ids, axis_types) = mesh;
    let found = JaxSharding { mesh, mesh_given, device_ids, axis_types, spec, named, shape };
    // A text with its shape is checked when it is parsed, so that the error underlines the shape.
    if let Some(shape) = found.shape.as_ref().filter(|_| mesh_given) {
        let span = at..c.last_token_end();
        let layout = found.sharding_over_shape(shape).and_then(|s| Ok(s.layout_over_shape(shape)?));
        layout.map_err(|d| Diagnostic { span, ..d })?;
    }
    Ok(found)
}

/// The axes that a spec names, of one device each.
fn mesh_of_named_axes(text: &str) -> Result<MeshAxes> {
    let mut axes: Vec<(String, i64)> = Vec::new();
    let mut c = TextCursor::new(text);
    while let Some(ch) = c.peek_char() {
        if !matches!(ch, '\'' | '"') {
            let end = c.next_token_start() + ch.len_utf8();
            c.skip_to_place(end);
            continue;
        }
        let name = python::read_python_string(&mut c, text, "the name of an axis")?;
        if !axes.iter().any(|(n, _)| *n == name.value) {
            axes.push((name.value, 1));
        }
    }
    MeshAxes::new(axes).map_err(|reason| Diagnostic::syntax_error(0..text.len(), reason, "here"))
}

fn expect_field(c: &mut TextCursor<'_>, name: &str) -> Result<()> {
    if !c.eat_word(name) {
        return Err(c.refuse_next_token(&format!("`{name}=`")));
    }
    c.expect_char('=', "after the name of a field")
}

type MeshText = (MeshAxes, Option<Vec<i64>>, Option<Vec<String>>);

fn read_mesh(c: &mut TextCursor<'_>, text: &str) -> Result<MeshText> {
    let start = c.next_token_start();
    if !c.eat_word("Mesh") && !c.eat_word("AbstractMesh") {
        return Err(c.refuse_next_token("a mesh such as Mesh('x': 2, 'y': 4)"));
    }
    c.expect_char('(', "after `Mesh`")?;
    let mut axes: Vec<(String, i64)> = Vec::new();
    let (mut ids, mut types) = (None, None);
    if c.clone().word_follows("axis_sizes", '=') {
        expect_field(c, "axis_sizes")?;
        let sizes = c.read_int_list("sizes of axes")?;
        axes = read_named_sizes(c, text, sizes.value, sizes.span)?;
        let _ = c.peek_char() == Some(')') || c.eat_char(',');
    }
    if axes.is_empty() && c.clone().word_follows("device_ids", '=') {
        expect_field(c, "device_ids")?;
        let lists = python::read_nested_lists(c, "the number of a device")?;
        let (sizes, flat) = lists.value;
        axes = read_named_sizes(c, text, sizes, lists.span.clone())?;
        if let Some(at) = (0..flat.len()).find(|k| flat[*k] < 0 || flat[..*k].contains(&flat[*k])) {
            let message = format!("device {} is negative or listed twice", flat[at]);
            return Err(Diagnostic::syntax_error(lists.span, message, "each device once"));
        }
        ids = Some(flat);
        let _ = c.peek_char() == Some(')') || c.eat_char(',');
    }
    let listed = !axes.is_empty();
    while c.peek_char() != Some(')') {
        // Properties of an abstract mesh that do not change the layout.
        if ["device_kind", "num_cores", "platform"].iter().any(|w| c.clone().word_follows(w, '=')) {
            let _ = c.read_word();
            c.expect_char('=', "after the name of a field")?;
            if c.read_word().is_none() && c.read_integer("what the devices are").is_err() {
                return Err(c.refuse_next_token("what the devices are"));
            }
            let _ = c.peek_char() == Some(')') || c.eat_char(',');
            continue;
        }
        // Axis types tell JAX who chooses shardings; they move no element and are only printed
        // again.
        if types.is_none() && c.clone().word_follows("axis_types", '=') {
            expect_field(c, "axis_types")?;
            c.expect_char('(', "before the types of the axes")?;
            let mut found = Vec::new();
            while !c.eat_char(')') {
                let Some(word) = c.read_dotted_word() else {
                    return Err(c.refuse_next_token("the type of an axis"));
                };
                let kind = word.value.strip_prefix("AxisType.").unwrap_or(word.value);
                if !matches!(kind, "Auto" | "Explicit" | "Manual") {
                    let message = format!(
                        "unknown type of an axis `{}`",
                        kind.chars().take(40).collect::<String>()
                    );
                    return Err(Diagnostic::syntax_error(
                        word.span,
                        message,
                        "Auto, Explicit or Manual",
                    ));
                }
                found.push(kind.to_string());
                if c.peek_char() != Some(')') {
                    c.expect_char(',', "between types")?;
                }
            }
            types = Some(found);
            let _ = c.peek_char() == Some(')') || c.eat_char(',');
            continue;
        }
        let name = match c.peek_char() {
            Some('\'' | '"') => {
                let name = python::read_python_string(c, text, "the name of an axis")?;
                c.expect_char(':', "after the name of an axis")?;
                name.value
            }
            _ => {
                let Some(word) = c.read_word() else {
                    return Err(c.refuse_next_token("an axis such as 'x': 2 or x=2"));
                };
                c.expect_char('=', "after the name of an axis")?;
                word.value.to_string()
            }
        };
        if listed || types.is_some() {
            let message = "an axis after the fields that follow the axes";
            return Err(Diagnostic::syntax_error(
                start..c.last_token_end(),
                message,
                "all axes are known before it",
            ));
        }
        axes.push((name, c.read_integer("the size of an axis")?.value));
        if c.peek_char() != Some(')') {
            c.expect_char(',', "between axes")?;
        }
    }
    c.expect_char(')', "at the end of the mesh")?;
    let span = start..c.last_token_end();
    if types.as_ref().is_some_and(|t| t.len() != axes.len()) {
        let message = "axis_types has not one type for every axis";
        return Err(Diagnostic::syntax_error(span, message, "one for every axis").with_id("Z004"));
    }
    let mesh =
        MeshAxes::new(axes).map_err(|reason| Diagnostic::syntax_error(span, reason, "here"))?;
    Ok((mesh, ids, types))
}

/// The axes of a mesh whose sizes are listed, with their names: `, axis_names=('x', 'y')`.
fn read_named_sizes(
    c: &mut TextCursor<'_>,
    text: &str,
    sizes: Vec<i64>,
    span: Range<usize>,
) -> Result<Vec<(String, i64)>> {
    c.expect_char(',', "before `axis_names`")?;
    expect_field(c, "axis_names")?;
    let names = read_string_tuple(c, text)?;
    if names.len() != sizes.len() {
        let message = format!("{} axes of {} names", sizes.len(), names.len());
        return Err(
            Diagnostic::syntax_error(span, message, "one name for every axis").with_id("Z004")
        );
    }
    Ok(names.into_iter().zip(sizes).collect())
}

/// `('x', 'y')`.
fn read_string_tuple(c: &mut TextCursor<'_>, text: &str) -> Result<Vec<String>> {
    c.expect_char('(', "before names")?;
    let mut names = Vec::new();
    while !c.eat_char(')') {
        names.push(python::read_python_string(c, text, "a name in quotes")?.value);
        if c.peek_char() != Some(')') {
            c.expect_char(',', "between names")?;
        }
    }
    Ok(names)
}

fn read_partition_spec(
    c: &mut TextCursor<'_>,
    text: &str,
    mesh: &MeshAxes,
) -> Result<Vec<Vec<usize>>> {
    if !(c.eat_word("PartitionSpec") || c.eat_word("P")) {
        return Err(c.refuse_next_token("a spec such as PartitionSpec('x', None)"));
    }
    c.expect_char('(', "after `PartitionSpec`")?;
    let mut spec: Vec<Vec<usize>> = Vec::new();
    let axis = |c: &mut TextCursor<'_>, spec: &[Vec<usize>], own: &[usize]| -> Result<usize> {
        let name = python::read_python_string(
            c,
            text,
            "None, an axis such as 'x', or several in brackets",
        )?;
        let Some(k) = mesh.find_axis(&name.value) else {
            let known: Vec<&str> = mesh.named_sizes().iter().map(|(n, _)| n.as_str()).collect();
            let message = format!(
                "the mesh has no axis `{}`",
                name.value.chars().take(40).collect::<String>()
            );
            return Err(Diagnostic::syntax_error(name.span, message, "not an axis of the mesh")
                .with_help(format!("axes of the mesh: {}", known.join(", "))));
        };
        // JAX refuses this too: one device coordinate cannot choose a part of two dimensions.
        if spec.iter().flatten().chain(own).any(|a| *a == k) {
            let message = format!("axis `{}` divides two dimensions", name.value);
            return Err(Diagnostic::syntax_error(name.span, message, "already used")
                .with_help("a mesh axis stands at most once in a spec"));
        }
        Ok(k)
    };
    while !c.eat_char(')') {
        let mut ahead = c.clone();
        let mut own = Vec::new();
        if c.eat_char('(') {
            while !c.eat_char(')') {
                let k = axis(c, &spec, &own)?;
                own.push(k);
                if c.peek_char() != Some(')') {
                    c.expect_char(',', "between axes")?;
                }
            }
        } else if let Some(word) = ahead.read_dotted_word() {
            match word.value {
                "None" => *c = ahead,
                "UNCONSTRAINED" | "PartitionSpec.UNCONSTRAINED" | "P.UNCONSTRAINED" => {
                    let message = "an unconstrained dimension has no place yet";
                    return Err(Diagnostic::syntax_error(
                        word.span,
                        message,
                        "the compiler decides",
                    ));
                }
                "unreduced" | "reduced" => {
                    let message = format!(
                        "`{}` axes hold sums that are still to be added, not elements",
                        word.value
                    );
                    return Err(Diagnostic::syntax_error(
                        word.span,
                        message,
                        "a pending sum has no place",
                    ));
                }
                _ => {
                    return Err(
                        c.refuse_next_token("None, an axis such as 'x', or several in brackets")
                    );
                }
            }
        } else {
            let k = axis(c, &spec, &own)?;
            own.push(k);
        }
        spec.push(own);
        if c.peek_char() != Some(')') {
            c.expect_char(',', "between entries")?;
        }
    }
    Ok(spec)
}

impl JaxSharding {
    /// The mesh.
    pub fn mesh(&self) -> &MeshAxes {
        &self.mesh
    }

    /// The shape of a shard of a tensor of this shape.
    pub fn shard_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        Ok(self.sharding_over_shape(shape)?.shard_shape())
    }

    /// Per device, in the order of the mesh: its number, and the interval of every dimension that it holds.
    #[allow(clippy::type_complexity, reason = "a table of a device and its intervals")]
    pub fn device_slices(&self, shape: &[i64]) -> Result<Vec<(i64, Vec<(i64, i64)>)>> {
        let shard = self.shard_shape(shape)?;
        let sizes: Vec<i64> = self.mesh.named_sizes().iter().map(|(_, n)| *n).collect();
        if self.mesh.device_count() > MAX_DEVICES {
            let limit = MAX_DEVICES.cast_unsigned();
            return Err(LayoutError::TooLarge { what: "listing devices", limit }.into());
        }
        let mut all = Vec::new();
        for place in 0..self.mesh.device_count() {
            zellige_guard::count_step();
            let at = unflatten_index(&sizes, place);
            let slice = |(d, extent): (usize, &i64)| {
                let own = self.spec.get(d).map_or(&[][..], Vec::as_slice);
                // The first axis of an entry is the slowest, so the part number is a positional
                // number over the axes.
                let part = own.iter().fold(0, |part, k| part * sizes[*k] + at[*k]);
                // Past the end of an uneven dimension a device has a shorter slice, or none.
                let begin = (part * shard[d]).min(*extent);
                (begin, (begin + shard[d]).min(*extent))
            };
            let k = usize::try_from(place).unwrap_or(0);
            let device = self.device_ids.as_ref().map_or(place, |ids| ids[k]);
            all.push((device, shape.iter().enumerate().map(slice).collect()));
        }
        Ok(all)
    }

    /// The HLO sharding of a tensor of this rank, in which devices are numbered by their coordinates of the mesh.
    pub fn to_hlo_sharding(&self, rank: usize) -> Result<String, ConversionRefusal> {
        match self.divide_tensor(&vec![1; rank]) {
            Ok(sharding) => crate::hlo::write_hlo_sharding(&sharding),
            Err(d) => not_expressible(d.message, None),
        }
    }
}

impl ShardingText for JaxSharding {
    fn sharding_over_shape(&self, shape: &[i64]) -> Result<MeshSharding> {
        let found = self.divide_tensor(shape)?;
        for (d, (own, extent)) in self.spec.iter().zip(shape).enumerate() {
            let parts = own.iter().map(|k| self.mesh.named_sizes()[*k].1);
            let parts = checked_product(parts, "the number of devices")?;
            // JAX raises an error for uneven shardings, while GSPMD underneath would pad them.
            if extent % parts.max(1) != 0 {
                let message = format!(
                    "dimension {d} of {extent} elements is not divided evenly over {parts} devices"
                );
                return Err(Diagnostic::syntax_error(0..0, message, "not a multiple")
                    .with_id("Z005")
                    .with_help("JAX refuses this; HLO and Shardy pad the last shards"));
            }
        }
        Ok(found)
    }

    fn own_shape(&self) -> Option<&[i64]> {
        self.shape.as_deref()
    }
}

impl JaxSharding {
    /// The layout of a tensor that JAX may refuse to divide: shorter shards are padded to the length of the others.
    ///
    /// # Errors
    /// No mesh, and more entries than dimensions.
    pub fn padded_layout(&self, shape: &[i64]) -> Result<Layout> {
        Ok(self.divide_tensor(shape)?.layout_over_shape(shape)?)
    }

    /// The sharding of a tensor, also of one that JAX would not divide.
    fn divide_tensor(&self, shape: &[i64]) -> Result<MeshSharding> {
        if !self.mesh_given {
            let message = "a PartitionSpec names axes of a mesh";
            return Err(Diagnostic::syntax_error(0..0, message, "which mesh?")
                .with_id("Z005")
                .with_help(
                    "write the mesh before it: Mesh('x': 2, 'y': 4) PartitionSpec('x', None)",
                ));
        }
        if self.spec.len() > shape.len() {
            let message = format!(
                "the spec has {} entries, and the shape {shape:?} has {} dimensions",
                self.spec.len(),
                shape.len()
            );
            return Err(Diagnostic::syntax_error(0..0, message, "more entries than dimensions")
                .with_id("Z005"));
        }
        let factor =
            |k: &usize| MeshFactor { axis: *k, size: self.mesh.named_sizes()[*k].1, stride: 1 };
        let factors: Vec<Vec<MeshFactor>> =
            self.spec.iter().map(|own| own.iter().map(factor).collect()).collect();
        MeshSharding::from_even_factors(self.mesh.clone(), &factors, shape)
    }
}

impl WrittenLayout for JaxSharding {
    fn notation_text(&self) -> String {
        let mut mesh = match &self.device_ids {
            None => {
                let axis = |(name, size): &(String, i64)| format!("{}: {size}", quote_name(name));
                self.mesh.named_sizes().iter().map(axis).collect::<Vec<_>>().join(", ")
            }
            Some(ids) => {
                let sizes: Vec<i64> = self.mesh.named_sizes().iter().map(|(_, n)| *n).collect();
                let names: Vec<&str> =
                    self.mesh.named_sizes().iter().map(|(n, _)| n.as_str()).collect();
                format!(
                    "device_ids={}, axis_names={}",
                    print_nested_lists(&sizes, ids),
                    print_name_tuple(&names)
                )
            }
        };
        if let Some(types) = &self.axis_types {
            let comma = if types.len() == 1 { "," } else { "" };
            let front = if mesh.is_empty() { "" } else { ", " };
            mesh += &format!("{front}axis_types=({}{comma})", types.join(", "));
        }
        let names = |own: &Vec<usize>| -> Vec<&str> {
            own.iter().map(|k| self.mesh.named_sizes()[*k].0.as_str()).collect()
        };
        let entry = |own: &Vec<usize>| match names(own).as_slice() {
            [] => "None".to_string(),
            [one] => quote_name(one),
            many => print_name_tuple(many),
        };
        let spec = self.spec.iter().map(entry).collect::<Vec<_>>().join(", ");
        let (mesh, spec) = (format!("Mesh({mesh})"), format!("PartitionSpec({spec})"));
        let shape = print_shape_field(self.shape.as_ref());
        match &self.named {
            None if !self.mesh_given => format!("{spec}{shape}"),
            None => format!("{mesh} {spec}{shape}"),
            Some(more) => {
                let more: String = more.iter().map(|(k, v)| format!(", {k}={v}")).collect();
                format!("NamedSharding(mesh={mesh}, spec={spec}{more}){shape}")
            }
        }
    }

    fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout> {
        layout_of_sharding_text(self, shape)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.shape.clone()
    }
}

/// A name in quotes, as Python prints it.
fn quote_name(name: &str) -> String {
    if name.contains('\'') { format!("\"{name}\"") } else { format!("'{name}'") }
}

fn print_name_tuple(names: &[&str]) -> String {
    let comma = if names.len() == 1 { "," } else { "" };
    let names: Vec<String> = names.iter().map(|n| quote_name(n)).collect();
    format!("({}{comma})", names.join(", "))
}

/// Numbers in nested lists.
fn print_nested_lists(sizes: &[i64], flat: &[i64]) -> String {
    let Some((first, rest)) = sizes.split_first() else {
        return flat.first().map_or_else(String::new, ToString::to_string);
    };
    let count = usize::try_from(*first).unwrap_or(0).max(1);
    let parts: Vec<String> = flat
        .chunks((flat.len() / count).max(1))
        .map(|part| print_nested_lists(rest, part))
        .collect();
    format!("[{}]", parts.join(", "))
}

/// The text of a sharding over whole axes of its mesh.
pub(crate) fn write_jax_sharding(sharding: &MeshSharding) -> Result<String, ConversionRefusal> {
    let whole = match sharding.uses_whole_axes() {
        true => sharding.clone(),
        false => sharding.on_whole_axes()?,
    };
    jax_of_sharding(&whole).map(|x| x.notation_text())
}

fn jax_of_sharding(sharding: &MeshSharding) -> Result<JaxSharding, ConversionRefusal> {
    if !sharding.copies {
        return not_expressible(
            "one device has everything: a spec divides over all devices of a mesh",
            None,
        );
    }
    let mut spec: Vec<Vec<usize>> = sharding
        .leading_factors()?
        .iter()
        .map(|own| own.iter().map(|f| f.axis).collect())
        .collect();
    // JAX lets trailing `None` be left out; all entries are written, because that is the usual form.
    spec.resize(sharding.dims.len(), Vec::new());
    Ok(JaxSharding {
        mesh: sharding.mesh.clone(),
        mesh_given: true,
        device_ids: None,
        axis_types: None,
        spec,
        named: None,
        shape: None,
    })
}

/// The text of a layout, or why there is none.
pub fn express_as_jax(layout: &Layout, shape: &[i64]) -> Result<String, ConversionRefusal> {
    let sharding = MeshSharding::from_layout(layout, shape)?;
    if !sharding.uses_whole_axes() {
        return not_expressible(
            "a PartitionSpec divides over whole axes of a mesh, and the layout uses a part of one",
            None,
        );
    }
    let found = jax_of_sharding(&sharding)?;
    match found.layout_over_shape(Some(shape)) {
        Ok(lowered) => prove_sharding(&lowered, layout, &found.notation_text())?,
        Err(reason) => return not_expressible(reason.message, None),
    }
    Ok(found.notation_text())
}
