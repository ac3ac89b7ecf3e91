//! MLIR's `linalg.pack` (documentation of the Linalg dialect):
//! `inner_dims_pos = [1] inner_tiles = [64] outer_dims_perm = [1, 0]`.
//!
//! ```text
//! text := [ "linalg.pack" value [ "padding_value" "(" value ":" type ")" ] ] fields [ "into" value ":" tensor "->" tensor ]
//! fields := { name "=" list }      name := "inner_dims_pos" | "inner_tiles" | "outer_dims_perm" | "shape"
//! ```
//!
//! Dimension `inner_dims_pos[k]` is cut into tiles of `inner_tiles[k]`; the packed tensor has the numbers
//! of tiles in the order of `outer_dims_perm`, then the tiles in the order of `inner_dims_pos`, and is
//! row-major in memory. The short form has no shape; `shape = [..]` is a field of ours that adds it. Tiles
//! are padded with the padding value.
//!
//! **Laws**: `parse(print(x)) == x`; the layout in the algebra is [`PackLayout::element_position`] as a function.

use crate::blocked::{
    BlockedDigit, BlockedDigits, BlockedDim, build_blocked_layout, outer_dim_order,
    prove_candidate, split_outer_and_inner,
};
use crate::convert::{ConversionRefusal, not_expressible};
use crate::cursor::{Spanned, TextCursor};
use crate::notation::NotationRow;
use crate::parsed::{StoredElements, positions_in_order};
use crate::{Diagnostic, Notation, ParsedText, WrittenLayout};
use std::ops::Range;
use zellige_layout::int::{checked_product, div_ceil};
use zellige_layout::{Layout, TileLayout, check_nonnegative_sizes};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "pack",
    doc: "MLIR `linalg.pack` attributes",
    example: "shape = [4, 100] outer_dims_perm = [1, 0] inner_dims_pos = [1] inner_tiles = [64]",
    recognises: recognises_pack,
    parse: |text, _| parse(text).map(|x| ParsedText::from_written(Notation::PACK, x)),
    print: ParsedText::written_notation_text,
    express: |layout, shape, _| express_as_pack(layout, shape).map(|x| x.notation_text()),
    needs_dtype: false,
};

/// The attributes of a pack, with the shape and the operation if the text states them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackLayout {
    inner_dims_pos: Vec<usize>,
    inner_tiles: Vec<i64>,
    outer_dims_perm: Vec<usize>,
    shape: Option<Vec<i64>>,
    operation: Option<PackOperation>,
}

/// The parts of the operation beside its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PackOperation {
    source: String,
    padding: Option<String>,
    into: String,
    element: String,
}

fn recognises_pack(text: &str) -> bool {
    let mut c = TextCursor::new(text);
    match c.read_dotted_word().map(|w| w.value) {
        Some("linalg.pack" | "inner_dims_pos" | "inner_tiles" | "outer_dims_perm") => true,
        // `shape = (4, 6) order='F'` is NumPy's: the lists of MLIR have square brackets.
        Some("shape") => {
            c.eat_char('=') && c.peek_char() == Some('[') && text.contains("inner_dims_pos")
        }
        _ => false,
    }
}

/// The lists of the text.
#[derive(Default)]
struct PackLists {
    pos: Option<Spanned<Vec<i64>>>,
    tiles: Option<Spanned<Vec<i64>>>,
    perm: Option<Spanned<Vec<i64>>>,
    shape: Option<Spanned<Vec<i64>>>,
}

