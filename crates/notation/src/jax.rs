//! JAX shardings: `Mesh('x': 2, 'y': 4) PartitionSpec('x', None)`, or as JAX prints a `NamedSharding`.
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
//! Entry `k` names the mesh axes over which dimension `k` is divided, the first one slowest; dimensions without an entry are whole.
//! Mesh axes become device axes of their names. JAX divides evenly: a dimension that is no multiple of its devices is refused, as JAX does.
//! What an abstract mesh says of its devices (`device_kind`, `num_cores`, `platform`) is read and not kept. A spec alone is read; it has no layout before its mesh is given.
//!
//! **Law**: `parse(print(x)) == x`.

use crate::convert::{Refusal, no};
use crate::cursor::Cursor;
use crate::notation::{NotationRow, first_word};
use crate::sharding::prove_sharding;
use crate::sharding::{
    Factor, Mesh, Sharding, ShardingText, layout_of, python, shape_field, shape_text,
};
use crate::{Diagnostic, Notation, Parsed, WrittenLayout};
use std::ops::Range;
use zellige_layout::int::product;
use zellige_layout::{Error, Layout, unflatten};

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
    parse: |text, _| parse(text).map(|x| Parsed::of_written(Notation::JAX, x)),
    print: Parsed::written_text,
    express: |layout, shape, _| express(layout, shape),
    needs_dtype: false,
};

/// The most devices whose slices are listed.
const MAX_DEVICES: i64 = 1 << 20;

/// A `PartitionSpec` on a mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JaxSharding {
    /// Of a spec alone, the axes that it names, of one device each.
    mesh: Mesh,
    mesh_given: bool,
    /// The device of every place of the mesh, row-major, where the text names them.
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
    let mut c = Cursor::new(text);
    let (mut named, mut mesh_given) = (None, true);
    let (mesh, spec);
    if c.eat_word("NamedSharding") {
        c.expect('(', "after `NamedSharding`")?;
        field(&mut c, "mesh")?;
        mesh = mesh_of(&mut c, text)?;
        c.expect(',', "after the mesh")?;
        field(&mut c, "spec")?;
        spec = spec_of(&mut c, text, &mesh.0)?;
        let mut more = Vec::new();
        while c.eat(',') {
            let Some(key) = c.word() else { break };
            if key.value != "memory_kind" {
                let shown: String = key.value.chars().take(40).collect();
                let message = format!("unknown field `{shown}`");
                let label = "expected mesh, spec and memory_kind";
                return Err(Diagnostic::syntax(key.span, message, label));
            }
            c.expect('=', "after `memory_kind`")?;
            let Some(kind) = c.word() else { return Err(c.expected("a kind of memory")) };
            if more.iter().any(|(k, _)| k == key.value) {
                return Err(Diagnostic::syntax(
                    key.span,
                    "`memory_kind` is given twice",
                    "already given",
                ));
            }
            more.push((key.value.to_string(), kind.value.to_string()));
        }
        c.expect(')', "at the end of the sharding")?;
        named = Some(more);
    } else {
        mesh_given = !matches!(c.clone().word().map(|w| w.value), Some("PartitionSpec" | "P"));
        mesh = match mesh_given {
            true => mesh_of(&mut c, text)?,
            false => (named_axes(text)?, None, None),
        };
        spec = spec_of(&mut c, text, &mesh.0)?;
    }
    let at = c.at();
    let shape = shape_field(&mut c)?;
    c.finish("the sharding")?;
    let (mesh, device_ids, axis_types) = mesh;
    let found = JaxSharding { mesh, mesh_given, device_ids, axis_types, spec, named, shape };
    if let Some(shape) = found.shape.as_ref().filter(|_| mesh_given) {
        let span = at..c.here();
        let layout = found.sharding(shape).and_then(|s| Ok(s.layout(shape)?));
        layout.map_err(|d| Diagnostic { span, ..d })?;
    }
    Ok(found)
}

