//! Writing operations that have a form of their own.

use super::Printer;
use crate::affine::{Expr, Names, show_with};
use crate::ir::{Attr, DYNAMIC, Op, Value};
use crate::op::Kind;
use crate::types::Type;
use std::fmt::Write;

/// Dimensions are values.
struct Values(Vec<String>);

impl Names for Values {
    fn dim(&self, i: usize) -> String {
        self.0.get(i).cloned().unwrap_or_else(|| format!("d{i}"))
    }
    fn symbol(&self, i: usize) -> String {
        format!("s{i}")
    }
}

impl Printer<'_> {
    pub(super) fn own(&mut self, op: &Op) {
        let dict = self.dict(op);
        let o = &op.operands;
        let text = match op.kind {
            Kind::TileId => format!("{dict} : {}", self.types(&op.results)),
            Kind::MemoryView => {
                let mut more = o[1..].iter();
                let sizes = self.mixed(op, "sizes", &mut more);
                let strides = self.mixed(op, "strides", &mut more);
                let (ptr, ty) = (self.name(o[0]), self.types(&op.results));
                format!(" {ptr}, sizes: {sizes}, strides: {strides}{dict} : {ty}")
            }
            Kind::DistributedView => {
                let ty = self.types(&op.results);
                format!(" ({} : {}){dict} : {ty}", self.names(o), self.types(o))
            }
            Kind::AccessTile => {
                let names = Values(o[1..].iter().map(|v| self.name(*v)).collect());
                let indices = op.map("indices").map_or(&[][..], |m| m.results());
                let indices = exprs(indices, &names);
                let (view, from) = (self.name(o[0]), self.ty(o[0]));
                format!(" {view}[{indices}]{dict} : {from} -> {}", self.types(&op.results))
            }
            Kind::IndirectTile => self.indirect(op, &dict),
            Kind::Load => {
                format!(
                    " {}{dict} : {} -> {}",
                    self.names(o),
                    self.types(o),
                    self.types(&op.results)
                )
            }
            Kind::Store => format!(" {}{dict} : {}", self.names(o), self.types(o)),
            Kind::Produce => return self.produce(op, &dict),
            k if k.is_delivery() => return self.delivery(op, &dict),
            Kind::Generic => {
                self.put(&dict);
                let (ins, outs) = self.split(op);
                self.ins_outs(ins, outs);
                self.put(" ");
                self.region(&op.regions[0], None);
                format!(" -> {}", self.results_list(op))
            }
            Kind::Reduce | Kind::LinalgMap => return self.combined(op),
            Kind::Broadcast | Kind::Transpose => {
                self.ins_outs(&o[..1], &o[1..]);
                let key = if op.kind == Kind::Broadcast { "dimensions" } else { "permutation" };
                format!(" {key} = {:?}", op.ints(key).unwrap_or(&[]))
            }
            Kind::LinalgIndex => {
                format!(" {} : {}", op.int("dim").unwrap_or(0), self.types(&op.results))
            }
            Kind::For | Kind::If | Kind::While | Kind::Parallel => return self.control(op),
            Kind::Condition => {
                let more = &o[1..];
                let tail = if more.is_empty() {
                    String::new()
                } else {
                    format!(" {} : {}", self.names(more), self.types(more))
                };
                format!("({}){tail}", self.name(o[0]))
            }
            Kind::AffineApply => {
                let dims = op.map("map").map_or(0, |m| m.dims()).min(o.len());
                let map = op.map("map").map_or(String::new(), |m| self.map(m));
                let symbols = &o[dims..];
                let tail = if symbols.is_empty() {
                    String::new()
                } else {
                    format!("[{}]", self.names(symbols))
                };
                format!(" {map}({}){tail}", self.names(&o[..dims]))
            }
            Kind::Call => {
                let callee = op.word("callee").unwrap_or_default();
                let (types, results) = (self.types(o), self.types(&op.results));
                format!(" @{callee}({}) : ({types}) -> ({results})", self.names(o))
            }
            Kind::MemRefLoad => {
                format!(" {}[{}] : {}", self.name(o[0]), self.names(&o[1..]), self.ty(o[0]))
            }
            Kind::MemRefStore => {
                let value = self.name(o[0]);
                format!(
                    " {value}, {}[{}] : {}",
                    self.name(o[1]),
                    self.names(&o[2..]),
                    self.ty(o[1])
                )
            }
            _ => return self.tensor(op),
        };
        self.put(&text);
    }

    fn tensor(&mut self, op: &Op) {
        let o = &op.operands;
        let ty = self.types(&op.results);
        let text = match op.kind {
            Kind::TensorEmpty => format!("() : {ty}"),
            Kind::Splat | Kind::FromElements if o.is_empty() => format!(" : {ty}"),
            Kind::Splat | Kind::FromElements => format!(" {} : {ty}", self.names(o)),
            Kind::Extract => {
                format!(" {}[{}] : {}", self.name(o[0]), self.names(&o[1..]), self.ty(o[0]))
            }
            Kind::ExtractSlice | Kind::InsertSlice => {
                let n = if op.kind == Kind::InsertSlice { 2 } else { 1 };
                let mut more = o[n..].iter();
                let lists = ["offsets", "sizes", "strides"].map(|k| self.mixed(op, k, &mut more));
                let lists = lists.join(" ");
                let from = self.ty(o[0]);
                if n == 2 {
                    let (a, b) = (self.name(o[0]), self.name(o[1]));
                    format!(" {a} into {b}{lists} : {from} into {ty}")
                } else {
                    format!(" {}{lists} : {from} to {ty}", self.name(o[0]))
                }
            }
            Kind::ExpandShape | Kind::CollapseShape => {
                let groups = format!("{:?}", op.groups("reassociation"));
                let shape = match (op.kind, op.results.first().map(|r| self.f.ty(*r))) {
                    (Kind::ExpandShape, Some(Type::Tensor(shape, _))) => {
                        format!(" output_shape {shape:?}")
                    }
                    _ => String::new(),
                };
                format!(" {} {groups}{shape} : {} into {ty}", self.name(o[0]), self.ty(o[0]))
            }
            Kind::Reshape => {
                let (a, b) = (self.name(o[0]), self.name(o[1]));
                format!(" {a}({b}) : ({}) -> {ty}", self.types(o))
            }
            Kind::Generate => {
                self.put(" ");
                self.region(&op.regions[0], None);
                format!(" : {ty}")
            }
            Kind::Pad => {
                let list = |k| op.ints(k).unwrap_or(&[]);
                let head =
                    format!(" {} low{:?} high{:?} ", self.name(o[0]), list("low"), list("high"));
                self.put(&head);
                self.region(&op.regions[0], None);
                format!(" : {} to {ty}", self.ty(o[0]))
            }
            Kind::Concat => {
                let dim = op.int("dim").unwrap_or(0);
                format!(" dim({dim}) {} : ({}) -> {ty}", self.names(o), self.types(o))
            }
            _ => format!(" {} : {}", self.names(o), self.ty(o[0])),
        };
        self.put(&text);
    }

    fn indirect(&self, op: &Op, dict: &str) -> String {
        let o = &op.operands;
        let variables: Vec<String> =
            op.words("variables").iter().map(|v| format!("%{v}")).collect();
        let flags = op.ints("indirect").unwrap_or(&[]);
        let sources = 1 + flags.iter().filter(|f| **f != 0).count();
        let captured = o[sources.min(o.len())..].iter().map(|v| self.name(*v));
        let names = Values(variables.iter().cloned().chain(captured).collect());
        let mut next = o.iter().skip(1);
        let subscripts: Vec<String> = op
            .maps("subscripts")
            .iter()
            .zip(flags)
            .map(|(map, flag)| {
                let inner = exprs(map.results(), &names);
                match (*flag != 0).then(|| next.next()).flatten() {
                    Some(source) => format!("ind({}[{inner}])", self.name(*source)),
                    None => format!("({inner})"),
                }
            })
            .collect();
        let from = self.types(&o[..sources.min(o.len())]);
        format!(
            " intermediate_variables({}) {}[{}]{dict} : {from} -> {}",
            variables.join(", "),
            self.name(o[0]),
            subscripts.join(", "),
            self.types(&op.results)
        )
    }

    fn produce(&mut self, op: &Op, dict: &str) {
        let tiles = op.set("producer_tiles_per_group").map_or(String::new(), |s| self.set(s));
        let types = match op.results.first().map(|r| self.f.ty(*r)) {
            Some(Type::TileFuture(types, _)) => {
                types.iter().map(|t| self.show_type(t)).collect::<Vec<_>>().join(", ")
            }
            _ => String::new(),
        };
        let ty = self.types(&op.results);
        let types = if types.is_empty() { String::new() } else { format!(" : {types}") };
        let head = format!(" producer_tiles_per_group = {tiles}{dict}{types} -> {ty} ");
        self.put(&head);
        self.region(&op.regions[0], Some(Kind::YieldPartial));
    }

    fn delivery(&mut self, op: &Op, dict: &str) {
        let mut parts: Vec<String> = Vec::new();
        for (name, attr) in &op.attrs {
            if super::structural(op.kind).contains(&name.as_str()) {
                parts.push(format!("{name} = {}", self.attr(attr)));
            }
        }
        let identity = &op.operands[1..];
        if !identity.is_empty() {
            parts.push(format!("identity({} : {})", self.names(identity), self.types(identity)));
        }
        let future = op.operands[0];
        let head = format!(
            "({}) {}{dict} : {} -> {}",
            self.name(future),
            parts.join(", "),
            self.ty(future),
            self.results_list(op)
        );
        self.put(&head);
        if let Some(region) = op.regions.first() {
            self.put(" ");
            self.region(region, Some(Kind::YieldReduced));
        }
    }

    fn combined(&mut self, op: &Op) {
        if let Some(combiner) = op.word("combiner") {
            let head = format!(" {{ {combiner} }}");
            self.put(&head);
        }
        let (ins, outs) = self.split(op);
        self.ins_outs(ins, outs);
        if let Some(dims) = op.ints("dimensions") {
            let dims = format!(" dimensions = {dims:?}");
            self.put(&dims);
        }
        if let Some(region) = op.regions.first() {
            let args: Vec<String> = region.args.iter().map(|v| self.declared(*v)).collect();
            let head = format!(" ({}) {{", args.join(", "));
            self.put(&head);
            self.body(region, None);
        }
    }

    fn control(&mut self, op: &Op) {
        let o = &op.operands;
        let end = Some(Kind::ScfYield);
        match op.kind {
            Kind::For => {
                let args = &op.regions[0].args;
                let bounds = [o[0], o[1], o[2]].map(|v| self.name(v));
                let [lb, ub, step] = bounds;
                let _ = write!(self.out, " {} = {lb} to {ub} step {step}", self.name(args[0]));
                if o.len() > 3 {
                    let carried = self.carried(&args[1..], &o[3..]);
                    let _ = write!(self.out, " iter_args({carried}) -> ({})", self.types(&o[3..]));
                }
                let ty = self.ty(o[0]);
                if ty != "index" {
                    let _ = write!(self.out, " : {ty}");
                }
                self.put(" {");
                self.body(&op.regions[0], end);
            }
            Kind::If => {
                let _ = write!(self.out, " {}", self.name(o[0]));
                if !op.results.is_empty() {
                    let _ = write!(self.out, " -> ({})", self.types(&op.results));
                }
                self.put(" ");
                self.region(&op.regions[0], end);
                if let Some(other) = op.regions.get(1) {
                    self.put(" else ");
                    self.region(other, end);
                }
            }
            Kind::While => {
                let carried = self.carried(&op.regions[0].args, o);
                let (types, results) = (self.types(o), self.types(&op.results));
                let _ = write!(self.out, " ({carried}) : ({types}) -> ({results}) {{");
                self.body(&op.regions[0], None);
                self.put(" do ");
                self.region(&op.regions[1], end);
            }
            _ => {
                let n = o.len() / 3;
                let part = |i: usize| self.names(&o[i * n..(i + 1) * n]);
                let (lb, ub, step) = (part(0), part(1), part(2));
                let args = self.names(&op.regions[0].args);
                let _ = write!(self.out, " ({args}) = ({lb}) to ({ub}) step ({step}) {{");
                self.body(&op.regions[0], end);
            }
        }
    }

    fn carried(&self, names: &[Value], values: &[Value]) -> String {
        let pair = |(a, b): (&Value, &Value)| format!("{} = {}", self.name(*a), self.name(*b));
        names.iter().zip(values).map(pair).collect::<Vec<_>>().join(", ")
    }

    fn split<'o>(&self, op: &'o Op) -> (&'o [Value], &'o [Value]) {
        let n = op.int("inputs").and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        op.operands.split_at(n.min(op.operands.len()))
    }

    pub(super) fn ins_outs(&mut self, ins: &[Value], outs: &[Value]) {
        if !ins.is_empty() {
            let _ = write!(self.out, " ins({} : {})", self.names(ins), self.types(ins));
        }
        let _ = write!(self.out, " outs({} : {})", self.names(outs), self.types(outs));
    }

    fn results_list(&self, op: &Op) -> String {
        let types = self.types(&op.results);
        if op.results.len() == 1 { types } else { format!("({types})") }
    }

    /// `[4, %n]`, taking values where a number is not known.
    fn mixed<'v>(
        &self,
        op: &Op,
        key: &str,
        values: &mut impl Iterator<Item = &'v Value>,
    ) -> String {
        let Some(Attr::Ints(list)) = op.attr(key) else { return "[]".into() };
        let items: Vec<String> = list
            .iter()
            .map(|n| match (*n == DYNAMIC).then(|| values.next()).flatten() {
                Some(value) => self.name(*value),
                None => n.to_string(),
            })
            .collect();
        format!("[{}]", items.join(", "))
    }
}

fn exprs(list: &[Expr], names: &Values) -> String {
    list.iter().map(|e| show_with(e, names)).collect::<Vec<_>>().join(", ")
}
