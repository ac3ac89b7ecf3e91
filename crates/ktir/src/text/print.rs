//! Prints a module.

mod own;

use crate::affine::{KtirAffineMap, KtirAffineSet};
use crate::ir::{
    KtirAlias, KtirAttr, KtirBlock, KtirFunction, KtirLiteral, KtirMemorySpace, KtirModule, KtirOp,
    KtirValue,
};
use crate::op::{KtirOpForm, KtirOpKind};
use crate::types::{KtirElem, KtirType};
use std::fmt::Write;

/// Prints a module as text.
pub fn print_module(module: &KtirModule) -> String {
    let mut out = String::new();
    for (name, alias) in &module.aliases {
        let _ = match alias {
            KtirAlias::Set(set) => writeln!(out, "#{name} = {set}"),
            KtirAlias::Map(map) => writeln!(out, "#{name} = {map}"),
        };
    }
    if !module.aliases.is_empty() {
        out.push('\n');
    }
    out.push_str("module");
    if let Some(name) = &module.name {
        let _ = write!(out, " @{name}");
    }
    out.push_str(" {\n");
    for f in &module.functions {
        KtirPrinter { module, f, out: &mut out, indent: 1 }.print_function();
    }
    out.push_str("}\n");
    out
}

struct KtirPrinter<'m> {
    module: &'m KtirModule,
    f: &'m KtirFunction,
    out: &'m mut String,
    indent: usize,
}

/// The attributes that an operation prints outside of its dictionary.
fn structural_attributes(kind: KtirOpKind) -> &'static [&'static str] {
    match kind {
        KtirOpKind::ArithConstant => &["value"],
        KtirOpKind::CmpF | KtirOpKind::CmpI => &["predicate", "fastmath"],
        KtirOpKind::MemoryView => &["sizes", "strides"],
        KtirOpKind::AccessTile => &["indices"],
        KtirOpKind::RuntimeArgExtract => &["field"],
        KtirOpKind::IndirectTile => &["variables", "indirect", "subscripts"],
        KtirOpKind::Produce => &["producer_tiles_per_group"],
        KtirOpKind::Generic => &["inputs"],
        k if k.is_delivery() => &[
            "consumer_tiles_per_group",
            "producer_dependency_per_consumer",
            "scatter_dimensions",
            "gather_dimensions",
            "split_dimensions",
            "concat_dimensions",
        ],
        k if matches!(k.form(), KtirOpForm::Same(_) | KtirOpForm::Cast) => {
            &["fastmath", "overflow", "exact"]
        }
        _ => &[],
    }
}