/// The axes that a spec names, of one device each.
fn named_axes(text: &str) -> Result<Mesh> {
    let mut axes: Vec<(String, i64)> = Vec::new();
    let mut c = Cursor::new(text);
    while let Some(ch) = c.peek() {
        if !matches!(ch, '\'' | '"') {
            let end = c.at() + ch.len_utf8();
            c.skip_to(end);
            continue;
        }
        let name = python::string(&mut c, text, "the name of an axis")?;
        if !axes.iter().any(|(n, _)| *n == name.value) {
            axes.push((name.value, 1));
        }
    }
    Mesh::new(axes).map_err(|reason| Diagnostic::syntax(0..text.len(), reason, "here"))
}

fn field(c: &mut Cursor<'_>, name: &str) -> Result<()> {
    if !c.eat_word(name) {
        return Err(c.expected(&format!("`{name}=`")));
    }
    c.expect('=', "after the name of a field")
}

type MeshText = (Mesh, Option<Vec<i64>>, Option<Vec<String>>);

fn mesh_of(c: &mut Cursor<'_>, text: &str) -> Result<MeshText> {
    let start = c.at();
    if !c.eat_word("Mesh") && !c.eat_word("AbstractMesh") {
        return Err(c.expected("a mesh such as Mesh('x': 2, 'y': 4)"));
    }
    c.expect('(', "after `Mesh`")?;
    let mut axes: Vec<(String, i64)> = Vec::new();
    let (mut ids, mut types) = (None, None);
    if c.clone().follows("axis_sizes", '=') {
        field(c, "axis_sizes")?;
        let sizes = c.int_list("sizes of axes")?;
        axes = named_sizes(c, text, sizes.value, sizes.span)?;
        let _ = c.peek() == Some(')') || c.eat(',');
    }
    if axes.is_empty() && c.clone().follows("device_ids", '=') {
        field(c, "device_ids")?;
        let lists = python::nested(c, "the number of a device")?;
        let (sizes, flat) = lists.value;
        axes = named_sizes(c, text, sizes, lists.span.clone())?;
        if let Some(at) = (0..flat.len()).find(|k| flat[*k] < 0 || flat[..*k].contains(&flat[*k])) {
            let message = format!("device {} is negative or listed twice", flat[at]);
            return Err(Diagnostic::syntax(lists.span, message, "each device once"));
        }
        ids = Some(flat);
        let _ = c.peek() == Some(')') || c.eat(',');
    }
    let listed = !axes.is_empty();
    while c.peek() != Some(')') {
        if ["device_kind", "num_cores", "platform"].iter().any(|w| c.clone().follows(w, '=')) {
            let _ = c.word();
            c.expect('=', "after the name of a field")?;
            if c.word().is_none() && c.int("what the devices are").is_err() {
                return Err(c.expected("what the devices are"));
            }
            let _ = c.peek() == Some(')') || c.eat(',');
            continue;
        }
        if types.is_none() && c.clone().follows("axis_types", '=') {
            field(c, "axis_types")?;
            c.expect('(', "before the types of the axes")?;
            let mut found = Vec::new();
            while !c.eat(')') {
                let Some(word) = c.dotted() else { return Err(c.expected("the type of an axis")) };
                let kind = word.value.strip_prefix("AxisType.").unwrap_or(word.value);
                if !matches!(kind, "Auto" | "Explicit" | "Manual") {
                    let message = format!(
                        "unknown type of an axis `{}`",
                        kind.chars().take(40).collect::<String>()
                    );
                    return Err(Diagnostic::syntax(word.span, message, "Auto, Explicit or Manual"));
                }
                found.push(kind.to_string());
                if c.peek() != Some(')') {
                    c.expect(',', "between types")?;
                }
            }
            types = Some(found);
            let _ = c.peek() == Some(')') || c.eat(',');
            continue;
        }
        let name = match c.peek() {
            Some('\'' | '"') => {
                let name = python::string(c, text, "the name of an axis")?;
                c.expect(':', "after the name of an axis")?;
                name.value
            }
            _ => {
                let Some(word) = c.word() else {
                    return Err(c.expected("an axis such as 'x': 2 or x=2"));
                };
                c.expect('=', "after the name of an axis")?;
                word.value.to_string()
            }
        };
        if listed || types.is_some() {
            let message = "an axis after the fields that follow the axes";
            return Err(Diagnostic::syntax(
                start..c.here(),
                message,
                "all axes are known before it",
            ));
        }
        axes.push((name, c.int("the size of an axis")?.value));
        if c.peek() != Some(')') {
            c.expect(',', "between axes")?;
        }
    }
    c.expect(')', "at the end of the mesh")?;
    let span = start..c.here();
    if types.as_ref().is_some_and(|t| t.len() != axes.len()) {
        let message = "axis_types has not one type for every axis";
        return Err(Diagnostic::syntax(span, message, "one for every axis").id("Z004"));
    }
    let mesh = Mesh::new(axes).map_err(|reason| Diagnostic::syntax(span, reason, "here"))?;
    Ok((mesh, ids, types))
}