/// Reads the attributes, or the whole operation.
pub fn parse(text: &str) -> Result<PackLayout> {
    let mut c = TextCursor::new(text);
    let mut operation = None;
    if c.clone().read_dotted_word().is_some_and(|w| w.value == "linalg.pack") {
        let _ = c.read_dotted_word();
        let source = read_mlir_value(&mut c)?;
        let mut padding = None;
        if c.eat_word("padding_value") {
            let start = c.next_token_start();
            c.expect_char('(', "after `padding_value`")?;
            read_mlir_value(&mut c)?;
            c.expect_char(':', "before the type of the padding")?;
            if c.read_word().is_none() {
                return Err(c.refuse_next_token("the type of the padding"));
            }
            c.expect_char(')', "after the padding")?;
            padding = Some(text[start..c.last_token_end()].to_string());
        }
        operation =
            Some(PackOperation { source, padding, into: String::new(), element: String::new() });
    }
    let lists = read_attribute_lists(&mut c)?;
    let mut shape = lists.shape.clone();
    let mut packed = None;
    if operation.is_some() || c.clone().eat_word("into") {
        let into_at = c.next_token_start();
        if !c.eat_word("into") {
            return Err(c.refuse_next_token("`into`, a value, and the types of both tensors"));
        }
        let into = read_mlir_value(&mut c)?;
        c.expect_char(':', "before the type of the tensor")?;
        let (from, element) = read_tensor_type(&mut c)?;
        c.expect_char('-', "in `->`")?;
        c.expect_char('>', "in `->`")?;
        let (to, other) = read_tensor_type(&mut c)?;
        if element.value != other.value {
            let message = format!("packing {} gives {}", element.value, other.value);
            return Err(Diagnostic::syntax_error(other.span, message, "another element type"));
        }
        if let Some(op) = &mut operation {
            op.into = into;
            op.element = element.value;
        } else {
            let message = "`into` without `linalg.pack`";
            return Err(Diagnostic::syntax_error(
                into_at..into_at + 4,
                message,
                "of which operation?",
            ));
        }
        shape = Some(from);
        packed = Some(to);
    }
    c.expect_end("the attributes")?;
    let end = text.len()..text.len();
    let layout = check_pack_attributes(lists, shape.as_ref(), operation, end)?;
    if let Some(shape) = &shape {
        let found = layout.packed_shape(&shape.value);
        let found = found.map_err(|d| Diagnostic { span: shape.span.clone(), ..d })?;
        if let Some(packed) = packed.filter(|p| p.value != found) {
            let message =
                format!("the packed tensor has the shape {:?}, not {found:?}", packed.value);
            return Err(Diagnostic::syntax_error(packed.span, message, "of another shape")
                .with_help(
                    "the numbers of tiles in the order of outer_dims_perm, then the tiles",
                ));
        }
        let padded =
            shape.value.iter().enumerate().find(|(d, n)| **n % layout.tile_of_dim(*d) != 0);
        // MLIR's verifier requires a padding value for partial tiles. The short form has no
        // operation, so that the question does not arise there.
        if let (Some((d, n)), Some(PackOperation { padding: None, .. })) =
            (padded, &layout.operation)
        {
            let message = format!(
                "dimension {d} of {n} elements is not a multiple of its tile, {}, and there is no padding_value",
                layout.tile_of_dim(d)
            );
            return Err(Diagnostic::syntax_error(shape.span.clone(), message, "padded with what?")
                .with_help("write padding_value(%z : type) after the first value"));
        }
    }
    Ok(layout)
}

/// `%name`.
fn read_mlir_value(c: &mut TextCursor<'_>) -> Result<String> {
    c.expect_char('%', "and the name of a value")?;
    if let Some(word) = c.read_word() {
        return Ok(format!("%{}", word.value));
    }
    Ok(format!("%{}", c.read_integer("the name of a value")?.value))
}

/// `tensor<5x6xi32>`: its shape and its element type.
fn read_tensor_type(c: &mut TextCursor<'_>) -> Result<(Spanned<Vec<i64>>, Spanned<String>)> {
    let start = c.next_token_start();
    if !c.eat_word("tensor") {
        return Err(c.refuse_next_token("a type such as tensor<5x6xi32>"));
    }
    c.expect_char('<', "after `tensor`")?;
    let (dims, element) = crate::memref::read_shaped_type(c)?;
    c.expect_char('>', "at the end of the type")?;
    Ok((Spanned { value: dims, span: start..c.last_token_end() }, element))
}

fn print_tensor_type(shape: &[i64], element: &str) -> String {
    let dims: String = shape.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{element}>")
}

