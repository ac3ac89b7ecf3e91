//! Shardy shardings (OpenXLA documentation, "Sharding Representation"):
//! `#sdy.mesh<["x"=2, "y"=4]> #sdy.sharding<@mesh, [{"x"}, {}]>`.
//!
//! ```text
//! text     := [ mesh ] "#sdy.sharding" "<" "@" name "," dims { "," name "=" axes } ">" [ shape ]
//!           | "#sdy.sharding" "<" "mesh" "<" axes-list ">" "," dims { "," name "=" axes } ">" [ shape ]
//! mesh     := "#sdy.mesh" "<" axes-list ">" | "sdy.mesh" "@" name "=" "<" axes-list ">"
//! axes-list:= "[" string "=" int { "," string "=" int } "]" [ "," "device_ids" "=" list ]
//! dims     := "[" dim { "," dim } "]"        dim := "{" [ axis { "," axis } ] [ "?" ] "}" [ "p" int ]
//! axis     := string [ ":" "(" int ")" int ]
//! ```
//!
//! Each dimension is divided over the axes in its braces, the first one slowest. `"x":(2)4` is the sub-axis
//! of `x` of size 4 with a part of size 2 slower than it. A mesh without axes whose `device_ids` are one
//! device has the whole tensor on that device; other numbers than 0, 1, .. do not change the coordinates on
//! the axes. A sharding alone is read; it has no layout before its mesh is given. `?` lets the compiler
//! divide further and `p1` is a priority; neither moves an element.
//!
//! **Law**: `parse(print(x)) == x`.

use crate::convert::{ConversionRefusal, not_expressible};
use crate::cursor::{Spanned, TextCursor};
use crate::notation::NotationRow;
use crate::sharding::prove_sharding;
use crate::sharding::{
    MeshAxes, MeshFactor, MeshSharding, ShardingText, layout_of_sharding_text, print_shape_field,
    python, read_shape_field,
};
use crate::{Diagnostic, Notation, ParsedText, WrittenLayout};
use zellige_layout::Layout;

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "shardy",
    doc: "Shardy shardings on a mesh",
    example: r#"#sdy.mesh<["x"=2, "y"=4]> #sdy.sharding<@mesh, [{"x"}, {}]> shape=[8, 16]"#,
    recognises: |text| {
        let mut c = TextCursor::new(text);
        let _ = c.eat_char('#');
        c.read_word().is_some_and(|w| w.value == "sdy")
    },
    parse: |text, _| parse(text).map(|x| ParsedText::from_written(Notation::SHARDY, x)),
    print: ParsedText::written_notation_text,
    express: |layout, shape, _| express_as_shardy(layout, shape),
    needs_dtype: false,
};

/// A Shardy sharding with its mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardySharding {
    /// For a sharding without a mesh, the axes that it names, as large as their sub-axes need.
    mesh: MeshAxes,
    mesh_form: MeshForm,
    /// The numbers of the devices, where they are not 0, 1, ..
    device_ids: Option<Vec<i64>>,
    name: String,
    dims: Vec<DimSharding>,
    replicated: Vec<MeshFactor>,
    shape: Option<Vec<i64>>,
}

/// The position of the mesh in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MeshForm {
    Before,
    Inside,
    Missing,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct DimSharding {
    factors: Vec<MeshFactor>,
    open: bool,
    priority: Option<i64>,
}