/// The axes of a mesh whose sizes are listed, with their names: `, axis_names=('x', 'y')`.
fn named_sizes(
    c: &mut Cursor<'_>,
    text: &str,
    sizes: Vec<i64>,
    span: Range<usize>,
) -> Result<Vec<(String, i64)>> {
    c.expect(',', "before `axis_names`")?;
    field(c, "axis_names")?;
    let names = strings(c, text)?;
    if names.len() != sizes.len() {
        let message = format!("{} axes of {} names", sizes.len(), names.len());
        return Err(Diagnostic::syntax(span, message, "one name for every axis").id("Z004"));
    }
    Ok(names.into_iter().zip(sizes).collect())
}

/// `('x', 'y')`.
fn strings(c: &mut Cursor<'_>, text: &str) -> Result<Vec<String>> {
    c.expect('(', "before names")?;
    let mut names = Vec::new();
    while !c.eat(')') {
        names.push(python::string(c, text, "a name in quotes")?.value);
        if c.peek() != Some(')') {
            c.expect(',', "between names")?;
        }
    }
    Ok(names)
}

fn spec_of(c: &mut Cursor<'_>, text: &str, mesh: &Mesh) -> Result<Vec<Vec<usize>>> {
    if !(c.eat_word("PartitionSpec") || c.eat_word("P")) {
        return Err(c.expected("a spec such as PartitionSpec('x', None)"));
    }
    c.expect('(', "after `PartitionSpec`")?;
    let mut spec: Vec<Vec<usize>> = Vec::new();
    let axis = |c: &mut Cursor<'_>, spec: &[Vec<usize>], own: &[usize]| -> Result<usize> {
        let name = python::string(c, text, "None, an axis such as 'x', or several in brackets")?;
        let Some(k) = mesh.find(&name.value) else {
            let known: Vec<&str> = mesh.axes().iter().map(|(n, _)| n.as_str()).collect();
            let message = format!(
                "the mesh has no axis `{}`",
                name.value.chars().take(40).collect::<String>()
            );
            return Err(Diagnostic::syntax(name.span, message, "not an axis of the mesh")
                .help(format!("axes of the mesh: {}", known.join(", "))));
        };
        if spec.iter().flatten().chain(own).any(|a| *a == k) {
            let message = format!("axis `{}` divides two dimensions", name.value);
            return Err(Diagnostic::syntax(name.span, message, "already used")
                .help("a mesh axis stands at most once in a spec"));
        }
        Ok(k)
    };
    while !c.eat(')') {
        let mut ahead = c.clone();
        let mut own = Vec::new();
        if c.eat('(') {
            while !c.eat(')') {
                let k = axis(c, &spec, &own)?;
                own.push(k);
                if c.peek() != Some(')') {
                    c.expect(',', "between axes")?;
                }
            }
        } else if let Some(word) = ahead.dotted() {
            match word.value {
                "None" => *c = ahead,
                "UNCONSTRAINED" | "PartitionSpec.UNCONSTRAINED" | "P.UNCONSTRAINED" => {
                    let message = "an unconstrained dimension has no place yet";
                    return Err(Diagnostic::syntax(word.span, message, "the compiler decides"));
                }
                "unreduced" | "reduced" => {
                    let message = format!(
                        "`{}` axes hold sums that are still to be added, not elements",
                        word.value
                    );
                    return Err(Diagnostic::syntax(
                        word.span,
                        message,
                        "a pending sum is no place",
                    ));
                }
                _ => return Err(c.expected("None, an axis such as 'x', or several in brackets")),
            }
        } else {
            let k = axis(c, &spec, &own)?;
            own.push(k);
        }
        spec.push(own);
        if c.peek() != Some(')') {
            c.expect(',', "between entries")?;
        }
    }
    Ok(spec)
}