fn read_attribute_lists(c: &mut TextCursor<'_>) -> Result<PackLists> {
    let mut lists = PackLists::default();
    loop {
        let mut ahead = c.clone();
        let Some(key) = ahead.read_word().filter(|w| w.value != "into") else { return Ok(lists) };
        let slot = match key.value {
            "inner_dims_pos" => &mut lists.pos,
            "inner_tiles" => &mut lists.tiles,
            "outer_dims_perm" => &mut lists.perm,
            "shape" => &mut lists.shape,
            other => {
                let shown: String = other.chars().take(40).collect();
                let message = format!("unknown attribute `{shown}`");
                return Err(Diagnostic::syntax_error(key.span, message, "unknown")
                    .with_help("known: inner_dims_pos, inner_tiles, outer_dims_perm, and shape"));
            }
        };
        if slot.is_some() {
            let message = format!("`{}` is given twice", key.value);
            return Err(Diagnostic::syntax_error(key.span, message, "already given"));
        }
        *c = ahead;
        c.expect_char('=', "after the name of an attribute")?;
        // MLIR's attribute lists have square brackets; parentheses would make the text look like
        // NumPy's.
        if c.peek_char() != Some('[') {
            return Err(c.refuse_next_token("a list in square brackets"));
        }
        *slot = Some(c.read_int_list("integers")?);
        let _ = c.eat_char(',');
    }
}

fn check_pack_attributes(
    lists: PackLists,
    shape: Option<&Spanned<Vec<i64>>>,
    operation: Option<PackOperation>,
    end: Range<usize>,
) -> Result<PackLayout> {
    let missing = |what: &str| {
        Diagnostic::syntax_error(
            end.clone(),
            format!("`{what}` is missing"),
            format!("expected `{what} = [..]`"),
        )
    };
    let pos = lists.pos.ok_or_else(|| missing("inner_dims_pos"))?;
    let tiles = lists.tiles.ok_or_else(|| missing("inner_tiles"))?;
    if pos.value.len() != tiles.value.len() {
        let message = format!("{} positions and {} tiles", pos.value.len(), tiles.value.len());
        return Err(Diagnostic::syntax_error(tiles.span, message, "one tile for every position")
            .with_id("Z004"));
    }
    if let Some(t) = tiles.value.iter().find(|t| **t < 1) {
        return Err(Diagnostic::syntax_error(tiles.span, format!("a tile of {t}"), "1 or more"));
    }
    // Without a shape only a permutation of the outer dimensions determines the rank.
    let rank = shape.map(|s| s.value.len()).or(lists.perm.as_ref().map(|p| p.value.len()));
    let dims = |list: &Spanned<Vec<i64>>| -> Result<Vec<usize>> {
        let mut seen: Vec<usize> = Vec::new();
        for d in &list.value {
            let dim = usize::try_from(*d).ok().filter(|dim| rank.is_none_or(|rank| *dim < rank));
            let Some(dim) = dim else {
                let message = format!("dimension {d} of {} dimensions", rank.unwrap_or(0));
                let message = if *d < 0 { format!("dimension {d} is negative") } else { message };
                return Err(Diagnostic::syntax_error(
                    list.span.clone(),
                    message,
                    "there is none of this number",
                ));
            };
            // MLIR's verifier requires distinct dimensions: a dimension has one tile.
            if seen.contains(&dim) {
                let message = format!("dimension {d} is listed twice");
                return Err(Diagnostic::syntax_error(
                    list.span.clone(),
                    message,
                    "each at most once",
                ));
            }
            seen.push(dim);
        }
        Ok(seen)
    };
    let inner_dims_pos = dims(&pos)?;
    let outer_dims_perm = match &lists.perm {
        None => Vec::new(),
        Some(perm) => {
            let found = dims(perm)?;
            if !found.is_empty() && rank.is_some_and(|rank| found.len() != rank) {
                let message = format!("{} of {} dimensions", found.len(), rank.unwrap_or(0));
                return Err(Diagnostic::syntax_error(
                    perm.span.clone(),
                    message,
                    "a permutation of all",
                ));
            }
            found
        }
    };
    if let Some(shape) = shape {
        check_nonnegative_sizes(&shape.value)
            .map_err(|e| Diagnostic::meaning_error(shape.span.clone(), e))?;
    }
    Ok(PackLayout {
        inner_dims_pos,
        inner_tiles: tiles.value,
        outer_dims_perm,
        shape: shape.map(|s| s.value.clone()),
        operation,
    })
}