/// Reads a sharding and the mesh before it.
pub fn parse(text: &str) -> Result<ShardySharding> {
    let mut c = TextCursor::new(text);
    let mut mesh = None;
    let mut declared: Option<String> = None;
    if !name_follows(&c, "sdy.sharding") {
        let _ = c.eat_char('#');
        if c.read_dotted_word().is_none_or(|w| w.value != "sdy.mesh") {
            return Err(
                TextCursor::new(text).refuse_next_token("`#sdy.mesh<..>` and `#sdy.sharding<..>`")
            );
        }
        if c.eat_char('@') {
            declared = c.read_word().map(|w| w.value.to_string());
            c.expect_char('=', "after the name of the mesh")?;
        }
        mesh = Some(read_mesh(&mut c, text)?);
    }
    if !name_follows(&c, "sdy.sharding") {
        return Err(c.refuse_next_token("`#sdy.sharding<..>` after the mesh"));
    }
    c.eat_char('#');
    let _ = c.read_dotted_word();
    c.expect_char('<', "after `#sdy.sharding`")?;
    let mut name = String::from("mesh");
    let mut mesh_form = MeshForm::Before;
    if c.eat_char('@') {
        let word = match c.peek_char() {
            Some('"') => python::read_python_string(&mut c, text, "the name of a mesh")?,
            _ => match c.read_word() {
                Some(word) => Spanned { value: word.value.to_string(), span: word.span },
                None => return Err(c.refuse_next_token("the name of a mesh")),
            },
        };
        // A sharding refers to its mesh by name, and the text has only this one.
        if declared.as_ref().is_some_and(|d| *d != word.value) {
            let message = format!("the mesh before is @{}", declared.unwrap_or_default());
            return Err(Diagnostic::syntax_error(word.span, message, "another mesh"));
        }
        name = word.value;
        if mesh.is_none() {
            mesh_form = MeshForm::Missing;
            mesh = Some((mesh_of_named_axes(text)?, None));
        }
    } else if c.eat_word("mesh") {
        mesh_form = MeshForm::Inside;
        mesh = Some(read_mesh(&mut c, text)?);
    } else {
        return Err(c.refuse_next_token("`@mesh` or `mesh<..>`"));
    }
    let (mesh, device_ids) = mesh.unwrap_or_default();
    c.expect_char(',', "after the mesh")?;
    let mut found = ShardySharding {
        mesh,
        mesh_form,
        device_ids,
        name,
        dims: Vec::new(),
        replicated: Vec::new(),
        shape: None,
    };
    c.expect_char('[', "before the dimensions")?;
    while !c.eat_char(']') {
        if !found.dims.is_empty() {
            c.expect_char(',', "between dimensions")?;
        }
        let mut dim = DimSharding::default();
        (dim.factors, dim.open) = read_dim_axes(&mut c, text, &found)?;
        // The cursor reads a priority such as `p1` as one word.
        if let Some(word) = c.clone().read_word() {
            let Some(p) = word.value.strip_prefix('p').and_then(|p| p.parse().ok()) else {
                return Err(c.refuse_next_token("`,`, `]` or a priority such as p1"));
            };
            let _ = c.read_word();
            dim.priority = Some(p);
        }
        found.dims.push(dim);
    }
    while c.eat_char(',') {
        let Some(word) = c.read_word() else { return Err(c.refuse_next_token("`replicated=`")) };
        // Axes of a pending reduction hold partial sums, of which no layout gives a place for an
        // element.
        if word.value == "unreduced" {
            let message = "`unreduced` axes hold sums that are still to be added, not elements";
            return Err(Diagnostic::syntax_error(word.span, message, "a pending sum has no place"));
        }
        if word.value != "replicated" || !found.replicated.is_empty() {
            let shown: String = word.value.chars().take(40).collect();
            let message = format!("`{shown}` of a sharding is unknown or given twice");
            return Err(Diagnostic::syntax_error(word.span, message, "expected `replicated`"));
        }
        c.expect_char('=', "after `replicated`")?;
        let open;
        (found.replicated, open) = read_dim_axes(&mut c, text, &found)?;
        if open || found.replicated.is_empty() {
            let message = "`replicated` lists axes that hold copies";
            return Err(Diagnostic::syntax_error(word.span, message, "expected an axis or more"));
        }
    }
    c.expect_char('>', "at the end of the sharding")?;
    let at = c.next_token_start();
    found.shape = read_shape_field(&mut c)?;
    c.expect_end("the sharding")?;
    let given = mesh_form != MeshForm::Missing;
    if let Some(shape) = found.shape.as_ref().filter(|_| given) {
        let layout = found.sharding_over_shape(shape).and_then(|s| Ok(s.layout_over_shape(shape)?));
        layout.map_err(|d| Diagnostic { span: at..c.last_token_end(), ..d })?;
    }
    Ok(found)
}

fn name_follows(c: &TextCursor<'_>, name: &str) -> bool {
    let mut ahead = c.clone();
    ahead.eat_char('#') && ahead.read_dotted_word().is_some_and(|w| w.value == name)
}