impl KtirPrinter<'_> {
    fn start_line(&mut self) {
        let indent = self.indent;
        self.out.push('\n');
        (0..indent).for_each(|_| self.out.push_str("  "));
    }

    fn push_text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn print_function(&mut self) {
        let f = self.f;
        let args: Vec<String> = f.body.args.iter().map(|v| self.declared_value(*v)).collect();
        let _ = write!(self.out, "  func.func @{}({})", f.name, args.join(", "));
        if !f.results.is_empty() {
            let types: Vec<String> = f.results.iter().map(|t| self.format_type(t)).collect();
            let _ = write!(self.out, " -> ({})", types.join(", "));
        }
        if !f.grid.is_empty() {
            let _ = write!(self.out, " attributes {{grid = {:?}}}", f.grid);
        }
        self.push_text(" {");
        self.indent = 2;
        self.print_ops(&f.body, None);
        self.push_text("\n  }\n");
    }

    /// Prints the operations of a block. A terminator without operands that readers add by
    /// themselves is left out.
    fn print_ops(&mut self, block: &KtirBlock, implied: Option<KtirOpKind>) {
        for (i, op) in block.ops.iter().enumerate() {
            let last = i + 1 == block.ops.len();
            // MLIR's printer leaves these terminators out as well, and the reader adds them again.
            if last && Some(op.kind) == implied && op.operands.is_empty() {
                break;
            }
            self.start_line();
            self.print_op(op);
        }
    }

    /// `{ .. }` with its arguments at its head.
    fn print_region(&mut self, block: &KtirBlock, implied: Option<KtirOpKind>) {
        self.push_text("{");
        if !block.args.is_empty() {
            let args: Vec<String> = block.args.iter().map(|v| self.declared_value(*v)).collect();
            self.start_line();
            let _ = write!(self.out, "^bb0({}):", args.join(", "));
        }
        self.print_region_body(block, implied);
    }

    /// The rest of a region after `{`, with its `}`.
    fn print_region_body(&mut self, block: &KtirBlock, implied: Option<KtirOpKind>) {
        self.indent += 1;
        self.print_ops(block, implied);
        self.indent -= 1;
        self.start_line();
        self.push_text("}");
    }

    fn format_value(&self, value: KtirValue) -> String {
        format!("%{}", self.f.value_def(value).name)
    }

    fn format_values(&self, values: &[KtirValue]) -> String {
        values.iter().map(|v| self.format_value(*v)).collect::<Vec<_>>().join(", ")
    }

    fn format_value_type(&self, value: KtirValue) -> String {
        self.format_type(self.f.value_type(value))
    }

    fn format_value_types(&self, values: &[KtirValue]) -> String {
        values.iter().map(|v| self.format_value_type(*v)).collect::<Vec<_>>().join(", ")
    }

    /// `%a: T`.
    fn declared_value(&self, value: KtirValue) -> String {
        format!("{}: {}", self.format_value(value), self.format_value_type(value))
    }

    fn format_type(&self, ty: &KtirType) -> String {
        match ty {
            KtirType::TileFuture(types, Some(groups)) => {
                let types: Vec<String> = types.iter().map(|t| self.format_type(t)).collect();
                format!(
                    "!ktdp.tile_future<{}, groups = {}>",
                    types.join(", "),
                    self.format_set(groups)
                )
            }
            other => other.to_string(),
        }
    }

    fn format_set(&self, set: &KtirAffineSet) -> String {
        let named =
            self.module.aliases.iter().find(|(_, a)| matches!(a, KtirAlias::Set(s) if s == set));
        named.map_or_else(|| set.to_string(), |(n, _)| format!("#{n}"))
    }

    fn format_map(&self, map: &KtirAffineMap) -> String {
        let named =
            self.module.aliases.iter().find(|(_, a)| matches!(a, KtirAlias::Map(m) if m == map));
        named.map_or_else(|| map.to_string(), |(n, _)| format!("#{n}"))
    }

    fn format_attr(&self, attr: &KtirAttr) -> String {
        match attr {
            KtirAttr::Int(n) => n.to_string(),
            KtirAttr::Ints(list) => format!("{list:?}"),
            KtirAttr::Literal(l) => format_literal(*l, None),
            KtirAttr::Dense(_) | KtirAttr::Groups(_) => String::new(),
            KtirAttr::Set(set) => self.format_set(set),
            KtirAttr::Map(map) => self.format_map(map),
            KtirAttr::Maps(maps) => {
                let maps: Vec<String> = maps.iter().map(|m| self.format_map(m)).collect();
                format!("[{}]", maps.join(", "))
            }
            KtirAttr::Space(KtirMemorySpace::Global) => "#ktdp.memory_space<global>".into(),
            KtirAttr::Space(KtirMemorySpace::Local(None)) => "#ktdp.memory_space<ct_local>".into(),
            KtirAttr::Space(KtirMemorySpace::Local(Some(core))) => {
                format!("#ktdp.memory_space<ct_local, ct_id = {core}>")
            }
            KtirAttr::Word(word) | KtirAttr::Raw(word) => word.clone(),
            KtirAttr::Words(words) => {
                let words: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
                format!("[{}]", words.join(", "))
            }
        }
    }

    /// Formats ` {key = value}` for the attributes that are not printed elsewhere.
    fn format_dict(&self, op: &KtirOp) -> String {
        let outside = structural_attributes(op.kind);
        let entries: Vec<String> = op
            .attrs
            .iter()
            .filter(|(name, _)| !outside.contains(&name.as_str()))
            .map(|(name, attr)| match attr {
                KtirAttr::Raw(text) if text.is_empty() => name.clone(),
                attr => format!("{name} = {}", self.format_attr(attr)),
            })
            .collect();
        if entries.is_empty() { String::new() } else { format!(" {{{}}}", entries.join(", ")) }
    }

    fn format_flags(&self, op: &KtirOp) -> String {
        let mut out = String::new();
        for flag in ["fastmath", "overflow", "exact"] {
            if let Some(KtirAttr::Raw(text)) = op.attr(flag) {
                let _ = write!(out, " {flag}{text}");
            }
        }
        out + &self.format_dict(op)
    }

    fn print_op(&mut self, op: &KtirOp) {
        self.print_results(op);
        self.push_text(op.kind.name());
        let (operands, flags) = (self.format_values(&op.operands), self.format_flags(op));
        match op.kind.form() {
            KtirOpForm::Same(_) => {
                let ty = self.format_value_type(op.operands[0]);
                let _ = write!(self.out, " {operands}{flags} : {ty}");
            }
            KtirOpForm::Compare => {
                let ty = self.format_value_type(op.operands[0]);
                let predicate = op.word_attr("predicate").unwrap_or_default();
                let _ = write!(self.out, " {predicate}, {operands}{flags} : {ty}");
            }
            KtirOpForm::Select => {
                let (c, ty) = (
                    self.format_value_type(op.operands[0]),
                    self.format_value_type(op.operands[1]),
                );
                // The type of the condition is written only where it is a tile: MLIR's two forms of
                // `arith.select`.
                let c = if c == "i1" { String::new() } else { format!("{c}, ") };
                let _ = write!(self.out, " {operands}{flags} : {c}{ty}");
            }
            KtirOpForm::Cast => {
                let (from, to) =
                    (self.format_value_type(op.operands[0]), self.format_value_type(op.results[0]));
                let _ = write!(self.out, " {operands}{flags} : {from} to {to}");
            }
            KtirOpForm::Constant => self.print_constant(op),
            KtirOpForm::Structured(n) => {
                let ty = self.format_value_types(&op.results);
                let _ = write!(self.out, "{flags}");
                self.print_ins_outs(&op.operands[..n], &op.operands[n..]);
                let _ = write!(self.out, " -> {ty}");
            }
            KtirOpForm::Yield if op.operands.is_empty() => {}
            KtirOpForm::Yield => {
                let types = self.format_value_types(&op.operands);
                let _ = write!(self.out, " {operands} : {types}");
            }
            KtirOpForm::Own => self.print_own_form(op),
        }
    }

    /// `%a, %b = `, or `%g:2 = ` for results that share a name.
    fn print_results(&mut self, op: &KtirOp) {
        let names: Vec<&str> =
            op.results.iter().map(|v| self.f.value_def(*v).name.as_str()).collect();
        // A result without a name was not named in the text either, and nothing can refer to it.
        let Some(first) = names.first().filter(|n| !n.is_empty()) else { return };
        let shared = first
            .strip_suffix("#0")
            .filter(|base| names.iter().enumerate().all(|(i, n)| **n == format!("{base}#{i}")));
        let text = match shared {
            Some(base) => format!("%{base}:{} = ", names.len()),
            None => format!("{} = ", self.format_values(&op.results)),
        };
        self.push_text(&text);
    }

    fn print_constant(&mut self, op: &KtirOp) {
        let ty = self.f.value_type(op.results[0]);
        let (elem, shown) = (ty.elem(), self.format_type(ty));
        let dict = self.format_dict(op);
        let value = match op.attr("value") {
            Some(KtirAttr::Literal(l)) => format_literal(*l, elem),
            Some(KtirAttr::Dense(list)) => {
                let shape = ty.shape().unwrap_or(&[]);
                format!("dense<{}>", format_dense(list, shape, elem))
            }
            _ => String::new(),
        };
        let _ = write!(self.out, "{dict} {value} : {shown}");
    }
}

