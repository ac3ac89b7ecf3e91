//! Presets from TOML: what is wrong, on which line, and what would be accepted.

use super::key::{FigureKind, FigureRow, FigureUse, ROWS};
use super::{CycleModel, FigureValue, Hardware, HardwareFigure};
use crate::error::{MachineError, Result};
use crate::ratio::Ratio;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

type PresetItem<'i> = Spanned<DeValue<'i>>;

/// Reads a preset; fills what it does not say from the one it extends.
pub(super) fn parse_hardware(text: &str) -> Result<Hardware> {
    let reader = PresetReader { text };
    let table = DeTable::parse(text).map_err(|e| {
        reader.error_at(e.span().map_or(0, |s| s.start), "", format!("not TOML: {}", e.message()))
    })?;
    let table = table.get_ref();
    let string = |key: &str| -> Result<Option<(String, usize)>> {
        table
            .get(key)
            .map(|item| Ok((reader.read_string(item, key)?, item.span().start)))
            .transpose()
    };
    let name = string("name")?
        .ok_or_else(|| reader.error_at(0, "name", "a preset has a name: name = \"...\"".into()))?;
    let base = match string("extends")? {
        None => None,
        Some((base, at)) => Some(
            Hardware::built_in_preset(&base)
                .map_err(|e| reader.error_at(at, "extends", e.to_string()))?,
        ),
    };
    let model = match (string("model")?, &base) {
        (None, Some(base)) => base.model,
        (Some((m, _)), None) if m == "card" => CycleModel::Card,
        (Some((m, _)), None) if m == "ktir" => CycleModel::Ktir,
        (Some((_, at)), Some(base)) => {
            let m = base.model.name();
            let reason = format!("the model is `{m}`, that of the extended preset; leave it out");
            return Err(reader.error_at(at, "model", reason));
        }
        (Some((m, at)), None) => {
            let reason = format!("unknown model `{m}`; accepted are `card` and `ktir`");
            return Err(reader.error_at(at, "model", reason));
        }
        (None, None) => {
            let reason = "say `extends = \"card\"` (or \"ktir\"), or name a model".into();
            return Err(reader.error_at(0, "model", reason));
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
            return Err(reader.error_at(at, section, reason));
        };
        for (key, item) in entries {
            let path = format!("{section}.{}", key.get_ref());
            let row = reader.find_row(key.span().start, section, &path, model)?;
            hardware.figures[row.key as usize] = Some(reader.read_figure(item, row)?);
        }
    }
    for row in ROWS {
        if figure_use(row, model) == FigureUse::Needed
            && hardware.figures[row.key as usize].is_none()
        {
            let reason = format!("missing, and model `{}` needs it", model.name());
            return Err(reader.error_at(text.len(), row.path, reason));
        }
    }
    let product = |row: &&FigureRow| row.path.starts_with("product.");
    let has = |row: &FigureRow| hardware.figures[row.key as usize].is_some();
    if let Some(missing) = ROWS.iter().filter(product).find(|row| !has(row))
        && ROWS.iter().filter(product).any(has)
    {
        let reason = "missing; a preset has all figures of this section or none".into();
        return Err(reader.error_at(text.len(), missing.path, reason));
    }
    Ok(hardware)
}

fn figure_use(row: &FigureRow, model: CycleModel) -> FigureUse {
    match model {
        CycleModel::Card => row.uses[0],
        CycleModel::Ktir => row.uses[1],
    }
}

struct PresetReader<'t> {
    text: &'t str,
}

