//! Prints operations that have a textual form of their own.

use super::KtirPrinter;
use crate::affine::{KtirAffineExpr, KtirAffineNames, format_expr_with};
use crate::ir::{DYNAMIC_SIZE, KtirAttr, KtirOp, KtirValue};
use crate::op::KtirOpKind;
use crate::types::KtirType;
use std::fmt::Write;

/// Prints dimensions under the names of values.
struct ValueAffineNames(Vec<String>);

impl KtirAffineNames for ValueAffineNames {
    fn dim_name(&self, i: usize) -> String {
        self.0.get(i).cloned().unwrap_or_else(|| format!("d{i}"))
    }
    fn symbol_name(&self, i: usize) -> String {
        format!("s{i}")
    }
}

impl KtirPrinter<'_> {
    pub(super) fn print_own_form(&mut self, op: &KtirOp) {
        let dict = self.format_dict(op);
        let o = &op.operands;
        let text = match op.kind {
            KtirOpKind::CoreId => {
                let ty = self.format_value_types(&op.results);
                format!(" {}{dict} : {ty}", self.format_values(o))
            }
            KtirOpKind::RuntimeArgExtract => format!(
                " {} from {}{dict} : {} -> {}",
                op.word_attr("field").unwrap_or_default(),
                self.format_values(o),
                self.format_value_types(o),
                self.format_value_types(&op.results)
            ),
            KtirOpKind::TileId => format!("{dict} : {}", self.format_value_types(&op.results)),
            KtirOpKind::MemoryView => {
                let mut more = o[1..].iter();
                let sizes = self.format_mixed_list(op, "sizes", &mut more);
                let strides = self.format_mixed_list(op, "strides", &mut more);
                let (ptr, ty) = (self.format_value(o[0]), self.format_value_types(&op.results));
                format!(" {ptr}, sizes: {sizes}, strides: {strides}{dict} : {ty}")
            }
            KtirOpKind::DistributedView => {
                let ty = self.format_value_types(&op.results);
                format!(
                    " ({} : {}){dict} : {ty}",
                    self.format_values(o),
                    self.format_value_types(o)
                )
            }
            KtirOpKind::AccessTile => {
                let names =
                    ValueAffineNames(o[1..].iter().map(|v| self.format_value(*v)).collect());
                let indices = op.map_attr("indices").map_or(&[][..], |m| m.results());
                let indices = format_exprs(indices, &names);
                let (view, from) = (self.format_value(o[0]), self.format_value_type(o[0]));
                format!(
                    " {view}[{indices}]{dict} : {from} -> {}",
                    self.format_value_types(&op.results)
                )
            }
            KtirOpKind::IndirectTile => self.format_indirect(op, &dict),
            KtirOpKind::Load => {
                format!(
                    " {}{dict} : {} -> {}",
                    self.format_values(o),
                    self.format_value_types(o),
                    self.format_value_types(&op.results)
                )
            }
            KtirOpKind::Store => {
                format!(" {}{dict} : {}", self.format_values(o), self.format_value_types(o))
            }
            KtirOpKind::Produce => return self.print_produce(op, &dict),
            k if k.is_delivery() => return self.print_delivery(op, &dict),
            KtirOpKind::Generic => {
                self.push_text(&dict);
                let (ins, outs) = self.split_operands(op);
                self.print_ins_outs(ins, outs);
                self.push_text(" ");
                self.print_region(&op.regions[0], None);
                format!(" -> {}", self.format_result_types(op))
            }
            KtirOpKind::Reduce | KtirOpKind::LinalgMap => return self.print_combined(op),
            KtirOpKind::Broadcast | KtirOpKind::Transpose => {
                self.print_ins_outs(&o[..1], &o[1..]);
                let key =
                    if op.kind == KtirOpKind::Broadcast { "dimensions" } else { "permutation" };
                format!(" {key} = {:?}", op.ints_attr(key).unwrap_or(&[]))
            }
            KtirOpKind::LinalgIndex => {
                format!(
                    " {} : {}",
                    op.int_attr("dim").unwrap_or(0),
                    self.format_value_types(&op.results)
                )
            }
            KtirOpKind::For | KtirOpKind::If | KtirOpKind::While | KtirOpKind::Parallel => {
                return self.print_control(op);
            }
            KtirOpKind::Condition => {
                let more = &o[1..];
                let tail = if more.is_empty() {
                    String::new()
                } else {
                    format!(" {} : {}", self.format_values(more), self.format_value_types(more))
                };
                format!("({}){tail}", self.format_value(o[0]))
            }
            KtirOpKind::AffineApply => {
                let dims = op.map_attr("map").map_or(0, |m| m.dims()).min(o.len());
                let map = op.map_attr("map").map_or(String::new(), |m| self.format_map(m));
                let symbols = &o[dims..];
                let tail = if symbols.is_empty() {
                    String::new()
                } else {
                    format!("[{}]", self.format_values(symbols))
                };
                format!(" {map}({}){tail}", self.format_values(&o[..dims]))
            }
            KtirOpKind::Call => {
                let callee = op.word_attr("callee").unwrap_or_default();
                let (types, results) =
                    (self.format_value_types(o), self.format_value_types(&op.results));
                format!(" @{callee}({}) : ({types}) -> ({results})", self.format_values(o))
            }
            KtirOpKind::MemRefLoad => {
                format!(
                    " {}[{}] : {}",
                    self.format_value(o[0]),
                    self.format_values(&o[1..]),
                    self.format_value_type(o[0])
                )
            }
            KtirOpKind::MemRefStore => {
                let value = self.format_value(o[0]);
                format!(
                    " {value}, {}[{}] : {}",
                    self.format_value(o[1]),
                    self.format_values(&o[2..]),
                    self.format_value_type(o[1])
                )
            }
            _ => return self.print_tensor_op(op),
        };
        self.push_text(&text);
    }

    fn print_tensor_op(&mut self, op: &KtirOp) {
        let o = &op.operands;
        let ty = self.format_value_types(&op.results);
        let text = match op.kind {
            KtirOpKind::TensorEmpty => format!("() : {ty}"),
            KtirOpKind::Splat | KtirOpKind::FromElements if o.is_empty() => format!(" : {ty}"),
            KtirOpKind::Splat | KtirOpKind::FromElements => {
                format!(" {} : {ty}", self.format_values(o))
            }
            KtirOpKind::Extract => {
                format!(
                    " {}[{}] : {}",
                    self.format_value(o[0]),
                    self.format_values(&o[1..]),
                    self.format_value_type(o[0])
                )
            }
            KtirOpKind::ExtractSlice | KtirOpKind::InsertSlice => {
                let n = if op.kind == KtirOpKind::InsertSlice { 2 } else { 1 };
                let mut more = o[n..].iter();
                let lists = ["offsets", "sizes", "strides"]
                    .map(|k| self.format_mixed_list(op, k, &mut more));
                let lists = lists.join(" ");
                let from = self.format_value_type(o[0]);
                if n == 2 {
                    let (a, b) = (self.format_value(o[0]), self.format_value(o[1]));
                    format!(" {a} into {b}{lists} : {from} into {ty}")
                } else {
                    format!(" {}{lists} : {from} to {ty}", self.format_value(o[0]))
                }
            }
            KtirOpKind::ExpandShape | KtirOpKind::CollapseShape => {
                let groups = format!("{:?}", op.groups_attr("reassociation"));
                let shape = match (op.kind, op.results.first().map(|r| self.f.value_type(*r))) {
                    (KtirOpKind::ExpandShape, Some(KtirType::Tensor(shape, _))) => {
                        format!(" output_shape {shape:?}")
                    }
                    _ => String::new(),
                };
                format!(
                    " {} {groups}{shape} : {} into {ty}",
                    self.format_value(o[0]),
                    self.format_value_type(o[0])
                )
            }
            KtirOpKind::Reshape => {
                let (a, b) = (self.format_value(o[0]), self.format_value(o[1]));
                format!(" {a}({b}) : ({}) -> {ty}", self.format_value_types(o))
            }
            KtirOpKind::Generate => {
                self.push_text(" ");
                self.print_region(&op.regions[0], None);
                format!(" : {ty}")
            }
            KtirOpKind::Pad => {
                let list = |k| op.ints_attr(k).unwrap_or(&[]);
                let head = format!(
                    " {} low{:?} high{:?} ",
                    self.format_value(o[0]),
                    list("low"),
                    list("high")
                );
                self.push_text(&head);
                self.print_region(&op.regions[0], None);
                format!(" : {} to {ty}", self.format_value_type(o[0]))
            }
            KtirOpKind::Concat => {
                let dim = op.int_attr("dim").unwrap_or(0);
                format!(
                    " dim({dim}) {} : ({}) -> {ty}",
                    self.format_values(o),
                    self.format_value_types(o)
                )
            }
            _ => format!(" {} : {}", self.format_values(o), self.format_value_type(o[0])),
        };
        self.push_text(&text);
    }

    fn format_indirect(&self, op: &KtirOp, dict: &str) -> String {
        let o = &op.operands;
        let variables: Vec<String> =
            op.words_attr("variables").iter().map(|v| format!("%{v}")).collect();
        let flags = op.ints_attr("indirect").unwrap_or(&[]);
        let sources = 1 + flags.iter().filter(|f| **f != 0).count();
        let captured = o[sources.min(o.len())..].iter().map(|v| self.format_value(*v));
        let names = ValueAffineNames(variables.iter().cloned().chain(captured).collect());
        let mut next = o.iter().skip(1);
        let subscripts: Vec<String> = op
            .maps_attr("subscripts")
            .iter()
            .zip(flags)
            .map(|(map, flag)| {
                let inner = format_exprs(map.results(), &names);
                match (*flag != 0).then(|| next.next()).flatten() {
                    Some(source) => format!("ind({}[{inner}])", self.format_value(*source)),
                    None => format!("({inner})"),
                }
            })
            .collect();
        let from = self.format_value_types(&o[..sources.min(o.len())]);
        format!(
            " intermediate_variables({}) {}[{}]{dict} : {from} -> {}",
            variables.join(", "),
            self.format_value(o[0]),
            subscripts.join(", "),
            self.format_value_types(&op.results)
        )
    }

    fn print_produce(&mut self, op: &KtirOp, dict: &str) {
        let tiles =
            op.set_attr("producer_tiles_per_group").map_or(String::new(), |s| self.format_set(s));
        let types = match op.results.first().map(|r| self.f.value_type(*r)) {
            Some(KtirType::TileFuture(types, _)) => {
                types.iter().map(|t| self.format_type(t)).collect::<Vec<_>>().join(", ")
            }
            _ => String::new(),
        };
        let ty = self.format_value_types(&op.results);
        let types = if types.is_empty() { String::new() } else { format!(" : {types}") };
        let head = format!(" producer_tiles_per_group = {tiles}{dict}{types} -> {ty} ");
        self.push_text(&head);
        self.print_region(&op.regions[0], Some(KtirOpKind::YieldPartial));
    }

    fn print_delivery(&mut self, op: &KtirOp, dict: &str) {
        let mut parts: Vec<String> = Vec::new();
        for (name, attr) in &op.attrs {
            if super::structural_attributes(op.kind).contains(&name.as_str()) {
                parts.push(format!("{name} = {}", self.format_attr(attr)));
            }
        }
        let identity = &op.operands[1..];
        if !identity.is_empty() {
            parts.push(format!(
                "identity({} : {})",
                self.format_values(identity),
                self.format_value_types(identity)
            ));
        }
        let future = op.operands[0];
        let head = format!(
            "({}) {}{dict} : {} -> {}",
            self.format_value(future),
            parts.join(", "),
            self.format_value_type(future),
            self.format_result_types(op)
        );
        self.push_text(&head);
        if let Some(region) = op.regions.first() {
            self.push_text(" ");
            self.print_region(region, Some(KtirOpKind::YieldReduced));
        }
    }

    fn print_combined(&mut self, op: &KtirOp) {
        if let Some(combiner) = op.word_attr("combiner") {
            let head = format!(" {{ {combiner} }}");
            self.push_text(&head);
        }
        let (ins, outs) = self.split_operands(op);
        self.print_ins_outs(ins, outs);
        if let Some(dims) = op.ints_attr("dimensions") {
            let dims = format!(" dimensions = {dims:?}");
            self.push_text(&dims);
        }
        if let Some(region) = op.regions.first() {
            let args: Vec<String> = region.args.iter().map(|v| self.declared_value(*v)).collect();
            let head = format!(" ({}) {{", args.join(", "));
            self.push_text(&head);
            self.print_region_body(region, None);
        }
    }

    fn print_control(&mut self, op: &KtirOp) {
        let o = &op.operands;
        let end = Some(KtirOpKind::ScfYield);
        match op.kind {
            KtirOpKind::For => {
                let args = &op.regions[0].args;
                let bounds = [o[0], o[1], o[2]].map(|v| self.format_value(v));
                let [lb, ub, step] = bounds;
                let _ =
                    write!(self.out, " {} = {lb} to {ub} step {step}", self.format_value(args[0]));
                if o.len() > 3 {
                    let carried = self.format_carried(&args[1..], &o[3..]);
                    let _ = write!(
                        self.out,
                        " iter_args({carried}) -> ({})",
                        self.format_value_types(&o[3..])
                    );
                }
                let ty = self.format_value_type(o[0]);
                // `index` is the default of `scf.for`, which MLIR does not print.
                if ty != "index" {
                    let _ = write!(self.out, " : {ty}");
                }
                self.push_text(" {");
                self.print_region_body(&op.regions[0], end);
            }
            KtirOpKind::If => {
                let _ = write!(self.out, " {}", self.format_value(o[0]));
                if !op.results.is_empty() {
                    let _ = write!(self.out, " -> ({})", self.format_value_types(&op.results));
                }
                self.push_text(" ");
                self.print_region(&op.regions[0], end);
                if let Some(other) = op.regions.get(1) {
                    self.push_text(" else ");
                    self.print_region(other, end);
                }
            }
            KtirOpKind::While => {
                let carried = self.format_carried(&op.regions[0].args, o);
                let (types, results) =
                    (self.format_value_types(o), self.format_value_types(&op.results));
                let _ = write!(self.out, " ({carried}) : ({types}) -> ({results}) {{");
                self.print_region_body(&op.regions[0], None);
                self.push_text(" do ");
                self.print_region(&op.regions[1], end);
            }
            _ => {
                let n = o.len() / 3;
                let part = |i: usize| self.format_values(&o[i * n..(i + 1) * n]);
                let (lb, ub, step) = (part(0), part(1), part(2));
                let args = self.format_values(&op.regions[0].args);
                let _ = write!(self.out, " ({args}) = ({lb}) to ({ub}) step ({step}) {{");
                self.print_region_body(&op.regions[0], end);
            }
        }
    }

    fn format_carried(&self, names: &[KtirValue], values: &[KtirValue]) -> String {
        let pair = |(a, b): (&KtirValue, &KtirValue)| {
            format!("{} = {}", self.format_value(*a), self.format_value(*b))
        };
        names.iter().zip(values).map(pair).collect::<Vec<_>>().join(", ")
    }

    fn split_operands<'o>(&self, op: &'o KtirOp) -> (&'o [KtirValue], &'o [KtirValue]) {
        let n = op.int_attr("inputs").and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        op.operands.split_at(n.min(op.operands.len()))
    }

    pub(super) fn print_ins_outs(&mut self, ins: &[KtirValue], outs: &[KtirValue]) {
        if !ins.is_empty() {
            let _ = write!(
                self.out,
                " ins({} : {})",
                self.format_values(ins),
                self.format_value_types(ins)
            );
        }
        let _ = write!(
            self.out,
            " outs({} : {})",
            self.format_values(outs),
            self.format_value_types(outs)
        );
    }

    fn format_result_types(&self, op: &KtirOp) -> String {
        let types = self.format_value_types(&op.results);
        if op.results.len() == 1 { types } else { format!("({types})") }
    }

    /// Formats `[4, %n]`, with the next value where an entry is dynamic.
    fn format_mixed_list<'v>(
        &self,
        op: &KtirOp,
        key: &str,
        values: &mut impl Iterator<Item = &'v KtirValue>,
    ) -> String {
        let Some(KtirAttr::Ints(list)) = op.attr(key) else { return "[]".into() };
        let items: Vec<String> = list
            .iter()
            .map(|n| match (*n == DYNAMIC_SIZE).then(|| values.next()).flatten() {
                Some(value) => self.format_value(*value),
                None => n.to_string(),
            })
            .collect();
        format!("[{}]", items.join(", "))
    }
}

fn format_exprs(list: &[KtirAffineExpr], names: &ValueAffineNames) -> String {
    list.iter().map(|e| format_expr_with(e, names)).collect::<Vec<_>>().join(", ")
}