/// The axes that a sharding names. Each is at least twice as large as its sub-axes need, so that a sub-axis
/// is never printed as the whole axis.
fn mesh_of_named_axes(text: &str) -> Result<MeshAxes> {
    let mut axes: Vec<(String, i64)> = Vec::new();
    let mut c = TextCursor::new(text);
    while let Some(ch) = c.peek_char() {
        if ch == '@' {
            // The name of the mesh.
            c.eat_char('@');
            if c.peek_char() == Some('"') {
                python::read_python_string(&mut c, text, "the name of a mesh")?;
            }
            continue;
        }
        if ch != '"' {
            let end = c.next_token_start() + ch.len_utf8();
            c.skip_to_place(end);
            continue;
        }
        let name = python::read_python_string(&mut c, text, "the name of an axis")?;
        let mut size = 1i64;
        if c.eat_char(':') && c.eat_char('(') {
            let before = c.read_integer("what is slower than the part of the axis")?.value;
            c.expect_char(')', "after what is slower")?;
            let part = c.read_integer("the size of the part of the axis")?.value;
            let least = before.checked_mul(part).and_then(|n| n.checked_mul(2));
            size = least.filter(|n| *n > 0).unwrap_or(1);
        }
        match axes.iter_mut().find(|(n, _)| *n == name.value) {
            Some((_, n)) => *n = n.checked_mul(size / gcd(*n, size)).unwrap_or(*n),
            None => axes.push((name.value, size)),
        }
    }
    MeshAxes::new(axes).map_err(|e| Diagnostic::syntax_error(0..text.len(), e, "here"))
}

/// The greatest common divisor of two positive numbers.
fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

/// A mesh, and the numbers of its devices where they are not 0, 1, ..
fn read_mesh(c: &mut TextCursor<'_>, text: &str) -> Result<(MeshAxes, Option<Vec<i64>>)> {
    let start = c.next_token_start();
    c.expect_char('<', "before the axes of the mesh")?;
    c.expect_char('[', "before the axes of the mesh")?;
    let mut axes: Vec<(String, i64)> = Vec::new();
    while !c.eat_char(']') {
        if !axes.is_empty() {
            c.expect_char(',', "between axes")?;
        }
        let name = python::read_python_string(c, text, "an axis such as \"x\"=2")?;
        c.expect_char('=', "after the name of an axis")?;
        axes.push((name.value, c.read_integer("the size of an axis")?.value));
    }
    let mut ids = None;
    if c.eat_char(',') {
        if !c.eat_word("device_ids") {
            return Err(c.refuse_next_token("`device_ids=`"));
        }
        c.expect_char('=', "after `device_ids`")?;
        ids = Some(c.read_int_list("numbers of devices")?);
    }
    c.expect_char('>', "at the end of the mesh")?;
    let mesh = MeshAxes::new(axes)
        .map_err(|e| Diagnostic::syntax_error(start..c.last_token_end(), e, "here"))?;
    let Some(ids) = ids else { return Ok((mesh, None)) };
    let mut sorted = ids.value.clone();
    sorted.sort_unstable();
    let each = (0..mesh.device_count()).eq(sorted.iter().copied());
    let one = mesh.named_sizes().is_empty() && sorted.len() == 1 && sorted[0] >= 0;
    if !each && !one {
        let message =
            format!("{:?} are not the {} devices of the mesh", ids.value, mesh.device_count());
        return Err(Diagnostic::syntax_error(ids.span, message, "each number from 0 on once"));
    }
    // Ids in order are the default, which Shardy does not print.
    let other = one || ids.value != sorted;
    Ok((mesh, other.then_some(ids.value)))
}

