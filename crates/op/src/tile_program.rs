//! Tile programs: what a tile kernel computes for an operation, as an expression.

use crate::row::{OpRow, TileProgram};
use serde_json::{Map, Value};

/// An expression of a tile program.
#[derive(Debug, Clone, PartialEq)]
pub enum TileExpression {
    /// An operand by its number.
    Operand(usize),
    /// A number, the same for every element.
    Number(f64),
    /// An operation of KTIR without its dialect, with its operands; a comparison is `cmpf_` and its predicate.
    Call(&'static str, Vec<TileExpression>),
}

impl OpRow {
    /// The expression of the operation with these attributes; none where it has no tile program.
    ///
    /// # Errors
    /// Why there is none for the value of an attribute.
    pub fn tile_expression(
        &self,
        attributes: &Map<String, Value>,
    ) -> Option<Result<TileExpression, String>> {
        let text = match self.ktir {
            TileProgram::None => return None,
            TileProgram::Expression(text) => text,
            TileProgram::By(attribute, programs) => {
                // A missing attribute has its default, which is the first program of the row.
                let given = attributes.get(attribute).and_then(Value::as_str);
                let value = given.unwrap_or(programs[0].0);
                match programs.iter().find(|(word, _)| *word == value) {
                    Some((_, text)) => text,
                    None => {
                        let name = self.name;
                        return Some(Err(format!(
                            "{name} with `{attribute}` of `{value}` has no tile program"
                        )));
                    }
                }
            }
        };
        let mut reader = ExpressionReader { row: self, attributes, rest: text };
        Some(Ok(reader.read_expression()))
    }
}

/// Reads the text of a row. Rows are part of the program, and a test reads all of them.
struct ExpressionReader<'a> {
    row: &'a OpRow,
    attributes: &'a Map<String, Value>,
    rest: &'static str,
}

impl ExpressionReader<'_> {
    fn skip_text(&mut self, what: &str) -> bool {
        match self.rest.trim_start().strip_prefix(what) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn read_expression(&mut self) -> TileExpression {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(['(', ')', ',']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if self.skip_text("(") {
            let mut operands = vec![self.read_expression()];
            while self.skip_text(",") {
                operands.push(self.read_expression());
            }
            // Rows are constants of this crate and a test reads all of them, so that no input can reach this.
            assert!(self.skip_text(")"), "{}: a tile program closes its brackets", self.row.name);
            return match (word, &operands[..]) {
                // A factor of 1 is no operation.
                ("mulf", [x, TileExpression::Number(one)]) if *one == 1.0 => x.clone(),
                _ => TileExpression::Call(word, operands),
            };
        }
        if let Ok(number) = word.parse() {
            return TileExpression::Number(number);
        }
        // Operands before attributes: names of both are disjoint in every row, which the test of all rows relies
        // on.
        let operand = |name: &&str| name.trim_end_matches(['?', '.']) == word;
        if let Some(k) = self.row.operands.iter().position(operand) {
            return TileExpression::Operand(k);
        }
        TileExpression::Number(self.read_attribute(word))
    }

    /// An attribute as a number, its default where it is not given.
    fn read_attribute(&self, name: &str) -> f64 {
        let default = self.row.attributes.iter().find(|(n, _)| *n == name).map(|(_, d)| *d);
        let number = match self.attributes.get(name) {
            Some(Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_f64(),
            None => None,
        };
        let default = || default.and_then(|d| d.parse().ok());
        number.or_else(default).unwrap_or_else(|| {
            panic!("{}: `{name}` is no operand, number or attribute", self.row.name)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{TensorOp, TileExpression, TileProgram};
    use serde_json::{Map, Value, json};

    #[test]
    fn every_tile_program_is_an_expression_of_its_operands() {
        let mut read = 0;
        for row in TensorOp::all_rows() {
            let cases: Vec<Map<String, Value>> = match row.ktir {
                TileProgram::None => continue,
                TileProgram::Expression(_) => vec![Map::new()],
                TileProgram::By(name, programs) => {
                    let with = |word: &str| Map::from_iter([(name.to_string(), json!(word))]);
                    programs.iter().map(|(word, _)| with(word)).collect()
                }
            };
            for attributes in cases {
                let made = row.tile_expression(&attributes).unwrap().unwrap();
                let mut used = vec![false; row.operands.len()];
                mark(&made, &mut used);
                assert!(used.iter().all(|u| *u), "{}: {made:?} leaves an operand out", row.name);
                read += 1;
            }
        }
        assert!(read > 40, "{read} tile programs");
    }

    fn mark(e: &TileExpression, used: &mut [bool]) {
        match e {
            TileExpression::Operand(k) => used[*k] = true,
            TileExpression::Number(_) => {}
            TileExpression::Call(_, operands) => operands.iter().for_each(|o| mark(o, used)),
        }
    }

    #[test]
    fn attributes_are_numbers_and_a_factor_of_one_is_left_out() {
        let add = TensorOp::find_row("add").unwrap();
        let of = |attributes: Value| {
            add.tile_expression(attributes.as_object().unwrap()).unwrap().unwrap()
        };
        let (a, b) = (TileExpression::Operand(0), TileExpression::Operand(1));
        assert_eq!(of(json!({})), TileExpression::Call("addf", vec![a.clone(), b.clone()]));
        let scaled = TileExpression::Call("mulf", vec![b, TileExpression::Number(2.0)]);
        assert_eq!(of(json!({"alpha": 2})), TileExpression::Call("addf", vec![a, scaled]));
        let div = TensorOp::find_row("div").unwrap();
        let floor = json!({"rounding_mode": "floor"});
        assert!(div.tile_expression(floor.as_object().unwrap()).unwrap().is_err());
    }
}
