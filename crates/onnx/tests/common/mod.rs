//! A small writer of ONNX files, written from the description of the format.

#![allow(dead_code, clippy::cast_possible_truncation, reason = "each test uses a part")]

use std::collections::BTreeMap;
use zellige_onnx::{ImportedModel, OnnxModel, Result};

pub(crate) const F32: i64 = 1;
pub(crate) const U8: i64 = 2;
pub(crate) const I8: i64 = 3;
pub(crate) const I32: i64 = 6;
pub(crate) const I64: i64 = 7;
pub(crate) const BOOL: i64 = 9;
pub(crate) const F16: i64 = 10;
pub(crate) const F64: i64 = 11;
pub(crate) const BF16: i64 = 16;

pub(crate) fn varint(mut v: u64) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let low = (v & 0x7f) as u8;
        v >>= 7;
        if v == 0 {
            out.push(low);
            return out;
        }
        out.push(low | 0x80);
    }
}

pub(crate) fn int(number: u64, v: i64) -> Vec<u8> {
    [varint(number << 3), varint(v.cast_unsigned())].concat()
}

pub(crate) fn bytes(number: u64, content: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

pub(crate) fn float(number: u64, v: f32) -> Vec<u8> {
    [varint(number << 3 | 5), v.to_le_bytes().to_vec()].concat()
}

/// A dimension of a declared shape.
pub(crate) enum Dim {
    N(i64),
    Symbol(&'static str),
    Open,
}

pub(crate) fn value(name: &str, dtype: i64, dims: &[Dim]) -> Vec<u8> {
    let dim = |d: &Dim| match d {
        Dim::N(n) => bytes(1, &int(1, *n)),
        Dim::Symbol(s) => bytes(1, &bytes(2, s.as_bytes())),
        Dim::Open => bytes(1, &[]),
    };
    let shape: Vec<u8> = dims.iter().flat_map(dim).collect();
    let tensor = [int(1, dtype), bytes(2, &shape)].concat();
    [bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat()
}

/// A tensor with its elements as bytes.
pub(crate) fn raw(name: &str, dtype: i64, dims: &[i64], content: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|d| int(1, *d)).collect();
    [dims, int(2, dtype), bytes(8, name.as_bytes()), bytes(9, content)].concat()
}

pub(crate) fn floats(name: &str, dims: &[i64], list: &[f32]) -> Vec<u8> {
    raw(name, F32, dims, &list.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
}

pub(crate) fn ints(name: &str, list: &[i64]) -> Vec<u8> {
    let all: Vec<u8> = list.iter().flat_map(|v| v.to_le_bytes()).collect();
    raw(name, I64, &[list.len() as i64], &all)
}

pub(crate) fn scalar(name: &str, v: f32) -> Vec<u8> {
    floats(name, &[], &[v])
}

/// An attribute.
#[derive(Clone)]
pub(crate) enum A {
    I(&'static str, i64),
    F(&'static str, f32),
    S(&'static str, &'static str),
    L(&'static str, Vec<i64>),
    T(&'static str, Vec<u8>),
    Graph(&'static str),
    /// A graph with nodes.
    Body(&'static str, Vec<u8>),
    /// A reference to an attribute of the function's call; its type.
    Of(&'static str, &'static str, i64),
}

impl A {
    fn write(&self) -> Vec<u8> {
        let (name, value, kind) = match self {
            A::I(n, v) => (n, int(3, *v), 2),
            A::F(n, v) => (n, float(2, *v), 1),
            A::S(n, v) => (n, bytes(4, v.as_bytes()), 3),
            // Packed and one by one are both in use.
            A::L(n, v) => (n, v.iter().flat_map(|i| int(8, *i)).collect(), 7),
            A::T(n, t) => (n, bytes(5, t), 4),
            A::Graph(n) => (n, bytes(6, &[]), 5),
            A::Body(n, graph) => (n, bytes(6, graph), 5),
            A::Of(n, other, kind) => (n, bytes(21, other.as_bytes()), *kind),
        };
        [bytes(1, name.as_bytes()), value, int(20, kind)].concat()
    }
}

/// A node as bytes.
pub(crate) fn node(
    domain: &str,
    op: &str,
    inputs: &[&str],
    outputs: &[&str],
    attributes: &[A],
) -> Vec<u8> {
    let mut node = Vec::new();
    inputs.iter().for_each(|i| node.extend(bytes(1, i.as_bytes())));
    outputs.iter().for_each(|o| node.extend(bytes(2, o.as_bytes())));
    node.extend(bytes(4, op.as_bytes()));
    attributes.iter().for_each(|a| node.extend(bytes(5, &a.write())));
    node.extend(bytes(7, domain.as_bytes()));
    node
}

pub(crate) struct Net {
    opset: i64,
    domain: &'static str,
    graph: Vec<u8>,
    functions: Vec<u8>,
}

impl Net {
    pub(crate) fn new(opset: i64) -> Net {
        Net { opset, domain: "", graph: bytes(2, b"net"), functions: Vec::new() }
    }

    pub(crate) fn domain(self, domain: &'static str) -> Net {
        Net { domain, ..self }
    }

    pub(crate) fn put(mut self, number: u64, message: &[u8]) -> Net {
        self.graph.extend(bytes(number, message));
        self
    }

    pub(crate) fn input(self, name: &str, dtype: i64, size: &[i64]) -> Net {
        let dims: Vec<Dim> = size.iter().map(|n| Dim::N(*n)).collect();
        self.put(11, &value(name, dtype, &dims))
    }

    pub(crate) fn x(self, size: &[i64]) -> Net {
        self.input("x", F32, size)
    }

    pub(crate) fn weight(self, tensor: &[u8]) -> Net {
        self.put(5, tensor)
    }

    pub(crate) fn node(self, op: &str, inputs: &[&str], outputs: &[&str], attributes: &[A]) -> Net {
        self.node_of("", op, inputs, outputs, attributes)
    }

    pub(crate) fn node_of(
        self,
        domain: &str,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[A],
    ) -> Net {
        self.put(1, &node(domain, op, inputs, outputs, attributes))
    }

    /// A function of the file, in the domain `own`: its nodes as bytes.
    pub(crate) fn function(
        mut self,
        name: &str,
        inputs: &[&str],
        outputs: &[&str],
        nodes: &[Vec<u8>],
    ) -> Net {
        let mut f = [bytes(1, name.as_bytes()), bytes(10, b"own")].concat();
        inputs.iter().for_each(|i| f.extend(bytes(4, i.as_bytes())));
        outputs.iter().for_each(|o| f.extend(bytes(5, o.as_bytes())));
        nodes.iter().for_each(|n| f.extend(bytes(7, n)));
        f.extend(bytes(9, &[bytes(1, b""), int(2, self.opset)].concat()));
        self.functions.extend(bytes(25, &f));
        self
    }

    /// The graph alone, for an attribute.
    pub(crate) fn body(&self) -> Vec<u8> {
        self.graph.clone()
    }

    /// An output with a name only.
    pub(crate) fn output(self, name: &str) -> Net {
        self.put(12, &bytes(1, name.as_bytes()))
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        let opset = [bytes(1, self.domain.as_bytes()), int(2, self.opset)].concat();
        [int(1, 8), bytes(7, &self.graph), bytes(8, &opset), self.functions.clone()].concat()
    }

    pub(crate) fn import(&self) -> Result<ImportedModel> {
        OnnxModel::read_model(&self.file())?.import_graph(&BTreeMap::new())
    }

    /// The operations of the graph, one in a line.
    pub(crate) fn text(&self) -> String {
        let imported = self.import().unwrap_or_else(|e| panic!("{e}"));
        let text = zellige_graph::text::print_graph(&imported.graph);
        let body = text.split_once(") {\n").map_or("", |(_, b)| b);
        body.lines().map(str::trim).filter(|l| l.contains(" = ")).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn refusal(&self) -> String {
        match self.import() {
            Ok(_) => panic!("it is accepted: {}", self.text()),
            Err(e) => e.to_string(),
        }
    }
}