/// `{"x", "y":(1)2, ?}`.
fn read_dim_axes(
    c: &mut TextCursor<'_>,
    text: &str,
    found: &ShardySharding,
) -> Result<(Vec<MeshFactor>, bool)> {
    c.expect_char('{', "before axes")?;
    let mut factors: Vec<MeshFactor> = Vec::new();
    let mut open = false;
    while !c.eat_char('}') {
        if !factors.is_empty() {
            c.expect_char(',', "between axes")?;
        }
        if c.eat_char('?') {
            open = true;
            c.expect_char('}', "after `?`")?;
            break;
        }
        let start = c.next_token_start();
        let name = python::read_python_string(c, text, "an axis such as \"x\", or `?`")?;
        let Some(axis) = found.mesh.find_axis(&name.value) else {
            let known: Vec<&str> =
                found.mesh.named_sizes().iter().map(|(n, _)| n.as_str()).collect();
            let message = format!(
                "the mesh has no axis `{}`",
                name.value.chars().take(40).collect::<String>()
            );
            return Err(Diagnostic::syntax_error(name.span, message, "not an axis of the mesh")
                .with_help(format!("axes of the mesh: {}", known.join(", "))));
        };
        let size = found.mesh.named_sizes()[axis].1;
        let mut factor = MeshFactor { axis, size, stride: 1 };
        if c.eat_char(':') {
            c.expect_char('(', "before what is slower")?;
            let before = c.read_integer("what is slower than the part of the axis")?.value;
            c.expect_char(')', "after what is slower")?;
            factor.size = c.read_integer("the size of the part of the axis")?.value;
            // Shardy's rule for a sub-axis: the size before it times its own size divides the axis.
            let whole = before.checked_mul(factor.size).filter(|n| before > 0 && *n > 0);
            if factor.size < 2 || whole.is_none_or(|n| size % n != 0) {
                let message = format!("({before}){} is not a part of {size} devices", factor.size);
                return Err(Diagnostic::syntax_error(
                    start..c.last_token_end(),
                    message,
                    "the two divide the axis",
                ));
            }
            factor.stride = size / before / factor.size;
        }
        // Sub-axes of one axis are disjoint exactly if their ranges of weights are.
        let reaches = |f: &MeshFactor| (f.stride, f.stride * f.size);
        let (low, high) = reaches(&factor);
        let all = found.dims.iter().flat_map(|d| &d.factors).chain(&found.replicated);
        let clash = all.chain(&factors).filter(|f| f.axis == axis).find(|f| {
            let (l, h) = reaches(f);
            low < h && l < high
        });
        if clash.is_some() {
            let message = format!("axis `{}` is used twice", name.value);
            return Err(Diagnostic::syntax_error(
                start..c.last_token_end(),
                message,
                "already used",
            )
            .with_help("a mesh axis, or a part of it, stands at most once in a sharding"));
        }
        factors.push(factor);
    }
    Ok((factors, open))
}

impl ShardySharding {
    /// Whether devices are numbered along the axes of the mesh, the last one fastest.
    pub(crate) fn is_numbered_in_order(&self) -> bool {
        self.device_ids.is_none() || self.mesh.named_sizes().is_empty()
    }
}

