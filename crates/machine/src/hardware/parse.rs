//! Presets from TOML: what is wrong, on which line, and what would be accepted.

use super::key::{Kind, ROWS, Row, Use};
use super::{Figure, Hardware, Model, Value};
use crate::error::{MachineError, Result};
use crate::ratio::Ratio;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Item<'i> = Spanned<DeValue<'i>>;

/// Reads a preset; fills what it does not say from the one it extends.
pub(super) fn hardware(text: &str) -> Result<Hardware> {
    let reader = Reader { text };
    let table = DeTable::parse(text).map_err(|e| {
        reader.error(e.span().map_or(0, |s| s.start), "", format!("not TOML: {}", e.message()))
    })?;
    let table = table.get_ref();
    let string = |key: &str| -> Result<Option<(String, usize)>> {
        table.get(key).map(|item| Ok((reader.string(item, key)?, item.span().start))).transpose()
    };
    let name = string("name")?
        .ok_or_else(|| reader.error(0, "name", "a preset has a name: name = \"...\"".into()))?;
    let base = match string("extends")? {
        None => None,
        Some((base, at)) => {
            Some(Hardware::preset(&base).map_err(|e| reader.error(at, "extends", e.to_string()))?)
        }
    };
    let model = match (string("model")?, &base) {
        (None, Some(base)) => base.model,
        (Some((m, _)), None) if m == "card" => Model::Card,
        (Some((m, _)), None) if m == "ktir" => Model::Ktir,
        (Some((_, at)), Some(base)) => {
            let m = base.model.name();
            let reason = format!("the model is `{m}`, that of the extended preset; leave it out");
            return Err(reader.error(at, "model", reason));
        }
        (Some((m, at)), None) => {
            let reason = format!("unknown model `{m}`; accepted are `card` and `ktir`");
            return Err(reader.error(at, "model", reason));
        }
        (None, None) => {
            let reason = "say `extends = \"card\"` (or \"ktir\"), or name a model".into();
            return Err(reader.error(0, "model", reason));
        }
    };
    let mut hardware = Hardware {
        about: match (string("about")?, &base) {
            (Some((about, _)), _) => about,
            (None, Some(base)) => format!("as `{}`, except what it says itself", base.name),
            (None, None) => String::new(),
        },
        name: name.0,
        model,
        figures: base.map_or_else(|| vec![None; ROWS.len()], |base| base.figures),
    };
    for (section, item) in table {
        let (at, section) = (section.span().start, section.get_ref().as_ref());
        if matches!(section, "name" | "extends" | "model" | "about") {
            continue;
        }
        let known = || ROWS.iter().filter_map(|r| Some(r.path.split_once('.')?.0));
        let Some(entries) = item.get_ref().as_table().filter(|_| known().any(|s| s == section))
        else {
            let mut accepted: Vec<&str> = vec!["name", "about", "model", "extends"];
            for s in known() {
                if !accepted.contains(&s) {
                    accepted.push(s);
                }
            }
            let reason = format!("unknown; accepted are {}", accepted.join(", "));
            return Err(reader.error(at, section, reason));
        };
        for (key, item) in entries {
            let path = format!("{section}.{}", key.get_ref());
            let row = reader.row(key.span().start, section, &path, model)?;
            hardware.figures[row.key as usize] = Some(reader.figure(item, row)?);
        }
    }
    for row in ROWS {
        if used(row, model) == Use::Needed && hardware.figures[row.key as usize].is_none() {
            let reason = format!("missing, and model `{}` needs it", model.name());
            return Err(reader.error(text.len(), row.path, reason));
        }
    }
    Ok(hardware)
}

fn used(row: &Row, model: Model) -> Use {
    match model {
        Model::Card => row.uses[0],
        Model::Ktir => row.uses[1],
    }
}

struct Reader<'t> {
    text: &'t str,
}