impl JaxSharding {
    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The shape of a shard of a tensor of this shape.
    pub fn shard_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        Ok(self.sharding(shape)?.shard_shape())
    }

    /// Per device, in the order of the mesh: its number, and the interval of every dimension that it holds.
    #[allow(clippy::type_complexity, reason = "a table of a device and its intervals")]
    pub fn device_slices(&self, shape: &[i64]) -> Result<Vec<(i64, Vec<(i64, i64)>)>> {
        let shard = self.shard_shape(shape)?;
        let sizes: Vec<i64> = self.mesh.axes().iter().map(|(_, n)| *n).collect();
        if self.mesh.devices() > MAX_DEVICES {
            let limit = MAX_DEVICES.cast_unsigned();
            return Err(Error::TooLarge { what: "listing devices", limit }.into());
        }
        let mut all = Vec::new();
        for place in 0..self.mesh.devices() {
            zellige_guard::step();
            let at = unflatten(&sizes, place);
            let slice = |(d, extent): (usize, &i64)| {
                let own = self.spec.get(d).map_or(&[][..], Vec::as_slice);
                let part = own.iter().fold(0, |part, k| part * sizes[*k] + at[*k]);
                let begin = (part * shard[d]).min(*extent);
                (begin, (begin + shard[d]).min(*extent))
            };
            let k = usize::try_from(place).unwrap_or(0);
            let device = self.device_ids.as_ref().map_or(place, |ids| ids[k]);
            all.push((device, shape.iter().enumerate().map(slice).collect()));
        }
        Ok(all)
    }

    /// The HLO sharding of a tensor of this rank, which counts the places of the mesh.
    pub fn hlo(&self, rank: usize) -> Result<String, Refusal> {
        match self.divided(&vec![1; rank]) {
            Ok(sharding) => crate::hlo::write(&sharding),
            Err(d) => no(d.message, None),
        }
    }
}

impl ShardingText for JaxSharding {
    fn sharding(&self, shape: &[i64]) -> Result<Sharding> {
        let found = self.divided(shape)?;
        for (d, (own, extent)) in self.spec.iter().zip(shape).enumerate() {
            let parts = own.iter().map(|k| self.mesh.axes()[*k].1);
            let parts = product(parts, "the number of devices")?;
            if extent % parts.max(1) != 0 {
                let message = format!(
                    "dimension {d} of {extent} elements is not divided evenly over {parts} devices"
                );
                return Err(Diagnostic::syntax(0..0, message, "not a multiple")
                    .id("Z005")
                    .help("JAX refuses this; HLO and Shardy pad the last shards"));
            }
        }
        Ok(found)
    }

    fn own_shape(&self) -> Option<&[i64]> {
        self.shape.as_deref()
    }
}

impl JaxSharding {
    /// The layout of a tensor that JAX may refuse to divide: shards that are shorter than the others are padded.
    ///
    /// # Errors
    /// No mesh, and more entries than dimensions.
    pub fn padded_layout(&self, shape: &[i64]) -> Result<Layout> {
        Ok(self.divided(shape)?.layout(shape)?)
    }

    /// The sharding of a tensor, also of one that JAX would not divide.
    fn divided(&self, shape: &[i64]) -> Result<Sharding> {
        if !self.mesh_given {
            let message = "a PartitionSpec names axes of a mesh";
            return Err(Diagnostic::syntax(0..0, message, "which mesh?")
                .id("Z005")
                .help("write the mesh before it: Mesh('x': 2, 'y': 4) PartitionSpec('x', None)"));
        }
        if self.spec.len() > shape.len() {
            let message = format!(
                "the spec has {} entries, and the shape {shape:?} has {} dimensions",
                self.spec.len(),
                shape.len()
            );
            return Err(
                Diagnostic::syntax(0..0, message, "more entries than dimensions").id("Z005")
            );
        }
        let factor = |k: &usize| Factor { axis: *k, size: self.mesh.axes()[*k].1, stride: 1 };
        let factors: Vec<Vec<Factor>> =
            self.spec.iter().map(|own| own.iter().map(factor).collect()).collect();
        Sharding::even(self.mesh.clone(), &factors, shape)
    }
}

