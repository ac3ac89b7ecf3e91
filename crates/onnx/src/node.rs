//! A node as the rules of operations see it, with its operands, attributes and results.

use crate::error::{NeededInputs, OnnxError, Result, quote_start};
use crate::literal::TensorLiteral;
use crate::proto::{self, AttributeValue};
use crate::walk::{GraphImport, ModelValue};
use std::rc::Rc;
use zellige_float::Dtype;
use zellige_graph::{GraphError, GraphOperand, TensorId};

/// A node that is being lowered into the graph.
pub(crate) struct NodeLowering<'i, 'a> {
    pub(crate) import: &'i mut GraphImport<'a>,
    pub(crate) proto: &'a proto::NodeProto<'a>,
    index: usize,
    /// The attributes that a rule has read.
    taken: Vec<&'static str>,
    /// Whether all attributes have been read.
    // The call of a function passes all attributes on, and the nodes inside look up those that they
    // need.
    all_taken: bool,
    /// The number of results made so far.
    pub(crate) named: usize,
}

impl<'i, 'a> NodeLowering<'i, 'a> {
    pub(crate) fn new(
        import: &'i mut GraphImport<'a>,
        proto: &'a proto::NodeProto<'a>,
        index: usize,
    ) -> NodeLowering<'i, 'a> {
        NodeLowering { import, proto, index, taken: Vec::new(), all_taken: false, named: 0 }
    }

