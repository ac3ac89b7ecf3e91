//! Writing a module.

mod own;

use crate::affine::{Map, Set};
use crate::ir::{Alias, Attr, Block, Function, Literal, Module, Op, Space, Value};
use crate::op::{Form, Kind};
use crate::types::{Elem, Type};
use std::fmt::Write;

/// The text of a module.
pub fn print(module: &Module) -> String {
    let mut out = String::new();
    for (name, alias) in &module.aliases {
        let _ = match alias {
            Alias::Set(set) => writeln!(out, "#{name} = {set}"),
            Alias::Map(map) => writeln!(out, "#{name} = {map}"),
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
        Printer { module, f, out: &mut out, indent: 1 }.function();
    }
    out.push_str("}\n");
    out
}

struct Printer<'m> {
    module: &'m Module,
    f: &'m Function,
    out: &'m mut String,
    indent: usize,
}

/// Attributes that an operation writes outside its dictionary.
fn structural(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::ArithConstant => &["value"],
        Kind::CmpF | Kind::CmpI => &["predicate", "fastmath"],
        Kind::MemoryView => &["sizes", "strides"],
        Kind::AccessTile => &["indices"],
        Kind::IndirectTile => &["variables", "indirect", "subscripts"],
        Kind::Produce => &["producer_tiles_per_group"],
        Kind::Generic => &["inputs"],
        k if k.is_delivery() => &[
            "consumer_tiles_per_group",
            "producer_dependency_per_consumer",
            "scatter_dimensions",
            "gather_dimensions",
            "split_dimensions",
            "concat_dimensions",
        ],
        k if matches!(k.form(), Form::Same(_) | Form::Cast) => &["fastmath", "overflow", "exact"],
        _ => &[],
    }
}