impl WrittenLayout for JaxSharding {
    fn text(&self) -> String {
        let mut mesh = match &self.device_ids {
            None => {
                let axis = |(name, size): &(String, i64)| format!("{}: {size}", quoted(name));
                self.mesh.axes().iter().map(axis).collect::<Vec<_>>().join(", ")
            }
            Some(ids) => {
                let sizes: Vec<i64> = self.mesh.axes().iter().map(|(_, n)| *n).collect();
                let names: Vec<&str> = self.mesh.axes().iter().map(|(n, _)| n.as_str()).collect();
                format!("device_ids={}, axis_names={}", lists(&sizes, ids), tuple(&names))
            }
        };
        if let Some(types) = &self.axis_types {
            let comma = if types.len() == 1 { "," } else { "" };
            let front = if mesh.is_empty() { "" } else { ", " };
            mesh += &format!("{front}axis_types=({}{comma})", types.join(", "));
        }
        let names = |own: &Vec<usize>| -> Vec<&str> {
            own.iter().map(|k| self.mesh.axes()[*k].0.as_str()).collect()
        };
        let entry = |own: &Vec<usize>| match names(own).as_slice() {
            [] => "None".to_string(),
            [one] => quoted(one),
            many => tuple(many),
        };
        let spec = self.spec.iter().map(entry).collect::<Vec<_>>().join(", ");
        let (mesh, spec) = (format!("Mesh({mesh})"), format!("PartitionSpec({spec})"));
        let shape = shape_text(self.shape.as_ref());
        match &self.named {
            None if !self.mesh_given => format!("{spec}{shape}"),
            None => format!("{mesh} {spec}{shape}"),
            Some(more) => {
                let more: String = more.iter().map(|(k, v)| format!(", {k}={v}")).collect();
                format!("NamedSharding(mesh={mesh}, spec={spec}{more}){shape}")
            }
        }
    }

    fn layout(&self, shape: Option<&[i64]>) -> Result<Layout> {
        layout_of(self, shape)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.shape.clone()
    }
}

/// A name in quotes, as Python prints it.
fn quoted(name: &str) -> String {
    if name.contains('\'') { format!("\"{name}\"") } else { format!("'{name}'") }
}

fn tuple(names: &[&str]) -> String {
    let comma = if names.len() == 1 { "," } else { "" };
    let names: Vec<String> = names.iter().map(|n| quoted(n)).collect();
    format!("({}{comma})", names.join(", "))
}

/// Numbers in nested lists.
fn lists(sizes: &[i64], flat: &[i64]) -> String {
    let Some((first, rest)) = sizes.split_first() else {
        return flat.first().map_or_else(String::new, ToString::to_string);
    };
    let count = usize::try_from(*first).unwrap_or(0).max(1);
    let parts: Vec<String> =
        flat.chunks((flat.len() / count).max(1)).map(|part| lists(rest, part)).collect();
    format!("[{}]", parts.join(", "))
}

/// The text of a sharding over whole axes of its mesh.
pub(crate) fn write(sharding: &Sharding) -> Result<String, Refusal> {
    let whole = match sharding.uses_whole_axes() {
        true => sharding.clone(),
        false => sharding.on_whole_axes()?,
    };
    written(&whole).map(|x| x.text())
}

fn written(sharding: &Sharding) -> Result<JaxSharding, Refusal> {
    if !sharding.copies {
        return no("one device has everything: a spec divides over all devices of a mesh", None);
    }
    let mut spec: Vec<Vec<usize>> = sharding
        .leading_factors()?
        .iter()
        .map(|own| own.iter().map(|f| f.axis).collect())
        .collect();
    // As long as the tensor has dimensions, as most people write it.
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
pub fn express(layout: &Layout, shape: &[i64]) -> Result<String, Refusal> {
    let sharding = Sharding::of(layout, shape)?;
    if !sharding.uses_whole_axes() {
        return no(
            "a PartitionSpec divides over whole axes of a mesh, and the layout uses a part of one",
            None,
        );
    }
    let found = written(&sharding)?;
    match found.layout(Some(shape)) {
        Ok(lowered) => prove_sharding(&lowered, layout, &found.text())?,
        Err(reason) => return no(reason.message, None),
    }
    Ok(found.text())
}
