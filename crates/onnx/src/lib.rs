//! Reads ONNX models as graphs.
//!
//! A [`OnnxModel`] is read from the bytes of an `.onnx` file; with values for its symbols it
//! becomes a [`zellige_graph::Graph`] and its weights. The elements of weights are not copied: an
//! [`ImportedWeight`] has their position in the file, and a [`ModelFile`] reads them on demand.
//!
//! Nodes that only compute shapes (`Shape`, `Gather`, `Concat` and the nodes that exporters put
//! between them) are evaluated here, because every size is known; the remaining nodes become
//! operations of the card's table. An operation or an attribute without an equivalent is refused by
//! name.
//!
//! ```
//! use std::collections::BTreeMap;
//! # fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
//! #     [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
//! # }
//! # let value = |name: &[u8]| {
//! #     let shape = field(2, &field(1, &[0x08, 3]));
//! #     [field(1, name), field(2, &field(1, &[&[0x08, 1][..], &shape].concat()))].concat()
//! # };
//! # let node = [field(1, b"x"), field(2, b"y"), field(4, b"Relu")].concat();
//! # let graph = [field(1, &node), field(11, &value(b"x")), field(12, &value(b"y"))].concat();
//! # let bytes = [field(7, &graph), field(8, &[0x10, 17])].concat();
//! let model = zellige_onnx::OnnxModel::read_model(&bytes)?;
//! let imported = model.import_graph(&BTreeMap::new())?;
//! assert_eq!(
//!     zellige_graph::text::print_graph(&imported.graph),
//!     "graph model(\n    x: float32[3],\n) {\n    y = relu(x)\n    return y\n}\n"
//! );
//! # Ok::<(), zellige_onnx::OnnxError>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `wire` | the wire format of protocol buffers |
//! | `proto` | the messages of ONNX |
//! | `carried` | element types that the card does not store |
//! | `tensor`, `literal` | elements: their positions in the file, and small constants |
//! | `import`, `walk`, `scope` | the import for given sizes, the traversal of the nodes, the scopes of names |
//! | `node`, `emit` | a node as rules see it, and the operations that it adds to the graph |
//! | `ops` | the rules that lower each operation |
//! | `file`, `skeleton` | files read without the elements of large weights, external data |
//!
//! # What it may not do
//! Run anything on the card, or trust a length in the file.

#![forbid(unsafe_code)]

mod carried;
mod emit;
mod error;
mod file;
mod import;
mod literal;
mod names;
mod node;
mod ops;
mod proto;
mod scope;
mod skeleton;
mod tensor;
mod walk;
mod wire;

pub use carried::{carrier_dtype, carry_elements};
pub use error::{OnnxError, Result};
pub use file::ModelFile;
pub use import::{ImportedModel, ImportedWeight, InputConstant, OnnxModel};
pub use ops::supported_operations;
pub use tensor::WeightData;