impl PackLayout {
    /// The dimensions that are cut into tiles, in the order of the tiles.
    pub fn inner_dims_pos(&self) -> &[usize] {
        &self.inner_dims_pos
    }

    /// The tiles.
    pub fn inner_tiles(&self) -> &[i64] {
        &self.inner_tiles
    }

    /// The order of the numbers of tiles; empty where it is that of the dimensions.
    pub fn outer_dims_perm(&self) -> &[usize] {
        &self.outer_dims_perm
    }

    /// The tile of a dimension, 1 where it is not cut.
    fn tile_of_dim(&self, dim: usize) -> i64 {
        let at = self.inner_dims_pos.iter().position(|d| *d == dim);
        at.map_or(1, |at| self.inner_tiles[at])
    }

    fn outer_permutation(&self, rank: usize) -> Vec<usize> {
        match self.outer_dims_perm.as_slice() {
            // The permutation is optional in MLIR, and the identity if it is missing.
            [] => (0..rank).collect(),
            perm => perm.to_vec(),
        }
    }

    /// The shape of the packed tensor.
    pub fn packed_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        let rank = shape.len();
        let outer = self.outer_dims_perm.len();
        let over = self.inner_dims_pos.iter().find(|d| **d >= rank);
        if (outer != 0 && outer != rank) || over.is_some() {
            let message = match over {
                Some(d) => format!("dimension {d} is cut, and the shape {shape:?} has {rank}"),
                None => format!(
                    "outer_dims_perm orders {outer} dimensions, and the shape {shape:?} has {rank}"
                ),
            };
            return Err(Diagnostic::syntax_error(0..0, message, "of another rank").with_id("Z005"));
        }
        check_nonnegative_sizes(shape)?;
        let tiles = self
            .outer_permutation(rank)
            .into_iter()
            .map(|d| div_ceil(shape[d], self.tile_of_dim(d)));
        let packed: Vec<i64> = tiles.chain(self.inner_tiles.iter().copied()).collect();
        checked_product(packed.iter().copied(), "the number of positions")?;
        checked_product(shape.iter().copied(), "the number of elements")?;
        Ok(packed)
    }

    /// The position of an element in the packed tensor, row-major. The coordinate is inside the shape.
    pub fn element_position(&self, shape: &[i64], coordinate: &[i64]) -> Result<i64> {
        let packed = self.packed_shape(shape)?;
        let outer = self
            .outer_permutation(shape.len())
            .into_iter()
            .map(|d| coordinate[d] / self.tile_of_dim(d));
        let inner = self.inner_dims_pos.iter().map(|d| coordinate[*d] % self.tile_of_dim(*d));
        Ok(packed.iter().zip(outer.chain(inner)).fold(0, |flat, (extent, i)| flat * extent + i))
    }

    fn shape_or_own<'a>(&'a self, shape: Option<&'a [i64]>) -> Result<&'a [i64]> {
        self.shape.as_deref().or(shape).ok_or_else(|| {
            Diagnostic::syntax_error(
                0..0,
                "the attributes do not say the shape",
                "of which tensor?",
            )
            .with_id("Z005")
            .with_help("give the shape, or write shape = [..] or the whole operation")
        })
    }
}

impl PackLayout {
    /// The number of positions of the packed tensor.
    fn count_packed_positions(&self, shape: &[i64]) -> Result<i64> {
        Ok(checked_product(self.packed_shape(shape)?, "the number of positions")?)
    }
}