fn format_literal(l: KtirLiteral, elem: Option<KtirElem>) -> String {
    match l {
        KtirLiteral::Int(n) => n.to_string(),
        KtirLiteral::Float(bits) => {
            // Rust prints the shortest decimal that reads back to the same number.
            format!("{:?}", f64::from_bits(bits))
        }
        KtirLiteral::Bits(bits) => {
            // All digits of the element, zeros at the front too, so that the text shows its width.
            let width = elem.map_or(0, |e| e.value_bits().div_ceil(4) as usize);
            format!("0x{bits:0width$X}")
        }
    }
}

fn format_dense(list: &[KtirLiteral], shape: &[i64], elem: Option<KtirElem>) -> String {
    match (list, shape) {
        ([one], _) => format_literal(*one, elem),
        (_, [n, inner @ ..]) => {
            // The elements are in row-major order, so the outermost dimension cuts the list into
            // equal parts.
            let each = list.len() / usize::try_from(*n).unwrap_or(1).max(1);
            let parts: Vec<String> = list
                .chunks(each.max(1))
                .map(|part| {
                    if inner.is_empty() {
                        format_literal(part[0], elem)
                    } else {
                        format_dense_row(part, inner, elem)
                    }
                })
                .collect();
            format!("[{}]", parts.join(", "))
        }
        (_, []) => String::new(),
    }
}

/// Formats a row, which is a list even if it has one element.
fn format_dense_row(list: &[KtirLiteral], shape: &[i64], elem: Option<KtirElem>) -> String {
    match list {
        [one] => {
            let depth = shape.len();
            format!("{}{}{}", "[".repeat(depth), format_literal(*one, elem), "]".repeat(depth))
        }
        _ => format_dense(list, shape, elem),
    }
}