impl PresetReader<'_> {
    fn error_at(&self, at: usize, key: &str, reason: String) -> MachineError {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        MachineError::Preset { line, key: key.into(), reason }
    }

    fn find_row(
        &self,
        at: usize,
        section: &str,
        path: &str,
        model: CycleModel,
    ) -> Result<&'static FigureRow> {
        let usable = |row: &&FigureRow| figure_use(row, model) != FigureUse::Unused;
        if let Some(row) = ROWS.iter().filter(usable).find(|row| row.path == path) {
            return Ok(row);
        }
        let of_section =
            |row: &&FigureRow| row.path.split_once('.').is_some_and(|(s, _)| s == section);
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
        Err(self.error_at(at, path, format!("{what}; accepted: {accepted}")))
    }

    fn read_string(&self, item: &PresetItem<'_>, key: &str) -> Result<String> {
        let found = item.get_ref();
        let text = found.as_str().filter(|s| !s.trim().is_empty());
        text.map(str::to_owned).ok_or_else(|| {
            let reason = format!("a text in quotes is accepted, not {}", found.type_str());
            self.error_at(item.span().start, key, reason)
        })
    }

    fn read_figure(
        &self,
        item: &PresetItem<'_>,
        row: &'static FigureRow,
    ) -> Result<HardwareFigure> {
        let path = row.path;
        let form = match row.kind {
            FigureKind::Curve(by) => format!(
                "{{ by = \"{by}\", unit = \"{}\", points = [[1, 0.5], ..], source = \"..\" }}",
                row.units[0].0
            ),
            _ => format!("{{ value = 1, unit = \"{}\", source = \"..\" }}", row.units[0].0),
        };
        let fields: &[&str] = match row.kind {
            FigureKind::Curve(_) => &["by", "unit", "points", "source"],
            _ => &["value", "unit", "source"],
        };
        let Some(table) = item.get_ref().as_table() else {
            return Err(self.error_at(item.span().start, path, format!("accepted is {form}")));
        };
        for key in table.keys() {
            if !fields.contains(&key.get_ref().as_ref()) {
                let reason = format!("unknown field `{}`; accepted is {form}", key.get_ref());
                return Err(self.error_at(key.span().start, path, reason));
            }
        }
        let field = |name: &str| {
            table.get(name).ok_or_else(|| {
                let reason = format!("has no `{name}`; accepted is {form}");
                self.error_at(item.span().start, path, reason)
            })
        };
        let unit = field("unit")?;
        let (unit, scale) = self.read_unit(unit, row)?;
        let source = self.read_string(field("source")?, path)?;
        let (value, written) = match row.kind {
            FigureKind::Curve(by) => {
                let at = field("by")?;
                if self.read_string(at, path)? != by {
                    let reason = format!("`by` is \"{by}\"");
                    return Err(self.error_at(at.span().start, path, reason));
                }
                self.read_curve(field("points")?, path)?
            }
            kind => self.read_number(field("value")?, path, kind, scale)?,
        };
        Ok(HardwareFigure { value, written, unit, source })
    }

    fn read_unit(&self, item: &PresetItem<'_>, row: &FigureRow) -> Result<(&'static str, u64)> {
        let unit = self.read_string(item, row.path)?;
        row.units.iter().copied().find(|(u, _)| *u == unit).ok_or_else(|| {
            let accepted: Vec<String> = row.units.iter().map(|(u, _)| format!("\"{u}\"")).collect();
            let reason = format!("unit \"{unit}\"; accepted: {}", accepted.join(", "));
            self.error_at(item.span().start, row.path, reason)
        })
    }

    /// Digits as written, so that 204.8 is exactly that.
    fn read_ratio(&self, item: &PresetItem<'_>, path: &str) -> Result<(Ratio, String)> {
        let digits = match item.get_ref() {
            DeValue::Integer(n) if n.radix() == 10 => n.as_str(),
            DeValue::Float(x) => x.as_str(),
            _ => "",
        };
        let ratio = Ratio::parse_decimal(digits).filter(|r| *r <= Ratio::new(1_000_000_000, 1));
        ratio.map(|r| (r, digits.replace('_', ""))).ok_or_else(|| {
            let reason =
                "a positive decimal number without exponent, at most 1000000000, is accepted";
            self.error_at(item.span().start, path, reason.into())
        })
    }

    fn read_number(
        &self,
        item: &PresetItem<'_>,
        path: &str,
        kind: FigureKind,
        scale: u64,
    ) -> Result<(FigureValue, String)> {
        let (ratio, written) = self.read_ratio(item, path)?;
        let ratio = ratio.multiplied_by(Ratio::new(scale, 1));
        if let FigureKind::Count(least, most) = kind {
            let sticks = path == "memory.segment" || path == "lx.size";
            let whole = ratio.as_integer().filter(|n| (least..=most).contains(n));
            if whole.is_none_or(|n| sticks && !n.is_multiple_of(128)) {
                let extra = if sticks { ", a multiple of 128" } else { "" };
                let reason = format!("a whole number from {least} to {most}{extra} is accepted");
                return Err(self.error_at(item.span().start, path, reason));
            }
        }
        Ok((FigureValue::Number(ratio), written))
    }

    fn read_curve(&self, item: &PresetItem<'_>, path: &str) -> Result<(FigureValue, String)> {
        let bad = |at: usize| {
            let reason = "points are [x, share] with whole, growing x and shares above 0 up to 1";
            self.error_at(at, path, reason.into())
        };
        let array = item.get_ref().as_array().filter(|a| !a.is_empty());
        let mut points: Vec<(u64, Ratio)> = Vec::new();
        let mut written: Vec<String> = Vec::new();
        for point in array.ok_or_else(|| bad(item.span().start))?.iter() {
            let at = point.span().start;
            let pair = point.get_ref().as_array().map(|a| a.iter().collect::<Vec<_>>());
            let Some([x, y]) = pair.as_deref() else { return Err(bad(at)) };
            let ((x, x_text), (y, y_text)) = (self.read_ratio(x, path)?, self.read_ratio(y, path)?);
            let x = x.as_integer().filter(|x| points.last().is_none_or(|(last, _)| last < x));
            let Some(x) = x.filter(|_| y <= Ratio::ONE) else { return Err(bad(at)) };
            points.push((x, y));
            written.push(format!("{x_text}: {y_text}"));
        }
        Ok((FigureValue::Curve(points), written.join(", ")))
    }
}