impl WrittenLayout for PackLayout {
    fn notation_text(&self) -> String {
        let mut fields = String::new();
        if !self.outer_dims_perm.is_empty() {
            fields += &format!("outer_dims_perm = {:?} ", self.outer_dims_perm);
        }
        fields += &format!(
            "inner_dims_pos = {:?} inner_tiles = {:?}",
            self.inner_dims_pos, self.inner_tiles
        );
        match (&self.operation, &self.shape) {
            (None, None) => fields,
            (None, Some(shape)) => format!("shape = {shape:?} {fields}"),
            (Some(op), shape) => {
                let shape = shape.clone().unwrap_or_default();
                let packed = self.packed_shape(&shape).unwrap_or_default();
                let padding = op.padding.as_ref().map(|p| format!("padding_value{p} "));
                format!(
                    "linalg.pack {} {}{fields} into {} : {} -> {}",
                    op.source,
                    padding.unwrap_or_default(),
                    op.into,
                    print_tensor_type(&shape, &op.element),
                    print_tensor_type(&packed, &op.element)
                )
            }
        }
    }

    fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout> {
        let shape = self.shape_or_own(shape)?;
        let packed = self.packed_shape(shape)?;
        // An empty tensor has no digits whose products could be split.
        if packed.contains(&0) {
            return Ok(TileLayout::from_strides(shape, &vec![0; shape.len()], 0)?.into());
        }
        let mut strides = zellige_layout::int::row_major_strides(&packed)?;
        let inner = strides.split_off(shape.len());
        let outer = self.outer_permutation(shape.len());
        let mut dims = Vec::with_capacity(shape.len());
        for (d, valid) in shape.iter().enumerate() {
            let at = outer.iter().position(|o| *o == d).unwrap_or(d);
            let mut digits = vec![BlockedDigit { extent: packed[at], stride: strides[at] }];
            if let Some(k) = self.inner_dims_pos.iter().position(|p| *p == d) {
                digits.push(BlockedDigit { extent: self.inner_tiles[k], stride: inner[k] });
            }
            dims.push(BlockedDim { valid: *valid, digits });
        }
        Ok(build_blocked_layout(&dims, 0)?)
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        self.shape.clone()
    }

    fn stored_elements(&self, shape: Option<&[i64]>) -> Option<Result<StoredElements>> {
        Some((|| {
            let shape = self.shape_or_own(shape)?;
            let order = positions_in_order(shape, |c| self.element_position(shape, c))?;
            Ok(StoredElements { order, positions: self.count_packed_positions(shape)? })
        })())
    }

    fn count_memory_positions(&self, shape: Option<&[i64]>) -> Option<Result<i64>> {
        Some(self.shape_or_own(shape).and_then(|shape| self.count_packed_positions(shape)))
    }
}

/// The attributes of a layout, or why there are none.
pub fn express_as_pack(layout: &Layout, shape: &[i64]) -> Result<PackLayout, ConversionRefusal> {
    let digits = BlockedDigits::from_layout(layout, shape, "linalg.pack")?;
    let order = match digits.dense_block_order(shape, false, |d| d.to_string()) {
        Ok(order) => order,
        Err((reason, witness)) => {
            return not_expressible(format!("no linalg.pack: {reason}"), witness);
        }
    };
    let (outer, inner) = split_outer_and_inner(&order);
    let (mut pos, mut tiles): (Vec<usize>, Vec<i64>) = (Vec::new(), Vec::new());
    for block in inner {
        match pos.iter().position(|d| *d == block.dim) {
            // Neighbouring blocks of one dimension are fused to one tile, because a pack has one tile for
            // each dimension.
            Some(at) if at + 1 == pos.len() => tiles[at] = tiles[at].saturating_mul(block.extent),
            Some(_) => {
                let reason = format!("no linalg.pack: dimension {} needs two tiles", block.dim);
                return not_expressible(
                    reason,
                    digits.first_moved_element(shape, block.dim, block.digit),
                );
            }
            None => {
                pos.push(block.dim);
                tiles.push(block.extent);
            }
        }
    }
    let perm = outer_dim_order(outer, shape.len());
    let sorted = perm.is_sorted();
    let found = PackLayout {
        inner_dims_pos: pos,
        inner_tiles: tiles,
        outer_dims_perm: if sorted { Vec::new() } else { perm },
        shape: None,
        operation: None,
    };
    match found.layout_over_shape(Some(shape)) {
        Ok(lowered) => prove_candidate(&lowered, layout, &found.notation_text())?,
        Err(reason) => return not_expressible(reason.message, None),
    }
    Ok(found)
}
