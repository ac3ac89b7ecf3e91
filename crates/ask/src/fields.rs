//! Reading the fields of a request: all of them in the order of the text, or the `id` alone.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// The members of one JSON object, in the order of the text. A request has few members, so a search in a
/// list is faster than a hash table. An object with two members of the same name is refused, because only
/// one of the values can be used and the request does not say which.
pub(crate) struct RequestFields(Vec<(String, Value)>);

impl RequestFields {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    pub(crate) fn field_names(&self) -> impl Iterator<Item = &str> + '_ {
        self.0.iter().map(|(n, _)| n.as_str())
    }
}

/// The `id` of a request that was stopped before it was read, for example because it took too much memory.
/// No other value of the line is kept.
pub(crate) fn read_line_id(line: &str) -> Option<Value> {
    struct LineIdVisitor;
    impl<'de> Visitor<'de> for LineIdVisitor {
        type Value = Option<Value>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Value>, A::Error> {
            let mut id = None;
            while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                match &*name {
                    "id" => id = Some(map.next_value()?),
                    // Skipped without building the value, which may be what took too much memory.
                    _ => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(id)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(line);
    reader.deserialize_map(LineIdVisitor).ok().flatten()
}

impl<'de> Deserialize<'de> for RequestFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RequestFields, D::Error> {
        deserializer.deserialize_map(RequestFieldsVisitor)
    }
}

struct RequestFieldsVisitor;

impl<'de> Visitor<'de> for RequestFieldsVisitor {
    type Value = RequestFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RequestFields, A::Error> {
        let mut members = Vec::with_capacity(8);
        while let Some(member) = map.next_entry::<String, Value>()? {
            // serde_json's own map would keep the later value without an error.
            if members.iter().any(|(name, _): &(String, Value)| *name == member.0) {
                let shown: String = member.0.chars().take(60).collect();
                return Err(serde::de::Error::custom(format!(
                    "the field `{shown}` is given twice"
                )));
            }
            members.push(member);
        }
        Ok(RequestFields(members))
    }
}