impl Printer<'_> {
    fn line(&mut self) {
        let indent = self.indent;
        self.out.push('\n');
        (0..indent).for_each(|_| self.out.push_str("  "));
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn function(&mut self) {
        let f = self.f;
        let args: Vec<String> = f.body.args.iter().map(|v| self.declared(*v)).collect();
        let _ = write!(self.out, "  func.func @{}({})", f.name, args.join(", "));
        if !f.results.is_empty() {
            let types: Vec<String> = f.results.iter().map(|t| self.show_type(t)).collect();
            let _ = write!(self.out, " -> ({})", types.join(", "));
        }
        if !f.grid.is_empty() {
            let _ = write!(self.out, " attributes {{grid = {:?}}}", f.grid);
        }
        self.put(" {");
        self.indent = 2;
        self.ops(&f.body, None);
        self.put("\n  }\n");
    }

    /// The operations of a block; an end without operands that readers add is left out.
    fn ops(&mut self, block: &Block, implied: Option<Kind>) {
        for (i, op) in block.ops.iter().enumerate() {
            let last = i + 1 == block.ops.len();
            if last && Some(op.kind) == implied && op.operands.is_empty() {
                break;
            }
            self.line();
            self.op(op);
        }
    }

    /// `{ .. }` with its arguments at its head.
    fn region(&mut self, block: &Block, implied: Option<Kind>) {
        self.put("{");
        if !block.args.is_empty() {
            let args: Vec<String> = block.args.iter().map(|v| self.declared(*v)).collect();
            self.line();
            let _ = write!(self.out, "^bb0({}):", args.join(", "));
        }
        self.body(block, implied);
    }

    /// The rest of a region after `{`, with its `}`.
    fn body(&mut self, block: &Block, implied: Option<Kind>) {
        self.indent += 1;
        self.ops(block, implied);
        self.indent -= 1;
        self.line();
        self.put("}");
    }

    fn name(&self, value: Value) -> String {
        format!("%{}", self.f.value(value).name)
    }

    fn names(&self, values: &[Value]) -> String {
        values.iter().map(|v| self.name(*v)).collect::<Vec<_>>().join(", ")
    }

    fn ty(&self, value: Value) -> String {
        self.show_type(self.f.ty(value))
    }

    fn types(&self, values: &[Value]) -> String {
        values.iter().map(|v| self.ty(*v)).collect::<Vec<_>>().join(", ")
    }

    /// `%a: T`.
    fn declared(&self, value: Value) -> String {
        format!("{}: {}", self.name(value), self.ty(value))
    }

    fn show_type(&self, ty: &Type) -> String {
        match ty {
            Type::TileFuture(types, Some(groups)) => {
                let types: Vec<String> = types.iter().map(|t| self.show_type(t)).collect();
                format!("!ktdp.tile_future<{}, groups = {}>", types.join(", "), self.set(groups))
            }
            other => other.to_string(),
        }
    }

    fn set(&self, set: &Set) -> String {
        let named =
            self.module.aliases.iter().find(|(_, a)| matches!(a, Alias::Set(s) if s == set));
        named.map_or_else(|| set.to_string(), |(n, _)| format!("#{n}"))
    }

    fn map(&self, map: &Map) -> String {
        let named =
            self.module.aliases.iter().find(|(_, a)| matches!(a, Alias::Map(m) if m == map));
        named.map_or_else(|| map.to_string(), |(n, _)| format!("#{n}"))
    }

    fn attr(&self, attr: &Attr) -> String {
        match attr {
            Attr::Int(n) => n.to_string(),
            Attr::Ints(list) => format!("{list:?}"),
            Attr::Literal(l) => literal(*l, None),
            Attr::Dense(_) | Attr::Groups(_) => String::new(),
            Attr::Set(set) => self.set(set),
            Attr::Map(map) => self.map(map),
            Attr::Maps(maps) => {
                let maps: Vec<String> = maps.iter().map(|m| self.map(m)).collect();
                format!("[{}]", maps.join(", "))
            }
            Attr::Space(Space::Global) => "#ktdp.memory_space<global>".into(),
            Attr::Space(Space::Local(None)) => "#ktdp.memory_space<ct_local>".into(),
            Attr::Space(Space::Local(Some(core))) => {
                format!("#ktdp.memory_space<ct_local, ct_id = {core}>")
            }
            Attr::Word(word) | Attr::Raw(word) => word.clone(),
            Attr::Words(words) => {
                let words: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
                format!("[{}]", words.join(", "))
            }
        }
    }

    /// ` {key = value}` of what is not written elsewhere.
    fn dict(&self, op: &Op) -> String {
        let outside = structural(op.kind);
        let entries: Vec<String> = op
            .attrs
            .iter()
            .filter(|(name, _)| !outside.contains(&name.as_str()))
            .map(|(name, attr)| match attr {
                Attr::Raw(text) if text.is_empty() => name.clone(),
                attr => format!("{name} = {}", self.attr(attr)),
            })
            .collect();
        if entries.is_empty() { String::new() } else { format!(" {{{}}}", entries.join(", ")) }
    }

    fn flags(&self, op: &Op) -> String {
        let mut out = String::new();
        for flag in ["fastmath", "overflow", "exact"] {
            if let Some(Attr::Raw(text)) = op.attr(flag) {
                let _ = write!(out, " {flag}{text}");
            }
        }
        out + &self.dict(op)
    }

    fn op(&mut self, op: &Op) {
        self.results(op);
        self.put(op.kind.name());
        let (operands, flags) = (self.names(&op.operands), self.flags(op));
        match op.kind.form() {
            Form::Same(_) => {
                let ty = self.ty(op.operands[0]);
                let _ = write!(self.out, " {operands}{flags} : {ty}");
            }
            Form::Compare => {
                let ty = self.ty(op.operands[0]);
                let predicate = op.word("predicate").unwrap_or_default();
                let _ = write!(self.out, " {predicate}, {operands}{flags} : {ty}");
            }
            Form::Select => {
                let (c, ty) = (self.ty(op.operands[0]), self.ty(op.operands[1]));
                let c = if c == "i1" { String::new() } else { format!("{c}, ") };
                let _ = write!(self.out, " {operands}{flags} : {c}{ty}");
            }
            Form::Cast => {
                let (from, to) = (self.ty(op.operands[0]), self.ty(op.results[0]));
                let _ = write!(self.out, " {operands}{flags} : {from} to {to}");
            }
            Form::Constant => self.constant(op),
            Form::Structured(n) => {
                let ty = self.types(&op.results);
                let _ = write!(self.out, "{flags}");
                self.ins_outs(&op.operands[..n], &op.operands[n..]);
                let _ = write!(self.out, " -> {ty}");
            }
            Form::Yield if op.operands.is_empty() => {}
            Form::Yield => {
                let types = self.types(&op.operands);
                let _ = write!(self.out, " {operands} : {types}");
            }
            Form::Own => self.own(op),
        }
    }

    /// `%a, %b = `, or `%g:2 = ` for results that share a name.
    fn results(&mut self, op: &Op) {
        let names: Vec<&str> = op.results.iter().map(|v| self.f.value(*v).name.as_str()).collect();
        let Some(first) = names.first().filter(|n| !n.is_empty()) else { return };
        let shared = first
            .strip_suffix("#0")
            .filter(|base| names.iter().enumerate().all(|(i, n)| **n == format!("{base}#{i}")));
        let text = match shared {
            Some(base) => format!("%{base}:{} = ", names.len()),
            None => format!("{} = ", self.names(&op.results)),
        };
        self.put(&text);
    }

    fn constant(&mut self, op: &Op) {
        let ty = self.f.ty(op.results[0]);
        let (elem, shown) = (ty.elem(), self.show_type(ty));
        let dict = self.dict(op);
        let value = match op.attr("value") {
            Some(Attr::Literal(l)) => literal(*l, elem),
            Some(Attr::Dense(list)) => {
                let shape = ty.shape().unwrap_or(&[]);
                format!("dense<{}>", dense(list, shape, elem))
            }
            _ => String::new(),
        };
        let _ = write!(self.out, "{dict} {value} : {shown}");
    }
}

fn literal(l: Literal, elem: Option<Elem>) -> String {
    match l {
        Literal::Int(n) => n.to_string(),
        Literal::Float(bits) => {
            // Rust writes the shortest text that reads back to the same number.
            format!("{:?}", f64::from_bits(bits))
        }
        Literal::Bits(bits) => {
            let width = elem.map_or(0, |e| e.bits().div_ceil(4) as usize);
            format!("0x{bits:0width$X}")
        }
    }
}

fn dense(list: &[Literal], shape: &[i64], elem: Option<Elem>) -> String {
    match (list, shape) {
        ([one], _) => literal(*one, elem),
        (_, [n, inner @ ..]) => {
            let each = list.len() / usize::try_from(*n).unwrap_or(1).max(1);
            let parts: Vec<String> = list
                .chunks(each.max(1))
                .map(|part| {
                    if inner.is_empty() {
                        literal(part[0], elem)
                    } else {
                        dense_row(part, inner, elem)
                    }
                })
                .collect();
            format!("[{}]", parts.join(", "))
        }
        (_, []) => String::new(),
    }
}

/// A row that is a list even where it has one element.
fn dense_row(list: &[Literal], shape: &[i64], elem: Option<Elem>) -> String {
    match list {
        [one] => {
            let depth = shape.len();
            format!("{}{}{}", "[".repeat(depth), literal(*one, elem), "]".repeat(depth))
        }
        _ => dense(list, shape, elem),
    }
}