impl Reader<'_> {
    fn error(&self, at: usize, key: &str, reason: String) -> MachineError {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        MachineError::Preset { line, key: key.into(), reason }
    }

    fn row(&self, at: usize, section: &str, path: &str, model: Model) -> Result<&'static Row> {
        let usable = |row: &&Row| used(row, model) != Use::Unused;
        if let Some(row) = ROWS.iter().filter(usable).find(|row| row.path == path) {
            return Ok(row);
        }
        let of_section = |row: &&Row| row.path.split_once('.').is_some_and(|(s, _)| s == section);
        let accepted: Vec<&str> =
            ROWS.iter().filter(usable).filter(of_section).map(|r| r.path).collect();
        let accepted = match accepted.as_slice() {
            [] => "nothing in this section".into(),
            some => some.join(", "),
        };
        let what = if ROWS.iter().any(|row| row.path == path) {
            format!("model `{}` does not use it", model.name())
        } else {
            "unknown".into()
        };
        Err(self.error(at, path, format!("{what}; accepted: {accepted}")))
    }

    fn string(&self, item: &Item<'_>, key: &str) -> Result<String> {
        let found = item.get_ref();
        let text = found.as_str().filter(|s| !s.trim().is_empty());
        text.map(str::to_owned).ok_or_else(|| {
            let reason = format!("a text in quotes is accepted, not {}", found.type_str());
            self.error(item.span().start, key, reason)
        })
    }

    fn figure(&self, item: &Item<'_>, row: &'static Row) -> Result<Figure> {
        let path = row.path;
        let form = match row.kind {
            Kind::Curve(by) => format!(
                "{{ by = \"{by}\", unit = \"{}\", points = [[1, 0.5], ..], source = \"..\" }}",
                row.units[0].0
            ),
            _ => format!("{{ value = 1, unit = \"{}\", source = \"..\" }}", row.units[0].0),
        };
        let fields: &[&str] = match row.kind {
            Kind::Curve(_) => &["by", "unit", "points", "source"],
            _ => &["value", "unit", "source"],
        };
        let Some(table) = item.get_ref().as_table() else {
            return Err(self.error(item.span().start, path, format!("accepted is {form}")));
        };
        for key in table.keys() {
            if !fields.contains(&key.get_ref().as_ref()) {
                let reason = format!("unknown field `{}`; accepted is {form}", key.get_ref());
                return Err(self.error(key.span().start, path, reason));
            }
        }
        let field = |name: &str| {
            table.get(name).ok_or_else(|| {
                let reason = format!("has no `{name}`; accepted is {form}");
                self.error(item.span().start, path, reason)
            })
        };
        let unit = field("unit")?;
        let (unit, scale) = self.unit(unit, row)?;
        let source = self.string(field("source")?, path)?;
        let (value, written) = match row.kind {
            Kind::Curve(by) => {
                let at = field("by")?;
                if self.string(at, path)? != by {
                    let reason = format!("`by` is \"{by}\"");
                    return Err(self.error(at.span().start, path, reason));
                }
                self.curve(field("points")?, path)?
            }
            kind => self.number(field("value")?, path, kind, scale)?,
        };
        Ok(Figure { value, written, unit, source })
    }

    fn unit(&self, item: &Item<'_>, row: &Row) -> Result<(&'static str, u64)> {
        let unit = self.string(item, row.path)?;
        row.units.iter().copied().find(|(u, _)| *u == unit).ok_or_else(|| {
            let accepted: Vec<String> = row.units.iter().map(|(u, _)| format!("\"{u}\"")).collect();
            let reason = format!("unit \"{unit}\"; accepted: {}", accepted.join(", "));
            self.error(item.span().start, row.path, reason)
        })
    }

    /// Digits as written, so that 204.8 is exactly that.
    fn ratio(&self, item: &Item<'_>, path: &str) -> Result<(Ratio, String)> {
        let digits = match item.get_ref() {
            DeValue::Integer(n) if n.radix() == 10 => n.as_str(),
            DeValue::Float(x) => x.as_str(),
            _ => "",
        };
        let ratio = Ratio::decimal(digits).filter(|r| *r <= Ratio::new(1_000_000_000, 1));
        ratio.map(|r| (r, digits.replace('_', ""))).ok_or_else(|| {
            let reason =
                "a positive decimal number without exponent, at most 1000000000, is accepted";
            self.error(item.span().start, path, reason.into())
        })
    }

    fn number(
        &self,
        item: &Item<'_>,
        path: &str,
        kind: Kind,
        scale: u64,
    ) -> Result<(Value, String)> {
        let (ratio, written) = self.ratio(item, path)?;
        let ratio = ratio.times(Ratio::new(scale, 1));
        if let Kind::Count(least, most) = kind {
            let sticks = path == "memory.segment" || path == "lx.size";
            let whole = ratio.integer().filter(|n| (least..=most).contains(n));
            if whole.is_none_or(|n| sticks && !n.is_multiple_of(128)) {
                let extra = if sticks { ", a multiple of 128" } else { "" };
                let reason = format!("a whole number from {least} to {most}{extra} is accepted");
                return Err(self.error(item.span().start, path, reason));
            }
        }
        Ok((Value::Number(ratio), written))
    }

    fn curve(&self, item: &Item<'_>, path: &str) -> Result<(Value, String)> {
        let bad = |at: usize| {
            let reason = "points are [x, share] with whole, growing x and shares above 0 up to 1";
            self.error(at, path, reason.into())
        };
        let array = item.get_ref().as_array().filter(|a| !a.is_empty());
        let mut points: Vec<(u64, Ratio)> = Vec::new();
        let mut written: Vec<String> = Vec::new();
        for point in array.ok_or_else(|| bad(item.span().start))?.iter() {
            let at = point.span().start;
            let pair = point.get_ref().as_array().map(|a| a.iter().collect::<Vec<_>>());
            let Some([x, y]) = pair.as_deref() else { return Err(bad(at)) };
            let ((x, x_text), (y, y_text)) = (self.ratio(x, path)?, self.ratio(y, path)?);
            let x = x.integer().filter(|x| points.last().is_none_or(|(last, _)| last < x));
            let Some(x) = x.filter(|_| y <= Ratio::ONE) else { return Err(bad(at)) };
            points.push((x, y));
            written.push(format!("{x_text}: {y_text}"));
        }
        Ok((Value::Curve(points), written.join(", ")))
    }
}