impl ShardingText for ShardySharding {
    fn sharding_over_shape(&self, shape: &[i64]) -> Result<MeshSharding> {
        if self.mesh_form == MeshForm::Missing {
            let message = format!("the sharding is on @{}, which is not given", self.name);
            return Err(Diagnostic::syntax_error(0..0, message, "which mesh?")
                .with_id("Z005")
                .with_help(r#"write it before: #sdy.mesh<["x"=2, "y"=4]>"#));
        }
        if self.dims.len() != shape.len() {
            let (rank, found) = (self.dims.len(), shape.len());
            let message = format!(
                "the sharding is of {rank} dimensions, and the shape {shape:?} has {found}"
            );
            return Err(Diagnostic::syntax_error(0..0, message, "of another rank").with_id("Z005"));
        }
        let factors: Vec<Vec<MeshFactor>> = self.dims.iter().map(|d| d.factors.clone()).collect();
        // Shardy's maximal mesh: no axes, and one device that has the whole tensor.
        if let (Some([device]), []) = (self.device_ids.as_deref(), self.mesh.named_sizes()) {
            let mesh = MeshAxes::new(vec![("pid".into(), device.saturating_add(1))])
                .map_err(|e| Diagnostic::syntax_error(0..0, e, "here"))?;
            let mut found = MeshSharding::from_even_factors(mesh, &factors, shape)?;
            (found.first, found.copies) = (vec![*device], false);
            return Ok(found);
        }
        MeshSharding::from_even_factors(self.mesh.clone(), &factors, shape)
    }

    fn own_shape(&self) -> Option<&[i64]> {
        self.shape.as_deref()
    }
}

impl WrittenLayout for ShardySharding {
    fn notation_text(&self) -> String {
        let axis = |(name, size): &(String, i64)| format!("\"{name}\"={size}");
        let mesh: Vec<String> = self.mesh.named_sizes().iter().map(axis).collect();
        let factor = |f: &MeshFactor| {
            let (name, size) = &self.mesh.named_sizes()[f.axis];
            match f.size == *size {
                true => format!("\"{name}\""),
                false => format!("\"{name}\":({}){}", size / f.stride / f.size, f.size),
            }
        };
        let dim = |d: &DimSharding| {
            let mut axes: Vec<String> = d.factors.iter().map(factor).collect();
            if d.open {
                axes.push("?".into());
            }
            let priority = d.priority.map_or_else(String::new, |p| format!("p{p}"));
            format!("{{{}}}{priority}", axes.join(", "))
        };
        let dims: Vec<String> = self.dims.iter().map(dim).collect();
        let ids = self.device_ids.as_ref();
        let ids = ids.map_or_else(String::new, |ids| format!(", device_ids={ids:?}"));
        let mesh = format!("<[{}]{ids}>", mesh.join(", "));
        let plain = |ch: char| ch.is_alphanumeric() || ch == '_';
        let name = match self.name.chars().all(plain) {
            true => format!("@{}", self.name),
            false => format!("@\"{}\"", self.name),
        };
        let (before, inside) = match self.mesh_form {
            MeshForm::Before => (format!("#sdy.mesh{mesh} "), name),
            MeshForm::Inside => (String::new(), format!("mesh{mesh}")),
            MeshForm::Missing => (String::new(), name),
        };
        let mut out = format!("{before}#sdy.sharding<{inside}, [{}]", dims.join(", "));
        if !self.replicated.is_empty() {
            let axes: Vec<String> = self.replicated.iter().map(factor).collect();
            out += &format!(", replicated={{{}}}", axes.join(", "));
        }
        out + ">" + &print_shape_field(self.shape.as_ref())
    }

    fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout> {
        layout_of_sharding_text(self, shape)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.shape.clone()
    }
}

/// The text of a sharding.
pub(crate) fn write_shardy_sharding(sharding: &MeshSharding) -> Result<String, ConversionRefusal> {
    shardy_of_sharding(sharding).map(|x| x.notation_text())
}

fn shardy_of_sharding(sharding: &MeshSharding) -> Result<ShardySharding, ConversionRefusal> {
    if !sharding.copies || sharding.first.iter().any(|f| *f != 0) {
        return not_expressible("a Shardy sharding divides over all devices of a mesh", Some(0));
    }
    let dims: Vec<DimSharding> = sharding
        .leading_factors()?
        .into_iter()
        .map(|factors| DimSharding { factors, ..DimSharding::default() })
        .collect();
    for f in dims.iter().flat_map(|d| &d.factors) {
        let (name, size) = &sharding.mesh.named_sizes()[f.axis];
        // Only factors that divide the axis have a sub-axis form.
        if size % (f.stride * f.size) != 0 {
            return not_expressible(
                format!("a part of axis `{name}` that does not divide its {size} devices"),
                None,
            );
        }
    }
    let mesh = sharding.mesh.clone();
    Ok(ShardySharding {
        mesh,
        mesh_form: MeshForm::Before,
        device_ids: None,
        name: "mesh".into(),
        dims,
        replicated: Vec::new(),
        shape: None,
    })
}

/// The text of a layout, or why there is none.
pub fn express_as_shardy(layout: &Layout, shape: &[i64]) -> Result<String, ConversionRefusal> {
    let found = shardy_of_sharding(&MeshSharding::from_layout(layout, shape)?)?;
    match found.layout_over_shape(Some(shape)) {
        Ok(lowered) => prove_sharding(&lowered, layout, &found.notation_text())?,
        Err(reason) => return not_expressible(reason.message, None),
    }
    Ok(found.notation_text())
}