    /// The name of its operation.
    pub(crate) fn op(&self) -> &'a str {
        self.proto.op
    }

    pub(crate) fn domain(&self) -> &'a str {
        self.proto.domain
    }

    pub(crate) fn overload(&self) -> &'a str {
        self.proto.overload
    }

    /// Every attribute, to be passed on to a called function.
    pub(crate) fn all_attributes(&mut self) -> Vec<(&'a str, &'a AttributeValue<'a>)> {
        self.all_taken = true;
        let all = self.proto.attributes.iter();
        all.filter_map(|a| Some((a.name, self.resolve_attribute(&a.value)?))).collect()
    }

    pub(crate) fn opset(&self) -> i64 {
        self.import.current_opset()
    }

    fn node_label(&self) -> String {
        let name = quote_start(self.proto.name);
        let name = if name.is_empty() { String::new() } else { format!(" `{name}`") };
        format!("node {}{name} ({})", self.index, quote_start(self.proto.op))
    }

    /// An error about the node.
    pub(crate) fn refuse_node(&self, kind: &'static str, message: impl Into<String>) -> OnnxError {
        OnnxError { node: Some(self.node_label()), ..OnnxError::new(kind, message) }
    }

    /// An error about an operand.
    pub(crate) fn refuse_operand(&self, k: usize, message: impl Into<String>) -> OnnxError {
        let name = self.proto.inputs.get(k).map_or(String::new(), |n| quote_start(n));
        OnnxError { operand: Some((k, name)), ..self.refuse_node("bad_operand", message) }
    }

    /// Adds the node to an error of itself or of a node inside of it.
    pub(crate) fn with_node_place(&self, e: OnnxError) -> OnnxError {
        let node = match &e.node {
            Some(inner) => format!("{inner} in {}", self.node_label()),
            None => self.node_label(),
        };
        OnnxError { node: Some(node), ..e }
    }

    pub(crate) fn graph_refusal(&self, op: &str, e: &GraphError) -> OnnxError {
        let operand = e.operand.map_or(String::new(), |k| format!(", its operand {k}"));
        self.refuse_node(e.kind, format!("as `{op}`{operand}: {}", e.message))
    }

    // Operands

    /// The number of operands, without those left out at the end.
    pub(crate) fn operand_count(&self) -> usize {
        // ONNX writes an optional operand that is left out as an empty name; at the end of the list
        // it may be missing altogether, and both mean the same.
        self.proto.inputs.iter().rposition(|n| !n.is_empty()).map_or(0, |k| k + 1)
    }

    /// Checks the number of operands.
    pub(crate) fn check_arity(&self, least: usize, most: usize) -> Result<()> {
        let have = self.operand_count();
        if (least..=most).contains(&have) {
            return Ok(());
        }
        let range = if least == most { least.to_string() } else { format!("{least} to {most}") };
        Err(self.refuse_node(
            "bad_operand",
            format!("it has {have} operand{}; accepted: {range}", if have == 1 { "" } else { "s" }),
        ))
    }

    /// Whether an operand is present.
    pub(crate) fn has_operand(&self, k: usize) -> bool {
        self.proto.inputs.get(k).is_some_and(|n| !n.is_empty())
    }

    /// The number of results up to the last named one.
    pub(crate) fn result_count(&self) -> usize {
        self.proto.outputs.iter().rposition(|n| !n.is_empty()).map_or(0, |k| k + 1)
    }

    fn operand_name(&self, k: usize) -> Result<&'a str> {
        match self.proto.inputs.get(k) {
            Some(name) if !name.is_empty() => Ok(name),
            _ => Err(self.refuse_node("bad_operand", format!("operand {k} is missing"))),
        }
    }

    fn unknown_operand(&self, k: usize) -> OnnxError {
        self.refuse_operand(
            k,
            "nothing before this node defines that name; nodes have to be sorted so that each comes after its operands",
        )
    }

    /// The value of an operand.
    pub(crate) fn operand_value(&self, k: usize) -> Result<ModelValue> {
        let name = self.operand_name(k)?;
        self.import.find_value(name).cloned().ok_or_else(|| self.unknown_operand(k))
    }

    /// The tensor of an operand.
    pub(crate) fn operand_tensor(&mut self, k: usize) -> Result<TensorId> {
        let name = self.operand_name(k)?;
        let id = self.import.find_tensor(name).map_err(|e| self.with_node_place(e))?;
        id.ok_or_else(|| self.unknown_operand(k))
    }

    /// Size and dtype of an operand.
    pub(crate) fn operand_meta(&self, k: usize) -> Result<(Vec<i64>, Dtype)> {
        let name = self.operand_name(k)?;
        let meta = self.import.find_meta(name).map_err(|e| self.with_node_place(e))?;
        meta.ok_or_else(|| self.unknown_operand(k))
    }

    /// The size of an operand.
    pub(crate) fn operand_size(&self, k: usize) -> Result<Vec<i64>> {
        Ok(self.operand_meta(k)?.0)
    }

    /// The dtype of an operand.
    pub(crate) fn operand_dtype(&self, k: usize) -> Result<Dtype> {
        Ok(self.operand_meta(k)?.1)
    }

    /// The elements of an operand, if they are known.
    pub(crate) fn operand_literal(&mut self, k: usize) -> Result<Option<Rc<TensorLiteral>>> {
        let name = self.operand_name(k)?;
        if self.import.find_value(name).is_none() {
            return Err(self.unknown_operand(k));
        }
        self.import.find_literal(name).map_err(|e| self.with_node_place(e))
    }

    /// The elements of an operand, which must be known.
    pub(crate) fn require_literal(&mut self, k: usize, what: &str) -> Result<Rc<TensorLiteral>> {
        if let Some(literal) = self.operand_literal(k)? {
            return Ok(literal);
        }
        let value = self.operand_value(k)?;
        Err(self.refuse_unknown_value(what, &value, Some(k)))
    }

    /// An error because a value has to be known and is not.
    pub(crate) fn refuse_unknown_value(
        &self,
        what: &str,
        value: &ModelValue,
        operand: Option<usize>,
    ) -> OnnxError {
        let roots = self.import.root_inputs(value);
        let from = match &roots[..] {
            [] => "computed from data".into(),
            [one] => format!("computed from the input `{}`", quote_start(one)),
            more => format!("computed from the inputs {}", quote_start(&more.join(", "))),
        };
        let message = format!(
            "{what}: {from}; accepted: a constant, a value computed from shapes, or inputs whose elements \
             are known when it is compiled (zellige run --input NAME=FILE)"
        );
        let needs = (!roots.is_empty()).then(|| Box::new(NeededInputs(roots)));
        let refused = match operand {
            Some(k) => self.refuse_operand(k, message),
            None => self.refuse_node("bad_operand", message),
        };
        OnnxError { needs, ..refused }
    }

    /// A list of integers that must be known.
    pub(crate) fn require_ints(&mut self, k: usize, what: &str) -> Result<Vec<i64>> {
        let literal = self.require_literal(k, what)?;
        // A list of axes or of sizes has one dimension; a single number is accepted as a list of
        // one.
        let whole =
            literal.whole_numbers().filter(|_| literal.shape.len() <= 1).map(<[i64]>::to_vec);
        whole.ok_or_else(|| {
            self.refuse_operand(k, format!("{what}: accepted is a list of integers"))
        })
    }

    /// A single number that must be known.
    pub(crate) fn require_number(&mut self, k: usize, what: &str) -> Result<f64> {
        let literal = self.require_literal(k, what)?;
        if literal.len() == 1 {
            return Ok(literal.number_at(0));
        }
        Err(self
            .refuse_operand(k, format!("{what}: accepted is one number, not {:?}", literal.shape)))
    }

    /// A plain number, if the operand is one that broadcasts with a tensor of `rank` dimensions;
    /// otherwise its tensor.
    pub(crate) fn number_or_tensor(&mut self, k: usize, rank: usize) -> Result<GraphOperand> {
        if let Some(literal) = self.operand_literal(k)?
            && literal.len() == 1
            // A literal of more dimensions than the other operand would make the result larger, so
            // it is no plain number.
            && literal.shape.len() <= rank
            && !literal.number_at(0).is_nan()
        {
            return Ok(GraphOperand::Number(literal.number_at(0)));
        }
        Ok(GraphOperand::Tensor(self.operand_tensor(k)?))
    }

    /// Normalizes a dimension; negative ones count from the end.
    pub(crate) fn normalize_dim(&self, axis: i64, rank: usize) -> Result<usize> {
        let n = i64::try_from(rank).unwrap_or(i64::MAX);
        let wrapped = if axis < 0 { axis.checked_add(n) } else { Some(axis) };
        let found = wrapped.filter(|d| *d < n).and_then(|d| usize::try_from(d).ok());
        found.ok_or_else(|| {
            let accepted = if rank == 0 { "none".into() } else { format!("{} to {}", -n, n - 1) };
            self.refuse_node(
                "bad_attribute",
                format!("axis {axis} of {rank} dimensions; accepted: {accepted}"),
            )
        })
    }

    // Attributes

    fn find_attribute(&mut self, name: &'static str) -> Option<&'a AttributeValue<'a>> {
        // Rules read every attribute that they understand. An attribute that no rule has read is
        // refused in the end, because ignoring an attribute would compute something else than the
        // model says.
        self.taken.push(name);
        let given = &self.proto.attributes.iter().find(|a| a.name == name)?.value;
        self.resolve_attribute(given)
    }

    /// Resolves an attribute; a reference inside of a function is replaced by the attribute of the
    /// call, if the call has it.
    fn resolve_attribute(&self, given: &'a AttributeValue<'a>) -> Option<&'a AttributeValue<'a>> {
        match given {
            AttributeValue::Reference(name) => self.import.call_attribute(name),
            given => Some(given),
        }
    }

    pub(crate) fn wrong_attribute(&self, name: &str, accepted: &str) -> OnnxError {
        let given = self.proto.attributes.iter().find(|a| a.name == name);
        let is = given.map_or("nothing", |a| a.value.value_kind());
        self.refuse_node(
            "bad_attribute",
            format!("attribute `{name}` is {is}; accepted: {accepted}"),
        )
    }

    /// Whether an attribute is present.
    pub(crate) fn has_attribute(&self, name: &str) -> bool {
        let given = self.proto.attributes.iter().find(|a| a.name == name);
        given.is_some_and(|a| self.resolve_attribute(&a.value).is_some())
    }

    /// Reads an integer.
    pub(crate) fn int_attribute(&mut self, name: &'static str, default: i64) -> Result<i64> {
        match self.find_attribute(name) {
            None => Ok(default),
            Some(AttributeValue::Int(i)) => Ok(*i),
            Some(_) => Err(self.wrong_attribute(name, "an integer")),
        }
    }

    /// Reads a truth value, 0 or 1.
    pub(crate) fn flag_attribute(&mut self, name: &'static str, default: bool) -> Result<bool> {
        Ok(self.int_attribute(name, i64::from(default))? != 0)
    }

    /// Reads a float.
    pub(crate) fn float_attribute(&mut self, name: &'static str, default: f32) -> Result<f64> {
        match self.find_attribute(name) {
            // Attributes are float32 in the file. The exact value of 0.1f32 in a message or a
            // report would read as 0.10000000149.
            None => Ok(shortest_decimal(default)),
            Some(AttributeValue::Float(f)) => Ok(shortest_decimal(*f)),
            Some(_) => Err(self.wrong_attribute(name, "a float")),
        }
    }

    /// Reads a list of integers.
    pub(crate) fn ints_attribute(&mut self, name: &'static str) -> Result<Option<Vec<i64>>> {
        match self.find_attribute(name) {
            None => Ok(None),
            Some(AttributeValue::Ints(list)) => Ok(Some(list.clone())),
            Some(_) => Err(self.wrong_attribute(name, "a list of integers")),
        }
    }

    /// Reads a word.
    pub(crate) fn word_attribute(&mut self, name: &'static str, default: &str) -> Result<String> {
        match self.find_attribute(name) {
            None => Ok(default.into()),
            // Strings of attributes are bytes in the format; a word that is no UTF-8 matches no
            // accepted one.
            Some(AttributeValue::Text(t)) => Ok(String::from_utf8_lossy(t).into_owned()),
            Some(_) => Err(self.wrong_attribute(name, "a text")),
        }
    }

    /// Reads an attribute of any kind.
    pub(crate) fn any_attribute(&mut self, name: &'static str) -> Option<&'a AttributeValue<'a>> {
        self.find_attribute(name)
    }

    /// Checks an attribute for which only one value is supported.
    pub(crate) fn require_attribute_is(&mut self, name: &'static str, accepted: i64) -> Result<()> {
        let value = self.int_attribute(name, accepted)?;
        if value == accepted {
            return Ok(());
        }
        Err(self.refuse_node(
            "bad_attribute",
            format!("attribute `{name}` is {value}; accepted: {accepted}"),
        ))
    }

    /// Defines the results under their names, after checking that the rule has read every
    /// attribute.
    pub(crate) fn define_results(self, made: &[ModelValue]) -> Result<()> {
        let known = |name: &str| self.all_taken || self.taken.contains(&name);
        if let Some(a) = self.proto.attributes.iter().find(|a| !known(a.name)) {
            let accepted =
                if self.taken.is_empty() { "none".into() } else { self.taken.join(", ") };
            let message = format!(
                "attribute `{}` has no equivalent; accepted: {accepted}",
                quote_start(a.name)
            );
            return Err(self.refuse_node("bad_attribute", message));
        }
        for (k, name) in self.proto.outputs.iter().enumerate() {
            if name.is_empty() {
                continue;
            }
            // A result without a name need not exist: rules make the results that the card has.
            let Some(value) = made.get(k) else {
                let message = format!(
                    "result {k} `{}` has no equivalent; accepted: the first {}",
                    quote_start(name),
                    made.len()
                );
                return Err(self.refuse_node("bad_results", message));
            };
            let defined = self.import.define_value(name, value.clone());
            defined.map_err(|e| self.with_node_place(e))?;
        }
        Ok(())
    }
}

/// The shortest decimal that rounds to a float32, as a number: 0.01 and not 0.009999999776.
fn shortest_decimal(x: f32) -> f64 {
    x.to_string().parse().unwrap_or_else(|_| f64::from(x))
}
