//! The fields of a request, as they were written.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// The members of one JSON object, in order. A request has a handful, which a list finds faster
/// than a hash table does. A name that occurs twice is refused: which one was meant?
pub(crate) struct Fields(Vec<(String, Value)>);

impl Fields {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + '_ {
        self.0.iter().map(|(n, _)| n.as_str())
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut members = Vec::with_capacity(8);
        while let Some(member) = map.next_entry::<String, Value>()? {
            if members.iter().any(|(name, _): &(String, Value)| *name == member.0) {
                let shown: String = member.0.chars().take(60).collect();
                return Err(serde::de::Error::custom(format!(
                    "the field `{shown}` is given twice"
                )));
            }
            members.push(member);
        }
        Ok(Fields(members))
    }
}
