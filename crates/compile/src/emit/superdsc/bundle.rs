//! `bundle.mlir`: the kernels in order, with the addresses that they take.

use super::symbols::{SdscSymbol, SdscSymbols};
use std::collections::HashSet;
use std::fmt::Write;

/// The lines of the function.
#[derive(Debug, Default)]
pub(super) struct BundleBody(Vec<BundleLine>);

#[derive(Debug)]
enum BundleLine {
    Execute { file: String, ids: Vec<(i64, SdscSymbol)> },
    LeftOut { step: usize, name: String, reason: String },
}

impl BundleBody {
    pub(super) fn push_execute(&mut self, file: &str, ids: &[(i64, SdscSymbol)]) {
        self.0.push(BundleLine::Execute { file: file.into(), ids: ids.to_vec() });
    }

    pub(super) fn push_left_out(&mut self, step: usize, name: &str, reason: &str) {
        self.0.push(BundleLine::LeftOut {
            step,
            name: name.into(),
            // The reason becomes a comment of one line, which a line break would end.
            reason: reason.replace('\n', " "),
        });
    }

    pub(super) fn print_bundle(&self, symbols: &SdscSymbols) -> String {
        let mut text = String::from("module {\n");
        let used = symbols.all_symbols();
        let pool = used.iter().any(|s| s.argument.is_none());
        let mut arguments: Vec<usize> = used.iter().filter_map(|s| s.argument).collect();
        arguments.sort_unstable();
        arguments.dedup();
        let given = pool.then(|| "pool".to_string()).into_iter();
        let given: Vec<String> =
            given.chain(arguments.iter().map(|k| format!("arg_{k}"))).collect();
        let typed = |n: &String| format!("%{n}_base_addr: !sdscbundle.input_arg<index>");
        let parameters: Vec<String> = given.iter().map(typed).collect();
        push_line(&mut text, 1, &format!("func.func @sdsc_bundle({}) {{", parameters.join(", ")));
        for name in &given {
            let from =
                format!("%{name} = sdscbundle.input_arg_extract value from %{name}_base_addr");
            push_line(&mut text, 2, &format!("{from} : !sdscbundle.input_arg<index> -> index"));
        }
        // Two kernels may name the same address by symbols of their own; the value of the bundle is defined once,
        // because a name has one definition in this text.
        let mut made = HashSet::new();
        for symbol in used {
            let (base, stem) = match symbol {
                SdscSymbol { argument: Some(_), offset: 0 } => continue,
                SdscSymbol { argument: Some(k), .. } => {
                    (format!("%arg_{k}"), format!("%arg_{k}_core_offset"))
                }
                SdscSymbol { argument: None, .. } => ("%pool".into(), "%pool_offset".into()),
            };
            let value = symbol.bundle_value();
            if made.insert(value.clone()) {
                let offset = symbol.offset;
                push_line(
                    &mut text,
                    2,
                    &format!("{stem}_{offset} = arith.constant {offset} : index"),
                );
                push_line(
                    &mut text,
                    2,
                    &format!("{value} = arith.addi {base}, {stem}_{offset} : index"),
                );
            }
        }
        for entry in &self.0 {
            push_line(&mut text, 2, &entry.print_line(symbols.is_symbolic()));
        }
        push_line(&mut text, 2, "return");
        push_line(&mut text, 1, "}");
        text.push_str("}\n");
        text
    }
}

impl BundleLine {
    fn print_line(&self, symbolic: bool) -> String {
        match self {
            BundleLine::LeftOut { step, name, reason } => {
                format!("// step {step}, {name}, is not in this bundle: {reason}")
            }
            BundleLine::Execute { file, .. } if !symbolic => {
                format!("sdscbundle.sdsc_execute () {{sdsc_filename=\"{file}\"}}")
            }
            BundleLine::Execute { file, ids } => {
                let values: Vec<String> = ids.iter().map(|(_, s)| s.bundle_value()).collect();
                let numbers: Vec<String> = ids.iter().map(|(n, _)| n.to_string()).collect();
                format!(
                    "sdscbundle.sdsc_execute ({}) {{sdsc_filename=\"{file}\", \"symbol_ids\"=[{}]}}",
                    values.join(", "),
                    numbers.join(", ")
                )
            }
        }
    }
}

fn push_line(text: &mut String, depth: usize, content: &str) {
    let _ = writeln!(text, "{}{content}", "\t".repeat(depth));
}
